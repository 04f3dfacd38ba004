"""Convert stored predictions to numbers: probabilities, confidences, and right answers.

The items that are judged depend on the kind of task:

* classes and options: the answer to each row, with the probabilities of all classes or options
* several labels: the decision on each label of each row
* answers in a passage, if some questions have none: the decision whether there is an answer
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchharness.errors import BenchError, DataError
from benchharness.extensions.calibration.measures import Array, Places, brier_scores
from benchharness.leaderboard.comparing import PredictedSplit, units_of
from benchharness.leaderboard.job import Job
from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.base import AnswerType
from benchharness.tasks.suites import split_title

ROUNDING = 1e-3
"""Largest accepted difference between 1 and the sum of a row's probabilities, which may have been
rounded in a file."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """Predictions of one run for a split, as arrays `[items]` or `[rows]`.

    An item is an answer or a decision that is judged (see the module's docstring).

    Attributes:
        chance: Probability of each item's gold answer.
        brier: Brier score of each item, from 0 to 2.
        confidence: Probability that the model gives to its own answer, for each item.
        right: 1 for each item whose answer is right, else 0.
        row_confidence: Confidence of each row, as in `bench predict --min-confidence`.
        row_right: 1 for each row whose answer is completely right, else 0.
    """

    chance: Array
    brier: Array
    confidence: Array
    right: Array
    row_confidence: Array
    row_right: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """Predictions of all seeds of a system for one split, as numbers.

    Attributes:
        units: Number of units: rows, or groups of rows that are scored together.
        unit: Index of the unit of each item, `[items]`.
        row_unit: Index of the unit of each row, `[rows]`.
        group: Gold class of each item, `[items]`, over which balanced scores are averaged; None for
            multiple choice, where items have no class.
        runs: Predictions of each run.
    """

    units: int
    unit: Places
    row_unit: Places
    group: Places | None
    runs: tuple[Run, ...]


def judge(predicted: PredictedSplit, jobs: Sequence[Job]) -> Judged:
    """Compute the probabilities, confidences and Brier scores of predictions for a split.

    Args:
        predicted: Examples of the split, and the predictions of each run.
        jobs: Jobs of the runs, in the same order.

    Raises:
        BenchError: The predictions have no probabilities, there are fewer than two units (rows, or
            groups of rows that are scored together), or all rows have the same gold answer.
        DataError: The probabilities of a row are not from 0 to 1, or do not sum to 1.
    """
    task, examples = predicted.task, predicted.examples
    kind, where = answer_type(task), split_title(task.name, predicted.split)
    read = _READERS.get(task.kind)
    if read is None or (task.kind == "span" and not getattr(task, "no_answer", False)):
        raise BenchError(
            f"predictions of {where} are stored without probabilities: calibration needs a task "
            "with classes, labels or options, or with questions that may have no answer."
        )
    units = units_of(examples)
    if len(units) < 2:
        raise BenchError(
            f"{where} has only one row, or one group of rows that are scored together: calibration "
            "needs at least two."
        )
    runs = []
    for predictions, job in zip(predicted.one, jobs, strict=True):
        if any(kind.confidence(prediction) is None for prediction in predictions):
            raise BenchError(_unknown(job, where))
        runs.append(read(kind, predictions, examples, job))
    golds = _GROUPS[task.kind](kind, examples)
    if golds is not None and len({*(golds % 2 if task.kind == "labels" else golds)}) == 1:
        raise BenchError(
            f"all rows of {where} have the same gold answer: calibration needs rows with at least "
            "two different ones."
        )
    row_unit = np.empty(len(examples), dtype=np.intp)
    for number, unit in enumerate(units):
        row_unit[list(unit)] = number
    return Judged(
        units=len(units),
        unit=np.repeat(row_unit, len(runs[0].right) // len(examples)),
        row_unit=row_unit,
        group=golds,
        runs=tuple(runs),
    )


def _unknown(job: Job, where: str) -> str:
    return (
        f"run {job.key[:12]} of {job.model} has predictions of {where} without probabilities: "
        "calibration needs the probability of every answer."
    )


def _check(sums: Array, least: Array, most: Array, ids: Sequence[str], job: Job) -> None:
    """Raise DataError if the probabilities of a row do not sum to 1, or are not from 0 to 1."""
    fits = (np.abs(sums - 1) <= ROUNDING) & (least >= -ROUNDING) & (most <= 1 + ROUNDING)
    if not fits.all():
        place = int(np.argmin(fits))
        what = f"sum to {sums[place]:.4g} instead of 1"
        if least[place] < -ROUNDING or most[place] > 1 + ROUNDING:
            what = f"are from {least[place]:.4g} to {most[place]:.4g} instead of from 0 to 1"
        raise DataError(
            f"the probabilities of row {ids[place]!r} in run {job.key[:12]} of {job.model} {what}: "
            "leave the run out (`bench db hide`), or import it again with probabilities."
        )


def _rows(kind: AnswerType, predictions: Sequence[Any], examples: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments `row_confidence` and `row_right` of `Run`."""
    pairs = zip(predictions, examples, strict=True)
    return {
        "row_confidence": np.array([kind.confidence(p) for p in predictions], dtype=np.float64),
        "row_right": np.array([kind.is_right(*pair) for pair in pairs], dtype=np.float64),
    }


def _ids(examples: Sequence[Any]) -> list[str]:
    return [example.id for example in examples]


def _classes(
    kind: AnswerType, predictions: Sequence[Any], examples: Sequence[Any], job: Job
) -> Run:
    chances = np.array([p.scores for p in predictions], dtype=np.float64)  # (rows, classes)
    _check(chances.sum(-1), chances.min(-1), chances.max(-1), _ids(examples), job)
    gold, rows = _gold_classes(kind, examples), _rows(kind, predictions, examples)
    return Run(
        chance=chances[np.arange(len(gold)), gold],
        brier=brier_scores(chances, gold),
        confidence=rows["row_confidence"],
        right=rows["row_right"],
        **rows,
    )


def _gold_classes(kind: AnswerType, examples: Sequence[Any]) -> Places:
    labels = {label: number for number, label in enumerate(kind.task.labels)}
    return np.array([labels[example.label] for example in examples], dtype=np.intp)


def _choices(
    kind: AnswerType, predictions: Sequence[Any], examples: Sequence[Any], job: Job
) -> Run:
    """Convert predictions of options; several right options (ReCoRD) count as one class."""
    if any(len(p.scores) != len(e.options) for p, e in zip(predictions, examples, strict=True)):
        raise BenchError(_unknown(job, kind.task.title))
    every = [np.array(p.scores, dtype=np.float64) for p in predictions]  # (options,) per row
    sums, least, most = (np.array([f(row) for row in every]) for f in (np.sum, np.min, np.max))
    _check(sums, least, most, _ids(examples), job)
    found = [
        _of_options(row, example.gold or ()) for row, example in zip(every, examples, strict=True)
    ]
    rows = _rows(kind, predictions, examples)
    return Run(
        chance=np.array([chance for chance, _ in found]),
        brier=np.array([brier for _, brier in found]),
        confidence=rows["row_confidence"],
        right=rows["row_right"],
        **rows,
    )


def _of_options(chances: Array, gold: Sequence[int]) -> tuple[float, float]:
    """Return the sum of the right options' probabilities, and the Brier score of a row."""
    is_gold = np.zeros(len(chances), dtype=bool)
    is_gold[list(gold)] = True
    chance = float(chances[is_gold].sum())
    return chance, (1 - chance) ** 2 + float((chances[~is_gold] ** 2).sum())


def _labels(kind: AnswerType, predictions: Sequence[Any], examples: Sequence[Any], job: Job) -> Run:
    chances = np.array([p.scores for p in predictions], dtype=np.float64)  # (rows, labels)
    _check(np.ones(len(chances)), chances.min(-1), chances.max(-1), _ids(examples), job)
    gold, guess = _has_labels(kind, examples), _has_labels(kind, predictions)
    own = np.where(gold, chances, 1 - chances)
    return Run(
        chance=own.ravel(),
        brier=(2 * (1 - own) ** 2).ravel(),
        confidence=np.where(guess, chances, 1 - chances).ravel(),
        right=(gold == guess).astype(np.float64).ravel(),
        **_rows(kind, predictions, examples),
    )


def _has_labels(kind: AnswerType, found: Sequence[Any]) -> Any:
    """Return booleans `[rows, labels]`: True for each label of an example or a prediction."""
    return np.array([[label in each.label for label in kind.task.labels] for each in found])


def _answerable(
    kind: AnswerType, predictions: Sequence[Any], examples: Sequence[Any], job: Job
) -> Run:
    """Convert the decisions whether questions have an answer."""
    if job.kind not in ("model", "ensemble"):
        raise BenchError(
            f"the no-answer scores of run {job.key[:12]} of {job.model} are not differences of "
            "logits: only runs of models that were trained here have probabilities of no answer."
        )
    rows = _rows(kind, predictions, examples)
    confidence = rows["row_confidence"]
    has_answer = np.array([bool(example.answers) for example in examples])
    right = np.array([p.abstains for p in predictions]) != has_answer
    own = np.where(right, confidence, 1 - confidence)
    return Run(
        chance=own,
        brier=2 * (1 - own) ** 2,
        confidence=confidence,
        right=right.astype(np.float64),
        **rows,
    )


Read = Callable[[AnswerType, Sequence[Any], Sequence[Any], Job], Run]

_READERS: Mapping[str, Read] = {
    "class": _classes,
    "choice": _choices,
    "labels": _labels,
    "span": _answerable,
}
"""Functions that convert the predictions of a run to numbers, keyed by the kind of task."""


def _label_groups(kind: AnswerType, examples: Sequence[Any]) -> Places:
    """Return the group of each row and label: 2n for rows without label n, 2n + 1 with it."""
    gold = _has_labels(kind, examples)
    groups: Places = (2 * np.arange(gold.shape[1]) + gold).ravel()
    return groups


_GROUPS: Mapping[str, Callable[[AnswerType, Sequence[Any]], Places | None]] = {
    "class": _gold_classes,
    "choice": lambda _kind, _examples: None,
    "labels": _label_groups,
    "span": lambda _kind, examples: np.array([int(bool(e.answers)) for e in examples]),
}
"""Functions that return the gold class of each item, keyed by the kind of task."""
