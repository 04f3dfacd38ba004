"""What other examples and other seeds would do to a score, and the test of a difference. Pure.

A system's runs are a table of units by seeds. Other units move all seeds of both systems together;
other seeds move each system alone, because two encoders share nothing but the number of a seed. So
differences are paired by units and not by seeds, and the systems need not have as many of them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy  # its parts are loaded on first use

from benchharness.leaderboard.comparing.resampling import Array, Outcomes
from benchharness.leaderboard.statistics import Interval, median_deviation, student_t


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value, its variance, and the sum of the squares of the variance's parts by their freedom.

    Student's t has the degrees of freedom of Satterthwaite (Biometrics Bulletin, 1946). The p-value
    and the interval are of the same t: below 1 - level the interval excludes 0.
    """

    value: float
    variance: float
    squares: float

    @property
    def freedom(self) -> float:
        """Satterthwaite's degrees of freedom."""
        return self.variance**2 / self.squares if self.squares else math.inf

    @property
    def p_value(self) -> float:
        """The two-sided p-value of no difference."""
        if self.variance == 0:
            return float(self.value == 0)
        t = abs(self.value) / math.sqrt(self.variance)
        return 2 * float(scipy.stats.t.sf(t, self.freedom))

    def interval(self, level: float = 0.95) -> Interval:
        """The interval with this chance to hold the true value."""
        reach = math.sqrt(self.variance)
        reach *= student_t(self.freedom, (1 + level) / 2) if reach else 0.0
        return Interval(low=self.value - reach, high=self.value + reach)


def average(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of estimates of different tasks, which share neither examples nor runs."""
    count = len(estimates)
    return Estimate(
        value=sum(each.value for each in estimates) / count,
        variance=sum(each.variance for each in estimates) / count**2,
        squares=sum(each.squares for each in estimates) / count**4,
    )


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The variance of one seed's score, and its degrees of freedom.

    `own` is the part of it that is a seed's own chance on each unit.
    """

    variance: float
    own: float
    freedom: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """What each unit adds to a system's scores, [units, seeds]: a column's mean is a score.

    There is one row, the scores, where nothing is known of the units. `spread` is None where one
    run shows none.
    """

    table: Array
    spread: Spread | None

    @property
    def scores(self) -> Array:
        """The score of each seed."""
        scores: Array = self.table.mean(axis=0)
        return scores

    @property
    def is_fixed(self) -> bool:
        """Whether every seed scores the same, as a baseline that was made once."""
        return self.spread is not None and self.spread.variance == self.spread.own == 0

    @property
    def without_units(self) -> "Sample":
        """The scores alone, on the same units."""
        spread = self.spread and replace(self.spread, own=0.0)
        return Sample(table=self.scores[None], spread=spread)


def sample_of(outcomes: Outcomes) -> Sample:
    """Scores that are no mean over units are linearised: each unit has its jackknife value.

    That is how far the score moves without it (Efron and Stein, Annals of Statistics, 1981).
    """
    units, scores = len(outcomes.parts), outcomes.scores
    if units == 1:
        return sample_of_table(scores[None])
    without = (outcomes.parts.sum(axis=0) - outcomes.parts) / (units - 1)
    moved = (units - 1) * (scores - outcomes.score(without))
    return sample_of_table(scores + moved - moved.mean(axis=0))


def sample_of_table(table: Array) -> Sample:
    """A sample of [units, seeds]."""
    units, seeds = table.shape
    if seeds == 1:
        return Sample(table=table, spread=None)
    own = 0.0
    if units > 1:
        rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
        own = float((rest**2).sum()) / ((units - 1) * (seeds - 1) * units)
    variance = float(table.mean(axis=0).var(ddof=1))
    return Sample(table=table, spread=Spread(variance=variance, own=own, freedom=seeds - 1))


def pooled(spreads: Iterable[Spread | None]) -> Spread | None:
    """The spread of systems that are taken for equally noisy; None where none shows one."""
    found = [spread for spread in spreads if spread is not None]
    freedom = sum(spread.freedom for spread in found)
    if not found:
        return None
    return Spread(
        variance=sum(spread.freedom * spread.variance for spread in found) / freedom,
        own=sum(spread.freedom * spread.own for spread in found) / freedom,
        freedom=freedom,
    )


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The parts of the variance of a mean over seeds, or of the difference of two.

    `units` is the units' part, `seeds` that of one seed, None where it is unknown; `sides` are the
    numbers of seeds of the one system or the two.
    """

    units: float
    unit_freedom: int
    seeds: Spread | None
    sides: tuple[int, ...]

    def with_seeds(self, count: int) -> "Noise":
        """As it would be with so many seeds of each system."""
        if self.seeds is None:
            return self
        shares = sum(1 / seeds for seeds in self.sides), len(self.sides) / count
        units = max(0.0, self.units - self.seeds.own * shares[0]) + self.seeds.own * shares[1]
        seeds = replace(self.seeds, freedom=len(self.sides) * (count - 1))
        return replace(self, units=units, seeds=seeds, sides=(count,) * len(self.sides))

    def estimate(self, value: float, *, loss: float = 1.0) -> Estimate:
        """The value with its variance; `loss` is by how much the seeds' is larger than a mean's.

        Units and seeds are crossed, so both parts have counted a seed's own chance on each unit;
        once it is taken off (Searle, Casella and McCulloch, Variance Components, 1992, chapter 4).
        Where few seeds are alike by luck, that would leave too little. So no more is taken off the
        units' part than a share that grows with the seeds: none of it at two degrees of freedom
        (benchmarks/compare_seeds.py has the figures).
        """
        squares = self.units**2 / self.unit_freedom
        if self.seeds is None:
            return Estimate(value=value, variance=self.units, squares=squares)
        share = loss * sum(1 / seeds for seeds in self.sides)
        seeds, own = share * self.seeds.variance, share * self.seeds.own
        least = self.units - max(0.0, 1 - 2 / self.seeds.freedom) * own
        squares += seeds**2 / self.seeds.freedom
        variance = max(self.units + seeds - own, least, seeds)
        return Estimate(value=value, variance=variance, squares=squares)


def noise_of(one: Sample, other: Sample | None = None) -> Noise:
    """The noise of a system's mean, or of the difference of two.

    Two systems are taken for equally noisy, as is a run that stands alone; but one that scores the
    same with every seed has no noise.
    """
    systems = [one] if other is None else [one, other]
    noisy = [system for system in systems if not system.is_fixed]
    # Systems of a pooled spread share it; it is known no better for that.
    spreads = {id(system.spread): system.spread for system in noisy}
    first, *rest = (system.table.mean(axis=1) for system in systems)
    units = first - sum(rest)
    count = len(units)
    variance = float(units.var(ddof=1)) / count if count > 1 else 0.0
    if other is not None and count > 1:
        # Where all units are alike, the next one need not be.
        variance = max(variance, float(np.abs(units).max() / count) ** 2)
    return Noise(
        units=variance,
        unit_freedom=max(1, count - 1),
        seeds=pooled(spreads.values()),
        sides=tuple(system.table.shape[1] for system in noisy),
    )


def difference(one: Sample, other: Sample) -> Estimate:
    """The difference of the means over seeds, paired by units where both know as many."""
    if len(one.table) != len(other.table):
        one, other = one.without_units, other.without_units
    value = float(one.scores.mean() - other.scores.mean())
    return noise_of(one, other).estimate(value)


def median_estimate(sample: Sample) -> Estimate:
    """The median over seeds; its seeds' part is larger than that of a mean."""
    seeds = sample.table.shape[1]
    loss = seeds * median_deviation(1.0, seeds) ** 2
    return noise_of(sample).estimate(float(np.median(sample.scores)), loss=loss)
