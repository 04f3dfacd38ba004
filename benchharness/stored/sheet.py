"""Sections of a sheet, the page about one system; extensions write them (`Extension.sheets`)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchharness.discovery import member, places
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.report.plots import Figure
from benchharness.leaderboard.store.store import Store
from benchharness.stored.predictions import StoredPredictions


@dataclass(frozen=True, kw_only=True)
class Subject:
    """System that a sheet describes.

    Attributes:
        store: Store that contains the runs.
        stored: Reader of the stored predictions, which keeps the examples for all sections.
        board: Leaderboard of the system.
        entry: The system: its runs on each task.
        tasks: Full names of the tasks that the sheet covers.
        folder: Folder of the exported model, which may contain further measurements; None if there
            is none.
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
        title: Name of the rows, such as "RTE dev: length, words 3/3".
        task: Full name of the task.
        ids: Id of each row.
        wrong: Ids of the rows that most of the runs answer wrongly.
        keys: Keys of the runs.
    """

    title: str
    task: str
    ids: tuple[str, ...]
    wrong: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """Row of a table in a sheet.

    Attributes:
        cells: Text of each cell; the first one names the row.
        evidence: Name of the evidence (a key of `Part.evidence`) for the numbers; may be empty.
        is_bad: True to mark the row as a problem.
    """

    cells: tuple[str, ...]
    evidence: str = ""
    is_bad: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table in a sheet: its title, the names of its columns, and its rows."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class Part:
    """Section of a sheet.

    Attributes:
        text: One or two sentences with the result.
        basis: What the numbers are based on: rows, runs, and how intervals were computed.
        missing: A sentence per measurement that is missing, with the command that makes it.
        tables: Tables with the numbers.
        figures: Plots.
        evidence: Rows to which the lines of tables refer, keyed by name.
        facts: The numbers as JSON data.
    """

    text: str = ""
    basis: str = ""
    missing: tuple[str, ...] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def parts_of(subject: Subject) -> Iterator[tuple[str, Part]]:
    """Yield the heading and the content of each section that an extension writes."""
    for heading, place in places("sheets").items():
        part = member(f"the section {heading!r} of sheets", place)(subject)
        if part is not None:
            yield heading, part
