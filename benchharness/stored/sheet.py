"""Sections of a sheet, the page about one system; extensions write them (`Extension.sheets`)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from benchharness.discovery import member, places
from benchharness.leaderboard.boards.board import Board, select_entry_or_run
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.store.store import Store
from benchharness.stored import ANYWHERE, Within, find_rows
from benchharness.stored.predictions import StoredPredictions


@dataclass(frozen=True, kw_only=True)
class Subject:
    """System (a leaderboard entry or a single run) that a sheet describes.

    Attributes:
        store: Store that contains the runs.
        stored: Reader of the predictions, which keeps the examples for all sections.
        board: Leaderboard of the system.
        entry: Leaderboard entry with the system's runs on each task.
        tasks: Full names of the tasks that the sheet covers.
        folder: Folder of the exported model; None if there is none.
    """

    store: Store
    stored: StoredPredictions
    board: Board
    entry: Entry
    tasks: tuple[str, ...]
    folder: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Rows of data from which numbers of a sheet were computed.

    Attributes:
        title: Name of these rows, such as "RTE dev, length: words 3/3".
        task: Full name of the task.
        ids: Id of each row.
        wrong: Ids of the rows that at least half of the runs answer wrongly.
        runs: Keys of the runs.
    """

    title: str
    task: str
    ids: tuple[str, ...]
    wrong: tuple[str, ...]
    runs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """Row of a table in a sheet.

    Attributes:
        cells: Texts of the cells, one per column; the first one is the name of the row.
        evidence: Name of the data from which the numbers were computed: a key of `Part.evidence`,
            or a task for all of its rows; empty if the numbers do not come from rows of data.
        is_bad: True if the row shows a problem of the system.
    """

    cells: tuple[str, ...]
    evidence: str = ""
    is_bad: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table in a sheet.

    Attributes:
        title: Title of the table.
        columns: Titles of the columns.
        lines: Rows of the table.
    """

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """Section of a sheet about one property of the system, such as its calibration.

    Attributes:
        text: Sentences with the most important result; empty if there is none.
        basis: Sentences about the data, the number of runs and the kind of intervals.
        missing: One sentence per missing measurement, with the command that makes it.
        tables: Tables with the numbers.
        figures: Function that draws plots as HTML, given a prefix for their ids; None for no plots.
        evidence: Rows of data to which the lines of tables refer (`Line.evidence`), keyed by name.
            A line may also refer to all rows of a task by the task's name.
        facts: Numbers of the section as JSON data.
    """

    text: str = ""
    basis: str = ""
    missing: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Callable[[str], Markup] | None = None
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_bad(self) -> bool:
        """True if a line of a table shows a problem of the system."""
        return any(line.is_bad for table in self.tables for line in table.lines)


def subjects_of(
    store: Store, name: str, within: Within = ANYWHERE, *, folder: Path | None = None
) -> Iterator[Subject]:
    """Yield the system with a given name, once for each leaderboard that contains it.

    Args:
        store: Store that contains the runs.
        name: Name of a leaderboard entry or a model, or the first characters of a run's key.
        within: Suites, tasks and data source to include.
        folder: Folder of the exported model; None if there is none.

    Raises:
        BenchError: The name is unknown, or the system has no results on the requested tasks.
    """
    for board, (whole,), tasks in find_rows(store, [name], within, select=select_entry_or_run):
        cells = {task: whole.cells[task] for task in tasks}
        yield Subject(
            store=store,
            stored=StoredPredictions(store),
            board=board,
            entry=replace(whole, cells=cells, failures=(), score=None, rank=None),
            tasks=tasks,
            folder=folder,
        )


def parts_of(subject: Subject) -> Iterator[tuple[str, Part]]:
    """Yield the heading and the content of each section of a sheet that an extension writes."""
    for heading, place in places("sheets").items():
        part = member(f"the section {heading!r} of sheets", place)(subject)
        if part is not None:
            yield heading, part
