"""From a name that a user types to an entry of a board."""

from collections.abc import Iterable, Set

from leaderboard.board import Board
from leaderboard.entry import Entry
from tasks.errors import BenchError

__all__ = ["boards_of", "boards_with", "full_label", "select_entry"]


def full_label(entry: Entry) -> str:
    """What names one entry of a board: "minilm:paper:bf16"."""
    return f"{entry.model}:{entry.recipe_label}:{entry.precision}"


def select_entry(board: Board, name: str) -> Entry | None:
    """The entry called "MODEL", "MODEL:RECIPE" or "MODEL:RECIPE:PRECISION"; None where none is.

    Raises BenchError where several are.
    """
    found = [entry for entry in board.entries if name in _labels(entry)]
    if len(found) > 1:
        choices = " or ".join(full_label(entry) for entry in found)
        raise BenchError(f"{name!r} is more than one row of {board.title}: say {choices}.")
    return found[0] if found else None


def _labels(entry: Entry) -> tuple[str, ...]:
    return entry.model, f"{entry.model}:{entry.recipe_label}", full_label(entry)


def boards_with(boards: Iterable[Board], names: Iterable[str]) -> list[tuple[Board, list[Entry]]]:
    """The boards on which every name has an entry, each with these entries, in the names' order.

    Raises BenchError, naming what there is, where there is no such board.
    """
    wanted, listed = list(names), list(boards)
    found: list[tuple[Board, list[Entry]]] = []
    for board in listed:
        entries = [entry for name in wanted if (entry := select_entry(board, name))]
        if len(entries) == len(wanted):
            found.append((board, entries))
    if found:
        return found
    known = dict.fromkeys(entry.model for board in listed for entry in board.entries)
    raise BenchError(
        f"no board has {' and '.join(wanted)} with results on the same rows: stored are "
        f"{', '.join(known) or 'no runs'}; `bench list runs` shows on which data each was run."
    )


def boards_of(keys: Set[str], boards: Iterable[Board]) -> list[Board]:
    """The boards on which one of these runs stands."""
    return [
        board
        for board in boards
        if any(run.key in keys for entry in board.entries for run in entry.runs)
    ]
