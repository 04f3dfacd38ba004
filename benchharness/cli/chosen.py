"""What commands that read a store share: options that choose results, and what is printed first."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import typer

from benchharness.cli.options import (
    AsJson,
    Database,
    DataFilter,
    OfRuns,
    TrustCode,
    argument,
    declared,
)
from benchharness.driver.options import DATABASE
from benchharness.driver.start_checkpoints import kept_model
from benchharness.leaderboard.boards.board import Board, select_entry_or_run
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.store import database
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import visible
from benchharness.stored import Rows, Within, find_rows, stored_name, wanted_tasks, with_family
from benchharness.tasks.suites import find_suites

System = Annotated[
    str,
    argument(
        "SYSTEM",
        "A model, ensemble or baseline with stored runs; MODEL:RECIPE where it has several "
        "rows on a board; or the beginning of a run's key.",
        "stored_systems",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Which stored results a command is about; empty suites, tasks and data narrow nothing."""

    suite: Annotated[tuple[str, ...], declared("suite")] = ()
    task: Annotated[tuple[str, ...], declared("task")] = ()
    data: DataFilter = None
    db: Database = DATABASE
    as_json: AsJson = False
    trust_remote_code: TrustCode = False

    def open(self) -> Store:
        """The store, which must be there."""
        return opened(self.db)

    @property
    def within(self) -> Within:
        """What of the boards."""
        return Within(suites=self.suite, tasks=self.task, data=self.data)

    def rows(self, store: Store, systems: Sequence[str], *, paths: bool = True) -> list[Rows]:
        """The named rows of boards, or single runs, on every board that has all of them.

        `paths` says whether those of this machine are whole: they are where rows are printed.
        """
        return find_rows(store, systems, self.within, select=select_entry_or_run, paths=paths)


def is_there(db: str) -> bool:
    """Whether there is such a database."""
    return database.is_there(db)


def opened(db: str) -> Store:
    """The store, which must be there."""
    return open_store(db, create=False)


def stored_run(name: str, db: str) -> tuple[Result | Failure, Path | None]:
    """The run whose key begins so, and the folder of its model where that is kept."""
    with opened(db) as store:
        found = with_family(store.result(name))
    return found, kept_model(db, found.job.key)


def find_runs(store: Store, of: OfRuns) -> list[RunRow]:
    """The stored runs that these options name."""
    return store.runs(**names_of_runs(store, of))


class _Names(TypedDict):
    """What a store finds runs by."""

    model: str | None
    suite: Collection[str] | None
    task: Collection[str] | None


def names_of_runs(store: Store, of: OfRuns) -> _Names:
    """The same, as a store takes it."""
    names = {chosen.name for name in of.suite for chosen in find_suites(name)}
    return {
        "model": None if of.model is None else stored_name(store, of.model),
        "suite": names or None,
        "task": wanted_tasks(store, of.suite, [of.task]) if of.task else None,
    }


def board_facts(board: Board) -> dict[str, Any]:
    """What JSON has of a board."""
    return {"suite": board.suite, "data": list(board.data), "limit": board.limit}


def print_heading(board: Board, of: str, split: str = "") -> None:
    """The line above a table: the board, and what of it."""
    title = f"{board.title} {split}".rstrip()
    typer.echo(visible(f"{title} on {board.data_label}: {of}"))
