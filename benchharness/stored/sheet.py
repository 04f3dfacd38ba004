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
    """System that a sheet describes.

    Attributes:
        store: Store that contains the runs.
        stored: Reader of the predictions, which keeps the examples for all sections.
        board: Leaderboard of the system.
        entry: The system: its runs on each task.
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
    """Rows from which numbers were computed.

    Attributes:
        title: Name of the rows, such as "RTE dev, length: words 3/3".
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
    """Row of a table: its cells, the name of the evidence for them, and whether it is a problem."""

    cells: tuple[str, ...]
    evidence: str = ""
    is_bad: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table in a sheet. The first cell of each line is its name."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """Section of a sheet.

    Attributes:
        text: Sentence with the result.
        basis: What the numbers are based on: rows, runs, and how intervals were computed.
        missing: A sentence per measurement that is missing, with the command that makes it.
        tables: Tables with the numbers.
        figures: Function that draws plots as HTML, given a prefix for their ids; None for no plots.
        evidence: Rows to which the lines of tables refer, keyed by name. A line may also refer to
            all rows of a task by the task's name.
        facts: The numbers as JSON data.
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
        """True if a line of a table is a problem."""
        return any(line.is_bad for table in self.tables for line in table.lines)


def subjects_of(
    store: Store, name: str, within: Within = ANYWHERE, *, folder: Path | None = None
) -> Iterator[Subject]:
    """Yield the system or run with this name on each leaderboard that contains it."""
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
    """Yield the heading and the content of each section that an extension writes."""
    for heading, place in places("sheets").items():
        part = member(f"the section {heading!r} of sheets", place)(subject)
        if part is not None:
            yield heading, part
