"""Intervals: between which values the true one may lie."""

import math
from dataclasses import dataclass
from typing import Any

__all__ = ["Interval", "mean_interval"]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """From `low` to `high`, both in the unit of what it is of."""

    low: float
    high: float

    def has(self, value: float) -> bool:
        """Whether the value lies between them."""
        return self.low <= value <= self.high


def mean_interval(outcomes: Any, *, level: float = 0.95) -> Interval:
    """The interval of a mean over examples and seeds; `outcomes` are [examples, seeds].

    Both are taken for drawn at random, each example with every seed. The variance of the mean is
    that of a two-way layout without replication, v(examples) / n + v(seeds) / m - v(rest) / nm, of
    which the first is all where there is one seed; Student's t has the degrees of freedom of
    Satterthwaite (Searle, Casella and McCulloch, Variance Components, 1992, chapter 4).
    """
    import numpy as np
    from scipy.special import stdtrit

    table = np.asarray(outcomes, dtype=np.float64)
    table = table.reshape(len(table), -1)
    mean, shares = float(table.mean()), _variances(table)
    variance = max(*shares, sum(shares) - _rest(table))
    if variance == 0:
        return Interval(low=mean, high=mean)
    ways = (size - 1 for size in table.shape)
    freedom = sum(shares) ** 2 / sum(s**2 / n for s, n in zip(shares, ways, strict=True) if s)
    reach = float(stdtrit(freedom, (1 + level) / 2)) * math.sqrt(variance)
    return Interval(low=mean - reach, high=mean + reach)


def _variances(table: Any) -> tuple[float, float]:
    """The squared standard errors of the mean, over examples and over seeds."""
    found = []
    for axis in (1, 0):
        means = table.mean(axis=axis)
        found.append(float(means.var(ddof=1)) / len(means) if len(means) > 1 else 0.0)
    return found[0], found[1]


def _rest(table: Any) -> float:
    """What both have counted: the part of neither example nor seed alone."""
    examples, seeds = table.shape
    if min(examples, seeds) < 2:
        return 0.0
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    squares = float((rest**2).sum())
    return squares / float((examples - 1) * (seeds - 1) * examples * seeds)
