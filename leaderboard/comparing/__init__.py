"""Scores taken apart: what each unit of a split adds, and the score of the sums."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded on first use

from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.metrics.entities import (
    MEASURES,
    Find,
    are_entity_tags,
    arguments,
    entities,
)
from benchharness.tasks.task import Metric, Task, suffix_of

Array = npt.NDArray[np.float64]

Units = Sequence[Sequence[int]]
"""The places of each unit's examples."""

CLOSE = 1e-9
"""How near the score of the parts must come to the metric's own value."""


@dataclass(frozen=True, kw_only=True)
class PredictedSplit:
    """The examples of a split, and the predictions of two systems: a tuple for each seed.

    `other` is empty where one system stands alone.
    """

    task: Task
    split: str
    examples: tuple[Example, ...]
    one: tuple[tuple[Prediction, ...], ...]
    other: tuple[tuple[Prediction, ...], ...] = ()


def first_part(means: Array) -> Array:
    """The score that is a mean over examples: accuracy, exact match."""
    first: Array = means[..., 0]
    return first


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """A system's parts of a score, [units, seeds, parts]; `score` makes a score of their means.

    A unit is what a benchmark draws: an example, or a group that is scored together. `score` takes
    [..., parts] to [...]; so a score that is no mean of its examples can be resampled too: F1 of
    the counts (right, predicted, gold), correlations of the moments.
    """

    parts: Array
    score: Callable[[Array], Array] = first_part

    @property
    def scores(self) -> Array:
        """The score of each seed."""
        return self.score(self.parts.mean(axis=0))


Known = Outcomes | str
"""What a cell's stored predictions are worth, seed by seed, or why they cannot be had."""


class Pairs(NamedTuple):
    """Two systems' outcomes for the same units; seed by seed both are paired."""

    one: Outcomes
    other: Outcomes

    @property
    def difference(self) -> float:
        """The one's score less the other's, the mean over seeds."""
        return float((self.one.scores - self.other.scores).mean())


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The pairs of a task's score; `units` are the examples of each, split after split.

    `is_accuracy` where the score is the share of examples that are right, of one split.
    """

    pairs: Pairs
    units: Units
    is_accuracy: bool


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """A way to take a score apart.

    `parts(predictions, examples, units)` is [units, parts], and `score` makes the score of their
    sums or means, [..., parts] to [...]. `is_mean` where each example has points of its own.
    """

    parts: Callable[[Sequence[Any], Sequence[Any], Units], Array]
    score: Callable[[Array], Array]
    is_mean: bool = False


# A task's headline score on its splits, as parts that can be resampled.


def headline_pairs(splits: Sequence[PredictedSplit], names: Sequence[str]) -> Headline | None:
    """The headline score, the mean of the scores of these names; None where one has no parts.

    A name of a second split ends with what the split's name does: MNLI's "accuracy_mm".
    """
    if (known := _known(splits, names)) is None:
        return None
    one, other = _outcomes(splits, known, ("one", "other"))
    # An accuracy is one score of one split, a mean of ones and zeros, and no example is scored in
    # a group: only then can right answers be counted and compared one by one.
    is_binary = all(np.isin(side.parts[..., 0], (0.0, 1.0)).all() for side in (one, other))
    alone = len(known) == len(splits) == 1 and known[0][1].is_mean
    # The units of all splits, whose examples are counted on from split to split.
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
    """The same of one system alone, whose predictions are `one`."""
    known = _known(splits, names)
    return None if known is None else _outcomes(splits, known, ("one",))[0]


def _known(
    splits: Sequence[PredictedSplit], names: Sequence[str]
) -> list[tuple[PredictedSplit, Breakdown]] | None:
    """Each score's split, and how it is taken apart."""
    known = []
    for name in names:
        for split in splits:
            # "accuracy_mm" is the accuracy of the split whose name ends with "_mm".
            every = (*split.task.metrics, *split.task.details)
            metric = next((m for m in every if m.name + suffix_of(split.split) == name), None)
            if metric is not None:
                runs = (*split.one, *split.other)
                known.append((split, break_down(split.task, metric, runs, split.examples)))
                break
    found = [(split, way) for split, way in known if way is not None]
    return found if len(found) == len(names) else None


def _outcomes(
    splits: Sequence[PredictedSplit],
    known: Sequence[tuple[PredictedSplit, Breakdown]],
    sides: Sequence[str],
) -> list[Outcomes]:
    """Each side's [units of all splits, seeds, parts of all scores], with the scores' mean."""
    tables = [[_placed(splits, split, way, side) for split, way in known] for side in sides]
    # Where the parts of each score end, so that `score` can cut the means apart again.
    ends = np.cumsum([table.shape[-1] for table in tables[0]])

    def score(means: Array) -> Array:
        pieces = np.split(means, ends[:-1], axis=-1)
        scores = [way.score(piece) for (_, way), piece in zip(known, pieces, strict=True)]
        mean: Array = np.mean(scores, axis=0)
        return mean

    return [Outcomes(parts=np.concatenate(each, axis=-1), score=score) for each in tables]


def _placed(
    splits: Sequence[PredictedSplit], own: PredictedSplit, way: Breakdown, side: str
) -> Array:
    """[units of all splits, seeds, parts], 0 at the units of other splits."""
    runs: Sequence[Sequence[Any]] = getattr(own, side)
    units = units_of(own.examples)
    parts = np.stack([way.parts(run, own.examples, units) for run in runs], axis=1)
    # The means are over the units of all splits, which makes those of one split too small by one
    # factor. The scores are ratios of them, in which it cancels out.
    empty = [np.zeros((len(units_of(s.examples)), *parts.shape[1:])) for s in splits]
    return np.concatenate([parts if s is own else e for s, e in zip(splits, empty, strict=True)])


def break_down(
    task: Task, metric: Metric[Any, Any], runs: Sequence[Sequence[Any]], examples: Sequence[Any]
) -> Breakdown | None:
    """The breakdown that gives the metric's own value for each of the runs; None where none does.

    It is looked for by what it gives and not by the metric's name, so that a plugin's metric is
    taken apart too where it is a mean over examples.
    """
    units, values = units_of(examples), [metric.compute(run, examples) for run in runs]

    def fits(way: Breakdown) -> bool:
        scores = (way.score(way.parts(run, examples, units).sum(axis=0)) for run in runs)
        pairs = zip(scores, values, strict=True)
        return all(value is not None and abs(score - value) < CLOSE for score, value in pairs)

    return next((way for way in _ways(task, metric) if fits(way)), None)


def _ways(task: Task, metric: Metric[Any, Any]) -> Iterator[Breakdown]:
    """Those that are no mean of examples first: a mean of a few examples may agree by chance."""
    if ratios := _RATIOS.get(task.kind):
        yield from ratios(task, metric.name)
    if task.kind in ("class", "labels"):
        yield Breakdown(parts=_right_labels, score=ratio, is_mean=True)
    # What follows computes the metric once for every example or group.
    if metric.is_slow:
        return
    yield Breakdown(parts=partial(_points, metric=metric), score=ratio, is_mean=True)
    yield Breakdown(parts=partial(_group_points, metric=metric), score=ratio)


NO_LABEL = ""
"""What an example without any label has where that counts as one more (LexGLUE)."""

MOST_CELLS = 40
"""Labels of which a confusion matrix is still small: it has their number's square of cells."""


# Those whose parts are counted over all examples before they are divided.


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
        # The name does not say of which class it is: each is tried.
        for label in range(len(task.labels)):
            yield Breakdown(parts=cells, score=partial(f1_of_label, label=label))
        yield Breakdown(parts=cells, score=macro_f1)


def _of_entities(task: Any, metric: str) -> Iterator[Breakdown]:
    if metric == "f1" and are_entity_tags(task.tags):
        find = arguments if task.kind == "role" else entities
        yield Breakdown(parts=partial(_found_counts, find=find), score=f1_of_counts)


def _of_clusters(_: Any, metric: str) -> Iterator[Breakdown]:
    if metric == "f1":
        yield Breakdown(parts=_cluster_sums, score=mean_f1_of_sums)


_RATIOS: Mapping[str, Callable[[Any, str], Iterator[Breakdown]]] = {
    "number": _of_numbers,
    "labels": _of_label_sets,
    "class": _of_classes,
    "tag": _of_entities,
    "role": _of_entities,
    "coref": _of_clusters,
}
"""By the kind of a task."""


def _right_labels(predictions: Sequence[Any], examples: Sequence[Any], units: Units) -> Array:
    """Accuracy: what the next one gives too, in a twentieth of its time."""
    pairs = zip(predictions, examples, strict=True)
    return _summed([(float(guess.label == gold.label), 1.0) for guess, gold in pairs], units)


def _points(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, metric: Metric[Any, Any]
) -> Array:
    """Each example's own value; a metric that asks for whole groups has none.

    What a metric leaves out (QuAC's questions without agreement) weighs nothing.
    """
    values: list[float | None]
    try:
        pairs = zip(predictions, examples, strict=True)
        values = [metric.compute([guess], [example]) for guess, example in pairs]
    except BenchError:
        # No score is near NaN, so this way never fits.
        values = [float("nan")] * len(examples)
    return _summed([(value or 0.0, float(value is not None)) for value in values], units)


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
    # One cell for each pair of labels, gold * labels + guess, with a 1 for each example.
    return _summed(np.eye(len(labels) ** 2)[gold * len(labels) + guess], units)


def _label_counts(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, labels: Sequence[str]
) -> Array:
    """Of each label (right, predicted, gold), laid flat."""
    place = {label: number for number, label in enumerate(labels)}
    table = np.zeros((len(examples), len(labels), 3))
    for row, prediction, example in zip(table, predictions, examples, strict=True):
        found_sets = (_label_set(each.label) for each in (prediction, example))
        guessed, gold = (found or {NO_LABEL} & place.keys() for found in found_sets)
        for part, found in enumerate((guessed & gold, guessed, gold)):
            row[[place[label] for label in found], part] = 1
    return _summed(table.reshape(len(examples), -1), units)


def _label_set(found: Any) -> set[str]:
    return set(found) if isinstance(found, tuple) else {found}


def _moments(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, ranked: bool
) -> Array:
    """Of the numbers, or of their ranks, which are those among all examples in every resample."""
    x = np.array([float(p.label) for p in predictions])
    y = np.array([float(e.label) for e in examples])
    if ranked:
        x, y = scipy.stats.rankdata(x), scipy.stats.rankdata(y)
    # Around one number for both systems, because moments of large numbers lose their last digits.
    x, y = x - y.mean(), y - y.mean()
    return _summed(np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=1), units)


def _found_counts(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, find: Find
) -> Array:
    rows = []
    for prediction, example in zip(predictions, examples, strict=True):
        guessed, gold = set(find(prediction.tags)), set(find(example.tags))
        rows.append((len(guessed & gold), len(guessed), len(gold)))
    return _summed(rows, units)


def _cluster_sums(predictions: Sequence[Any], examples: Sequence[Any], units: Units) -> Array:
    """Of each document the numerators and denominators of every measure, side by side."""
    pairs = zip(predictions, examples, strict=True)
    return _summed(
        [
            [number for m in MEASURES.values() for number in m(e.clusters, p.clusters)]
            for p, e in pairs
        ],
        units,
    )


def _summed(rows: Any, units: Units) -> Array:
    """[examples, parts] to [units, parts]."""
    table = np.asarray(rows, dtype=np.float64)
    if len(units) == len(table):
        return table
    return np.stack([table[list(unit)].sum(axis=0) for unit in units])


def units_of(examples: Sequence[Example]) -> Units:
    """The units of a split: what is scored together, else single examples.

    MultiRC's questions, AX-g's minimal pairs and QuAC's dialogs are scored together. A choice's
    group is a slice (RACE's level) and ties nothing.
    """
    found: dict[object, list[int]] = {}
    for place, example in enumerate(examples):
        found.setdefault(example.unit or place, []).append(place)
    return list(found.values())


# Scores of the means of their parts, for any number of resamples at once.
#
# Every function takes an array [..., parts] and gives [...]. All are ratios, so that it does not
# matter whether the parts are means or sums.


def ratio(means: Array) -> Array:
    """Points by what they are given for: (points, 1)."""
    return _divided(means[..., 0], means[..., 1])


def f1_of_counts(means: Array) -> Array:
    """F1 of (right, predicted, gold)."""
    return _divided(2 * means[..., 0], means[..., 1] + means[..., 2])


def f1_of_all_labels(means: Array) -> Array:
    """Micro F1 of each label's (right, predicted, gold)."""
    return f1_of_counts(_by_label(means).sum(-2))


def f1_of_each_label(means: Array) -> Array:
    """Macro F1 of each label's (right, predicted, gold)."""
    mean: Array = f1_of_counts(_by_label(means)).mean(-1)
    return mean


def _by_label(means: Array) -> Array:
    return means.reshape(*means.shape[:-1], -1, 3)


def mean_f1_of_sums(means: Array) -> Array:
    """The mean of several F1, each of (recalled, gold, precise, predicted)."""
    # Four numbers a measure, one measure behind the other: every fourth is of one kind.
    recalled, gold, precise, predicted = (means[..., place::4] for place in range(4))
    precision, recall = _divided(precise, predicted), _divided(recalled, gold)
    mean: Array = _divided(2 * precision * recall, precision + recall).mean(-1)
    return mean


def f1_of_label(means: Array, label: int) -> Array:
    """F1 of one class of a confusion matrix, gold by predicted, laid flat."""
    # 2 TP / (gold + predicted), which stand in the rows and in the columns.
    matrix = _matrix(means)
    right = matrix[..., label, label]
    return _divided(2 * right, matrix[..., label, :].sum(-1) + matrix[..., :, label].sum(-1))


def macro_f1(means: Array) -> Array:
    """The mean of every class's F1."""
    count = _matrix(means).shape[-1]
    mean: Array = np.mean([f1_of_label(means, label) for label in range(count)], axis=0)
    return mean


def matthews(means: Array) -> Array:
    """Matthews correlation of a confusion matrix, for any number of classes.

    Gorodkin, Comparing two K-category assignments by a K-category correlation coefficient,
    Computational Biology and Chemistry 2004. 0 for constant predictions.
    """
    matrix = _matrix(means)
    gold, guess, total = matrix.sum(-1), matrix.sum(-2), matrix.sum((-1, -2))
    # (c s - t p) / sqrt((s^2 - p p) (s^2 - t t)): c are right, s all, t and p each class's gold
    # and predicted ones. Rounding may take a constant's spread just below 0.
    shared = np.trace(matrix, axis1=-2, axis2=-1) * total - (gold * guess).sum(-1)
    spreads = (total**2 - (guess**2).sum(-1)) * (total**2 - (gold**2).sum(-1))
    return _divided(shared, np.sqrt(np.clip(spreads, 0, None)))


def correlation(means: Array) -> Array:
    """Pearson's correlation of the moments (1, x, y, xy, xx, yy)."""
    one, x, y, xy, xx, yy = (means[..., part] for part in range(6))
    # (n Sxy - Sx Sy) / sqrt((n Sxx - Sx^2) (n Syy - Sy^2)).
    spreads = (one * xx - x**2) * (one * yy - y**2)
    return _divided(one * xy - x * y, np.sqrt(np.clip(spreads, 0, None)))


def _matrix(means: Array) -> Array:
    size = round(means.shape[-1] ** 0.5)
    return means.reshape(*means.shape[:-1], size, size)


def _divided(above: Array, below: Array) -> Array:
    """The quotient, 0 for a division by (nearly) nothing."""
    # The inner `where` divides by 1 what is thrown away, or NumPy would warn of a division by 0.
    empty = below < 1e-12
    quotient: Array = np.where(empty, 0.0, above / np.where(empty, 1.0, below))
    return quotient
