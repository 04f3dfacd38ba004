"""What other examples and seeds do to scores: intervals, tests of differences, and ranks. Pure.

A system's runs are a table of units by seeds. Other units move all seeds of both systems together;
other seeds move each system alone, because two encoders share nothing but the number of a seed. So
differences are paired by units and not by seeds, and the systems need not have as many of them.
Ranks come from tests of pairs, and not from the intervals of single entries: every entry of a board
is scored on the same examples, and what makes a set easy or hard moves all alike.
"""

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded on first use

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
from benchharness.tasks.suites import ScoreRule, find_task


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
            # Without noise any difference is real, and none is none.
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
    # A mean of k independent values: variances by k^2, and their squares by k^4.
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
    # The score without each unit, [units, seeds]; (n - 1) times what that moves is what the unit
    # adds. Centred, so that the mean over units is the score itself.
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
        # Two ways without repeats: what the means of unit and seed leave is a seed's own chance on
        # a unit. Its mean square by the number of units is the part that it has in a score.
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
        # The units' part has seeds' own chance in it: that of these goes, that of so many comes.
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
        # 1/n of the one system and 1/m of the other.
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
    # Each unit's mean over seeds, or the difference of two systems on it.
    units = first - sum(rest)
    count = len(units)
    variance = float(units.var(ddof=1)) / count if count > 1 else 0.0
    if other is not None and count > 1:
        # Where all units are alike, the next one need not be.
        variance = max(variance, float(np.abs(units).max() / count) ** 2)
    return Noise(
        units=variance,
        # It is divided by, also where there are no units and their part is 0.
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
    # var(median) / var(mean): pi / 2 from three seeds on, 1 of one or two.
    loss = seeds * median_deviation(1.0, seeds) ** 2
    return noise_of(sample).estimate(float(np.median(sample.scores)), loss=loss)


# Scores on other examples, drawn from those that there are.

CHUNK = 2**22
"""Numbers that are held at once, 32 MiB."""

DRAWS_CHUNK = 2**23
"""How often each unit was drawn: numbers that are held at once, 64 MiB."""


def chunks(draws: int, width: int, most: int = CHUNK) -> Iterator[int]:
    """The draws in parts, of as many numbers as are held at once."""
    size = max(1, most // max(1, width))
    yield from (min(size, draws - start) for start in range(0, draws, size))


def times_drawn(
    kind_of: npt.NDArray[np.intp], kinds: int, draws: int, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """How often each kind comes where units are drawn one by one, [draws, kinds]."""
    units = len(kind_of)
    samples = (kind_of[generator.integers(units, size=units)] for _ in range(draws))
    return np.stack([np.bincount(sample, minlength=kinds) for sample in samples])


def resampled_scores(
    systems: Sequence[Outcomes], generator: np.random.Generator, *, draws: int
) -> list[Array]:
    """Each system's scores on `draws` sets of as many units, [draws, seeds].

    Units are drawn with replacement, the same ones for all systems, each with all seeds, so that
    the systems stay paired (Efron and Tibshirani, An Introduction to the Bootstrap, 1993).
    """
    units = len(systems[0].parts)
    flat = [system.parts.reshape(units, -1) for system in systems]
    found: list[list[Array]] = [[] for _ in systems]
    for few in chunks(draws, units, DRAWS_CHUNK):
        # floats multiply much faster
        times = times_drawn(np.arange(units), units, few, generator).astype(np.float64)
        for system, parts, scores in zip(systems, flat, found, strict=True):
            # [draws, units] by [units, seeds x parts]: the sums of all draws at once.
            means = (times @ parts / units).reshape(len(times), *system.parts.shape[1:])
            scores.append(system.score(means))
    return [np.concatenate(scores) for scores in found]


# The entries of a board: their intervals, and whom a test tells apart.

GAIN_DRAWS = 500
"""A variance needs fewer draws than the end of an interval."""

SCOPES = ("both", "examples", "seeds")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Known:
    """What is known of an entry's cell: a sample, and an estimate of its median for each scope."""

    sample: Sample
    estimates: Mapping[str, Estimate]
    bounds: Interval
    reason: str


Tried = Mapping[str, Sequence[Sequence[Known]]]
"""What is known, by task and entry, of the points that the entry's own was chosen from."""


def with_uncertainty(
    board: Board,
    known: Mapping[str, Sequence[Known | None]],
    *,
    tried: Tried | None = None,
    is_pooled: bool = False,
) -> Board:
    """The board with the uncertainty of each entry.

    `known` has for each task what is known of every entry's cell, in the order of the entries,
    None where there is no cell. Intervals are of the median over seeds, and of the suite's score,
    the mean that its rule takes of these. Ranks are by the test of `difference`, corrected by Holm
    for all pairs. `is_pooled` takes all entries of a task for equally noisy over seeds, where most
    have too few to show their own. Where `tried` has the other points of a sweep, the gain by
    choice of its cells is over other examples too.
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
    """The entry with what the choice of a task's point gains over other seeds and examples.

    It stays that over seeds alone where the examples of a point cannot be had.
    """
    # What cannot be had is a text or None, so one of them makes the list too short.
    points = [each for each in (known, *others) if isinstance(each, Outcomes)]
    if not others or len(points) <= len(others):
        return entry
    cell = entry.cells[task]
    # By crc32, because `hash` of a text differs from process to process.
    generator = np.random.default_rng(zlib.crc32(f"gain {task}".encode()))
    redrawn = resampled_scores(points, generator, draws=GAIN_DRAWS)
    gain = selection_gain(cell.values, [other.values for other in cell.others], redrawn)
    cell = replace(cell, gain=gain, gain_scope="seeds and examples")
    return replace(entry, cells={**entry.cells, task: cell})


def _known_of(
    board: Board, task: str, known: Sequence[Known | None], is_pooled: bool
) -> dict[int, _Known]:
    """The cells of a column by the places of their entries."""
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
        estimates["both"] = max(found, key=lambda each: each.variance)  # no surer than either
    names = score_names(cell.task, rule)
    return _Known(
        sample=sample,
        estimates=estimates,
        bounds=score_bounds(find_task(cell.task), names, cell.values),
        reason=known if isinstance(known, str) else "",
    )


def _uncertainty(rule: ScoreRule, entry: Entry, found: Mapping[str, _Known]) -> Uncertainty:
    """Of each cell, and of the score: the mean over the rule's tasks, which all weigh the same."""
    cells = {task: _intervals([each]) for task, each in found.items()}
    score = Intervals()
    if entry.score is not None:
        score = _intervals([found[task] for task in rule.cells])
    return Uncertainty(cells=cells, score=score)


def _intervals(cells: Sequence[_Known]) -> Intervals:
    """Of the mean of some cells; of a scope that one of them lacks there is none."""
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
    """The entries with the ranks that they may have, and whom they are not told apart from.

    Above an entry are those that are told apart from it and score more. As no pair of equal
    systems is told apart on 95 % of such boards, all ranks hold the true ones on as many.
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
        # At best just below those that are above it beyond noise, at worst just above those below.
        ranks = 1 + len(better[place]), len(racing) - len(worse[place])
        labels = tuple(entries[other].name for other in sorted(tied))
        found[place] = replace(
            entries[place], uncertainty=replace(uncertainty, ranks=ranks, tied=labels)
        )
    return found
