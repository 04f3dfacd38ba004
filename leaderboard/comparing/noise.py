"""What other examples and seeds do to a score, the test of a difference, and its power. Pure.

A system's runs are a table of units by seeds. Other units move all seeds of both systems together;
other seeds move each system alone, because two encoders share nothing but the number of a seed. So
differences are paired by units and not by seeds, and the systems need not have as many of them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev

import numpy as np
import scipy  # its parts are loaded on first use

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.comparing.resampling import Array, Known, Outcomes
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
        return 2 * float(scipy.special.stdtr(self.freedom, -t))

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


# Two entries of a board, task by task: how many seeds would tell them apart.

MOST_SEEDS = 10_000
"""Beyond so many the answer is no plan any more."""

SCORE = "score"
"""The row of the suite's score, the mean of its tasks."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The values of two systems over their seeds; `needed` seeds of each would tell them apart.

    `difference` is that of the means, first minus second, and `p_value` that of the test of
    `bench compare` (noise.py), without its correction. `reason` says why there is no number of
    seeds, and `unread` why the examples' part is unknown.
    """

    task: str
    values: tuple[tuple[float, ...], tuple[float, ...]]
    difference: float
    spreads: tuple[float, float] | None
    p_value: float | None
    needed: int | None
    reason: str
    unread: str = ""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A task's difference and its noise."""

    difference: float
    noise: Noise

    def at(self, count: int) -> Estimate:
        """With so many seeds of each system."""
        return self.noise.with_seeds(count).estimate(self.difference)


def compare(
    board: Board,
    entries: Sequence[Entry],
    known: Mapping[str, Sequence[Known | None]],
    *,
    alpha: float = 0.05,
    power: float = 0.8,
) -> list[Comparison]:
    """A comparison of two entries for each of the tasks of `known`, which both have.

    `known` is what is known of their examples. The suite's score comes last where all tasks of its
    rule are there.
    """
    one, other = entries
    parts, found = {}, []
    for task, outcomes in known.items():
        values = (one.cells[task].values, other.cells[task].values)
        parts[task] = _part(values, outcomes)
        unread = next((each for each in outcomes if isinstance(each, str)), "")
        found.append(_comparison(task, values, [parts[task]], (alpha, power), unread))
    if set(board.rule.cells) <= set(known) and one.seed_scores and other.seed_scores:
        whole = [parts[task] for task in board.rule.cells]
        scores = (one.seed_scores, other.seed_scores)
        found.append(_comparison(SCORE, scores, whole, (alpha, power), ""))
    return found


def _part(values: Sequence[Sequence[float]], known: Sequence[Known | None]) -> Part:
    samples = [sample_of(each) for each in known if isinstance(each, Outcomes)]
    if len(samples) < 2 or len(samples[0].table) != len(samples[1].table):
        samples = [sample_of_table(np.array([own])) for own in values]
    one, other = samples
    return Part(
        difference=float(one.scores.mean() - other.scores.mean()), noise=noise_of(one, other)
    )


def _comparison(
    task: str,
    values: tuple[tuple[float, ...], tuple[float, ...]],
    parts: Sequence[Part],
    chances: tuple[float, float],
    unread: str,
) -> Comparison:
    one, other = values
    now = average([part.noise.estimate(part.difference) for part in parts])
    several = min(len(one), len(other)) > 1
    difference = now.value
    needed = seeds_needed(parts, *chances) if several and difference else None
    return Comparison(
        task=task,
        values=values,
        difference=difference,
        spreads=(stdev(one), stdev(other)) if several else None,
        p_value=now.p_value if several and now.variance else None,
        needed=needed,
        reason="" if needed else _reason(several, difference, parts),
        unread=unread,
    )


def _reason(several: bool, difference: float, parts: Sequence[Part]) -> str:
    if not several:
        return "one seed shows no spread: run at least 2 of each"
    if not difference:
        return "the means are equal"
    if any(part.noise.units for part in parts):
        return "no number of seeds: it needs more examples"
    return f"more than {MOST_SEEDS:,}"


def power_of(estimate: Estimate, alpha: float = 0.05) -> float:
    """The chance that the test finds a true difference of this value and variance.

    The statistic is taken for a noncentral t (Cohen, Statistical Power Analysis, 1988, chapter 2).
    """
    if estimate.variance == 0:
        return float(estimate.value != 0)
    freedom = min(estimate.freedom, 1e9)
    shift = abs(estimate.value) / math.sqrt(estimate.variance)
    critical = scipy.stats.t.ppf(1 - alpha / 2, freedom)
    power = float(
        scipy.stats.nct.sf(critical, freedom, shift)
        + scipy.stats.nct.cdf(-critical, freedom, shift)
    )
    # Far out in the tail scipy gives up; the normal distribution is as good there.
    return power if math.isfinite(power) else float(scipy.stats.norm.cdf(shift - critical))


def seeds_needed(parts: Sequence[Part], alpha: float = 0.05, power: float = 0.8) -> int | None:
    """The fewest seeds of each system, 2 or more, that reach the power; None beyond MOST_SEEDS."""

    def suffices(count: int) -> bool:
        return power_of(average([part.at(count) for part in parts]), alpha) >= power

    if not suffices(MOST_SEEDS):
        return None
    low, high = 1, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
