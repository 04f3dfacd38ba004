"""Published scores from papers, model cards and leaderboards, and the checkpoint of each system."""

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

# Published tables: one CSV file per table, with one line per number.

_OR = " or "  # separator between names of scores, if a source does not specify which one it prints


@dataclass(frozen=True, kw_only=True)
class PublishedCell:
    """Published score of a system on one task, or average over the tasks of a suite.

    Attributes:
        task: Name of the task or, for an average over tasks, of the suite.
        scores: Name of the score; several names if the source does not specify which of these
            scores it prints. For an average, the name of the rule by which it is computed.
        printed: Score in percent, as the source prints it.
    """

    task: str
    scores: tuple[str, ...]
    printed: str

    @property
    def value(self) -> float:
        """Published score in percent, as a number."""
        return float(self.printed)

    @property
    def half_unit(self) -> float:
        """Largest possible rounding error of `printed`, in percent, e.g. 0.05 for "57.0"."""
        # A printed "57.0" may be any number from 56.95 to 57.05, and "57" any from 56.5 to 57.5.
        decimals = len(self.printed.partition(".")[2])
        return 0.5 * 10.0**-decimals


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """Published scores of one system on one split of a suite, from one table.

    Imported scores have the same form for display. Then `table` is "imported", `protocol` contains
    the recipe and warnings, and `parameters` contains the numerical precision.

    Attributes:
        table: Name of the packaged CSV file with the table, without ".csv".
        suite: Name of the suite.
        split: "dev" or "test".
        system: Name of the system in the table.
        by: Team that submitted the system; may be empty.
        protocol: How the scores were obtained, e.g. "median of 5" or "ensemble"; "unsaid" if the
            source does not specify it.
        parameters: Number of parameters as the source prints it, e.g. "110M"; may be empty.
        date: Date, as precise as in the source; may be empty.
        source: Paper or site that contains the table.
        place: Name of the table in the source.
        cells: Scores of the system on tasks, and its averages over tasks.
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
        """Protocol; empty if the source does not specify it."""
        return "" if self.protocol == "unsaid" else self.protocol

    def of(self, task: str) -> tuple[PublishedCell, ...]:
        """Return the scores on a task; if `task` is the suite, return the suite's averages."""
        return tuple(cell for cell in self.cells if cell.task == task)


def published(suite: str) -> tuple[PublishedRow, ...]:
    """Return the rows of all published tables that belong to a suite.

    Human baselines come first; apart from that, the rows are in the order of the tables.
    """
    rows = [row for row in every_row() if row.suite == suite]
    return tuple(sorted(rows, key=lambda row: not row.is_human))


@cache
def every_row() -> tuple[PublishedRow, ...]:
    """Return the rows of all published tables, sorted by the file names of the tables."""
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
"""Columns of the CSV files that describe a row of a published table, and not a single score."""


def _read_table(name: str, lines: Sequence[str]) -> Iterator[PublishedRow]:
    """Parse the lines of one CSV file and yield its rows."""
    # The columns are system, by, task, metric, split, score, and the others in _ROW. For example:
    # "ELECTRA-Small,,glue/cola,mcc,dev,57.0,median of many seeds,14M,,README.md,Results".
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
    """Published or imported rows for one split of a suite, for a table.

    Attributes:
        title: Title of the suite.
        suite: Name of the suite.
        split: "dev" or "test".
        tasks: Tasks on which at least one row has a score.
        rows: Rows with the scores of one system each.
        origin: "published" for rows of the packaged tables, "imported" for scores that the user has
            imported.
    """

    title: str
    suite: str
    split: str
    tasks: tuple[str, ...]
    rows: tuple[PublishedRow, ...]
    origin: Literal["published", "imported"] = "published"


def published_blocks(board: Board) -> tuple[PublishedBlock, ...]:
    """Return the published scores for a leaderboard's suite, in one block per split.

    Blocks for dev come first. Empty if the leaderboard's data are incomplete or synthetic, because
    scores on such data cannot be compared with published scores.
    """
    return blocks_of(board, published(board.suite)) if board.is_whole else ()


def blocks_of(
    board: Board,
    rows: Sequence[PublishedRow],
    origin: Literal["published", "imported"] = "published",
) -> tuple[PublishedBlock, ...]:
    """Group rows for a leaderboard's suite into one block per split, dev before test.

    Args:
        board: Leaderboard. In each block, its tasks come before other tasks.
        rows: Published or imported rows. A split without rows has no block.
        origin: Origin of the rows.
    """
    blocks = []
    for split in ("dev", "test"):
        known = tuple(row for row in rows if row.split == split)
        # Add the tasks of the rows, because the board may have no columns for some of them.
        tasks = dict.fromkeys((*board.tasks, *(c.task for row in known for c in row.cells)))
        # A name without "/", such as "glue", is the suite's average, which is not a task.
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


# Checkpoints of the published systems, or the reasons why there are none.


@dataclass(frozen=True, kw_only=True)
class System:
    """Known system, and whether benchharness can run it.

    A system is known if a published table contains its scores, or if it is mentioned in the
    lectures from which the tables were collected.

    Attributes:
        name: Name of the system.
        table: Published table in which the name means this system; empty if the name means this
            system in every table.
        model: Name of the system's checkpoint if benchharness can run it; else empty.
        reason: Reason why the system cannot be run. If it can be run although `model` is empty,
            instructions how to run it. Empty if `model` is not empty.
        runs: True if benchharness can run the system.
        rows: Number of published rows of the system.
        in_lectures: True if the lectures from which the tables were collected mention the system.
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
        """Text for lists: "runs here", "published row only" or "named in a lecture only"."""
        if self.runs:
            return "runs here"
        return "published row only" if self.rows else "named in a lecture only"


@cache
def systems() -> tuple[System, ...]:
    """Return all known systems, sorted by name.

    They are those in the published tables, and those that are mentioned in the lectures from which
    the tables were collected.
    """
    file = files("benchharness.leaderboard") / "published" / "systems.toml"
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    # The keys are as in the file. A value is (model, reason or instructions, whether the system
    # can be run).
    known: dict[str, tuple[str, str, bool]] = {}
    for key, model in document["runs"].items():
        known[key] = (model, "", True)
    for part in ("ways", "absent"):
        for reason, keys in document[part].items():
            known |= dict.fromkeys(keys, ("", reason, part == "ways"))
    tables, found = {row.table for row in every_row()}, []
    for key, (model, reason, runs) in known.items():
        # "superglue_leaderboard_2021: BERT" is the system called BERT in this table. If the text
        # before the colon is not the name of a table, it is part of the system's name.
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
    """Return the system that `name` means in the published table `table`; None if it is unknown."""
    named = _by_name()
    return named.get((name, table), named.get((name, "")))


@cache
def _by_name() -> Mapping[tuple[str, str], System]:
    return {(system.name, system.table): system for system in systems()}


def rows_of_model(model: str) -> tuple[PublishedRow, ...]:
    """Return the published rows of a model in any suite, in the order of the tables.

    Args:
        model: Name of the model in benchharness.
    """
    return _by_model().get(model, ())


# Selection of published rows of similar models: the same model, or models of a similar size.

_MOST = 8  # maximum number of selected rows

_FARTHEST = 1.5  # maximum ratio between the sizes of two models that count as similar


def printed_size(text: str) -> float | None:
    """Parse a number of parameters such as "110M" or "1.5B"; return None for any other text."""
    found = re.fullmatch(r"([\d.]+)([MB])", text)
    return float(found[1]) * (1e9 if found[2] == "B" else 1e6) if found else None


def like_those_of(
    board: Board, block: PublishedBlock, sizes: Mapping[str, float]
) -> PublishedBlock:
    """Reduce a block to at most 8 rows of similar models, and to tasks with measured results.

    If some of these tasks count in the suite's score, tasks that do not count are left out too.
    Rows of the models on the leaderboard are preferred, then rows of models whose number of
    parameters differs from that of a model on the leaderboard by a factor of at most 1.5. Rows
    without a score on any of these tasks are left out.

    Args:
        board: Leaderboard whose models and tasks are compared.
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
        # Compare the row's size with that of each model on the board, as a logarithm of the ratio.
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
