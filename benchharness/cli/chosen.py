"""Options that select stored results, and functions that open and query the database."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, TypedDict, TypeVar

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
from benchharness.cli.output import run_facts
from benchharness.driver.options import DATABASE
from benchharness.driver.start_checkpoints import kept_model
from benchharness.errors import BenchError
from benchharness.leaderboard.boards.board import Board, select_entry_or_run
from benchharness.leaderboard.boards.naming import full_label
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.store import database
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import visible
from benchharness.stored import (
    Rows,
    Within,
    facts_of,
    facts_of_run,
    find_rows,
    stored_name,
    wanted_tasks,
    with_family,
)
from benchharness.tasks.suites import find_suites

System = Annotated[
    str,
    argument(
        "SYSTEM",
        "Name of a model, ensemble or baseline with stored runs (MODEL:RECIPE if it has several "
        "leaderboard entries), or the first characters of a run's key.",
        "stored_systems",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Options that select stored results; without an option, everything is selected.

    Attributes:
        suite: Only results on tasks of these suites are selected.
        task: Only results on these tasks are selected.
        data: Only results on data from this source are selected.
        db: The database: a path or a SQLAlchemy URL.
        as_json: Whether to print JSON instead of text.
        trust_remote_code: Whether to run third-party code of metrics that stored runs use.
    """

    suite: Annotated[tuple[str, ...], declared("suite")] = ()
    task: Annotated[tuple[str, ...], declared("task")] = ()
    data: DataFilter = None
    db: Database = DATABASE
    as_json: AsJson = False
    trust_remote_code: TrustCode = False

    def open(self) -> Store:
        """Open the database `db`; raise StoreError if it does not exist or cannot be read."""
        return opened(self.db)

    @property
    def within(self) -> Within:
        """Filter for the suites, the tasks and the data source that the options select."""
        return Within(suites=self.suite, tasks=self.task, data=self.data)

    def rows(self, store: Store, systems: Sequence[str], *, paths: bool = True) -> list[Rows]:
        """Return the named entries or runs from every leaderboard that contains all of them.

        Args:
            store: The open database.
            systems: Names of leaderboard entries, or the first characters of run keys.
            paths: Whether the result contains full local paths. They must be left out of output
                that is shared with other people.

        Returns:
            One object per leaderboard, with the leaderboard, the entries and their common tasks.
        """
        return find_rows(store, systems, self.within, select=select_entry_or_run, paths=paths)


def is_there(db: str) -> bool:
    """Return whether the database `db` (a path or a SQLAlchemy URL) exists."""
    return database.is_there(db)


def opened(db: str) -> Store:
    """Open the database `db`; raise StoreError if it does not exist or cannot be read."""
    return open_store(db, create=False)


def stored_run(name: str, db: str) -> tuple[Result | Failure, Path | None, dict[str, Any]]:
    """Return a stored run, the folder of its trained model, and the facts of extensions about it.

    Args:
        name: The key of the run, or its first characters.
        db: Path or URL of the database.

    Returns:
        The result or failure of the run, the folder, and the facts, keyed by name. The folder is
        None if the trained model was not kept.
    """
    with opened(db) as store:
        found = with_family(store.result(name))
        facts = facts_of_run(store, found.job.key)
    return found, kept_model(db, found.job.key), facts


def facts_of_runs(store: Store, rows: Sequence[RunRow]) -> Iterator[dict[str, Any]]:
    """Yield the properties of each run as JSON data, with the facts of extensions about it."""
    more = facts_of(store, rows)
    yield from (run_facts(row) | more.get(row.key, {}) for row in rows)


def find_runs(store: Store, of: OfRuns) -> list[RunRow]:
    """Return the runs that the options `of` select from the open database `store`."""
    return store.runs(**names_of_runs(store, of))


class _Names(TypedDict):
    """Keyword arguments for store queries that select runs; None selects all."""

    model: str | None
    suite: Collection[str] | None
    task: Collection[str] | None


def names_of_runs(store: Store, of: OfRuns) -> _Names:
    """Convert options that select runs to the keyword arguments of store queries.

    Args:
        store: The open database, in which renamed models and short task names are looked up.
        of: Options that select runs.
    """
    names = {chosen.name for name in of.suite for chosen in find_suites(name)}
    return {
        "model": None if of.model is None else stored_name(store, of.model),
        "suite": names or None,
        "task": wanted_tasks(store, of.suite, [of.task]) if of.task else None,
    }


def board_facts(board: Board) -> dict[str, Any]:
    """Return the suite, the data sources and the limit of a leaderboard, for JSON output."""
    return {"suite": board.suite, "data": list(board.data), "limit": board.limit}


def print_heading(board: Board, of: str, split: str = "") -> None:
    """Print the heading of a table, which names the suite, the split, the data and the subject.

    Args:
        board: The leaderboard, from which suite and data are taken.
        of: The subject of the table, such as the names of two systems.
        split: The split; empty if the table does not belong to a split.
    """
    title = f"{board.title} {split}".rstrip()
    typer.echo(visible(f"{title} on {board.data_label}: {of}"))


class OfSplit(Protocol):
    """Measurement of a system on one split, or the reason why there is none."""

    @property
    def task(self) -> str:
        """Name of the task."""

    @property
    def split(self) -> str:
        """Name of the split."""

    @property
    def reason(self) -> str:
        """Reason why nothing was measured; else empty."""


MeasuredT = TypeVar("MeasuredT", bound=OfSplit)


def measure_splits(
    chosen: Chosen, system: str, measure: Callable[[Store, Rows], Iterable[MeasuredT]]
) -> list[tuple[Rows, list[MeasuredT]]]:
    """Measure a system on every split of each selected leaderboard.

    Args:
        chosen: Options that select stored results.
        system: Name of the system.
        measure: Function that measures the first entry of its second argument.

    Raises:
        BenchError: No split could be measured; the text has the reasons.
    """
    with chosen.open() as store:
        found = [(rows, list(measure(store, rows))) for rows in chosen.rows(store, (system,))]
    every = [each for _, some in found for each in some]
    if all(each.reason for each in every):
        raise BenchError(*dict.fromkeys(each.reason for each in every))
    return found


def splits_as_json(
    found: Iterable[tuple[Rows, Iterable[MeasuredT]]],
    split: str,
    to_json: Callable[[MeasuredT], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return the output of `measure_splits` as JSON data; `to_json` converts one measurement."""
    return [
        {
            **board_facts(rows.board),
            "system": full_label(rows.entries[0]),
            "split": split,
            "splits": {f"{each.task}:{each.split}": to_json(each) for each in some},
        }
        for rows, some in found
    ]
