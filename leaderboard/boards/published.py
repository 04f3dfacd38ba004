"""What papers, model cards and leaderboards print, as data: every number with its source."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from benchharness.leaderboard.boards.board import Board

# The published tables: one CSV file each, one line a printed number.

_OR = " or "
"""Between the names of scores where a source does not say which of them it prints."""


@dataclass(frozen=True, kw_only=True)
class PublishedCell:
    """One printed number, in percent.

    `scores` are names of the task's scores: one, or several where the source does not say which of
    them it prints. An average has the suite's name for a task and the name of its rule for a score.
    """

    task: str
    scores: tuple[str, ...]
    printed: str

    @property
    def value(self) -> float:
        """The number, in percent."""
        return float(self.printed)

    @property
    def half_unit(self) -> float:
        """By how much rounding to the printed digits may have moved the number."""
        decimals = len(self.printed.partition(".")[2])
        return 0.5 * 10.0**-decimals


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """What one table prints of one system on one split of a suite.

    `protocol` says what a number is of ("median of 5", "ensemble"), "unsaid" where the source does
    not; `table` is the name of the file. `date` is as exact as the source, empty where it has none.
    """

    table: str
    suite: str
    split: str
    system: str
    by: str
    protocol: str
    parameters: str
    date: str
    source: str
    place: str
    cells: tuple[PublishedCell, ...]

    @property
    def is_human(self) -> bool:
        """True for a human baseline."""
        return self.protocol == "human"

    def of(self, task: str) -> tuple[PublishedCell, ...]:
        """The cells of a task, or the averages of a suite."""
        return tuple(cell for cell in self.cells if cell.task == task)


def published(suite: str) -> tuple[PublishedRow, ...]:
    """Every published row of a suite: human baselines first, then table by table as printed."""
    rows = [row for row in every_row() if row.suite == suite]
    return tuple(sorted(rows, key=lambda row: not row.is_human))


@cache
def every_row() -> tuple[PublishedRow, ...]:
    """The rows of all tables, table by table as printed."""
    folder = files("benchharness.leaderboard") / "published"
    tables = (file for file in folder.iterdir() if file.name.endswith(".csv"))
    return tuple(
        row
        for file in sorted(tables, key=lambda file: file.name)
        for row in _read_table(
            file.name.removesuffix(".csv"), file.read_text(encoding="utf-8").splitlines()
        )
    )


_ROW = ("split", "system", "by", "protocol", "parameters", "date", "source", "place")
"""The columns that the cells of one row have in common."""


def _read_table(name: str, lines: Sequence[str]) -> Iterator[PublishedRow]:
    """The rows of one table."""
    groups: dict[tuple[str, ...], list[PublishedCell]] = {}
    for line in csv.DictReader(lines, strict=True):
        suite = line["task"].partition("/")[0]
        key = (suite, *(line[column] for column in _ROW))
        groups.setdefault(key, []).append(
            PublishedCell(
                task=line["task"], scores=tuple(line["score"].split(_OR)), printed=line["value"]
            )
        )
    for (suite, *values), cells in groups.items():
        shared = dict(zip(_ROW, values, strict=True))
        yield PublishedRow(table=name, suite=suite, cells=tuple(cells), **shared)


@dataclass(frozen=True, kw_only=True)
class PublishedLine:
    """One published row: its score under each rule, and its cells, task by task of the block."""

    row: PublishedRow
    averages: tuple[PublishedCell, ...]
    cells: tuple[tuple[PublishedCell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class PublishedBlock:
    """What others say of a suite on one split. `tasks` are the columns that have a number.

    `origin` is "published", or "imported" where a user has brought the numbers.
    """

    title: str
    split: str
    tasks: tuple[str, ...]
    lines: tuple[PublishedLine, ...]
    origin: Literal["published", "imported"] = "published"


def published_blocks(board: Board) -> tuple[PublishedBlock, ...]:
    """The blocks that belong under a board, dev before test; none where its data is not whole.

    Numbers on made-up or cut data say nothing about published ones.
    """
    return blocks_of(board, published(board.suite)) if board.is_whole else ()


def blocks_of(
    board: Board,
    rows: Sequence[PublishedRow],
    origin: Literal["published", "imported"] = "published",
) -> tuple[PublishedBlock, ...]:
    """These rows in blocks that belong under a board, dev before test."""
    blocks = []
    for split in ("dev", "test"):
        known = [row for row in rows if row.split == split]
        # A board has columns only for what was run; these rows may know other tasks.
        tasks = dict.fromkeys((*board.tasks, *(c.task for row in known for c in row.cells)))
        columns = tuple(t for t in tasks if "/" in t and any(row.of(t) for row in known))
        lines = tuple(_line(row, board.suite, columns) for row in known)
        if lines:
            block = PublishedBlock(
                title=board.title, split=split, tasks=columns, lines=lines, origin=origin
            )
            blocks.append(block)
    return tuple(blocks)


def _line(row: PublishedRow, suite: str, tasks: tuple[str, ...]) -> PublishedLine:
    return PublishedLine(
        row=row, averages=row.of(suite), cells=tuple(row.of(task) for task in tasks)
    )
