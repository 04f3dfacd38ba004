"""Intervals and tests for what a limited number of examples and of seeds can show. Pure.

numpy and scipy are imported on use: every board imports Interval, and scipy takes half a second.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median, stdev, variance
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Interval:
    """From `low` to `high`, both in the unit of what it is of."""

    low: float
    high: float

    def has(self, value: float) -> bool:
        """Whether the value lies between them."""
        return self.low <= value <= self.high

    def within(self, bounds: "Interval") -> "Interval":
        """The part of it that lies within `bounds`, which it must touch."""
        return Interval(low=max(self.low, bounds.low), high=min(self.high, bounds.high))


def student_t(freedom: float, chance: float) -> float:
    """The value that Student's t stays below with this chance."""
    from scipy.special import stdtrit  # noqa: PLC0415

    return float(stdtrit(freedom, chance))


def mean_interval(outcomes: Any, *, level: float = 0.95) -> Interval:
    """The interval of a mean over examples and seeds; `outcomes` are [examples, seeds].

    Both are taken for drawn at random, each example with every seed. The variance of the mean is
    that of a two-way layout without replication, v(examples) / n + v(seeds) / m - v(rest) / nm, of
    which the first is all where there is one seed; Student's t has the degrees of freedom of
    Satterthwaite (Searle, Casella and McCulloch, Variance Components, 1992, chapter 4).
    """
    import numpy as np  # noqa: PLC0415

    table = np.asarray(outcomes, dtype=np.float64)
    table = table.reshape(len(table), -1)
    found = []
    for axis in (1, 0):
        means = table.mean(axis=axis)
        found.append(float(means.var(ddof=1)) / len(means) if len(means) > 1 else 0.0)
    mean, shares = float(table.mean()), (found[0], found[1])
    variance = max(*shares, sum(shares) - _rest(table))
    if variance == 0:
        return Interval(low=mean, high=mean)
    ways = (size - 1 for size in table.shape)
    freedom = sum(shares) ** 2 / sum(s**2 / n for s, n in zip(shares, ways, strict=True) if s)
    reach = student_t(freedom, (1 + level) / 2) * math.sqrt(variance)
    return Interval(low=mean - reach, high=mean + reach)


def _rest(table: Any) -> float:
    """What both have counted: the part of neither example nor seed alone."""
    examples, seeds = table.shape
    if min(examples, seeds) < 2:
        return 0.0
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    squares = float((rest**2).sum())
    return squares / float((examples - 1) * (seeds - 1) * examples * seeds)


# How far the median over seeds may lie from that of all seeds there could be.

LOSS = math.sqrt(math.pi / 2)
"""How much larger a median's standard error is than a mean's, of many normal values; of three to
ten it is 1.08 to 1.20 times as large, so the interval errs to the wide side (Kenney and Keeping,
Mathematics of Statistics, 1962, part 1, section 14.9)."""


def median_error(values: Sequence[float]) -> float:
    """The standard error of the median of some seeds; 0 for one, which shows no spread."""
    return median_deviation(stdev(values), len(values)) if len(values) > 1 else 0.0


def median_deviation(deviation: float, count: int) -> float:
    """That of the median of so many normal values, each of the given standard deviation."""
    loss = LOSS if count > 2 else 1.0  # of two the median is the mean
    return loss * deviation / math.sqrt(count)


def median_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """The interval of the median over seeds: Student's t with n - 1 degrees of freedom."""
    reach = median_error(values)
    if reach:
        reach *= student_t(len(values) - 1, (1 + level) / 2)
    return Interval(low=median(values) - reach, high=median(values) + reach)


# What the best of several gains by chance alone.


CONTENDERS = 3.0
"""How many standard errors below the best a candidate may be, and still have been able to win."""


def selection_gain(chosen: Sequence[float], others: Sequence[Sequence[float]]) -> float | None:
    """How far the best median stands above what other seeds of the same candidate would give.

    `chosen` are the values of the best over its seeds, `others` those of each other one. Of k alike
    the best stands above their common value by the expected maximum of k errors (Dodge et al., Show
    your work, 2019); of unlike ones by less, since the best is also better. So the medians of those
    that could have won are shrunk to their mean, by the share of their variance that seeds explain
    (empirical Bayes, as Efron and Morris, 1975): the gain is how far the best is shrunk. A seed's
    deviation is told by the median of the differences between two seeds of one candidate, which
    collapsed runs do not move.

    In simulations of 8 candidates with 5 seeds the mean error is below a quarter of a seed's
    deviation. None where no candidate has two seeds, since one shows no noise.
    """
    candidates = [chosen, *others]
    pairs = [abs(a - b) for values in candidates for a, b in combinations(values, 2)]
    if not pairs:
        return None
    deviation = median(pairs) / (0.6745 * math.sqrt(2))
    tried = [(median(values), median_deviation(deviation, len(values))) for values in candidates]
    best, error = tried[0]
    near = [each for each in tried if abs(best - each[0]) <= CONTENDERS * error]
    medians = [value for value, _ in near]
    if len(near) < 2 or max(medians) == min(medians):
        return 0.0
    share = fmean(error**2 for _, error in near) / variance(medians)
    return max(0.0, min(1.0, share) * (best - fmean(medians)))


# Holm's correction: the p-values of several tests, made good for all of them at once.


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The corrected p-values, in the order given.

    Where those below alpha are called differences, the chance to call even one that is none is at
    most alpha, however the tests depend on each other (Holm, A simple sequentially rejective
    multiple test procedure, Scandinavian Journal of Statistics 1979).
    """
    count, highest = len(p_values), 0.0
    corrected = [1.0] * count
    for place, index in enumerate(sorted(range(count), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (count - place) * p_values[index]))
        corrected[index] = highest
    return tuple(corrected)


# McNemar's test: do two systems differ in how many of the same examples they get right?


def mcnemar_exact(only_one: int, only_other: int) -> float:
    """The two-sided p-value from the examples that only one of two systems has right.

    Without a difference each of them is as likely the one's as the other's: a binomial test at one
    half (McNemar, Note on the sampling error of the difference between correlated proportions,
    Psychometrika 1947). 1 where the systems are right on the same examples.
    """
    from scipy.stats import binomtest  # noqa: PLC0415

    decided = only_one + only_other
    return float(binomtest(only_one, decided).pvalue) if decided else 1.0
