"""Which known checkpoint a published system is, or why it is none."""

import math
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.published import PublishedBlock, PublishedRow, every_row
from benchharness.leaderboard.result import RunRow


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
    return tuple(sorted(_systems(), key=lambda system: (system.name.lower(), system.table)))


def find_system(name: str, table: str) -> System | None:
    """The system that a table means by a name; None where nobody has said yet what it is."""
    named = _by_name()
    return named.get((name, table), named.get((name, "")))


def rows_of_model(model: str) -> tuple[PublishedRow, ...]:
    """The published rows of one of our models, in the order of the tables."""
    return _by_model().get(model, ())


# Published rows of models like those of a board: the same ones, then those of about their size.

_MOST = 8
"""Rows of a block."""

_FARTHEST = 1.5
"""How many times as large a model like another may be."""

_UNITS = {"M": 1e6, "B": 1e9}


def printed_size(text: str) -> float | None:
    """The number of weights that a source prints: "110M"."""
    return float(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else None


def like_those_of(
    board: Board, block: PublishedBlock, sizes: Mapping[str, float]
) -> PublishedBlock:
    """The block with the rows that are nearest to the board's models, and with the board's tasks.

    `sizes` are numbers of weights by the names of known models, in lower case. Only rows that have
    a number of a task that was run here are taken.
    """
    models = [entry for entry in board.entries if entry.is_single]
    names = {entry.model.rpartition("/")[2].lower() for entry in models}
    own = [size for e in models for size in [_size_of_runs(e.runs) or sizes.get(e.model.lower())]]
    run = [t for t in block.tasks if any(t in entry.cells for entry in board.entries)]
    tasks = [task for task in run if task not in board.extras] or run
    columns = [block.tasks.index(task) for task in tasks]
    near = []
    for place, line in enumerate(block.lines):
        system = find_system(line.row.system, line.row.table)
        model = system.model if system else ""
        size = printed_size(line.row.parameters) or sizes.get(model)
        far = 0.0 if model in names and model else _distance(size, own)
        if any(line.cells[n] for n in columns) and far <= math.log(_FARTHEST):
            near.append((far, place, line))
    chosen = sorted(near, key=lambda each: each[:2])[:_MOST]
    lines = (
        replace(line, cells=tuple(line.cells[n] for n in columns))
        for _, _, line in sorted(chosen, key=lambda each: each[1])
    )
    return replace(block, tasks=tuple(tasks), lines=tuple(lines))


def _size_of_runs(runs: Sequence[RunRow]) -> float:
    return max((run.parameters for run in runs), default=0)


def _distance(size: float | None, others: Sequence[float | None]) -> float:
    """How far a size is from the nearest of others, as a logarithm."""
    known = [abs(math.log(size / other)) for other in others if size and other]
    return min(known, default=math.inf)


@cache
def _by_name() -> Mapping[tuple[str, str], System]:
    return {(system.name, system.table): system for system in systems()}


@cache
def _by_model() -> Mapping[str, tuple[PublishedRow, ...]]:
    found: defaultdict[str, list[PublishedRow]] = defaultdict(list)
    for row in every_row():
        if (system := find_system(row.system, row.table)) is not None:
            found[system.model].append(row)
    return {model: tuple(rows) for model, rows in found.items() if model}


def _systems() -> Iterator[System]:
    file = files("benchharness.leaderboard") / "published" / "systems.toml"
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    lectures = set(document["lectures"])
    for key, model in document["runs"].items():
        yield _system(key, lectures, model=model, reason="", runs=True)
    for part in ("ways", "absent"):
        for reason, keys in document[part].items():
            for key in keys:
                yield _system(key, lectures, model="", reason=reason, runs=part == "ways")


def _system(key: str, lectures: set[str], **found: Any) -> System:
    tables = {row.table for row in every_row()}
    table, colon, name = key.partition(": ")
    if not (colon and table in tables):
        table, name = "", key
    rows = [row for row in every_row() if row.system == name and table in ("", row.table)]
    return System(
        name=name, table=table, rows=len(rows), in_lectures=not table and name in lectures, **found
    )
