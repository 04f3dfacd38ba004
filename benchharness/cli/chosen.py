"""What commands that read a store share: options that choose results, and what is printed first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from benchharness.cli.options import AsJson, Database, DataFilter, completed_by, declared
from benchharness.driver.options import DATABASE
from benchharness.leaderboard.boards.board import Board, select_entry_or_run
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import visible
from benchharness.stored import Rows, Within, find_rows

System = Annotated[
    str,
    typer.Argument(
        metavar="SYSTEM",
        autocompletion=completed_by("stored_systems"),
        help="A model, ensemble or baseline with stored runs; MODEL:RECIPE where it has several "
        "rows on a board; or the beginning of a run's key.",
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

    def open(self) -> Store:
        """The store, which must be there."""
        return open_store(self.db, create=False)

    @property
    def within(self) -> Within:
        """What of the boards."""
        return Within(suites=self.suite, tasks=self.task, data=self.data)

    def rows(self, store: Store, systems: Sequence[str]) -> list[Rows]:
        """The named rows of boards, or single runs, on every board that has all of them."""
        return find_rows(store, systems, self.within, select=select_entry_or_run)


def board_facts(board: Board) -> dict[str, Any]:
    """What JSON has of a board."""
    return {"suite": board.suite, "data": list(board.data), "limit": board.limit}


def print_heading(board: Board, of: str, split: str = "") -> None:
    """The line above a table: the board, and what of it."""
    title = f"{board.title} {split}".rstrip()
    typer.echo(visible(f"{title} on {board.data_label}: {of}"))
