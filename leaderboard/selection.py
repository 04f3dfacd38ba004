"""From a name that a user types to an entry of a board."""

import re
from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import replace

from leaderboard.boards.board import Board
from leaderboard.boards.entry import Entry
from tasks.errors import BenchError

__all__ = [
    "Select",
    "boards_of",
    "boards_with",
    "full_label",
    "select_entry",
    "select_entry_or_run",
]

Select = Callable[[Board, str], Entry | None]
"""Finds what a name stands for on a board, None where it stands for nothing there."""

MANY_NAMES = 50
"""More are not listed in an error."""


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


def select_entry_or_run(board: Board, name: str) -> Entry | None:
    """The entry of that name, or else one run of an entry: the run whose key begins so.

    A key is told by 6 characters or more. Raises BenchError where several fit.
    """
    return select_entry(board, name) or _entry_of_run(board, name.lower())


def _entry_of_run(board: Board, prefix: str) -> Entry | None:
    if not re.fullmatch("[0-9a-f]{6,64}", prefix):
        return None
    found = {
        run.key: entry
        for entry in board.entries
        for cell in entry.cells.values()
        for run in cell.runs
        if run.key.startswith(prefix)
    }
    if len(found) > 1:
        keys = " or ".join(key[: len(prefix) + 6] for key in found)
        raise BenchError(f"{prefix!r} begins the keys of several runs: say {keys}.")
    return next((_only(entry, key) for key, entry in found.items()), None)


def _only(entry: Entry, key: str) -> Entry:
    """The entry with nothing but this run."""
    cells = {}
    for task, cell in entry.cells.items():
        values = [v for run, v in zip(cell.runs, cell.values, strict=True) if run.key == key]
        if values:
            runs = tuple(run for run in cell.runs if run.key == key)
            cells[task] = replace(cell, runs=runs, values=tuple(values))
    return replace(entry, model=f"{entry.model} (run {key[:12]})", cells=cells, failures=())


def _labels(entry: Entry) -> tuple[str, ...]:
    return entry.model, f"{entry.model}:{entry.recipe_label}", full_label(entry)


def boards_with(
    boards: Iterable[Board],
    names: Iterable[str],
    select: Select = select_entry,
    *,
    known: Callable[[], Iterable[str]] | None = None,
) -> list[tuple[Board, list[Entry]]]:
    """The boards on which every name has an entry, each with these entries, in the names' order.

    `select` says what a name stands for. Raises BenchError, naming what there is (by `known`, where
    the boards are not of everything that is stored), where there is no such board.
    """
    wanted, listed = list(names), list(boards)
    found: list[tuple[Board, list[Entry]]] = []
    for board in listed:
        entries = [entry for name in wanted if (entry := select(board, name))]
        if len(entries) == len(wanted):
            found.append((board, entries))
    if found:
        return found
    models = known() if known else (entry.model for board in listed for entry in board.entries)
    raise BenchError(
        f"no board has {' and '.join(wanted)} with results on the same rows: stored are "
        f"{_some(dict.fromkeys(models)) or 'no runs'}; `bench list runs` shows on which data each "
        "was run."
    )


def _some(names: Collection[str]) -> str:
    """The names, or the first of very many."""
    more = len(names) - MANY_NAMES
    return ", ".join(list(names)[:MANY_NAMES]) + (f" and {more} more" if more > 0 else "")


def boards_of(keys: Set[str], boards: Iterable[Board]) -> list[Board]:
    """The boards on which one of these runs stands."""
    return [
        board
        for board in boards
        if any(run.key in keys for entry in board.entries for run in entry.runs)
    ]
