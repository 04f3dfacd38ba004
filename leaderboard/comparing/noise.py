"""Sampling noise of scores: confidence intervals, significance tests, and possible ranks.

The outcomes of a system are a table of units by seeds; a unit is an example, or a group of examples
that is scored together. The choice of units affects all seeds of both systems together. The choice
of seeds affects each system separately, because a seed has a different effect on another encoder.
So differences are paired by unit but not by seed, and two systems may have different numbers of
seeds. Ranks are based on tests of pairs and not on the intervals of single entries, because all
entries are scored on the same examples, whose difficulty affects all scores equally.

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
from benchharness.leaderboard.comparing import CLOSE, Array, Known, Outcomes
from benchharness.leaderboard.statistics import (
    Interval,
    holm,
    median_deviation,
    selection_gain,
    student_t,
    unseen_share,
)
from benchharness.tasks.suite import ScoreRule
from benchharness.tasks.suites import find_task, title_of


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Estimated value with its variance, from which a p-value and an interval are computed.

    The p-value and the interval are from the same t distribution: if the p-value is below
    1 - `level`, the interval with the confidence level `level` does not contain 0.

    Attributes:
        value: Estimated value, e.g. a difference of two scores.
        variance: Variance of the value, which is a sum of components.
        squares: Sum, over the components, of the component's square divided by its degrees of
            freedom (Satterthwaite, Biometrics Bulletin, 1946).
    """

    value: float
    variance: float
    squares: float

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the t distribution by Satterthwaite's approximation."""
        return self.variance**2 / self.squares if self.squares else math.inf

    @property
    def p_value(self) -> float:
        """Two-sided p-value for the null hypothesis that the true value is 0."""
        if self.variance == 0:
            # If there is no noise, any value other than 0 is significant.
            return float(self.value == 0)
        t = abs(self.value) / math.sqrt(self.variance)
        return 2 * float(scipy.special.stdtr(self.freedom, -t))

    def interval(self, level: float = 0.95) -> Interval:
        """Return the confidence interval of the value at this confidence level."""
        reach = math.sqrt(self.variance)
        reach *= student_t(self.freedom, (1 + level) / 2) if reach else 0.0
        return Interval(low=self.value - reach, high=self.value + reach)


def average(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of independent estimates, such as estimates for different tasks."""
    count = len(estimates)
    # For the mean of k independent values, variances are divided by k^2 and their squares by k^4.
    return Estimate(
        value=sum(each.value for each in estimates) / count,
        variance=sum(each.variance for each in estimates) / count**2,
        squares=sum(each.squares for each in estimates) / count**4,
    )


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Variance of a system's score over seeds.

    Attributes:
        variance: Variance of a single seed's score.
        own: Part of `variance` that is due to the interaction of seeds and units, i.e. to random
            effects that a seed has on single units (examples).
        freedom: Degrees of freedom of the variance.
    """

    variance: float
    own: float
    freedom: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Scores of a system per unit (example) and seed.

    Attributes:
        table: Array `[units, seeds]`; the mean of a column is the score of a seed. If the scores
            of single units are unknown, the table has a single row with the scores.
        spread: Variance over seeds; None if there is only one seed.
        least: Minimum variance due to units of a score that is a share of right units, because
            units may be wrong although all or almost all of this sample are right. It makes the
            interval of a perfect score exact (see `unseen_share`); 0 for other scores.
    """

    table: Array
    spread: Spread | None
    least: float = 0.0

    @property
    def scores(self) -> Array:
        """Score of each seed."""
        scores: Array = self.table.mean(axis=0)
        return scores

    @property
    def is_fixed(self) -> bool:
        """True if seeds have no effect: all units have the same values with every seed."""
        return self.spread is not None and self.spread.variance == self.spread.own == 0

    @property
    def without_units(self) -> "Sample":
        """Sample that contains only the scores, without the values of single units."""
        spread = self.spread and replace(self.spread, own=0.0)
        return Sample(table=self.scores[None], spread=spread)


def sample_of(outcomes: Outcomes) -> Sample:
    """Create a sample from a system's outcomes, with a value per unit (example).

    A score that is not a mean over units is linearized with the jackknife: the value of a unit
    depends on how much the score changes without it (Efron and Stein, Annals of Statistics, 1981).
    """
    units, scores = len(outcomes.parts), outcomes.scores
    if units == 1:
        return sample_of_table(scores[None])
    # `without` contains the scores that result if one unit is left out, `[units, seeds]`. The value
    # of a unit is (n - 1) times the change, centered so that the mean over units equals the score.
    without = (outcomes.parts.sum(axis=0) - outcomes.parts) / (units - 1)
    moved = (units - 1) * (scores - outcomes.score(without))
    sample = sample_of_table(scores + moved - moved.mean(axis=0))
    if not outcomes.is_share:
        return sample
    reach = unseen_share(units, level=LEVEL) / student_t(units - 1, (1 + LEVEL) / 2)
    return replace(sample, least=reach**2)


def sample_of_table(table: Array) -> Sample:
    """Create a sample from a table `[units, seeds]`, and compute its variance over seeds."""
    units, seeds = table.shape
    if seeds == 1:
        return Sample(table=table, spread=None)
    own = 0.0
    if units > 1:
        # In a two-way layout without replication, the residual after subtracting the means of units
        # and seeds is the interaction. Its mean square, divided by the number of units, is its
        # component of the score's variance.
        rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
        own = float((rest**2).sum()) / ((units - 1) * (seeds - 1) * units)
    variance = float(table.mean(axis=0).var(ddof=1))
    return Sample(table=table, spread=Spread(variance=variance, own=own, freedom=seeds - 1))


def pooled(spreads: Iterable[Spread | None]) -> Spread | None:
    """Return the mean of several variances over seeds, weighted by their degrees of freedom.

    The systems are assumed to have the same true variance. A variance that is None (unknown) is
    ignored. Returns None if all are None.
    """
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
    """Variance components of a mean over seeds, or of the difference of two such means.

    Attributes:
        units: Variance due to the choice of units (examples).
        unit_freedom: Degrees of freedom of `units`.
        seeds: Variance of a single seed's score; None if it is unknown.
        sides: Number of seeds of each system, for the one or two systems whose means are used.
            Systems on which seeds have no effect are left out.
    """

    units: float
    unit_freedom: int
    seeds: Spread | None
    sides: tuple[int, ...]

    def with_seeds(self, count: int) -> "Noise":
        """Return the noise that is expected if each system has `count` seeds.

        If the variance over seeds is unknown, the noise is returned unchanged.
        """
        if self.seeds is None:
            return self
        # The variance due to units contains the interaction of seeds and units, which depends on
        # the number of seeds. Replace this interaction with the one for `count` seeds.
        shares = sum(1 / seeds for seeds in self.sides), len(self.sides) / count
        units = max(0.0, self.units - self.seeds.own * shares[0]) + self.seeds.own * shares[1]
        seeds = replace(self.seeds, freedom=len(self.sides) * (count - 1))
        return replace(self, units=units, seeds=seeds, sides=(count,) * len(self.sides))

    def estimate(self, value: float, *, loss: float = 1.0) -> Estimate:
        """Return an estimate with this value and with the variance of this noise.

        Units and seeds are crossed: every seed is scored on every unit. So both components of the
        variance contain the interaction of seeds and units, and it is subtracted once (Searle,
        Casella and McCulloch, Variance Components, 1992, chapter 4). With few seeds, which may
        agree by chance, the result could be too small. Therefore the component for units is reduced
        by at most a fraction of the interaction: 0 for up to two degrees of freedom, and close to 1
        for many (measured in benchmarks/compare_seeds.py).

        Args:
            value: Mean over seeds, or difference of two means.
            loss: Factor for the variance due to seeds: 1 for a mean over seeds, and larger for a
                median.
        """
        squares = self.units**2 / self.unit_freedom
        if self.seeds is None:
            return Estimate(value=value, variance=self.units, squares=squares)
        # Add 1/n for n seeds of the first system and 1/m for m seeds of the second.
        share = loss * sum(1 / seeds for seeds in self.sides)
        seeds, own = share * self.seeds.variance, share * self.seeds.own
        least = self.units - max(0.0, 1 - 2 / self.seeds.freedom) * own
        squares += seeds**2 / self.seeds.freedom
        variance = max(self.units + seeds - own, least, seeds)
        return Estimate(value=value, variance=variance, squares=squares)


def noise_of(one: Sample, other: Sample | None = None) -> Noise:
    """Return the noise of a system's mean over seeds, or of the difference of two such means.

    Two systems are assumed to have the same variance over seeds, even if one of them has a single
    seed. Systems on which seeds have no effect are an exception.
    """
    systems = [one] if other is None else [one, other]
    noisy = [system for system in systems if not system.is_fixed]
    # Systems whose spread was pooled before share one object, which must count only once.
    spreads = {id(system.spread): system.spread for system in noisy}
    first, *rest = (system.table.mean(axis=1) for system in systems)
    # Compute for each unit the mean over seeds, or the difference of the two systems' means.
    units = first - sum(rest)
    count = len(units)
    variance = float(units.var(ddof=1)) / count if count > 1 else 0.0
    if other is None:
        variance = max(variance, one.least)
    elif count > 1:
        # Even if the differences of all observed units are equal, other units may have other
        # differences. So the standard error is at least the largest difference, divided by the
        # number of units.
        variance = max(variance, float(np.abs(units).max() / count) ** 2)
    return Noise(
        units=variance,
        # This is at least 1, because it is a divisor even if there is only one unit.
        unit_freedom=max(1, count - 1),
        seeds=pooled(spreads.values()),
        sides=tuple(system.table.shape[1] for system in noisy),
    )


def difference(one: Sample, other: Sample) -> Estimate:
    """Estimate the difference of two systems' means over seeds.

    Units (examples) are compared pairwise if both systems have the same number of units.
    """
    if len(one.table) != len(other.table):
        one, other = one.without_units, other.without_units
    value = float(one.scores.mean() - other.scores.mean())
    return noise_of(one, other).estimate(value)


def median_estimate(sample: Sample) -> Estimate:
    """Estimate a system's median over seeds, with its variance.

    For three or more seeds, the variance due to seeds is larger than that of the mean.
    """
    seeds = sample.table.shape[1]
    # var(median) / var(mean) is pi / 2 for three or more seeds, and 1 for one or two.
    loss = seeds * median_deviation(1.0, seeds) ** 2
    return noise_of(sample).estimate(float(np.median(sample.scores)), loss=loss)


# Scores on resampled examples.

CHUNK = 2**22
"""Maximum number of floats that are computed at once (32 MiB)."""

DRAWS_CHUNK = 2**23
"""Maximum number of counts of drawn units that are computed at once (64 MiB)."""


def chunks(draws: int, width: int, most: int = CHUNK) -> Iterator[int]:
    """Split a number of draws into chunks, and yield the number of draws in each chunk.

    Args:
        draws: Total number of draws.
        width: How many numbers are computed for each draw.
        most: Maximum of the numbers that are computed for a chunk, unless a single draw has more.
    """
    size = max(1, most // max(1, width))
    yield from (min(size, draws - start) for start in range(0, draws, size))


def times_drawn(
    kind_of: npt.NDArray[np.intp], kinds: int, draws: int, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Draw units (examples) with replacement; return how often each kind was drawn.

    Args:
        kind_of: Number of each unit's kind, from 0; equal units have the same kind.
        kinds: Number of kinds.
        draws: Number of resamples.
        generator: Source of random numbers.

    Returns:
        Counts, as an array `[draws, kinds]`.
    """
    units = len(kind_of)
    samples = (kind_of[generator.integers(units, size=units)] for _ in range(draws))
    return np.stack([np.bincount(sample, minlength=kinds) for sample in samples])


def resampled_scores(
    systems: Sequence[Outcomes], generator: np.random.Generator, *, draws: int
) -> list[Array]:
    """Return the scores of each system on `draws` bootstrap resamples, as arrays `[draws, seeds]`.

    Examples, or groups that are scored together, are drawn with replacement. All systems and seeds
    use the same resamples, so that systems can be compared pairwise (Efron and Tibshirani, An
    Introduction to the Bootstrap, 1993).
    """
    units = len(systems[0].parts)
    flat = [system.parts.reshape(units, -1) for system in systems]
    found: list[list[Array]] = [[] for _ in systems]
    for few in chunks(draws, units, DRAWS_CHUNK):
        # Convert the counts to floats, because their matrix product is much faster.
        times = times_drawn(np.arange(units), units, few, generator).astype(np.float64)
        for system, parts, scores in zip(systems, flat, found, strict=True):
            # The product of [draws, units] and [units, seeds x parts] contains the sums per draw.
            means = (times @ parts / units).reshape(len(times), *system.parts.shape[1:])
            scores.append(system.score(means))
    return [np.concatenate(scores) for scores in found]


# Uncertainty of leaderboard entries: their intervals, and which of them differ significantly.

GAIN_DRAWS = 500
"""Number of resamples for the variance due to examples in a selection gain (`Cell.gain`). For an
interval, more resamples would be needed.
"""

SCOPES = ("both", "examples", "seeds")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Known:
    """Statistics of a leaderboard cell, i.e. of an entry's scores on one task.

    `estimates` contains an estimate of the median for each key in `SCOPES` whose noise is known.
    `bounds` are the lowest and highest possible score. `reason` explains why there is no estimate
    over examples; it may be empty.
    """

    sample: Sample
    estimates: Mapping[str, Estimate]
    bounds: Interval
    reason: str

    @property
    def can_be_tested(self) -> bool:
        """True if the noise of a difference to another cell is known."""
        return len(self.sample.table) > 1 or self.sample.spread is not None


Tried = Mapping[str, Sequence[Sequence[Known]]]
"""Outcomes of hyperparameter settings that sweeps have tried but not selected, keyed by task. For
each task, the outer sequence has one element per leaderboard entry, in the order of the entries.
This element contains the outcomes of the entry's settings, and is empty if the entry is not a
sweep.
"""


def with_uncertainty(
    board: Board,
    known: Mapping[str, Sequence[Known | None]],
    *,
    tried: Tried | None = None,
    is_pooled: bool = False,
) -> Board:
    """Add confidence intervals and possible ranks to the entries of a leaderboard.

    Intervals are computed for the median over seeds and for the suite's score, which is the mean of
    these medians. Possible ranks are based on tests of all pairs of entries with Holm's correction.

    Args:
        board: Leaderboard whose entries get intervals and ranks.
        known: For each task, the outcomes of every entry in the order of the entries. Instead of
            outcomes, there is a reason (a string) if the examples could not be read, and None for
            an entry without a result.
        tried: Outcomes of hyperparameter settings that sweeps have tried but not selected. For the
            tasks in `tried`, the selection gain (`Cell.gain`) covers the choice of examples too.
        is_pooled: Assume that all entries have the same variance over seeds on a task, because most
            of them have too few seeds to estimate it.
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
    """Replace the selection gain of a task by the gain for other seeds and other examples.

    The entry is returned unchanged if the outcomes of a hyperparameter setting are not available.
    """
    # `points` has one element less for each setting whose outcomes are missing (None or a reason).
    points = [each for each in (known, *others) if isinstance(each, Outcomes)]
    if not others or len(points) <= len(others):
        return entry
    cell = entry.cells[task]
    # The random seed is a CRC-32, because the `hash` of a string differs between processes.
    generator = np.random.default_rng(zlib.crc32(f"gain {task}".encode()))
    redrawn = resampled_scores(points, generator, draws=GAIN_DRAWS)
    gain = selection_gain(cell.values, [other.values for other in cell.others], redrawn)
    cell = replace(cell, gain=gain, gain_scope="seeds and examples")
    return replace(entry, cells={**entry.cells, task: cell})


def _known_of(
    board: Board, task: str, known: Sequence[Known | None], is_pooled: bool
) -> dict[int, _Known]:
    """Return the statistics of a task's cells, keyed by the index of the entry."""
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
    estimates, reason = {}, known if isinstance(known, str) else ""
    bounds = score_bounds(find_task(cell.task), score_names(cell.task, rule), cell.values)
    if sample.spread is not None:
        estimates["seeds"] = median_estimate(sample.without_units)
    if isinstance(known, Outcomes):
        found = median_estimate(replace(sample, spread=None))
        # Without width, only an interval at the maximum hides noise: other examples may get wrong
        # answers. At 0, as of the correlation of constant answers, it has none.
        if found.interval(LEVEL).has_width or cell.median < bounds.high - CLOSE:
            estimates["examples"] = found
        else:
            reason = (
                f"on {title_of(cell.task)}, the score is equal for every choice of these examples, "
                "so its uncertainty over examples is unknown"
            )
    if "examples" not in estimates and not any(e.variance for e in estimates.values()):
        estimates = {}  # nothing varies, so the noise is unknown
    if estimates:
        every = [median_estimate(sample), *estimates.values()]
        estimates["both"] = max(every, key=lambda each: each.variance)  # the widest interval
    return _Known(sample=sample, estimates=estimates, bounds=bounds, reason=reason)


def _uncertainty(rule: ScoreRule, entry: Entry, found: Mapping[str, _Known]) -> Uncertainty:
    """Compute the intervals for each cell, and for the score, an unweighted mean of its tasks."""
    cells = {task: _intervals([each]) for task, each in found.items()}
    score = Intervals()
    if entry.score is not None:
        score = _intervals([found[task] for task in rule.cells])
    return Uncertainty(cells=cells, score=score)


def _intervals(cells: Sequence[_Known]) -> Intervals:
    """Compute the intervals for the mean of these cells, for the scopes that all cells have."""
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
    """Set the possible ranks of each entry, and the entries that do not differ significantly.

    An entry is ranked below all entries with a significantly higher score. On at least 95 % of
    leaderboards, no test is a false positive, so that all intervals of ranks contain the true rank.
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
        if uncertainty is None or not all(known[place][t].can_be_tested for t in rule.cells):
            continue
        tied = set(racing) - better[place] - worse[place] - {place}
        # At best, the entry comes directly after all significantly better entries. At worst, it
        # comes directly before all significantly worse entries.
        ranks = 1 + len(better[place]), len(racing) - len(worse[place])
        labels = tuple(entries[other].name for other in sorted(tied))
        found[place] = replace(
            entries[place], uncertainty=replace(uncertainty, ranks=ranks, tied=labels)
        )
    return found
