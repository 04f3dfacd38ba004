"""The part of boards that is wanted: some models, some tasks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from leaderboard.boards.board import Board
from leaderboard.boards.entry import Entry
from leaderboard.selection import full_label
from tasks.errors import BenchError

__all__ = ["narrowed", "the_model"]


def narrowed(boards: Iterable[Board], models: Sequence[str], tasks: Sequence[str]) -> list[Board]:
    """The boards with these models and tasks alone; everything where nothing is named.

    A model is named as "MODEL", "MODEL:RECIPE" or "MODEL:RECIPE:PRECISION", a task in full. Boards
    of which nothing is left are left out. Raises BenchError where nothing at all is.
    """
    listed = list(boards)
    found = [_narrowed(board, models, tasks) for board in listed]
    if kept := [board for board in found if board.entries and board.tasks]:
        return kept
    known = dict.fromkeys(entry.model for board in listed for entry in board.entries)
    wanted = " on ".join(" or ".join(names) for names in (models, tasks) if names)
    raise BenchError(
        f"nothing is stored that fits{' ' + wanted if wanted else ''}: stored are "
        f"{', '.join(known) or 'no runs'}; `bench list runs` shows what there is."
    )


def _narrowed(board: Board, models: Sequence[str], tasks: Sequence[str]) -> Board:
    entries = [entry for entry in board.entries if not models or set(models) & _names(entry)]
    columns = tuple(task for task in board.tasks if not tasks or task in tasks)
    if tasks:
        entries = [entry for entry in entries if set(columns) & entry.cells.keys()]
    extras = tuple(task for task in board.extras if task in columns)
    return replace(board, entries=tuple(entries), tasks=columns, extras=extras)


def _names(entry: Entry) -> set[str]:
    return {entry.model, f"{entry.model}:{entry.recipe_label}", full_label(entry)}


def the_model(boards: Iterable[Board]) -> tuple[Entry, ...]:
    """The one entry of each board, all of one model.

    Raises BenchError, saying how to choose, where there are more.
    """
    entries = tuple(_the_entry(board) for board in boards)
    models = list(dict.fromkeys(entry.model for entry in entries))
    if len(models) > 1:
        raise BenchError(
            f"this format describes one model, and {len(models)} fit: say which with --model: "
            f"{', '.join(models)}."
        )
    return entries


def _the_entry(board: Board) -> Entry:
    if len(board.entries) == 1:
        return board.entries[0]
    names = [full_label(entry) for entry in board.entries]
    some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    raise BenchError(
        f"this format describes one row of {board.title}, and {len(names)} fit: say which with "
        f"--model: {some}."
    )
