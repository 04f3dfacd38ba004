"""What papers, model cards and leaderboards print, and which model here each system is."""

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

# The published tables: one CSV file each, one line a printed number.

_OR = " or "  # between the names of scores where a source does not say which of them it prints


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
        # "57.0" may have been anything from 56.95 to 57.05, "57" from 56.5 to 57.5.
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

    @property
    def said_protocol(self) -> str:
        """The protocol, empty where the source does not say it."""
        return "" if self.protocol == "unsaid" else self.protocol

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
    # The columns are system, by, task, metric, split, score and those of _ROW that are left; a line
    # is "ELECTRA-Small,,glue/cola,mcc,dev,57.0,median of many seeds,14M,,README.md,Results".
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
    """What others say of a suite on one split. `tasks` are the columns that have a number.

    `origin` is "published", or "imported" where a user has brought the numbers.
    """

    title: str
    suite: str
    split: str
    tasks: tuple[str, ...]
    rows: tuple[PublishedRow, ...]
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
        known = tuple(row for row in rows if row.split == split)
        # A board has columns only for what was run; these rows may know other tasks.
        tasks = dict.fromkeys((*board.tasks, *(c.task for row in known for c in row.cells)))
        # "glue" is the suite's average, which stands in the column of the score.
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


# Which known checkpoint a published system is, or why it is none.


@dataclass(frozen=True, kw_only=True)
class System:
    """A system as a source names it. `table` is empty where every table means the same by it.

    `model` is the name of the checkpoint that runs here; where it is empty, `reason` says why
    nothing does, or, where it `runs` even so, in which way. `rows` counts its published rows,
    `in_lectures` says that the lectures which the tables came from name it.
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
        """What there is of it: a checkpoint, numbers, or the name."""
        if self.runs:
            return "runs here"
        return "published row only" if self.rows else "named in a lecture only"


@cache
def systems() -> tuple[System, ...]:
    """Every system of the published tables and of the lectures, by name."""
    file = files("benchharness.leaderboard") / "published" / "systems.toml"
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    # What is known of each: the model, why there is none or in which way it runs, whether it runs.
    known: dict[str, tuple[str, str, bool]] = {}
    for key, model in document["runs"].items():
        known[key] = (model, "", True)
    for part in ("ways", "absent"):
        for reason, keys in document[part].items():
            known |= dict.fromkeys(keys, ("", reason, part == "ways"))
    tables, found = {row.table for row in every_row()}, []
    for key, (model, reason, runs) in known.items():
        # "superglue_leaderboard_2021: BERT" is what one table means by the name. Where no table is
        # called so, the colon is the name's own.
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
    """The system that a table means by a name; None where nobody has said yet what it is."""
    named = _by_name()
    return named.get((name, table), named.get((name, "")))


@cache
def _by_name() -> Mapping[tuple[str, str], System]:
    return {(system.name, system.table): system for system in systems()}


def rows_of_model(model: str) -> tuple[PublishedRow, ...]:
    """The published rows of one of our models, in the order of the tables."""
    return _by_model().get(model, ())


# Published rows of models like those of a board: the same ones, then those of about their size.

_MOST = 8  # rows of a block

_FARTHEST = 1.5  # how many times as large a model like another may be


def printed_size(text: str) -> float | None:
    """The number of weights that a source prints: "110M", "1.5B"."""
    found = re.fullmatch(r"([\d.]+)([MB])", text)
    return float(found[1]) * (1e9 if found[2] == "B" else 1e6) if found else None


def like_those_of(
    board: Board, block: PublishedBlock, sizes: Mapping[str, float]
) -> PublishedBlock:
    """The block with the rows that are nearest to the board's models, and with the board's tasks.

    `sizes` are numbers of weights by the names of known models, in lower case. Only rows that have
    a number of a task that was run here are taken.
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
        # How far its size is from the nearest of ours, as a logarithm.
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
