"""Comparison of measured scores with published ones, and the parity certificate of runs."""

import json
import math
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import islice
from statistics import median, stdev
from types import MappingProxyType
from typing import Any, Literal

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import marked
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.published import (
    PublishedCell,
    PublishedRow,
    published,
    rows_of_model,
)
from benchharness.leaderboard.job import ZERO_SHOT, Job
from benchharness.leaderboard.result import Failure, Result, RunRow
from benchharness.leaderboard.statistics import student_t
from benchharness.tasks.suites import find_task

LIKE_OURS = ("single", "one", "median", "mean", "unsaid")
"""Beginnings of the protocols whose numbers can be compared with benchharness's medians: single
runs, or the middle of several. An ensemble or the best of several runs scores higher by
construction."""

BEST_OF_GRID = "best of"
"""Beginning of the protocols that can be compared with the best point of a sweep on dev."""

_Verdict = Literal["within noise", "below", "above", "not comparable"]


_FILE = files("benchharness.leaderboard") / "published" / "references.toml"

REFERENCES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        # Example of a line of the file: minilm = ["minilm_readme: MiniLM-L6-H384"].
        model: tuple((table, system) for table, _, system in (row.partition(": ") for row in rows))
        for model, rows in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
    }
)
"""Published dev rows (table, system) that each model is compared with, keyed by its lower-case
name. For frozen features the key contains the features too: "bert-base-cased, features=last"."""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Published number, and the same score of an entry, both in percent.

    `theirs` is the published number and `ours` the entry's median over seeds, None if there is no
    score to compare. `noise` is the largest difference that chance explains, None if the two cannot
    be compared; `reason` explains why they cannot. `run` is the key of the run closest to the
    median, if there is a verdict. `flags` are warnings about the entry's score.
    """

    task: str
    row: PublishedRow
    theirs: PublishedCell
    ours: float | None = None
    noise: float | None = None
    reason: str = ""
    run: str = ""
    flags: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Entry's score as tables show it, marked if it has flags; empty if there is none."""
        return "" if self.ours is None else marked(f"{self.ours:.1f}", self.flags)

    @property
    def command(self) -> str:
        """Shell command that explains why the score is below or above; empty for other verdicts."""
        if self.verdict not in ("below", "above"):
            return ""
        row = f"{self.row.table}: {self.row.system}"
        return shlex.join(("bench", "explain", self.run[:12], "--from", row))

    @property
    def difference(self) -> float | None:
        """Entry's score minus the published number, None if there is no score."""
        return None if self.ours is None else self.ours - self.theirs.value

    @property
    def verdict(self) -> _Verdict:
        """Verdict on the difference: within noise, below, above, or not comparable."""
        if self.noise is None or self.difference is None:
            return "not comparable"
        if abs(self.difference) <= self.noise:
            return "within noise"
        return "below" if self.difference < 0 else "above"


def reproductions(board: Board, entry: Entry) -> tuple[Reproduction, ...]:
    """Return the entry's scores next to the published scores of its model.

    Tasks with a reference come first. Every other task with a dev split follows with the first
    published number of another split or protocol, which is not comparable. Models are matched by
    name (the last part of a folder). Empty if no published row of the model is known, or if the
    board's data are synthetic or incomplete.
    """
    if not board.is_whole:
        return ()
    name = entry.model.rpartition("/")[2].lower()
    read = {run.settings["features"].value for run in entry.runs if "features" in run.settings}
    known = f"{name}, features={'/'.join(map(str, sorted(read)))}" if read else name
    references = REFERENCES.get(known, ())
    dev = published(board.suite) if references else ()
    rows = {(row.table, row.system): row for row in dev if row.split == "dev"}
    listed = [rows[reference] for reference in references if reference in rows]
    found = [
        _compare(entry, row, cell)
        for task in entry.cells
        for row in listed
        for cell in row.of(task)
    ]
    done = {each.task for each in found}
    others = [(row, why) for row in rows_of_model(name) if (why := _unlikeness(row, entry.points))]
    for task in entry.cells:
        if task not in done and find_task(task).dev_splits:
            cells = ((row, cell, why) for row, why in others for cell in row.of(task))
            found += [_incomparable(*each) for each in islice(cells, 1)]
    return tuple(replace(each, flags=entry.cells[each.task].flags) for each in found)


def _unlikeness(row: PublishedRow, points: int) -> str:
    """Return why a row's numbers cannot be compared with single models on dev; "" if they can.

    If `points` is not 0, benchharness's score is the best of this number of points of a sweep.
    """
    if row.split != "dev":
        return f"different split: the published score is on {row.split}"
    if row.protocol.startswith(BEST_OF_GRID if points else LIKE_OURS):
        return ""
    measured = f", measured as the best of {points}" if points else ""
    return f"different protocol: published as {row.protocol}{measured}"


def _compare(entry: Entry, row: PublishedRow, cell: PublishedCell) -> Reproduction:
    runs = entry.cells[cell.task].runs
    if unlike := _unlikeness(row, entry.points) or _less_than_whole(runs[0]):
        return _incomparable(row, cell, unlike)
    if len(cell.scores) > 1:
        names = " or ".join(cell.scores)
        return _incomparable(row, cell, f"the source does not state whether it is {names}")
    (name,) = cell.scores
    values = [100 * run.scores[cell.task].get(name, math.nan) for run in runs]
    if not all(math.isfinite(value) for value in values):
        return _incomparable(row, cell, f"different metric: {name} is not among these scores")
    ours = median(values)
    if len(values) == 1:
        return _incomparable(row, cell, "one seed gives no spread to compare with", ours)
    # Student's prediction interval: one more seed lies in it 19 times in 20. The published number
    # is treated as one more run of the same spread. A published median of several runs varies less,
    # so the verdicts "below" and "above" are conservative.
    count = len(values)
    bound = student_t(count - 1, 0.975) * stdev(values) * math.sqrt(1 + 1 / count)
    noise = bound + cell.half_unit
    nearest = min(zip(values, runs, strict=True), key=lambda pair: abs(pair[0] - ours))[1]
    return Reproduction(
        task=cell.task, row=row, theirs=cell, ours=ours, noise=noise, run=nearest.key
    )


def _less_than_whole(run: RunRow) -> str:
    """Return why a run is not of the whole model trained on all rows; "" if it is."""
    if run.kind == ZERO_SHOT and find_task(run.task).is_trained:
        return "different protocol: this model was not trained on the task"
    if shots := run.settings.get("shots"):
        return f"different protocol: this model was trained on {shots.value} rows"
    if layers := run.settings.get("layers"):
        return f"different model: this one has {layers.value} of its layers"
    return ""


def _incomparable(
    row: PublishedRow, cell: PublishedCell, reason: str, ours: float | None = None
) -> Reproduction:
    return Reproduction(task=cell.task, row=row, theirs=cell, ours=ours, reason=reason)


# The parity certificate: which combinations of family, head, precision and device were proved.
#
# `make parity` trains small networks with benchharness and with the classes of transformers
# (docs/parity.md), and writes the results to certificate.json.


@cache
def certificate() -> Mapping[str, Any]:
    """Return the parity certificate: its date (`measured`), `version`, `method` and results.

    `families` maps each model family to its head types, and these to whether each precision was
    proved; a combination that was not compared is absent. `settings` are the settings that were
    varied; all others had their defaults.
    """
    text = (files("benchharness.leaderboard") / "certificate.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def made_by() -> str:
    """Return the certificate in words: its date, its device and the versions that it covers."""
    known = certificate()
    return (
        f"{known['measured']}, benchharness {known['version']} (method {known['method']}), "
        f"torch {known['torch']}, transformers {known['transformers']}, {known['device'].upper()}"
    )


def parity_of(run: Result | Failure) -> str:
    """Return what the certificate proves about a run: "proved, fp32 CPU", or "none" and why.

    Empty if the run trained nothing. If the run's code is not the certificate's version, the text
    names the version that was proved.
    """
    job, known = run.job, certificate()
    if isinstance(run, Failure) or job.kind != "model" or not run.cost.steps:
        return ""
    said = run.provenance
    family = str(_part(said, "model").get("family") or (job.stage.family if job.stage else ""))
    device = str(_part(said, "machine").get("device") or "")
    heads, head = known["families"].get(family, {}), find_task(job.task).head
    if lack := _lack(job) or _unknown(family, device):
        return f"none {lack}"
    if head not in heads:
        return "none for this family" + (f"'s {head} head" if heads else "")
    proved = f"{'proved' if heads[head].get(job.precision) else 'not proved'}, {job.precision} CPU"
    if device != known["device"]:
        return f"none on a GPU ({proved})"
    if (job.method, _part(said, "code").get("version")) != (known["method"], known["version"]):
        return f"{proved} of benchharness {known['version']} (method {known['method']})"
    return proved


def _lack(job: Job) -> str:
    """Return which part of a job the certificate does not cover, empty if it covers all."""
    if len(job.trained_tasks) > 1:
        return "for tasks that are trained together"
    others = sorted(job.settings.keys() - {*certificate()["settings"]})
    others += ["teacher"] if job.teacher else []
    return f"with {', '.join(others)}" if others else ""


def _unknown(family: str, device: str) -> str:
    """Return which fact is missing in a run that was imported or made by an older version."""
    lost = [name for name, value in (("family", family), ("device", device)) if not value]
    return f"without its {' and '.join(lost)}, which the run does not state" if lost else ""


def _part(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a run's provenance; {} if it is missing or malformed (imported)."""
    part = said.get(name) if isinstance(said, Mapping) else None
    return part if isinstance(part, Mapping) else {}
