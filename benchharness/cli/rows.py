"""The rows of stored boards that a command's words name, such as those of two models on a suite."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from benchharness.driver.request import select_tasks
from benchharness.stored.boards import gather_boards
from leaderboard.boards.board import Board
from leaderboard.boards.entry import Entry
from leaderboard.selection import Select, boards_with, select_entry
from leaderboard.store.store import Store
from tasks.errors import BenchError
from tasks.suites import find_suites

__all__ = ["Rows", "find_rows"]


class Rows(NamedTuple):
    """Entries of one board and the tasks that are asked for and that all of them have."""

    board: Board
    entries: tuple[Entry, ...]
    tasks: tuple[str, ...]


def find_rows(  # noqa: PLR0913  (what the command line narrows, and how it is read)
    store: Store,
    systems: Sequence[str],
    suites: Sequence[str],
    tasks: Sequence[str],
    data: str | None,
    *,
    select: Select = select_entry,
) -> list[Rows]:
    """The named systems on every board that has all of them.

    `suites`, `tasks` and `data` narrow the boards and their tasks; empty they do not.
    `select` says what a system's name stands for. Raises BenchError where a name is unknown or no
    task has results of all systems.
    """
    wanted = _wanted(suites, tasks)
    names = dict.fromkeys(task.partition("/")[0] for task in wanted)
    boards = gather_boards(store, tuple(names), data, _models(store, systems))
    found = [
        Rows(board, tuple(entries), _shared(board, entries, wanted))
        for board, entries in boards_with(boards, systems, select, known=store.models)
    ]
    if not any(rows.tasks for rows in found):
        raise BenchError(f"no task that was asked for has results of {' and '.join(systems)}.")
    return [rows for rows in found if rows.tasks]


def _models(store: Store, systems: Sequence[str]) -> set[str]:
    """The models that these may be runs of: MODEL, MODEL:RECIPE..., or the beginning of a key."""
    names = {":".join(parts[:n]) for parts in _parted(systems) for n in range(1, len(parts) + 1)}
    keys = [name for name in systems if re.fullmatch("[0-9a-fA-F]{6,64}", name)]
    return names | {run.model for key in keys for run in store.runs(key=key)}


def _parted(systems: Sequence[str]) -> list[list[str]]:
    return [name.split(":") for name in systems]


def _wanted(suites: Sequence[str], tasks: Sequence[str]) -> tuple[str, ...]:
    """Full names of tasks; none where nothing narrows them."""
    if not suites and not tasks:
        return ()
    found = [suite for name in suites for suite in find_suites(name)]
    return tuple(task.name for task in select_tasks(found, tasks))


def _shared(board: Board, entries: Sequence[Entry], wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        task
        for task in board.tasks
        if (task in wanted or not wanted) and all(task in entry.cells for entry in entries)
    )
