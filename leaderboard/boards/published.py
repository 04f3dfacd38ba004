"""Published scores of papers, model cards and leaderboards, and the model of each system."""

import csv
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.text import grouped

# The published tables: one CSV file each, with one line per printed number.

_OR = " or "  # between the names of scores if a source does not specify which of them it prints


@dataclass(frozen=True, kw_only=True)
class PublishedCell:
    """Published number, in percent.

    `scores` are names of the task's scores: one name, or several if the source does not specify
    which of them it prints. For an average, `task` is the name of the suite and `scores` has the
    name of its rule.
    """

    task: str
    scores: tuple[str, ...]
    printed: str

    @property
    def value(self) -> float:
        """Published number, in percent."""
        return float(self.printed)

    @property
    def half_unit(self) -> float:
        """Largest error of the number due to rounding to the printed digits."""
        # "57.0" may have been anything from 56.95 to 57.05, "57" from 56.5 to 57.5.
        decimals = len(self.printed.partition(".")[2])
        return 0.5 * 10.0**-decimals


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """Numbers that one table prints for one system on one split of a suite.

    `table` is the name of the file. `by` is the team that submitted the system, `protocol`
    describes how the numbers came about ("median of 5", "ensemble") and is "unsaid" if the source
    does not specify it. `date` is as exact as the source, empty if there is none. `source` is the
    paper or site, and `place` is the table in it.
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

    @property
    def said_protocol(self) -> str:
        """Protocol, empty if the source does not specify it."""
        return "" if self.protocol == "unsaid" else self.protocol

    def of(self, task: str) -> tuple[PublishedCell, ...]:
        """Return the cells of a task; given the name of the suite, the cells of its averages."""
        return tuple(cell for cell in self.cells if cell.task == task)


def published(suite: str) -> tuple[PublishedRow, ...]:
    """Return the published rows of a suite: human baselines first, else in printed order."""
    rows = [row for row in every_row() if row.suite == suite]
    return tuple(sorted(rows, key=lambda row: not row.is_human))


@cache
def every_row() -> tuple[PublishedRow, ...]:
    """Return the rows of all published tables, in the order in which they are printed."""
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
"""Columns that all cells of a row have in common."""


def _read_table(name: str, lines: Sequence[str]) -> Iterator[PublishedRow]:
    """Yield the rows of one table."""
    # The columns are system, by, task, metric, split, score and the rest of _ROW. Example of a
    # line: "ELECTRA-Small,,glue/cola,mcc,dev,57.0,median of many seeds,14M,,README.md,Results".
    groups = grouped(
        (
            (line["task"].partition("/")[0], *(line[column] for column in _ROW)),
            PublishedCell(
                task=line["task"], scores=tuple(line["metric"].split(_OR)), printed=line["score"]
            ),
        )
        for line in csv.DictReader(lines, strict=True)
    )
    for (suite, *values), cells in groups.items():
        shared = dict(zip(_ROW, values, strict=True))
        yield PublishedRow(table=name, suite=suite, cells=tuple(cells), **shared)


@dataclass(frozen=True, kw_only=True)
class PublishedBlock:
    """Published or imported rows of a suite on one split.

    `tasks` are the tasks that have a number. `origin` is "published" for packaged tables,
    "imported" for numbers that a user has imported.
    """

    title: str
    suite: str
    split: str
    tasks: tuple[str, ...]
    rows: tuple[PublishedRow, ...]
    origin: Literal["published", "imported"] = "published"


def published_blocks(board: Board) -> tuple[PublishedBlock, ...]:
    """Return the published rows that belong under a board, dev before test.

    Empty if the board's data are incomplete or synthetic: published numbers cannot be compared with
    these.
    """
    return blocks_of(board, published(board.suite)) if board.is_whole else ()


def blocks_of(
    board: Board,
    rows: Sequence[PublishedRow],
    origin: Literal["published", "imported"] = "published",
) -> tuple[PublishedBlock, ...]:
    """Return these rows as blocks that belong under a board, dev before test."""
    blocks = []
    for split in ("dev", "test"):
        known = tuple(row for row in rows if row.split == split)
        # A board has columns only for tasks that were run; these rows may have more tasks.
        tasks = dict.fromkeys((*board.tasks, *(c.task for row in known for c in row.cells)))
        # "glue" is the suite's average, which belongs in the score's column.
        columns = tuple(t for t in tasks if "/" in t and any(row.of(t) for row in known))
        block = PublishedBlock(
            title=board.title,
            suite=board.suite,
            split=split,
            tasks=columns,
            rows=known,
            origin=origin,
        )
        blocks += [block] if known else []
    return tuple(blocks)


# The checkpoint of each published system, or the reason why there is none.


@dataclass(frozen=True, kw_only=True)
class System:
    """Published system. `table` is empty if the name means the same system in every table.

    `model` is the name of the checkpoint that benchharness can run. If it is empty, `reason`
    explains why there is none or, if `runs` is true nevertheless, how the system can be run. `rows`
    is the number of its published rows. `in_lectures` is true if the lectures that the tables were
    collected from mention it.
    """

    name: str
    table: str
    model: str
    reason: str
    runs: bool
    rows: int
    in_lectures: bool

    @property
    def status(self) -> str:
        """Status in words: runs here, has published rows only, or is in a lecture only."""
        if self.runs:
            return "runs here"
        return "published row only" if self.rows else "named in a lecture only"


@cache
def systems() -> tuple[System, ...]:
    """Return every system of the published tables and of the lectures, sorted by name."""
    file = files("benchharness.leaderboard") / "published" / "systems.toml"
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    # Model, reason (why there is no model, or how the system is run) and whether it runs.
    known: dict[str, tuple[str, str, bool]] = {}
    for key, model in document["runs"].items():
        known[key] = (model, "", True)
    for part in ("ways", "absent"):
        for reason, keys in document[part].items():
            known |= dict.fromkeys(keys, ("", reason, part == "ways"))
    tables, found = {row.table for row in every_row()}, []
    for key, (model, reason, runs) in known.items():
        # "superglue_leaderboard_2021: BERT" is the meaning of a name in one table. If no table has
        # this name, the colon is a part of the system's name.
        table, _, name = key.partition(": ")
        if table not in tables or not name:
            table, name = "", key
        rows = [row for row in every_row() if row.system == name and table in ("", row.table)]
        system = System(
            name=name,
            table=table,
            model=model,
            reason=reason,
            runs=runs,
            rows=len(rows),
            in_lectures=not table and name in document["lectures"],
        )
        found.append(system)
    return tuple(sorted(found, key=lambda system: (system.name.lower(), system.table)))


def find_system(name: str, table: str) -> System | None:
    """Return the system that a table means by a name, None if the system is not known."""
    named = _by_name()
    return named.get((name, table), named.get((name, "")))


@cache
def _by_name() -> Mapping[tuple[str, str], System]:
    return {(system.name, system.table): system for system in systems()}


def rows_of_model(model: str) -> tuple[PublishedRow, ...]:
    """Return the published rows of a model that benchharness can run, in order of the tables."""
    return _by_model().get(model, ())


# Published rows of similar models: the same model first, then models of a similar size.

_MOST = 8  # most rows of a block

_FARTHEST = 1.5  # largest ratio of two models' sizes that counts as similar


def printed_size(text: str) -> float | None:
    """Return the number of parameters from a printed size such as "110M" or "1.5B", else None."""
    found = re.fullmatch(r"([\d.]+)([MB])", text)
    return float(found[1]) * (1e9 if found[2] == "B" else 1e6) if found else None


def like_those_of(
    board: Board, block: PublishedBlock, sizes: Mapping[str, float]
) -> PublishedBlock:
    """Return the block with the rows closest to the board's models and with the board's tasks.

    Rows of the same model are closest, then rows of a similar size. Rows without a number for any
    task of the board are left out.

    Args:
        board: Board whose models and tasks are compared.
        block: Published rows.
        sizes: Numbers of parameters of known models, keyed by lower-case name.
    """
    models = [entry for entry in board.entries if entry.is_single]
    names = {entry.model.rpartition("/")[2].lower() for entry in models}
    own = [
        max((run.parameters for run in each.runs), default=0) or sizes.get(each.model.lower())
        for each in models
    ]
    run = [t for t in block.tasks if any(t in entry.cells for entry in board.entries)]
    tasks = [task for task in run if task not in board.extras] or run
    near = []
    for place, row in enumerate(block.rows):
        system = find_system(row.system, row.table)
        model = system.model if system else ""
        size = printed_size(row.parameters) or sizes.get(model)
        # Distance of the row's size from the closest model of the board, as a logarithm.
        apart = [abs(math.log(size / other)) for other in own if size and other]
        far = 0.0 if model in names and model else min(apart, default=math.inf)
        if any(map(row.of, tasks)) and far <= math.log(_FARTHEST):
            near.append((far, place))
    chosen = sorted(place for _, place in sorted(near)[:_MOST])
    return replace(block, tasks=tuple(tasks), rows=tuple(block.rows[place] for place in chosen))


@cache
def _by_model() -> Mapping[str, tuple[PublishedRow, ...]]:
    systems = ((find_system(row.system, row.table), row) for row in every_row())
    found = grouped((system.model, row) for system, row in systems if system and system.model)
    return {model: tuple(rows) for model, rows in found.items()}
