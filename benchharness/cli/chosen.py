"""What commands that read a store share: options that choose results, and what is printed first.

A command with `chosen` among its parameters takes --suite, --task, --data, --db and --json.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from benchharness.cli.options import (
    AsJson,
    Database,
    DataFilter,
    Suites,
    Tasks,
    completed_by,
    with_plugins,
)
from benchharness.driver.options import DATABASE
from benchharness.leaderboard.boards.board import Board, select_entry_or_run
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import visible
from benchharness.stored.boards import Rows, find_rows

System = Annotated[
    str,
    typer.Argument(
        metavar="SYSTEM",
        autocompletion=completed_by("stored_systems"),
        help="A model, ensemble or baseline with stored runs; MODEL:RECIPE where it has several "
        "rows on a board; or the beginning of a run's key.",
    ),
]

_OPTIONS: dict[str, tuple[Any, Any]] = {
    "suite": (Suites, None),
    "task": (Tasks, None),
    "data": (DataFilter, None),
    "db": (Database, DATABASE),
    "as_json": (AsJson, False),
}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Which stored results a command is about; empty suites, tasks and data narrow nothing."""

    suites: tuple[str, ...]
    tasks: tuple[str, ...]
    data: str | None
    db: str
    as_json: bool

    def open(self) -> Store:
        """The store, which must be there."""
        return open_store(self.db, create=False)

    def rows(self, store: Store, systems: Sequence[str]) -> list[Rows]:
        """The named rows of boards, or single runs, on every board that has all of them."""
        return find_rows(
            store, systems, self.suites, self.tasks, self.data, select=select_entry_or_run
        )


def of_chosen(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options that make its `chosen`, but those left out, and plugins."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def choose(*words: Any, **options: Any) -> None:
            found = {name: options.pop(name, default) for name, (_, default) in _OPTIONS.items()}
            suites, tasks = (tuple(found.pop(name) or ()) for name in ("suite", "task"))
            command(*words, chosen=Chosen(suites=suites, tasks=tasks, **found), **options)

        added = {
            name: Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in _OPTIONS.items()
            if name not in left_out
        }
        last = [added.pop(name) for name in ("db", "as_json") if name in added]
        own = [each for each in signature(command).parameters.values() if each.name != "chosen"]
        at = sum(each.kind is not Parameter.KEYWORD_ONLY for each in own)
        every = [*own[:at], *added.values(), *own[at:], *last]
        # Typer reads a command's options from these two.
        choose.__dict__["__signature__"] = signature(command).replace(parameters=every)
        choose.__annotations__ = {each.name: each.annotation for each in every}
        return with_plugins(choose)

    return decorate


def board_facts(board: Board) -> dict[str, Any]:
    """What JSON has of a board."""
    return {"suite": board.suite, "data": list(board.data), "limit": board.limit}


def print_heading(board: Board, of: str, split: str = "") -> None:
    """The line above a table: the board, and what of it."""
    title = f"{board.title} {split}".rstrip()
    typer.echo(visible(f"{title} on {board.data_label}: {of}"))
