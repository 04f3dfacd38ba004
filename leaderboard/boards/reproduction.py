"""Measured scores beside the published ones of the same model. Pure."""

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from statistics import median, stdev
from types import MappingProxyType
from typing import Literal

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.published import (
    PublishedCell,
    PublishedRow,
    published,
    rows_of_model,
)
from benchharness.leaderboard.job import ZERO_SHOT
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.statistics import student_t
from benchharness.tasks.suites import find_task

LIKE_OURS = ("single", "one", "median", "mean", "unsaid")
"""How the protocols begin of numbers that runs like ours would give: single models, or what is in
the middle of several. An ensemble or the best of several stands higher by itself."""

BEST_OF_GRID = "best of"
"""How those begin that a sweep's row is like: the best point of a grid on dev."""

_Verdict = Literal["within noise", "below", "above", "not comparable"]


def _read_references() -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    file = files("benchharness.leaderboard") / "published" / "references.toml"
    for model, rows in tomllib.loads(file.read_text(encoding="utf-8")).items():
        named = (row.partition(": ") for row in rows)
        yield model, tuple((table, system) for table, _, system in named)


REFERENCES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(dict(_read_references()))
"""The published dev rows (table, system) that a model is held against, by its lower-case name; of
frozen features by that and what is read of them, as in "bert-base-cased, features=last"."""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """One published number and what an entry has of the same score, both in percent.

    `ours` is the median over seeds, None where there is none to compare. `noise` is how far theirs
    may lie from it by chance; `reason` says why a pair is not comparable.
    """

    task: str
    row: PublishedRow
    theirs: PublishedCell
    ours: float | None = None
    noise: float | None = None
    reason: str = ""

    @property
    def difference(self) -> float | None:
        """Ours less theirs."""
        return None if self.ours is None else self.ours - self.theirs.value

    @property
    def verdict(self) -> _Verdict:
        """Whether chance explains the difference."""
        if self.noise is None or self.difference is None:
            return "not comparable"
        if abs(self.difference) <= self.noise:
            return "within noise"
        return "below" if self.difference < 0 else "above"


def reproductions(board: Board, entry: Entry) -> tuple[Reproduction, ...]:
    """The entry's scores beside what is published of its model: first the tasks with a reference.

    Of a task without one the first published number follows that is of another split or protocol,
    which is not comparable; diagnostic sets, which have no dev split, are left out. Models are
    known by name (a folder's last part). Empty for a model that no table is known of, and on data
    that is made up or cut.
    """
    if not board.is_whole:
        return ()
    name = entry.model.rpartition("/")[2].lower()
    read = {run.settings["features"].value for run in entry.runs if "features" in run.settings}
    known = f"{name}, features={'/'.join(map(str, sorted(read)))}" if read else name
    found = tuple(_of_tasks(entry, _known(board.suite, REFERENCES.get(known, ()))))
    done = {each.task for each in found}
    left = [task for task in entry.cells if task not in done and find_task(task).dev_splits]
    return (*found, *_unlike(left, name, entry.points))


def _known(suite: str, references: Sequence[tuple[str, str]]) -> list[PublishedRow]:
    """The dev rows of these tables and systems that have numbers of the suite."""
    if not references:
        return []
    rows = {(row.table, row.system): row for row in published(suite) if row.split == "dev"}
    return [rows[reference] for reference in references if reference in rows]


def _unlike(tasks: Iterable[str], model: str, points: int) -> Iterator[Reproduction]:
    """Of each task a published number of the model that is not of runs like ours, with why."""
    rows = rows_of_model(model)
    others = [(row, reason) for row in rows if (reason := _unlikeness(row, points))]
    for task in tasks:
        cells = ((row, cell, reason) for row, reason in others for cell in row.of(task))
        if first := next(cells, None):
            yield _incomparable(*first)


def _unlikeness(row: PublishedRow, points: int) -> str:
    """Why a row's numbers are of something else than ours, single models on dev; "" where not.

    Ours are the best of so many `points` of a sweep, where there are any.
    """
    if row.split != "dev":
        return f"different split: theirs is of {row.split}"
    if row.protocol.startswith(BEST_OF_GRID if points else LIKE_OURS):
        return ""
    ours = f", ours is the best of {points}" if points else ""
    return f"different protocol: theirs is {row.protocol}{ours}"


def _of_tasks(entry: Entry, rows: list[PublishedRow]) -> Iterator[Reproduction]:
    for task in entry.cells:
        for row in rows:
            for cell in row.of(task):
                yield _compare(entry, row, cell)


def _compare(entry: Entry, row: PublishedRow, cell: PublishedCell) -> Reproduction:
    runs = entry.cells[cell.task].runs
    if unlike := _unlikeness(row, entry.points) or _less_than_whole(runs[0]):
        return _incomparable(row, cell, unlike)
    if len(cell.scores) > 1:
        names = " or ".join(cell.scores)
        return _incomparable(row, cell, f"the source does not say whether it is {names}")
    (name,) = cell.scores
    values = [100 * run.scores[cell.task].get(name, math.nan) for run in runs]
    if not all(math.isfinite(value) for value in values):
        return _incomparable(row, cell, f"other metric: {name} is not among these scores")
    ours = median(values)
    if len(values) == 1:
        return _incomparable(row, cell, "one seed shows no spread to judge by", ours)
    # How far one more seed may lie from these, 19 times in 20: Student's prediction interval.
    # Theirs is taken for one more run of the same spread. A published median of several varies
    # less, so the bound is on the safe side of "below" and "above".
    count = len(values)
    bound = student_t(count - 1, 0.975) * stdev(values) * math.sqrt(1 + 1 / count)
    noise = bound + cell.half_unit
    return Reproduction(task=cell.task, row=row, theirs=cell, ours=ours, noise=noise)


def _less_than_whole(run: RunRow) -> str:
    """Why a run is not of the whole model on all rows, as published ones are; "" where it is."""
    if run.kind == ZERO_SHOT and find_task(run.task).is_trained:
        return "different protocol: ours was not trained on the task"
    if shots := run.settings.get("shots"):
        return f"different protocol: ours was trained on {shots.value} rows"
    if layers := run.settings.get("layers"):
        return f"different model: ours has {layers.value} of its layers"
    return ""


def _incomparable(
    row: PublishedRow, cell: PublishedCell, reason: str, ours: float | None = None
) -> Reproduction:
    return Reproduction(task=cell.task, row=row, theirs=cell, ours=ours, reason=reason)
