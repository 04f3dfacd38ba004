"""Compute scores of groups of rows, their gaps to the other rows, and the power of the tests.

A group is compared with all other rows of its grouping. The difference of their scores, the gap,
has two sources of noise, as everywhere in benchharness
(`benchharness.leaderboard.comparing.noise`): the choice of rows, which is independent for the group
and the other rows, and the seeds, which affect both together. The intervals of the worst group and
of the largest gap come from a bootstrap over rows and seeds, because these two are chosen among
several groups.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import scipy  # its submodules are loaded on first use

from benchharness.extensions.groups.conditions import Groups
from benchharness.leaderboard.boards.entry import LEVEL
from benchharness.leaderboard.comparing import Array, Outcomes
from benchharness.leaderboard.comparing.noise import (
    Noise,
    Sample,
    noise_of,
    resampled_scores,
    sample_of,
    sample_of_table,
)
from benchharness.leaderboard.statistics import Interval, holm

ALPHA = 0.05
"""Family-wise error rate: the probability that at least one gap of a split is called significant
although no group differs."""

POWER = 0.8
"""Power of the test for which the number of needed rows is computed (Cohen, Statistical Power
Analysis, 1988, section 2.4)."""

DRAWS, MOST_DRAWN = 1_000, 20_000_000
"""Number of resamples, and the largest total number of rows that are drawn for all resamples."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Score of a group of rows, and its gap to the other rows of the grouping.

    Attributes:
        name: Name of the group.
        rows: Number of rows.
        score: Mean score over seeds.
        interval: 95 % confidence interval of the score over rows and seeds.
        gap: Score of the group minus the score of the other rows.
        gap_interval: 95 % confidence interval of the gap over rows and seeds.
        p_value: Two-sided p-value of the gap, corrected for all groups of the split (Holm).
        power: Probability that the test finds a gap of `Grouping.points`, if it is the only gap.
        needed: Number of rows of the group with which this probability is POWER, if the number of
            other rows grows in proportion; None if no number suffices with these seeds.
        places: Indices of the group's rows in the split.
    """

    name: str
    rows: int
    score: float
    interval: Interval
    gap: float
    gap_interval: Interval
    p_value: float
    power: float
    needed: int | None
    places: tuple[int, ...]

    @property
    def differs(self) -> bool:
        """True if the p-value of the gap is below ALPHA."""
        return self.p_value < ALPHA


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """Lowest score of all groups, or largest gap between two groups.

    Attributes:
        names: Name of the group, or names of the two groups.
        value: Score of the group, or score of the first group minus the score of the second.
        interval: Simultaneous 95 % confidence interval: with this probability, the intervals of all
            groups (or pairs) are correct together. So it is valid although the group was chosen by
            its score.
    """

    names: tuple[str, ...]
    value: float
    interval: Interval


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Groups of a split by one criterion.

    Attributes:
        spec: Criterion, as in `--groups`.
        groups: Scores of the groups.
        worst: Group with the lowest score.
        gap: Largest gap between two groups.
        points: Gap for which `Group.power` and `Group.needed` hold, in the unit of the score.
    """

    spec: str
    groups: tuple[Group, ...]
    worst: Extreme
    gap: Extreme
    points: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Side:
    """Rows of a group, or all other rows.

    Attributes:
        outcomes: Outcomes of the rows, from which their score is computed.
        sample: Score per seed, and the data from which its noise is estimated.
    """

    outcomes: Outcomes
    sample: Sample

    @property
    def count(self) -> int:
        return len(self.outcomes.parts)

    @property
    def variance(self) -> float:
        """Variance of the mean score over seeds that is due to the choice of rows."""
        return noise_of(replace(self.sample, spread=None)).units


def _side(outcomes: Outcomes, places: Sequence[int]) -> _Side:
    part = replace(outcomes, parts=outcomes.parts[list(places)])
    return _Side(outcomes=part, sample=sample_of(part))


def gap_noise(one: _Side, other: _Side) -> Noise:
    """Return the noise of the difference between the scores of two groups.

    The rows of both groups are independent samples, so their variances are added (Welch, 1947). If
    the pooled variance of all rows gives a larger sum, it is used instead: a small group with
    hardly any wrong answers may have a small variance by chance, which would raise the rate of
    false alarms to 6 %. A seed affects both groups together, so the variance over seeds is computed
    from the difference per seed.
    """
    parts = [(side.variance, side.count - 1) for side in (one, other)]
    units = sum(variance for variance, _ in parts)
    squares = sum(variance**2 / freedom for variance, freedom in parts)
    every = np.concatenate([side.sample.table.mean(axis=1) for side in (one, other)])
    whole = float(every.var(ddof=1)) * (1 / one.count + 1 / other.count)
    if whole > units:
        squares *= (whole / units) ** 2 if units else 0.0
        units = whole
    # One table with a value per row and seed: each column has the mean of that seed's difference.
    gaps = one.sample.scores - other.sample.scores
    count = one.count + other.count
    table = np.concatenate(
        [
            gaps + sign * count / side.count * (side.sample.table - side.sample.scores)
            for sign, side in ((1, one), (-1, other))
        ]
    )
    spread = sample_of_table(table).spread
    is_fixed = one.sample.is_fixed and other.sample.is_fixed
    return Noise(
        units=units,
        unit_freedom=max(1, math.floor(units**2 / squares) if squares else count - 2),
        seeds=None if is_fixed else spread,
        sides=() if is_fixed else (table.shape[1],),
    )


def power_of(noise: Noise, points: float, alpha: float) -> float:
    """Return the probability that a two-sided t-test finds a gap.

    The test statistic has a noncentral t distribution.

    Args:
        noise: Noise of the gap.
        points: True gap, in the unit of the score.
        alpha: Significance level of the test.
    """
    estimate = noise.estimate(points)
    if not estimate.variance:
        return 1.0
    freedom, shift = estimate.freedom, points / math.sqrt(estimate.variance)
    critical = float(scipy.special.stdtrit(freedom, 1 - alpha / 2))
    below, above = (scipy.special.nctdtr(freedom, shift, end) for end in (-critical, critical))
    return float(below + 1 - above)


def _with_rows(noise: Noise, factor: float) -> Noise:
    """Return the noise that is expected with `factor` times as many rows."""
    seeds = noise.seeds
    if seeds is not None:
        shared = max(0.0, seeds.variance - seeds.own)
        own = seeds.own / factor
        seeds = replace(seeds, variance=shared + own, own=own)
    freedom = max(1, round(noise.unit_freedom * factor))
    return replace(noise, units=noise.units / factor, unit_freedom=freedom, seeds=seeds)


MOST_TIMES = 1e4
"""Largest factor by which the number of rows is increased to find how many are needed."""


def rows_needed(noise: Noise, rows: int, points: float, alpha: float) -> int | None:
    """Return the number of rows of a group with which a gap of `points` is found with POWER.

    Args:
        noise: Noise of the gap with the present rows.
        rows: Present number of rows of the group.
        points: True gap, in the unit of the score.
        alpha: Significance level of the test.

    Returns:
        The number of rows; None if MOST_TIMES as many rows do not suffice, because the seeds differ
        too much.
    """
    low, high = 2.0 / rows, MOST_TIMES
    if power_of(_with_rows(noise, high), points, alpha) < POWER:
        return None
    while high / low > 1 + 1e-4:
        middle = math.sqrt(low * high)
        if power_of(_with_rows(noise, middle), points, alpha) < POWER:
            low = middle
        else:
            high = middle
    return math.ceil(rows * high)


def measure(
    outcomes: Outcomes,
    groupings: Mapping[str, Groups],
    bounds: Interval,
    *,
    points: float = 0.05,
    draws: int = DRAWS,
) -> list[Grouping]:
    """Compute the scores and gaps of all groups of a split.

    Args:
        outcomes: Outcomes of a system on the split, with one unit per row.
        groupings: Indices of the rows in each group, keyed by grouping, then by the name of the
            group. Each group has at least two rows. Groupings with fewer than two comparable groups
            are left out.
        bounds: Lowest and highest possible score.
        points: Gap for which the power is computed, in the unit of the score.
        draws: Number of resamples for the worst group and the largest gap.
    """
    groupings = {spec: _comparable(groups) for spec, groups in groupings.items()}
    sides = {
        spec: {name: _pair(outcomes, places, groups) for name, places in groups.items()}
        for spec, groups in groupings.items()
    }
    noises = {
        (spec, name): gap_noise(*pair)
        for spec, pairs in sides.items()
        for name, pair in pairs.items()
    }
    # The two groups of a grouping are one comparison. So are equal groups of two groupings.
    tests = {key: _key(groupings[key[0]], key[1]) for key in noises}
    first = {test: key for key, test in reversed(tests.items())}
    alpha = ALPHA / max(1, len(first))
    p_values = {
        test: noises[key].estimate(_gap(sides[key[0]][key[1]])).p_value
        for test, key in first.items()
    }
    corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return [
        Grouping(
            spec=spec,
            groups=tuple(
                _group(
                    name,
                    sides[spec][name],
                    noises[spec, name],
                    groups[name],
                    (corrected[tests[spec, name]], alpha, points, bounds),
                )
                for name in groups
            ),
            **_chosen(spec, {name: pair[0] for name, pair in sides[spec].items()}, bounds, draws),
            points=points,
        )
        for spec, groups in groupings.items()
        if len(groups) > 1
    ]


def _rest(groups: Groups, places: Sequence[int]) -> frozenset[int]:
    """Return the rows of a grouping that are not among `places`."""
    return frozenset(n for found in groups.values() for n in found) - frozenset(places)


def _comparable(groups: Groups) -> Groups:
    """Return the groups with at least two other rows; overlapping categories may have fewer."""
    return {name: found for name, found in groups.items() if len(_rest(groups, found)) > 1}


def _pair(outcomes: Outcomes, places: Sequence[int], groups: Groups) -> tuple[_Side, _Side]:
    return _side(outcomes, places), _side(outcomes, sorted(_rest(groups, places)))


def _key(groups: Groups, name: str) -> frozenset[frozenset[int]]:
    """Return a key that is the same for a group and for the rows with which it is compared."""
    return frozenset((frozenset(groups[name]), _rest(groups, groups[name])))


def _gap(pair: tuple[_Side, _Side]) -> float:
    one, other = (float(side.sample.scores.mean()) for side in pair)
    return one - other


def _group(
    name: str,
    pair: tuple[_Side, _Side],
    noise: Noise,
    places: Sequence[int],
    test: tuple[float, float, float, Interval],
) -> Group:
    p_value, alpha, points, bounds = test
    side, gap, width = pair[0], _gap(pair), bounds.high - bounds.low
    score = float(side.sample.scores.mean())
    interval = noise_of(side.sample).estimate(score).interval(LEVEL)
    return Group(
        name=name,
        rows=len(places),
        score=score,
        interval=_within(interval, bounds, score),
        gap=gap,
        gap_interval=_within(
            noise.estimate(gap).interval(LEVEL), Interval(low=-width, high=width), gap
        ),
        p_value=p_value,
        power=power_of(noise, points, alpha),
        needed=rows_needed(noise, len(places), points, alpha),
        places=tuple(places),
    )


def _within(interval: Interval, bounds: Interval, value: float) -> Interval:
    # The value itself may be beyond the bounds by a rounding error.
    return interval.within(Interval(low=min(bounds.low, value), high=max(bounds.high, value)))


# Worst group and largest gap. They are chosen by their scores, so their intervals as single groups
# would be too narrow. A bootstrap gives the distribution of the largest deviation of all groups (or
# pairs) in standard errors. Its 95th percentile is the half width of simultaneous intervals (the
# maximum-t method; Hothorn et al., Biometrical Journal, 2008).


def _chosen(
    spec: str, sides: Mapping[str, _Side], bounds: Interval, draws: int
) -> dict[str, Extreme]:
    names = list(sides)
    scores = np.array([side.sample.scores.mean() for side in sides.values()])
    drawn = _resampled(spec, list(sides.values()), draws) - scores  # (draws, groups)
    errors = [_error(noise_of(side.sample)) for side in sides.values()]
    pairs = list(combinations(range(len(names)), 2))
    gap_errors = [_error(gap_noise(*(sides[names[n]] for n in pair))) for pair in pairs]
    reach = _largest(np.abs(drawn), np.array(errors))
    gap_reach = _largest(
        np.stack([np.abs(drawn[:, a] - drawn[:, b]) for a, b in pairs], axis=1),
        np.array(gap_errors),
    )
    worst = int(scores.argmin())
    best, place = max((abs(scores[a] - scores[b]), n) for n, (a, b) in enumerate(pairs))
    high, low = sorted(pairs[place], key=lambda n: -scores[n])
    gap, width = float(best), bounds.high - bounds.low
    score, ends = float(scores[worst]), reach * errors[worst]
    gap_ends = gap_reach * gap_errors[place]
    return {
        "worst": Extreme(
            names=(names[worst],),
            value=score,
            interval=_within(Interval(low=score - ends, high=score + ends), bounds, score),
        ),
        "gap": Extreme(
            names=(names[high], names[low]),
            value=gap,
            interval=_within(
                Interval(low=gap - gap_ends, high=gap + gap_ends), Interval(low=0, high=width), gap
            ),
        ),
    }


def _error(noise: Noise) -> float:
    return math.sqrt(noise.estimate(0.0).variance)


def _largest(deviations: Array, errors: Array) -> float:
    """Return the 95th percentile of the largest deviation in standard errors, over the draws."""
    known = errors > 0
    if not known.any():
        return 0.0
    return float(np.quantile((deviations[:, known] / errors[known]).max(axis=1), LEVEL))


def _resampled(spec: str, sides: Sequence[_Side], draws: int) -> Array:
    """Return the scores of groups on resampled rows and seeds, as an array `[draws, groups]`.

    Rows are drawn within each group. Seeds are drawn for all groups together; because the variance
    of n drawn seeds is too small by a factor of (n - 1) / n, their deviations are enlarged.
    """
    rows = sum(side.count for side in sides)
    draws = min(draws, max(200, MOST_DRAWN // rows))
    # The random seed is a CRC-32, because the `hash` of a string differs between processes.
    generator = np.random.default_rng(zlib.crc32(f"groups {spec}".encode()))
    scores = np.stack(
        [resampled_scores([side.outcomes], generator, draws=draws)[0] for side in sides], axis=1
    )  # (draws, groups, seeds)
    seeds = scores.shape[2]
    if seeds == 1:
        return scores[:, :, 0]
    chosen = generator.integers(seeds, size=(draws, seeds))
    picked = np.take_along_axis(scores, chosen[:, None, :], axis=2).mean(axis=2)
    mean = scores.mean(axis=2)
    found: Array = mean + (picked - mean) * math.sqrt(seeds / (seeds - 1))
    return found
