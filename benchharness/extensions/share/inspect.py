"""Check the runs in one archive: rows, scores, predictions and probabilities."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal

from benchharness.errors import BenchError
from benchharness.extensions.reproduce.causes import undecided, unfounded, usual_scores
from benchharness.extensions.reproduce.rounding import digits_of
from benchharness.extensions.share.archive import check_paths, read_runs
from benchharness.extensions.share.copies import Sheet, sheet_of
from benchharness.extensions.share.repository import Contribution
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Evaluation, Result, measures_of, predictions_of
from benchharness.leaderboard.store.record import run_to_outcome
from benchharness.leaderboard.text import counted, digest
from benchharness.splits import evaluate_split
from benchharness.tasks.examples import Prediction
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task, split_title
from benchharness.tasks.task import ending_of

Kind = Literal[
    "folder", "file", "digest", "rows", "score", "prediction", "probabilities", "copy",
    "implausible", "reproduction",
]  # fmt: skip
"""Kind of a finding.

* folder: a file outside of the contributor's folder
* file: a file or a run that cannot be accepted, e.g. damaged, or with unsafe names, paths or code
* digest: a run that was changed after it was stored
* rows: a split that does not have the public examples, or a task with two definitions
* score: a score that does not follow from the predictions and the public labels
* prediction: predictions that are missing or malformed, or a warning about a score
* probabilities: probabilities that were edited
* copy: predictions that another run has too
* implausible: a score far above all known scores
* reproduction: a run of the sample that was not reproduced
"""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A fault of a contribution, or a fact about it that readers should know.

    Attributes:
        place: Path of the file in the repository.
        run: First 12 characters of the run's key; empty if the finding concerns the whole file.
        kind: Kind of the finding (see `Kind`).
        sentence: Description of the problem, and of the way in which the contributor can solve it.
        is_fault: True if the contribution cannot be accepted as it is.
    """

    place: str
    run: str = ""
    kind: Kind
    sentence: str
    is_fault: bool = True


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A score of a run on one split.

    Attributes:
        task: Name of the task.
        split: Name of the split.
        fingerprint: Digest of the split's examples.
        name: Name of the score, e.g. "accuracy".
        value: Value of the score, in the unit of its metric.
        rows: Number of predictions, at least 1.
        width: Highest minus lowest possible value of the metric.
    """

    task: str
    split: str
    fingerprint: str
    name: str
    value: float
    rows: int
    width: float


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """A run of a contribution, after its check.

    Attributes:
        who: Name of the contributor.
        place: Path of the archive in the repository.
        job: Job of the run.
        finished: Time in the archive at which the run ended, in ISO format.
        how: Method by which the scores were checked: "recomputed", or "as stored" with the reason
            why they could not be computed again.
        measured: Digest of the run's time, duration and losses. Equal digests mean the same run,
            because a repetition of a job never has the same duration.
        identity: Digest that identifies the run in verdicts (`reproduce.verdicts.identity`).
        scores: Scores of the run by the metrics of its tasks.
        sheets: Summaries of the run's predictions, one per split, in which copies are searched.
    """

    who: str
    place: str
    job: Job
    finished: str
    how: str
    measured: str
    identity: str
    scores: tuple[Measured, ...]
    sheets: tuple[Sheet, ...]

    @property
    def run(self) -> str:
        """First 12 characters of the job's key, for display."""
        return self.job.key[:12]

    def finding(self, kind: Kind, sentence: str, *, is_fault: bool = True) -> Finding:
        """Return a finding about this run; the arguments are fields of `Finding`."""
        return Finding(
            place=self.place, run=self.run, kind=kind, sentence=sentence, is_fault=is_fault
        )


@dataclass(kw_only=True)
class PublicRows:
    """Reader of rows with public labels, which reads each split only once.

    Only the tasks of benchmarks have public labels. Rows of a custom task are never read, because
    its definition is part of an untrusted archive.

    Attributes:
        data: "hub", or a folder with the official files; None to read only the packaged mini data.
    """

    data: str | None = None
    _known: dict[tuple[str, str, str, int | None], SplitRows | str] = field(default_factory=dict)

    def of(self, job: Job, name: str) -> SplitRows | str:
        """Return the rows of a job's split, or the reason why they are not read.

        Args:
            job: Job that decides between the packaged mini data and `data`, and has the limit.
            name: Name of the split, "TASK:SPLIT".
        """
        task, split = name.rsplit(":", 1)
        if job.definition:
            return "a task of the contributor's own data has no public labels"
        if (place := "mini" if job.data == "mini" else self.data) is None:
            return "the public labels were not read (no --data)"
        known = (task, split, place, job.limit)
        if known not in self._known:
            try:
                rows = read(find_task(task), split, parse_data(place), job.limit)
                self._known[known] = rows
            except BenchError as error:
                said = str(error).rstrip(".")
                self._known[known] = f"the public labels cannot be read ({said})"
        return self._known[known]


def inspect(each: Contribution, rows: PublicRows) -> tuple[list[Inspected], list[Finding]]:
    """Check an archive, and return its runs and the findings about them.

    If the file or a run cannot be read, no run is returned, and this is the only finding.

    Args:
        each: Archive to check.
        rows: Reader of the rows with public labels.
    """
    found, findings = list[Inspected](), list[Finding]()
    try:
        for stored, run in read_runs(each):
            outcome = run_to_outcome(run)
            if not isinstance(outcome, Result):
                sentence = f"it is a failed job ({outcome.kind}): share rows of finished jobs."
                findings.append(_finding(each, outcome.job, "file", sentence))
                continue
            check_paths(stored)
            one, said = _inspected(each, outcome, rows)
            found.append(one)
            findings += said
    except BenchError as error:
        words = str(error)
        kind: Kind = "digest" if "digest" in words or "was changed after" in words else "file"
        return [], [Finding(place=each.place, kind=kind, sentence=words)]
    aids = {key for one in found for key in one.job.needs}
    if len({one.job.model for one in found if one.job.key not in aids}) > 1:
        sentence = "it contains several models: `bench share add` writes one archive per row."
        findings.append(Finding(place=each.place, kind="file", sentence=sentence))
    return found, findings


def _finding(each: Contribution, job: Job, kind: Kind, sentence: str) -> Finding:
    return Finding(place=each.place, run=job.key[:12], kind=kind, sentence=sentence)


def _inspected(
    each: Contribution, result: Result, rows: PublicRows
) -> tuple[Inspected, list[Finding]]:
    job, reasons = result.job, dict[str, None]()
    findings, sheets, scores = list[Finding](), list[Sheet](), list[Measured]()
    found = partial(_finding, each, job)
    findings += [found("file", reason) for reason in _odd_facts(result)]
    for one in result.evaluations:
        there = rows.of(job, one.name)
        examples = there if isinstance(there, SplitRows) else None
        if isinstance(there, str):
            reasons[there] = None
        try:
            findings += [found(*fault) for fault in _split_faults(result, one, examples)]
            if job.kind == "model" and one.predictions:
                predictions = predictions_of(one)
                sheets.append(sheet_of(job, one, predictions, examples, result.provenance))
        except BenchError as error:
            findings.append(found("prediction", str(error)))
        scores += _measured(one)
    for task, flags in result.flags.items():
        words = f"{task} has a score with a warning: {', '.join(flags)}."
        findings.append(replace(found("prediction", words), is_fault=False))
    named: dict[str, dict[str, float]] = {}
    for one in result.evaluations:
        named.setdefault(one.task, {}).update(one.scores)
    if unknown := {n for task, some in named.items() for n in some if n not in measures_of(task)}:
        reasons[f"the metric {', '.join(sorted(unknown))[:80]} is shown as stored"] = None
    how = "as stored: " + "; ".join(reasons) if reasons else "recomputed"
    return Inspected(
        who=each.who,
        place=each.place,
        job=job,
        finished=result.finished,
        how=how,
        measured=digest(
            [result.finished, result.cost.seconds, [point.loss for point in result.curve]]
        ),
        identity=digest([job.key, result.finished, named]),
        scores=tuple(scores),
        sheets=tuple(sheets),
    ), findings


def _odd_facts(result: Result) -> Iterator[str]:
    try:
        ended = datetime.fromisoformat(result.finished)
        is_late = ended.replace(tzinfo=ended.tzinfo or UTC) > datetime.now(UTC) + timedelta(days=1)
    except ValueError:
        is_late = True
    if is_late:
        yield (
            f"it ended at {result.finished!r:.40}, but expected a time in the past: write the "
            "archive with `bench share add`."
        )
    predicted = {f"{task}:{split}" for task, split in result.job.predicted_splits}
    names = [one.name for one in result.evaluations]
    if {*names} != predicted or len(names) != len(predicted):
        other = ", ".join(sorted(predicted ^ {*names}))[:80] or "one is repeated"
        yield (
            f"it does not have one set of predictions per split of its job ({other}): write the "
            "archive with `bench share add`."
        )


def _measured(one: Evaluation) -> Iterator[Measured]:
    task = find_task(one.task)
    for metric in task.metrics:
        name = metric.name + ending_of(task, one.split)
        if name in one.scores:
            yield Measured(
                task=one.task,
                split=one.split,
                fingerprint=one.fingerprint,
                name=name,
                value=one.scores[name],
                rows=max(1, len(one.predictions)),
                width=metric.bounds[1] - metric.bounds[0],
            )


def _split_faults(
    result: Result, one: Evaluation, rows: SplitRows | None
) -> Iterator[tuple[Kind, str]]:
    """Yield the faults of the predictions and scores for a split."""
    title, job, task = split_title(one.task, one.split), result.job, find_task(one.task)
    if one.split not in (*task.dev_splits, *task.test_splits):
        yield "rows", f"{one.task} has no split {one.split!r:.40}: share the run as it was stored."
        return
    if job.kind == "imported" or not one.predictions:
        words = (
            f"{title} has a score without predictions, which cannot be checked: share a run with "
            "predictions."
        )
        yield "prediction", words
        return
    digits = digits_of(result.provenance)
    for words in _odd_probabilities(job, one, predictions_of(one), digits):
        yield "probabilities", words
    if rows is not None and one.fingerprint != rows.fingerprint:
        words = (
            f"{title} does not have the public rows and labels (digest {one.fingerprint[:12]} "
            f"instead of {rows.fingerprint[:12]}): run the model on the public data."
        )
        yield "rows", words
    elif rows is not None:
        for words in _odd_scores(job, one, rows):
            yield "score", f"{title}: {words}. {_AGAIN}"


def _odd_scores(job: Job, one: Evaluation, rows: SplitRows) -> Iterator[str]:
    """Yield scores that do not follow from the predictions and the public labels."""
    predictions = predictions_of(one, rows.examples)
    again = evaluate_split(one.name, rows, predictions).scores
    # Scores by the metrics of a plugin cannot be computed again.
    known = {n: value for n, value in one.scores.items() if n in again or not job.plugins}
    usual = partial(usual_scores, find_task(one.task), predictions, rows.examples)
    for cause in unfounded(replace(one, scores=known), again, usual, is_same=False):
        yield cause.sentence
    if again and not one.scores:
        yield "its scores are missing"


_SUM = 2e-3
"""Largest difference between 1 and a sum of probabilities in half precision."""


def _odd_probabilities(
    job: Job, one: Evaluation, predictions: Sequence[Prediction], digits: int | None
) -> Iterator[str]:
    """Yield signs that probabilities were edited.

    The signs are infinite numbers, sums other than 1, answers that do not have the highest
    probability, and numbers with other decimals than the rest.
    """
    title = split_title(one.task, one.split)
    listed: list[Sequence[float]] = [list(getattr(p, "scores", ())) for p in predictions]
    every = [score for scores in listed for score in scores]
    if not all(math.isfinite(score) for score in every):
        yield f"{title} has probabilities that are not finite: share the run as it was stored."
        return
    if not every or find_task(one.task).kind not in ("class", "choice") or job.kind != "model":
        return
    step = 10.0**-digits if digits else 0.0
    sums = [
        p.id
        for p, scores in zip(predictions, listed, strict=True)
        if scores and abs(sum(scores) - 1) > _SUM + step * len(scores)
    ]
    mean = [sum(scores) for scores in listed if scores]
    # If most sums differ from 1, the scores are independent probabilities of several labels, or
    # likelihoods, and are not checked.
    if sums and len(sums) < len(mean) / 2:
        yield f"{title}: the probabilities of {_some(sums)} do not add up to 1. {_AGAIN}"
    odd = undecided(one, predictions)
    if odd and len(odd) < len(predictions) / 2:
        yield (
            f"{title}: the answers to {_some(odd)} are not the ones with the highest probability. "
            f"{_AGAIN}"
        )
    short = [
        p.id
        for p, scores in zip(predictions, listed, strict=True)
        if any(0 < s < 1 and round(s, _FEW) == s and s * 2**16 % 1 for s in scores)
    ]
    if digits is not None and (long := [s for s in every if round(s, digits) != s]):
        yield (
            f"{title}: {counted(len(long), 'number')} have more than the {digits} decimals to "
            f"which all probabilities were rounded. {_AGAIN}"
        )
    elif digits is None and short and len(short) < len(predictions) / 2:
        yield (
            f"{title}: the probabilities of {_some(short)} have at most {_FEW} decimals, unlike "
            f"the others. {_AGAIN}"
        )


_FEW = 4  # computed probabilities have more decimals, except fractions such as 0.5 and 0.625
_AGAIN = "Share the run as it was stored."


def _some(ids: Sequence[str]) -> str:
    shown = ", ".join(repr(each)[:24] for each in ids[:5]) + (", ..." if len(ids) > 5 else "")
    return f"{counted(len(ids), 'row')} ({shown})"
