"""Metrics of numbers: Pearson's and Spearman's correlation, in float64."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tasks.errors import BenchError
from tasks.examples import PairExample, PairPrediction
from tasks.task import Metric

__all__ = ["pearson", "spearman"]

SCIPY = "scipy.stats"


def _correlation(
    predictions: Sequence[PairPrediction],
    examples: Sequence[PairExample],
    statistic: Callable[[list[float], list[float]], Any],
) -> float:
    """The statistic; 0 where either side is constant, for which it is not defined.

    A constant prediction knows nothing of the order, and NaN could be neither stored nor averaged;
    such a run carries the flag "constant predictions". scipy's warning of nearly constant ones is
    left out: the flag says so too.
    """
    from scipy.stats import NearConstantInputWarning

    guess = [_finite(p.id, p.label) for p in predictions]
    gold = [_finite(e.id, e.label) for e in examples]
    if len(set(guess)) < 2 or len(set(gold)) < 2:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearConstantInputWarning)
        return float(statistic(guess, gold).statistic)


def _finite(name: str, label: str | float | None) -> float:
    if not isinstance(label, int | float) or not math.isfinite(label):
        raise BenchError(
            f"example {name} has {label!r} where a correlation needs a finite number: "
            "the labels are hidden, or the model that predicted them has diverged."
        )
    return float(label)


def _pearson(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
    from scipy.stats import pearsonr

    return _correlation(predictions, examples, pearsonr)


def _spearman(predictions: Sequence[PairPrediction], examples: Sequence[PairExample]) -> float:
    from scipy.stats import spearmanr

    return _correlation(predictions, examples, spearmanr)


pearson: Metric[PairPrediction, PairExample] = Metric(
    name="pearson", compute=_pearson, library=SCIPY
)
"""Pearson correlation in -1..1."""

spearman: Metric[PairPrediction, PairExample] = Metric(
    name="spearman", compute=_spearman, library=SCIPY
)
"""Spearman rank correlation in -1..1, ties sharing their mean rank."""
