"""Scores taken apart: what each unit of a split adds, and the score of the sums."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from leaderboard.paired.formulas import (
    correlation,
    f1_of_counts,
    f1_of_label,
    macro_f1,
    matthews,
    ratio,
)
from leaderboard.paired.units import Units, units_of
from tasks.errors import BenchError
from tasks.metrics.entities import entities
from tasks.task import Metric, PairTask, TagTask, Task

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

__all__ = ["Breakdown", "break_down"]

CLOSE = 1e-9
"""How near the score of the parts must come to the metric's own value."""


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """A way to take a score apart.

    `parts(predictions, examples, units)` is [units, parts], and `score` makes the score of their
    sums or means, [..., parts] to [...]. `is_mean` where each example has points of its own.
    """

    parts: "Callable[[Sequence[Any], Sequence[Any], Units], Array]"
    score: "Callable[[Array], Array]"
    is_mean: bool = False


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
    match task:
        case PairTask(is_regression=True):
            yield Breakdown(parts=partial(_moments, ranked=False), score=correlation)
            yield Breakdown(parts=partial(_moments, ranked=True), score=correlation)
        case PairTask() if metric.name == "mcc":
            yield Breakdown(parts=partial(_confusion, labels=task.labels), score=matthews)
        case PairTask() if metric.name.startswith("f1"):
            cells = partial(_confusion, labels=task.labels)
            for label in range(len(task.labels)):
                yield Breakdown(parts=cells, score=partial(f1_of_label, label=label))
            yield Breakdown(parts=cells, score=macro_f1)
        case TagTask() if metric.name == "f1":
            yield Breakdown(parts=_entity_counts, score=f1_of_counts)
    if isinstance(task, PairTask) and not task.is_regression:
        yield Breakdown(parts=_right_labels, score=ratio, is_mean=True)
    yield Breakdown(parts=partial(_points, metric=metric), score=ratio, is_mean=True)
    yield Breakdown(parts=partial(_group_points, metric=metric), score=ratio)


def _right_labels(predictions: Sequence[Any], examples: Sequence[Any], units: Units) -> "Array":
    """Accuracy: what the next one gives too, in a twentieth of its time."""
    pairs = zip(predictions, examples, strict=True)
    return _summed([(float(guess.label == gold.label), 1.0) for guess, gold in pairs], units)


def _points(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, metric: Metric[Any, Any]
) -> "Array":
    """Each example's own value; a metric that asks for whole groups has none."""
    try:
        pairs = zip(predictions, examples, strict=True)
        values = [metric.compute([guess], [example]) or 0.0 for guess, example in pairs]
    except BenchError:
        values = [float("nan")] * len(examples)
    return _summed([(value, 1.0) for value in values], units)


def _group_points(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, metric: Metric[Any, Any]
) -> "Array":
    import numpy as np

    def value(unit: Sequence[int]) -> float:
        guesses, golds = [predictions[i] for i in unit], [examples[i] for i in unit]
        return metric.compute(guesses, golds) or 0.0

    return np.array([(value(unit), 1.0) for unit in units])


def _confusion(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, labels: Sequence[str]
) -> "Array":
    import numpy as np

    place = {label: number for number, label in enumerate(labels)}
    gold = np.array([place[str(e.label)] for e in examples])
    guess = np.array([place[str(p.label)] for p in predictions])
    return _summed(np.eye(len(labels) ** 2)[gold * len(labels) + guess], units)


def _moments(
    predictions: Sequence[Any], examples: Sequence[Any], units: Units, ranked: bool
) -> "Array":
    """Of the numbers, or of their ranks, which are those among all examples in every resample."""
    import numpy as np
    from scipy.stats import rankdata

    x = np.array([float(p.label) for p in predictions])
    y = np.array([float(e.label) for e in examples])
    if ranked:
        x, y = rankdata(x), rankdata(y)
    # Around one number for both systems, because moments of large numbers lose their last digits.
    x, y = x - y.mean(), y - y.mean()
    return _summed(np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=1), units)


def _entity_counts(predictions: Sequence[Any], examples: Sequence[Any], units: Units) -> "Array":
    rows = []
    for prediction, example in zip(predictions, examples, strict=True):
        guessed, gold = set(entities(prediction.tags)), set(entities(example.tags))
        rows.append((len(guessed & gold), len(guessed), len(gold)))
    return _summed(rows, units)


def _summed(rows: Any, units: Units) -> "Array":
    """[examples, parts] to [units, parts]."""
    import numpy as np

    table = np.asarray(rows, dtype=np.float64)
    if len(units) == len(table):
        return table
    return np.stack([table[list(unit)].sum(axis=0) for unit in units])
