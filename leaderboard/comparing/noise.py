"""Sampling noise of scores: confidence intervals, tests of differences, and ranks.

A system's runs are a table of units by seeds. Other units change all seeds of both systems
together. Other seeds change each system alone, because two encoders with the same seed share only
the number. So differences are paired by units but not by seeds, and the systems may have different
numbers of seeds. Ranks come from tests of pairs and not from the intervals of single entries,
because every entry of a board is scored on the same examples, and easy or hard examples change all
scores alike.

All functions are pure.
"""

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

import numpy as np
import numpy.typing as npt
import scipy  # its submodules are loaded on first use

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, score_bounds, score_names
from benchharness.leaderboard.boards.entry import LEVEL, Entry, Intervals, Uncertainty
from benchharness.leaderboard.comparing import Array, Known, Outcomes
from benchharness.leaderboard.statistics import (
    Interval,
    holm,
    median_deviation,
    selection_gain,
    student_t,
)
from benchharness.tasks.suite import ScoreRule
from benchharness.tasks.suites import find_task


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Value with its variance; the t distribution has Satterthwaite's degrees of freedom.

    `squares` is the sum, over the parts of the variance, of the squared part divided by its degrees
    of freedom (Satterthwaite, Biometrics Bulletin, 1946). The p-value and the interval come from
    the same t distribution: if the p-value is below 1 - level, the interval excludes 0.
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
        """Two-sided p-value of the hypothesis that the value is 0."""
        if self.variance == 0:
            # Without noise, any difference is real.
            return float(self.value == 0)
        t = abs(self.value) / math.sqrt(self.variance)
        return 2 * float(scipy.special.stdtr(self.freedom, -t))

    def interval(self, level: float = 0.95) -> Interval:
        """Return the confidence interval of this level."""
        reach = math.sqrt(self.variance)
        reach *= student_t(self.freedom, (1 + level) / 2) if reach else 0.0
        return Interval(low=self.value - reach, high=self.value + reach)


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of estimates of different tasks, which share neither examples nor runs."""
    count = len(estimates)
    # Mean of k independent values: the variances are divided by k^2, their squares by k^4.
    return Estimate(
        value=sum(each.value for each in estimates) / count,
        variance=sum(each.variance for each in estimates) / count**2,
        squares=sum(each.squares for each in estimates) / count**4,
    )


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Variance between the scores of single seeds, and its degrees of freedom.

    `own` is the part of the variance that comes from the interaction of seeds and units: the chance
    effect that a seed has on each unit separately.
    """

    variance: float
    own: float
    freedom: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Contribution of each unit to a system's scores, `[units, seeds]`; a column's mean is a score.

    If the units are unknown, the table has one row: the scores. `spread` is None if there is one
    run, which shows none.
    """

    table: Array
    spread: Spread | None

    @property
    def scores(self) -> Array:
        """Score of each seed."""
        scores: Array = self.table.mean(axis=0)
        return scores

    @property
    def is_fixed(self) -> bool:
        """True if every seed has the same score, such as a baseline that was made once."""
        return self.spread is not None and self.spread.variance == self.spread.own == 0

    @property
    def without_units(self) -> "Sample":
        """Sample of the scores alone, without the contributions of units."""
        spread = self.spread and replace(self.spread, own=0.0)
        return Sample(table=self.scores[None], spread=spread)


def sample_of(outcomes: Outcomes) -> Sample:
    """Return the sample of a system's outcomes, with the jackknife value of each unit.

    Scores that are not a mean over units are linearised: a unit's contribution is how much the
    score changes without the unit (Efron and Stein, Annals of Statistics, 1981).
    """
    units, scores = len(outcomes.parts), outcomes.scores
    if units == 1:
        return sample_of_table(scores[None])
    # The score without each unit, `[units, seeds]`; (n - 1) times the change is the unit's
    # contribution. Centred, so that the mean over units is the score itself.
    without = (outcomes.parts.sum(axis=0) - outcomes.parts) / (units - 1)
    moved = (units - 1) * (scores - outcomes.score(without))
    return sample_of_table(scores + moved - moved.mean(axis=0))


def sample_of_table(table: Array) -> Sample:
    """Return the sample of a table `[units, seeds]`."""
    units, seeds = table.shape
    if seeds == 1:
        return Sample(table=table, spread=None)
    own = 0.0
    if units > 1:
        # Two-way layout without replication: the residual after the means of unit and seed is the
        # interaction. Its mean square divided by the number of units is its part of a score's
        # variance.
        rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
        own = float((rest**2).sum()) / ((units - 1) * (seeds - 1) * units)
    variance = float(table.mean(axis=0).var(ddof=1))
    return Sample(table=table, spread=Spread(variance=variance, own=own, freedom=seeds - 1))


def pooled(spreads: Iterable[Spread | None]) -> Spread | None:
    """Return the pooled spread of systems assumed to be equally noisy; None if none has one."""
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
    """Parts of the variance of a mean over seeds, or of the difference of two means.

    `units` is the variance due to units, with `unit_freedom` degrees of freedom. `seeds` is the
    spread of single seeds, None if it is unknown. `sides` are the numbers of seeds of each noisy
    system.
    """

    units: float
    unit_freedom: int
    seeds: Spread | None
    sides: tuple[int, ...]

    def with_seeds(self, count: int) -> "Noise":
        """Return the noise that `count` seeds of each system would have."""
        if self.seeds is None:
            return self
        # The units' variance contains the interaction of seeds and units: replace its share for the
        # present numbers of seeds by its share for `count` seeds.
        shares = sum(1 / seeds for seeds in self.sides), len(self.sides) / count
        units = max(0.0, self.units - self.seeds.own * shares[0]) + self.seeds.own * shares[1]
        seeds = replace(self.seeds, freedom=len(self.sides) * (count - 1))
        return replace(self, units=units, seeds=seeds, sides=(count,) * len(self.sides))

    def estimate(self, value: float, *, loss: float = 1.0) -> Estimate:
        """Return the value with its variance.

        Units and seeds are crossed, so both parts of the variance contain the interaction of seeds
        and units, which is subtracted once (Searle, Casella and McCulloch, Variance Components,
        1992, chapter 4). If few seeds agree by luck, that would leave too little. So the units'
        part is reduced by at most a fraction of the interaction: 0 for two degrees of freedom or
        fewer, and close to 1 for many (benchmarks/compare_seeds.py has the figures).

        Args:
            value: Mean over seeds, or difference of two means.
            loss: Factor by which the seeds' variance is larger than the variance of a mean.
        """
        squares = self.units**2 / self.unit_freedom
        if self.seeds is None:
            return Estimate(value=value, variance=self.units, squares=squares)
        # 1/n of the first system plus 1/m of the second.
        share = loss * sum(1 / seeds for seeds in self.sides)
        seeds, own = share * self.seeds.variance, share * self.seeds.own
        least = self.units - max(0.0, 1 - 2 / self.seeds.freedom) * own
        squares += seeds**2 / self.seeds.freedom
        variance = max(self.units + seeds - own, least, seeds)
        return Estimate(value=value, variance=variance, squares=squares)


def noise_of(one: Sample, other: Sample | None = None) -> Noise:
    """Return the noise of a system's mean over seeds, or of the difference of two systems' means.

    Two systems are assumed to be equally noisy, even if one of them has a single run; but a system
    that scores the same with every seed has no noise.
    """
    systems = [one] if other is None else [one, other]
    noisy = [system for system in systems if not system.is_fixed]
    # Systems with a pooled spread share one object; it must count once, as it has no more freedom.
    spreads = {id(system.spread): system.spread for system in noisy}
    first, *rest = (system.table.mean(axis=1) for system in systems)
    # Mean over seeds of each unit, or the difference of two systems on it.
    units = first - sum(rest)
    count = len(units)
    variance = float(units.var(ddof=1)) / count if count > 1 else 0.0
    if other is not None and count > 1:
        # If all observed units are equal, the next unit may still differ.
        variance = max(variance, float(np.abs(units).max() / count) ** 2)
    return Noise(
        units=variance,
        # The variance is divided by it, even if there is one unit and its part is 0.
        unit_freedom=max(1, count - 1),
        seeds=pooled(spreads.values()),
        sides=tuple(system.table.shape[1] for system in noisy),
    )


def difference(one: Sample, other: Sample) -> Estimate:
    """Return the difference of the means over seeds, paired by units if both have as many units."""
    if len(one.table) != len(other.table):
        one, other = one.without_units, other.without_units
    value = float(one.scores.mean() - other.scores.mean())
    return noise_of(one, other).estimate(value)


def median_estimate(sample: Sample) -> Estimate:
    """Return the median over seeds; seeds add more variance to it than to a mean."""
    seeds = sample.table.shape[1]
    # var(median) / var(mean): pi / 2 for three or more seeds, 1 for one or two.
    loss = seeds * median_deviation(1.0, seeds) ** 2
    return noise_of(sample).estimate(float(np.median(sample.scores)), loss=loss)


# Scores on resamples of the examples.

CHUNK = 2**22
"""Largest number of floats that are held in memory at once (32 MiB)."""

DRAWS_CHUNK = 2**23
"""Largest number of unit counts that are held in memory at once (64 MiB)."""


def chunks(draws: int, width: int, most: int = CHUNK) -> Iterator[int]:
    """Yield sizes of parts of the draws, each with at most `most` numbers in rows of `width`."""
    size = max(1, most // max(1, width))
    yield from (min(size, draws - start) for start in range(0, draws, size))


def times_drawn(
    kind_of: npt.NDArray[np.intp], kinds: int, draws: int, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Draw units with replacement; return how often each kind occurs, `[draws, kinds]`."""
    units = len(kind_of)
    samples = (kind_of[generator.integers(units, size=units)] for _ in range(draws))
    return np.stack([np.bincount(sample, minlength=kinds) for sample in samples])


def resampled_scores(
    systems: Sequence[Outcomes], generator: np.random.Generator, *, draws: int
) -> list[Array]:
    """Return each system's scores on `draws` resamples of the units, `[draws, seeds]`.

    Units are drawn with replacement, the same units for all systems and each with all seeds, so
    that the systems stay paired (Efron and Tibshirani, An Introduction to the Bootstrap, 1993).
    """
    units = len(systems[0].parts)
    flat = [system.parts.reshape(units, -1) for system in systems]
    found: list[list[Array]] = [[] for _ in systems]
    for few in chunks(draws, units, DRAWS_CHUNK):
        # Multiplication of floats is much faster.
        times = times_drawn(np.arange(units), units, few, generator).astype(np.float64)
        for system, parts, scores in zip(systems, flat, found, strict=True):
            # [draws, units] times [units, seeds x parts]: the sums of all draws at once.
            means = (times @ parts / units).reshape(len(times), *system.parts.shape[1:])
            scores.append(system.score(means))
    return [np.concatenate(scores) for scores in found]


# The entries of a board: their intervals, and which of them differ significantly.

GAIN_DRAWS = 500
"""Resamples for a variance, which needs fewer than the ends of an interval."""

SCOPES = ("both", "examples", "seeds")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Known:
    """Sample of an entry's cell, and an estimate of its median for each scope of noise."""

    sample: Sample
    estimates: Mapping[str, Estimate]
    bounds: Interval
    reason: str


Tried = Mapping[str, Sequence[Sequence[Known]]]
"""Outcomes of a sweep's points that were not selected, keyed by task, one sequence per entry."""


def with_uncertainty(
    board: Board,
    known: Mapping[str, Sequence[Known | None]],
    *,
    tried: Tried | None = None,
    is_pooled: bool = False,
) -> Board:
    """Return the board with the uncertainty of each entry.

    Intervals are for the median over seeds and for the suite's score, which is the mean of these
    medians. Ranks come from the test of `difference` with Holm's correction for all pairs.

    Args:
        board: Board to add confidence intervals and ranks to.
        known: Outcomes of every entry's cell in the order of the entries, keyed by task; None if an
            entry has no cell.
        tried: Outcomes of a sweep's other points; for tasks in it, the selection gain covers other
            examples too.
        is_pooled: Assume that all entries of a task are equally noisy over seeds, for boards on
            which most entries have too few seeds to show their own noise.
    """
    by_task = {task: _known_of(board, task, known[task], is_pooled) for task in board.tasks}
    by_entry: list[dict[str, _Known]] = [
        {task: row[place] for task, row in by_task.items() if place in row}
        for place in range(len(board.entries))
    ]
    entries = [
        replace(entry, uncertainty=_uncertainty(board.rule, entry, found))
        for entry, found in zip(board.entries, by_entry, strict=True)
    ]
    ranked = _ranked(board.rule, entries, by_entry)
    for task, points in (tried or {}).items():
        ranked = [
            _with_gain(entry, task, outcomes, others)
            for entry, outcomes, others in zip(ranked, known[task], points, strict=True)
        ]
    return replace(board, entries=tuple(ranked))


def _with_gain(entry: Entry, task: str, known: Known | None, others: Sequence[Known]) -> Entry:
    """Return the entry with the selection gain of a task over other seeds and other examples.

    The gain stays the one over seeds alone if the examples of a point are not available.
    """
    # Missing outcomes are a text or None, so a missing one makes the list too short.
    points = [each for each in (known, *others) if isinstance(each, Outcomes)]
    if not others or len(points) <= len(others):
        return entry
    cell = entry.cells[task]
    # Seed with crc32, because `hash` of a string differs from process to process.
    generator = np.random.default_rng(zlib.crc32(f"gain {task}".encode()))
    redrawn = resampled_scores(points, generator, draws=GAIN_DRAWS)
    gain = selection_gain(cell.values, [other.values for other in cell.others], redrawn)
    cell = replace(cell, gain=gain, gain_scope="seeds and examples")
    return replace(entry, cells={**entry.cells, task: cell})


def _known_of(
    board: Board, task: str, known: Sequence[Known | None], is_pooled: bool
) -> dict[int, _Known]:
    """Return the cells of a column, keyed by the index of their entries."""
    cells = {n: entry.cells[task] for n, entry in enumerate(board.entries) if task in entry.cells}
    samples = {
        place: sample_of(outcomes)
        if isinstance(outcomes := known[place], Outcomes)
        else sample_of_table(np.array([cell.values]))
        for place, cell in cells.items()
    }
    if is_pooled:
        spread = pooled(sample.spread for sample in samples.values())
        samples = {place: replace(sample, spread=spread) for place, sample in samples.items()}
    return {
        place: _known_cell(cell, board.rule, samples[place], known[place])
        for place, cell in cells.items()
    }


def _known_cell(cell: Cell, rule: ScoreRule, sample: Sample, known: Known | None) -> _Known:
    estimates = {}
    if sample.spread is not None:
        estimates["seeds"] = median_estimate(sample.without_units)
    if isinstance(known, Outcomes):
        estimates["examples"] = median_estimate(replace(sample, spread=None))
    if estimates:
        found = [median_estimate(sample), *estimates.values()]
        estimates["both"] = max(found, key=lambda each: each.variance)  # at least as wide as either
    names = score_names(cell.task, rule)
    return _Known(
        sample=sample,
        estimates=estimates,
        bounds=score_bounds(find_task(cell.task), names, cell.values),
        reason=known if isinstance(known, str) else "",
    )


def _uncertainty(rule: ScoreRule, entry: Entry, found: Mapping[str, _Known]) -> Uncertainty:
    """Return the intervals of each cell, and of the score as an unweighted mean of its tasks."""
    cells = {task: _intervals([each]) for task, each in found.items()}
    score = Intervals()
    if entry.score is not None:
        score = _intervals([found[task] for task in rule.cells])
    return Uncertainty(cells=cells, score=score)


def _intervals(cells: Sequence[_Known]) -> Intervals:
    """Return the intervals of the mean of some cells, for the scopes that all of them have."""
    bounds = Interval(
        low=fmean(cell.bounds.low for cell in cells), high=fmean(cell.bounds.high for cell in cells)
    )
    found = {
        scope: average([cell.estimates[scope] for cell in cells]).interval(LEVEL).within(bounds)
        for scope in SCOPES
        if all(scope in cell.estimates for cell in cells)
    }
    reason = "; ".join(dict.fromkeys(cell.reason for cell in cells if cell.reason))
    return Intervals(**found, reason=reason)


def _ranked(
    rule: ScoreRule, entries: Sequence[Entry], known: Sequence[Mapping[str, _Known]]
) -> list[Entry]:
    """Return the entries with possible ranks, and with the entries that do not differ from them.

    An entry is below those that differ significantly from it and score more. On 95 % of boards no
    pair of equal systems is called different, so on as many boards every rank interval contains the
    true rank.
    """
    racing = [place for place, entry in enumerate(entries) if entry.rank is not None]
    pairs = list(combinations(racing, 2))
    tests = [
        average([difference(known[a][t].sample, known[b][t].sample) for t in rule.cells])
        for a, b in pairs
    ]
    corrected = holm([test.p_value for test in tests])
    better: dict[int, set[int]] = {place: set() for place in racing}
    worse: dict[int, set[int]] = {place: set() for place in racing}
    for (a, b), test, p_value in zip(pairs, tests, corrected, strict=True):
        if p_value < 1 - LEVEL:
            first, second = (a, b) if test.value > 0 else (b, a)
            worse[first].add(second)
            better[second].add(first)
    found = list(entries)
    for place in racing:
        uncertainty = entries[place].uncertainty
        if uncertainty is None or uncertainty.score.both is None:
            continue
        tied = set(racing) - better[place] - worse[place] - {place}
        # At best just below the significantly better entries, at worst just above the worse ones.
        ranks = 1 + len(better[place]), len(racing) - len(worse[place])
        labels = tuple(entries[other].name for other in sorted(tied))
        found[place] = replace(
            entries[place], uncertainty=replace(uncertainty, ranks=ranks, tied=labels)
        )
    return found
