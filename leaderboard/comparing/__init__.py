"""Decomposition of scores into numbers per example, so that scores can be resampled.

A "unit" is an example, or a group of examples that is scored together; a bootstrap draws units. The
"parts" of a unit are a vector of numbers, e.g. the counts for F1. A score is a function of the sum,
or of the mean, of the parts over all units.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its submodules are loaded on first use

from benchharness.discovery import member, places
from benchharness.errors import BenchError
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.metrics.entities import (
    Find,
    are_entity_tags,
    arguments,
    entities,
)
from benchharness.tasks.task import Metric, Task, suffix_of

Array = npt.NDArray[np.float64]

Units = Sequence[Sequence[int]]
"""Indices of the examples in each unit (an example, or a group that is scored together)."""

CLOSE = 1e-9
"""Maximum difference between a score that is computed from parts and the metric's own value."""


@dataclass(frozen=True, kw_only=True)
class PredictedSplit:
    """Examples of a split with the predictions of one or two systems.

    Attributes:
        task: Task of the split.
        split: Name of the split.
        examples: Examples of the split.
        one: Predictions of the first system: for each seed, one prediction per example.
        other: Predictions of the second system in the same form; empty if there is only one system.
    """

    task: Task
    split: str
    examples: tuple[Example, ...]
    one: tuple[tuple[Prediction, ...], ...]
    other: tuple[tuple[Prediction, ...], ...] = ()


def first_part(means: Array) -> Array:
    """Return the first element along the last axis of `means`, an array `[..., parts]`.

    For a score that is a mean over examples, such as accuracy, this element is the score.
    """
    first: Array = means[..., 0]
    return first


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """Predictions of a system as numbers from which its score can be computed and resampled.

    A score need not be a mean over examples: F1, for example, is computed from the mean counts of
    right, predicted and gold labels, and a correlation from moments.

    Attributes:
        parts: Numbers to average, as an array `[units, seeds, parts]`. A unit is an example, or a
            group of examples that is scored together. The last axis contains the numbers that the
            score needs, e.g. three counts for F1.
        score: Function that maps means over units, `[..., parts]`, to scores, `[...]`.
        is_ratio: True if the score is the mean of the first part divided by that of the second, and
            the metric is declared as a mean over examples.
    """

    parts: Array
    score: Callable[[Array], Array] = first_part
    is_ratio: bool = False

    @property
    def scores(self) -> Array:
        """Score of each seed, as an array `[seeds]`."""
        return self.score(self.parts.mean(axis=0))

    @property
    def is_share(self) -> bool:
        """True if the score is the share of units that are right, e.g. an accuracy."""
        has_weights = self.is_ratio and bool((self.parts[..., 1] == 1).all())
        is_mean = has_weights or self.score is first_part
        return is_mean and bool(np.isin(self.parts[..., 0], (0.0, 1.0)).all())


Known = Outcomes | str
"""Outcomes of a system, or the reason why they could not be computed from stored predictions."""


class Pairs(NamedTuple):
    """Outcomes of two systems for the same examples and seeds, for a paired comparison.

    Attributes:
        one: Outcomes of the first system.
        other: Outcomes of the second system.
    """

    one: Outcomes
    other: Outcomes

    @property
    def difference(self) -> float:
        """Score of the system `one` minus the score of `other`, averaged over seeds."""
        return float((self.one.scores - self.other.scores).mean())


@dataclass(frozen=True, kw_only=True)
class Headline:
    """Outcomes of two systems for the score that leaderboards show for a task.

    Attributes:
        pairs: Outcomes of both systems for the same units and seeds.
        units: Indices of the examples in each unit (an example, or a group that is scored
            together). Examples are numbered consecutively over all splits of the task.
        is_accuracy: True if the score is the share of right examples in a single split.
    """

    pairs: Pairs
    units: Units
    is_accuracy: bool


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """Decomposition of a metric: numbers per unit, and a function of their sums.

    The function returns the value of the metric. A unit is an example, or a group of examples that
    is scored together.

    Attributes:
        parts: Function of (predictions, examples, units) that returns the numbers of each unit, as
            an array `[units, parts]`.
        score: Function that maps the sums or means of these numbers over units, `[..., parts]`, to
            scores, `[...]`.
        is_mean: True if the score is the mean of one value per example.
        is_declared: True if the metric itself states this (`Metric.is_mean`). A breakdown that only
            reproduces the values of a metric may do so by chance: Cohen's kappa equals the accuracy
            if all answers are right.
    """

    parts: Callable[[Sequence[Any], Sequence[Any], Units], Array]
    score: Callable[[Array], Array]
    is_mean: bool = False
    is_declared: bool = False


# Decomposition of the score that leaderboards show for a task, which may be over several splits.


def headline_pairs(splits: Sequence[PredictedSplit], names: Sequence[str]) -> Headline | None:
    """Decompose the score of two systems into numbers per unit (see `Outcomes`).

    Args:
        splits: Splits of one task with the predictions of both systems.
        names: Names of the scores whose mean is the task's score. The name of a score on a second
            split ends with the split's suffix, e.g. MNLI's "accuracy_mm".

    Returns:
        The outcomes of both systems, or None if one of the scores cannot be decomposed.
    """
    if (known := _known(splits, names)) is None:
        return None
    one, other = _outcomes(splits, known, ("one", "other"))
    # The right answers can be compared example by example only if the score is an accuracy: a
    # single score on one split, which is a mean of ones and zeros, without groups of examples.
    is_binary = all(np.isin(side.parts[..., 0], (0.0, 1.0)).all() for side in (one, other))
    alone = len(known) == len(splits) == 1 and known[0][1].is_mean
    # Number the examples consecutively over all splits.
    units: list[list[int]] = []
    start = 0
    for split in splits:
        units += [[start + place for place in unit] for unit in units_of(split.examples)]
        start += len(split.examples)
    return Headline(
        pairs=Pairs(one, other),
        units=units,
        is_accuracy=alone and is_binary and all(len(unit) == 1 for unit in units),
    )


def headline_outcomes(splits: Sequence[PredictedSplit], names: Sequence[str]) -> Outcomes | None:
    """Decompose the score of a single system into numbers per unit (see `Outcomes`).

    Args:
        splits: Splits of one task; the system is `PredictedSplit.one`.
        names: Names of the scores whose mean is the task's score.

    Returns:
        The outcomes of the system, or None if one of the scores cannot be decomposed.
    """
    known = _known(splits, names)
    return None if known is None else _outcomes(splits, known, ("one",))[0]


def _known(
    splits: Sequence[PredictedSplit], names: Sequence[str]
) -> list[tuple[PredictedSplit, Breakdown]] | None:
    """Return the split and the breakdown for each score; None if one cannot be decomposed."""
    known = []
    for name in names:
        for split in splits:
            # "accuracy_mm" is the accuracy on the split whose name ends with "_mm".
            ending, every = suffix_of(split.split), split.task.every_metric
            metric = next((m for m in every if m.name + ending == name), None)
            if metric is not None:
                runs = (*split.one, *split.other)
                way = break_down(split.task, metric, runs, split.examples)
                known.append((split, way and replace(way, is_declared=metric.is_mean)))
                break
    found = [(split, way) for split, way in known if way is not None]
    return found if len(found) == len(names) else None


def _outcomes(
    splits: Sequence[PredictedSplit],
    known: Sequence[tuple[PredictedSplit, Breakdown]],
    sides: Sequence[str],
) -> list[Outcomes]:
    """Return the outcomes of each system in `sides` ("one", "other"), over all splits and scores.

    Their parts are `[units of all splits, seeds, parts of all scores]`.
    """
    tables = [[_placed(splits, split, way, side) for split, way in known] for side in sides]
    # Indices at which the parts of one score end and those of the next score begin. The function
    # `score` splits the means there.
    ends = np.cumsum([table.shape[-1] for table in tables[0]])

    def score(means: Array) -> Array:
        pieces = np.split(means, ends[:-1], axis=-1)
        scores = [way.score(piece) for (_, way), piece in zip(known, pieces, strict=True)]
        mean: Array = np.mean(scores, axis=0)
        return mean

    alone = known[0][1] if len(known) == len(splits) == 1 else None
    is_ratio = alone is not None and alone.score is ratio and alone.is_declared
    return [
        Outcomes(parts=np.concatenate(each, axis=-1), score=score, is_ratio=is_ratio)
        for each in tables
    ]


def _placed(
    splits: Sequence[PredictedSplit], own: PredictedSplit, way: Breakdown, side: str
) -> Array:
    """Return a system's parts on the split `own` as an array `[units of all splits, seeds, parts]`.

    The parts of units in other splits are zeros. `side` is "one" or "other".
    """
    runs: Sequence[Sequence[Any]] = getattr(own, side)
    units = units_of(own.examples)
    parts = np.stack([way.parts(run, own.examples, units) for run in runs], axis=1)
    # Because of these zeros, means over the units of all splits are too small by a constant factor.
    # The factor cancels out, because scores are ratios of means.
    empty = [np.zeros((len(units_of(s.examples)), *parts.shape[1:])) for s in splits]
    return np.concatenate([parts if s is own else e for s, e in zip(splits, empty, strict=True)])


def break_down(
    task: Task, metric: Metric[Any, Any], runs: Sequence[Sequence[Any]], examples: Sequence[Any]
) -> Breakdown | None:
    """Return a breakdown of a metric, or None if none reproduces its value for all runs.

    Values are compared instead of names, so that a breakdown is also found for a plugin's metric
    that is a mean over examples.

    Args:
        task: Task of the predictions.
        metric: Metric to decompose.
        runs: Predictions of each run, one per example.
        examples: Examples that were predicted.
    """
    units, values = units_of(examples), [metric.compute(run, examples) for run in runs]

    def fits(way: Breakdown) -> bool:
        scores = (way.score(way.parts(run, examples, units).sum(axis=0)) for run in runs)
        pairs = zip(scores, values, strict=True)
        return all(value is not None and abs(score - value) < CLOSE for score, value in pairs)

    return next((way for way in _ways(task, metric) if fits(way)), None)


def _ways(task: Task, metric: Metric[Any, Any]) -> Iterator[Breakdown]:
    """Yield candidate breakdowns of a metric: first ratios of sums, then means over examples.

    The order matters, because with few examples a mean may equal the metric by chance.
    """
    added = places("breakdowns")
    if task.kind in added:
        yield from member(f"the breakdowns of {task.kind}", added[task.kind])(task, metric.name)
    elif ratios := _RATIOS.get(task.kind):
        yield from ratios(task, metric.name)
    if task.kind in ("class", "labels"):
        yield Breakdown(parts=_right_labels, score=ratio, is_mean=True)
    # Try the next two breakdowns only for fast metrics, because they compute the metric once per
    # example or group.
    if metric.is_slow:
        return
    yield Breakdown(parts=partial(_points, metric=metric), score=ratio, is_mean=True)
    yield Breakdown(parts=partial(_group_points, metric=metric), score=ratio)


NO_LABEL = ""
"""Additional label for examples that have no label. LexGLUE's F1 includes this label."""

MOST_CELLS = 40
"""Maximum number of labels for which a confusion matrix is used, because the size of the matrix is
the square of the number of labels.
"""


# Breakdowns of metrics that are ratios of sums over all examples.


def _of_numbers(*_: Any) -> Iterator[Breakdown]:
    yield Breakdown(parts=partial(_moments, ranked=False), score=correlation)
    yield Breakdown(parts=partial(_moments, ranked=True), score=correlation)


def _of_label_sets(task: Any, *_: str) -> Iterator[Breakdown]:
    for labels in (task.labels, (*task.labels, NO_LABEL)):
        counts = partial(_label_counts, labels=labels)
        yield Breakdown(parts=counts, score=f1_of_all_labels)
        yield Breakdown(parts=counts, score=f1_of_each_label)


def _of_classes(task: Any, metric: str) -> Iterator[Breakdown]:
    if len(task.labels) > MOST_CELLS:
        yield from _of_label_sets(task)
        return
    cells = partial(_confusion, labels=task.labels)
    if metric == "mcc":
        yield Breakdown(parts=cells, score=matthews)
    elif metric.startswith("f1"):
        # The metric's name does not contain the class, so try each class.
        for label in range(len(task.labels)):
            yield Breakdown(parts=cells, score=partial(f1_of_label, label=label))
        yield Breakdown(parts=cells, score=macro_f1)


def _of_entities(task: Any, metric: str) -> Iterator[Breakdown]:
    if metric == "f1" and are_entity_tags(task.tags):
        find = arguments if task.kind == "role" else entities
        yield Breakdown(parts=partial(_found_counts, find=find), score=f1_of_counts)


_RATIOS: Mapping[str, Callable[[Any, str], Iterator[Breakdown]]] = {
    "number": _of_numbers,
    "labels": _of_label_sets,
    "class": _of_classes,
    "tag": _of_entities,
    "role": _of_entities,
}
"""Functions that yield candidate breakdowns, keyed by the kind of task."""


def _right_labels(predictions: Sequence[Any], examples: Sequence[Any], units: Units) -> Array:
    """Return the parts (1 if right else 0, 1) of accuracy; it is much faster than `_points`."""
    pairs = zip(predictions, examples, strict=True)
    return summed([(float(guess.label == gold.label), 1.0) for guess, gold in pairs], units)


def _points(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, metric: Metric[Any, Any]
) -> Array:
    """Return the parts (value, weight), where a value is the metric of a single example.

    An example that the metric skips (QuAC's questions without agreement) has weight 0. The values
    are NaN if the metric cannot be computed for single examples.
    """
    values: list[float | None]
    try:
        pairs = zip(predictions, examples, strict=True)
        values = [metric.compute([guess], [example]) for guess, example in pairs]
    except BenchError:
        # NaN never equals the metric's value, so this breakdown is not chosen.
        values = [float("nan")] * len(examples)
    return summed([(value or 0.0, float(value is not None)) for value in values], units)


def _group_points(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, metric: Metric[Any, Any]
) -> Array:
    def value(unit: Sequence[int]) -> float:
        guesses, golds = [predictions[i] for i in unit], [examples[i] for i in unit]
        return metric.compute(guesses, golds) or 0.0

    return np.array([(value(unit), 1.0) for unit in units])


def _confusion(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, labels: Sequence[str]
) -> Array:
    place = {label: number for number, label in enumerate(labels)}
    gold = np.array([place[str(e.label)] for e in examples])
    guess = np.array([place[str(p.label)] for p in predictions])
    # Each example has a 1 in the cell for its pair of labels, whose index is gold * labels + guess.
    return summed(np.eye(len(labels) ** 2)[gold * len(labels) + guess], units)


def _label_counts(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, labels: Sequence[str]
) -> Array:
    """Return the counts (right, predicted, gold) for each label, flattened."""
    place = {label: number for number, label in enumerate(labels)}
    table = np.zeros((len(examples), len(labels), 3))
    for row, prediction, example in zip(table, predictions, examples, strict=True):
        found_sets = (_label_set(each.label) for each in (prediction, example))
        guessed, gold = (found or {NO_LABEL} & place.keys() for found in found_sets)
        for part, found in enumerate((guessed & gold, guessed, gold)):
            row[[place[label] for label in found], part] = 1
    return summed(table.reshape(len(examples), -1), units)


def _label_set(found: Any) -> set[str]:
    return set(found) if isinstance(found, tuple) else {found}


def _moments(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, ranked: bool
) -> Array:
    """Return the parts (1, x, y, xy, xx, yy) for predicted and gold numbers, or their ranks.

    Ranks are computed once among all examples, and are not recomputed for resamples.
    """
    x = np.array([float(p.label) for p in predictions])
    y = np.array([float(e.label) for e in examples])
    if ranked:
        x, y = scipy.stats.rankdata(x), scipy.stats.rankdata(y)
    # Subtract the mean of the gold numbers, which is the same for both systems, because moments of
    # large numbers lose precision.
    x, y = x - y.mean(), y - y.mean()
    return summed(np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=1), units)


def _found_counts(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, find: Find
) -> Array:
    rows = []
    for prediction, example in zip(predictions, examples, strict=True):
        guessed, gold = set(find(prediction.tags)), set(find(example.tags))
        rows.append((len(guessed & gold), len(guessed), len(gold)))
    return summed(rows, units)


def summed(rows: Any, units: Units) -> Array:
    """Sum the numbers of the examples in each unit.

    Args:
        rows: Numbers of each example, as an array `[examples, parts]`.
        units: Indices of the examples in each unit (see `units_of`).

    Returns:
        Sums, as an array `[units, parts]`.
    """
    table = np.asarray(rows, dtype=np.float64)
    if len(units) == len(table):
        return table
    return np.stack([table[list(unit)].sum(axis=0) for unit in units])


def units_of(examples: Sequence[Example]) -> Units:
    """Return the indices of the examples in each unit of a split.

    A unit is a group of examples that are scored together, or a single example. Examples are scored
    together if they belong to the same question in MultiRC, minimal pair in AX-g, or dialog in
    QuAC. RACE's levels are not units, because their questions are scored one by one.
    """
    found: dict[object, list[int]] = {}
    for place, example in enumerate(examples):
        found.setdefault(example.unit or place, []).append(place)
    return list(found.values())


# Computation of scores from the means of their parts, for any number of resamples at once.
#
# Each of these functions maps means over units, an array `[..., parts]`, to scores `[...]`. All
# scores are ratios, so sums can be used instead of means.


def ratio(means: Array) -> Array:
    """Return a weighted mean over examples.

    The last axis of `means` contains two means over units: of value times weight, and of the
    weight.
    """
    return divided(means[..., 0], means[..., 1])


def f1_of_counts(means: Array) -> Array:
    """Return F1 from the counts (right, predicted, gold) in the last axis of `means`."""
    return divided(2 * means[..., 0], means[..., 1] + means[..., 2])


def f1_of_all_labels(means: Array) -> Array:
    """Return micro-averaged F1 over labels.

    The last axis of `means` contains the counts (right, predicted, gold) of one label after the
    other.
    """
    return f1_of_counts(_by_label(means).sum(-2))


def f1_of_each_label(means: Array) -> Array:
    """Return macro-averaged F1 over labels.

    The last axis of `means` contains the counts (right, predicted, gold) of one label after the
    other.
    """
    mean: Array = f1_of_counts(_by_label(means)).mean(-1)
    return mean


def _by_label(means: Array) -> Array:
    return means.reshape(*means.shape[:-1], -1, 3)


def f1_of_label(means: Array, label: int) -> Array:
    """Return the F1 of one class from a confusion matrix.

    Args:
        means: Confusion matrix `[gold, predicted]`, flattened to the last axis.
        label: Index of the class.
    """
    # F1 is 2 TP / (gold + predicted). Rows of the matrix are gold, columns are predicted.
    matrix = _matrix(means)
    right = matrix[..., label, label]
    return divided(2 * right, matrix[..., label, :].sum(-1) + matrix[..., :, label].sum(-1))


def macro_f1(means: Array) -> Array:
    """Return macro-averaged F1 over classes from a confusion matrix.

    The matrix `[gold, predicted]` is flattened to the last axis of `means`.
    """
    count = _matrix(means).shape[-1]
    mean: Array = np.mean([f1_of_label(means, label) for label in range(count)], axis=0)
    return mean


def matthews(means: Array) -> Array:
    """Return Matthews correlation from a confusion matrix with any number of classes.

    The matrix `[gold, predicted]` is flattened to the last axis of `means`. The correlation is 0
    for constant predictions. See Gorodkin, Comparing two K-category assignments by a K-category
    correlation coefficient, Computational Biology and Chemistry 2004.
    """
    matrix = _matrix(means)
    gold, guess, total = matrix.sum(-1), matrix.sum(-2), matrix.sum((-1, -2))
    # The formula is (c s - t p) / sqrt((s^2 - p p) (s^2 - t t)), where c is the number of right
    # examples, s is the number of all examples, and the vectors t and p are the gold and predicted
    # counts per class. For constant predictions, a factor may be slightly below 0 due to rounding.
    shared = np.trace(matrix, axis1=-2, axis2=-1) * total - (gold * guess).sum(-1)
    spreads = (total**2 - (guess**2).sum(-1)) * (total**2 - (gold**2).sum(-1))
    return divided(shared, np.sqrt(np.clip(spreads, 0, None)))


def correlation(means: Array) -> Array:
    """Return Pearson's correlation from the means of (1, x, y, xy, xx, yy) in the last axis."""
    one, x, y, xy, xx, yy = (means[..., part] for part in range(6))
    # The formula is (n Sxy - Sx Sy) / sqrt((n Sxx - Sx^2) (n Syy - Sy^2)).
    spreads = (one * xx - x**2) * (one * yy - y**2)
    return divided(one * xy - x * y, np.sqrt(np.clip(spreads, 0, None)))


def _matrix(means: Array) -> Array:
    size = round(means.shape[-1] ** 0.5)
    return means.reshape(*means.shape[:-1], size, size)


def divided(above: Array, below: Array) -> Array:
    """Return `above / below` for each element, or 0 where `below` is almost 0."""
    # The inner `where` replaces small denominators by 1, so that NumPy does not warn about a
    # division by 0. The outer `where` discards these quotients.
    empty = below < 1e-12
    quotient: Array = np.where(empty, 0.0, above / np.where(empty, 1.0, below))
    return quotient
