"""Comparison of measured with published scores, and certificate of parity with transformers."""

import json
import math
import shlex
import tomllib
from collections.abc import Mapping, Sequence
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
from benchharness.version import release_of

LIKE_OURS = ("single", "one", "median", "mean", "unsaid")
"""Prefixes of `PublishedRow.protocol` for scores that can be compared with benchharness's median
over seeds. These are scores of single runs, medians or means of several runs, and scores without
information about the protocol. Ensembles and the best of several runs are left out, because they
score higher by construction."""

BEST_OF_GRID = "best of"
"""Prefix of `PublishedRow.protocol` for scores that can be compared with the best setting of a
hyperparameter sweep, selected on dev."""

_Verdict = Literal["within noise", "below", "above", "not comparable"]


_FILE = files("benchharness.leaderboard") / "published" / "references.toml"

REFERENCES: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        # Example of a line of the file: minilm = ["minilm_readme: MiniLM-L6-H384"].
        model: tuple((table, system) for table, _, system in (row.partition(": ") for row in rows))
        for model, rows in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
    }
)
"""Published dev rows with which each model is compared, as pairs (name of the table, name of the
system in this table). A key is the name of a model in lower case; for a frozen encoder whose states
are used as features, a key is e.g. "bert-base-cased, features=last"."""


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Comparison of a leaderboard entry's score with a published score, in percent.

    Attributes:
        task: Name of the task.
        row: Published row that contains the published score.
        theirs: Published score.
        ours: Median of the entry's scores over seeds; may be None if the scores cannot be compared.
        noise: Largest difference that can be explained by chance; None if the scores cannot be
            compared.
        reason: Reason why the scores cannot be compared; empty if they can.
        run: Key of the entry's run whose score is closest to the median; empty if the scores cannot
            be compared.
        flags: Warnings about the entry's score.
        measured: Median of the entry's scores over seeds, even if it cannot be compared (e.g. with
            a score on another split); None if the metric was not measured, or is not named.
    """

    task: str
    row: PublishedRow
    theirs: PublishedCell
    ours: float | None = None
    noise: float | None = None
    reason: str = ""
    run: str = ""
    flags: tuple[str, ...] = ()
    measured: float | None = None

    @property
    def text(self) -> str:
        """Score of the entry as tables show it, with "!" after it if there are warnings.

        Empty if `measured` is None.
        """
        return "" if self.measured is None else marked(f"{self.measured:.1f}", self.flags)

    @property
    def command(self) -> str:
        """Shell command that explains the difference; empty if the difference is within noise.

        It is also empty if the scores cannot be compared.
        """
        if self.verdict not in ("below", "above"):
            return ""
        row = f"{self.row.table}: {self.row.system}"
        return shlex.join(("bench", "explain", self.run[:12], "--from", row))

    @property
    def difference(self) -> float | None:
        """Score of the entry minus the published score, in percent; None if `ours` is None."""
        return None if self.ours is None else self.ours - self.theirs.value

    @property
    def verdict(self) -> _Verdict:
        """Verdict on the entry's score: "below" or "above" the published score, or "within noise".

        It is "within noise" if the difference is at most `noise`, and "not comparable" if the
        scores cannot be compared.
        """
        if self.noise is None or self.difference is None:
            return "not comparable"
        if abs(self.difference) <= self.noise:
            return "within noise"
        return "below" if self.difference < 0 else "above"


def reproductions(board: Board, entry: Entry) -> tuple[Reproduction, ...]:
    """Compare a leaderboard entry's scores with the published scores of its model.

    The model is identified by its name, or by the last component of its path.

    Returns:
        Comparisons with the published dev scores in `REFERENCES`. After these, for each other task
        with a dev split, one published score that cannot be compared, because it is on another
        split or was obtained in another way. Empty if there are no published scores of the model,
        or if the leaderboard's data are synthetic or incomplete.
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
    return tuple(
        replace(
            each,
            flags=entry.cells[each.task].flags,
            measured=_measured(entry.cells[each.task].runs, each.theirs),
        )
        for each in found
    )


def _unlikeness(row: PublishedRow, points: int) -> str:
    """Return why a published row cannot be compared with an entry's dev scores; "" if it can.

    `points` is the number of settings in the entry's sweep, or 0 if there was no sweep.
    """
    if row.split != "dev":
        return f"the published score is on another split, {row.split}"
    if row.protocol.startswith(BEST_OF_GRID if points else LIKE_OURS):
        return ""
    measured = f", and the measured score is the best of {points} settings" if points else ""
    return f"the published score has another protocol, {row.protocol}{measured}"


def _compare(entry: Entry, row: PublishedRow, cell: PublishedCell) -> Reproduction:
    runs = entry.cells[cell.task].runs
    if unlike := _unlikeness(row, entry.points) or _less_than_whole(runs[0]):
        return _incomparable(row, cell, unlike)
    if len(cell.scores) > 1:
        names = " or ".join(cell.scores)
        return _incomparable(row, cell, f"the source does not state whether it is {names}")
    values, ours = _values(runs, cell), _measured(runs, cell)
    if ours is None:
        return _incomparable(row, cell, f"{cell.scores[0]} was not measured")
    if len(values) == 1:
        return _incomparable(row, cell, "the noise is unknown with a single seed", ours)
    # Student's prediction interval contains the score of one more seed with a probability of 95 %.
    # The published score is treated as such a seed. A published median of several runs varies less,
    # so the verdicts "below" and "above" are conservative.
    count = len(values)
    bound = student_t(count - 1, 0.975) * stdev(values) * math.sqrt(1 + 1 / count)
    noise = bound + cell.half_unit
    nearest = min(zip(values, runs, strict=True), key=lambda pair: abs(pair[0] - ours))[1]
    return Reproduction(
        task=cell.task, row=row, theirs=cell, ours=ours, noise=noise, run=nearest.key
    )


def _values(runs: Sequence[RunRow], cell: PublishedCell) -> list[float]:
    """Return the runs' scores, in percent, on the metric of a published score; NaN for others."""
    return [100 * run.scores[cell.task].get(" or ".join(cell.scores), math.nan) for run in runs]


def _measured(runs: Sequence[RunRow], cell: PublishedCell) -> float | None:
    """Return the median of the runs' scores on the metric of a published score; None for others."""
    values = _values(runs, cell)
    return median(values) if all(map(math.isfinite, values)) else None


def _less_than_whole(run: RunRow) -> str:
    """Return why a run did not fine-tune the complete model on all rows; "" if it did."""
    if run.kind == ZERO_SHOT and find_task(run.task).is_trained:
        return "this model was not trained on the task"
    if shots := run.settings.get("shots"):
        return f"this model was trained on only {shots.value} rows"
    if layers := run.settings.get("layers"):
        return f"this model has only {layers.value} of its layers"
    return ""


def _incomparable(
    row: PublishedRow, cell: PublishedCell, reason: str, ours: float | None = None
) -> Reproduction:
    return Reproduction(task=cell.task, row=row, theirs=cell, ours=ours, reason=reason)


# The parity certificate: the combinations of model family, head, precision and device for which
# training with benchharness was proved to be equal to training with transformers.
#
# `make parity` trains small networks with benchharness and with the classes of transformers
# (docs/parity.md), and writes the results to certificate.json.


@cache
def certificate() -> Mapping[str, Any]:
    """Load the parity certificate, as JSON data.

    The certificate lists for which models training with benchharness was proved to be equal to
    training with transformers. `measured` is its date, and `version` and `method` identify the code
    of benchharness. `torch` and `transformers` are the versions of these libraries, and `device` is
    the device on which the models were trained. `families[family][head][precision]` is true if
    equality was proved for this combination; combinations that were not compared are absent.
    `settings` are the names of the settings that jobs may have; the certificate proves nothing
    about jobs with other settings.
    """
    text = (files("benchharness.leaderboard") / "certificate.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def made_by() -> str:
    """Return a description of the parity certificate: its date, the versions, and the device."""
    known = certificate()
    return (
        f"{known['measured']}, benchharness {known['version']} (method {known['method']}), "
        f"torch {known['torch']}, transformers {known['transformers']}, {known['device'].upper()}"
    )


def parity_of(run: Result | Failure) -> str:
    """Return what the parity certificate proves about a run.

    The text is, for example, "proved, fp32 CPU" if training with benchharness is proved to be equal
    to training with transformers, "not proved, bf16 CPU" if this precision was not compared, or
    "none" followed by a reason if the certificate does not cover the run. If another version of
    benchharness made the run, the text names the version to which the proof applies. Empty for a
    failure, and for a run that did not fine-tune a model.
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
    made = job.method, release_of(str(_part(said, "code").get("version")))
    if made != (known["method"], release_of(known["version"])):
        return f"{proved} of benchharness {known['version']} (method {known['method']})"
    return proved


def _lack(job: Job) -> str:
    """Describe the properties of a job that the certificate does not cover; may be empty."""
    if len(job.trained_tasks) > 1:
        return "for tasks that are trained together"
    others = sorted(job.settings.keys() - {*certificate()["settings"]})
    others += ["teacher"] if job.teacher else []
    return f"with {', '.join(others)}" if others else ""


def _unknown(family: str, device: str) -> str:
    """Describe which of family and device a run has not recorded; empty if it has recorded both."""
    lost = [name for name, value in (("family", family), ("device", device)) if not value]
    return f"because the run does not state its {' and '.join(lost)}" if lost else ""


def _part(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return `said[name]` from a run's provenance; {} if it is missing or malformed."""
    part = said.get(name) if isinstance(said, Mapping) else None
    return part if isinstance(part, Mapping) else {}
