"""Verdict on whether a variant of a model may replace it, from paired answers to the same rows.

That two scores do not differ significantly shows nothing on few rows. This module tests instead
whether the variant is not worse by more than a margin (non-inferiority), and whether it is worse at
all. Both are exact unconditional tests (Berger and Sidik, Statistical Methods in Medical Research,
2003; Sidik, Statistics in Medicine, 2003) ordered by the score statistic (Tango, Statistics in
Medicine, 1998). Its normal approximation and McNemar's mid-p exceed 5 % if few rows change, up to
7.3 % of cases. All functions are pure.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy  # its parts are loaded on first use

from benchharness.errors import BenchError
from benchharness.leaderboard.comparing import Array, Pairs, PredictedSplit, headline_pairs
from benchharness.leaderboard.comparing.contrast import FEWEST, bootstrap_interval, flips_of
from benchharness.leaderboard.comparing.noise import difference, sample_of
from benchharness.leaderboard.statistics import Interval

ALPHA = 0.05
"""Chance of calling a variant worse that is as good, and of calling one not worse that is worse
by the margin."""

POWER = 0.8
"""Chance of a conclusive verdict on the number of rows that `Verdict.needed` states."""

MANY_ROWS = 3_000
"""Number of rows from which on a margin of one point can be tested if one answer in 40 changes;
on fewer rows the default margin is two points."""

REACH = NormalDist().inv_cdf(1 - ALPHA)
"""Distance of a 95 % limit in standard errors."""

GAMMA = 1e-4
"""Chance that the true share of changed rows lies outside the shares that are tried."""

_DRAWS = 4_000
_MOST_ROWS = 10**8
_EDGE = 1e-12
_TAIL = 1e-7

Told = Literal["worse", "not worse", "cannot be told"]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A verdict on a variant's loss: the original's score minus the variant's (0.01 is a point).

    Attributes:
        told: "worse", "not worse" or "cannot be told".
        margin: Accepted loss.
        loss: Measured loss.
        interval: Interval of the loss with a one-sided limit of 95 % at each end: the true loss is
            above `high` in one case of twenty.
        rows: Number of rows, or of units that are scored together.
        lost: Number of rows that only the original answers right; None if answers are not right or
            wrong.
        gained: Number of rows that only the variant answers right; None if answers are not right or
            wrong.
        p_value: One-sided p-value of the hypothesis that there is no loss; None if the interval
            decides.
        power: Chance that a true loss of the margin is detected on such rows.
        needed: Approximate number of such rows that would be conclusive in 80 % of cases; None if
            the verdict is conclusive or no number would do.
    """

    told: Told
    margin: float
    loss: float
    interval: Interval
    rows: int
    lost: int | None
    gained: int | None
    p_value: float | None
    power: float
    needed: int | None

    @property
    def is_within(self) -> bool:
        """True if the loss is shown to be below the margin, even if there is a loss."""
        return self.interval.high < self.margin

    def sentence(self, than: str) -> str:
        """Return the end of the sentence "int8: ..."; `than` is the original and the rows.

        An example of `than` is "fp32 on SST-2".
        """
        low, high = self.interval.low, self.interval.high
        least = f"at least {_points(-high)} better than {than}"
        most = least if high < 0 else f"at most {_points(high)} worse than {than}"
        match self.told:
            case "worse":
                allowed = f", of which {_points(self.margin)} are allowed" if self.is_within else ""
                return f"worse than {than} by {100 * low:.2g} to {_points(high)}{allowed}"
            case "not worse":
                return most
            case _:
                rows = (
                    f"about {self.needed:,} rows would decide" if self.needed else "it is too close"
                )
                return f"inconclusive: {most}, where {_points(self.margin)} are allowed; {rows}"

    @property
    def power_sentence(self) -> str:
        """Sentence about the power of the test on these rows."""
        found = f"{100 * self.power:.0f} % of cases"
        return f"A loss of {_points(self.margin)} would be detected on such rows in {found}."


def _points(share: float) -> str:
    # Rounded up, so that no limit looks lower than it is.
    points = math.ceil(1000 * share - 1e-6) / 10
    return f"{points:g} point{'' if points == 1 else 's'}"


def default_margin(rows: int) -> float:
    """Return the loss that is accepted by default: one point, or two points on few rows."""
    return 0.01 if rows >= MANY_ROWS else 0.02


def judge(
    splits: Sequence[PredictedSplit], names: Sequence[str], margin: float | None = None
) -> Verdict:
    """Judge `other`, a variant of `one`, by the mean of the scores with these names.

    An accuracy is judged by exact tests, any other score by the paired bootstrap over examples.
    Raises BenchError if the score cannot be broken down by example, or an answer is not a finite
    number.
    """
    headline = headline_pairs(splits, names)
    if headline is None:
        raise BenchError(f"{' and '.join(names)} cannot be split by example: no verdict.")
    flips = flips_of(splits)
    lost = gained = None
    if flips is not None:
        lost = sum(flip.one > flip.other for flip in flips)
        gained = len(flips) - lost
    if headline.is_accuracy and lost is not None and gained is not None:
        return judge_counts(len(headline.units), lost, gained, margin)
    return _judge_pairs(headline.pairs, lost, gained, margin)


def judge_counts(rows: int, lost: int, gained: int, margin: float | None = None) -> Verdict:
    """Judge a variant by how many of `rows` only the original has right, and only the variant.

    Raises BenchError if the counts are impossible.
    """
    margin = _checked(rows, margin)
    if min(lost, gained) < 0 or lost + gained > rows:
        raise BenchError(f"{lost} and {gained} of {rows} rows cannot have changed.")
    loss, p_value = (lost - gained) / rows, exact_p(rows, lost, gained, 0.0)
    is_worse, is_within = p_value <= ALPHA, exact_p(rows, gained, lost, -margin) <= ALPHA
    interval = Interval(
        low=_limit(rows, lost, gained, 0.0, is_excluded=is_worse),
        high=-_limit(rows, gained, lost, -margin, is_excluded=is_within),
    )
    # With few rows it may be chance that none has changed: add one changed row in two more rows.
    # And very few rows do not show how large the loss is.
    churn = (lost + gained + 1) / (rows + 2)
    likely = loss if rows >= FEWEST else 0.0
    told = _told(is_worse=is_worse, is_within=is_within)
    return Verdict(
        told=told,
        margin=margin,
        loss=loss,
        interval=interval,
        rows=rows,
        lost=lost,
        gained=gained,
        p_value=p_value,
        power=_chances(rows, churn, margin, margin)[0],
        needed=_needed(rows, told, lambda count: sum(_chances(count, churn, likely, margin))),
    )


def _judge_pairs(
    pairs: Pairs, lost: int | None, gained: int | None, margin: float | None
) -> Verdict:
    """Judge a variant by the paired bootstrap; with fewer than FEWEST units it is inconclusive."""
    units = len(pairs.one.parts)
    margin = _checked(units, margin)
    if units == 1 or np.array_equal(pairs.one.parts, pairs.other.parts):
        # If no unit has changed, others still may: their number alone bounds how many.
        same = judge_counts(units, 0, 0, margin)
        return replace(same, loss=pairs.difference, lost=lost, gained=gained, p_value=None)
    found = bootstrap_interval(pairs, level=1 - 2 * ALPHA)
    error = math.sqrt(difference(*map(sample_of, pairs)).variance)
    loss, normal = pairs.difference, NormalDist()

    def chance(count: int) -> float:
        width = error * math.sqrt(units / count)
        least = normal.cdf(loss / width - REACH)
        return least + normal.cdf((margin - loss) / width - REACH)

    enough = units >= FEWEST
    told = _told(is_worse=enough and found.low > 0, is_within=enough and found.high < margin)
    return Verdict(
        told=told,
        margin=margin,
        loss=loss,
        interval=found,
        rows=units,
        lost=lost,
        gained=gained,
        p_value=None,
        power=normal.cdf(margin / error - REACH),
        needed=_needed(max(units, FEWEST), told, chance),
    )


def _checked(rows: int, margin: float | None) -> float:
    if rows < 1:
        raise BenchError("there are no rows to judge by.")
    if margin is None:
        return default_margin(rows)
    if not 0 < margin < 1:
        raise BenchError(f"a margin is more than 0 points and less than 100, not {100 * margin:g}.")
    return margin


def _told(*, is_worse: bool, is_within: bool) -> Told:
    if is_worse:
        return "worse"
    return "not worse" if is_within else "cannot be told"


# The exact test and its interval.


def score_statistic(lost: Counts, gained: Counts, rows: int, loss: float) -> Array:
    """Return by how many standard errors the counts exceed a true `loss` (Tango, 1998)."""
    # Maximum-likelihood share of gained rows for this loss: the root of 2 n q^2 + b q - c.
    b = (2 * rows - lost + gained) * loss - lost - gained
    root = np.sqrt((b**2 + 8 * rows * gained * loss * (1 - loss)).clip(0))
    share = (root - b) / (4 * rows)
    found: Array = (lost - gained - rows * loss) / np.sqrt(
        rows * (2 * share + loss * (1 - loss)).clip(_EDGE**2)
    )
    return found


def exact_p(
    rows: int, lost: int, gained: int, loss: float, over: tuple[float, int] = (GAMMA, 17)
) -> float:
    """Return the chance of a statistic this large or larger if the true loss is `loss`.

    It is the maximum over the shares of changed rows in their confidence interval of 1 - gamma,
    plus gamma (Berger and Boos, JASA 1994), so the chance to reject never exceeds the level. `over`
    is gamma and the number of shares that are tried; more shares change the result by less than
    1e-5. With lost and gained exchanged, and -loss, the result is the chance of a statistic this
    small or smaller.
    """
    gamma, shares = over
    least = float(score_statistic(np.array(lost), np.array(gained), rows, loss)) - 1e-9
    reach = scipy.stats.binomtest(lost + gained, rows).proportion_ci(1 - gamma)
    low, high = (max(float(end), abs(loss), _EDGE) for end in reach)
    churn = np.linspace(low, high, shares)
    binomial = scipy.stats.binom
    first, last = binomial.ppf(_TAIL, rows, churn[0]), binomial.ppf(1 - _TAIL, rows, churn[-1])
    counts = np.arange(int(first), int(last) + 1)
    fewest, most = np.zeros_like(counts), counts + 1  # lost rows for each count, by bisection
    while (fewest < most).any():
        middle = (fewest + most) // 2
        is_large = score_statistic(middle, counts - middle, rows, loss) >= least
        fewest, most = np.where(is_large, fewest, middle + 1), np.where(is_large, middle, most)
    churn = churn[:, None]
    chance = binomial.sf(fewest - 1, counts, (churn + loss) / (2 * churn))
    found = (chance * binomial.pmf(counts, rows, churn)).sum(axis=1).max() + gamma
    return min(1.0, float(found))


def _limit(rows: int, lost: int, gained: int, at: float, *, is_excluded: bool) -> float:
    """Return the least loss that the counts do not exclude, by bisection.

    `is_excluded` states whether the counts exclude the loss `at`.
    """
    loss = (lost - gained) / rows
    low, high = (at, loss) if is_excluded else (-1.0, min(at, loss))
    while high - low > 1e-5:
        middle = (low + high) / 2
        if exact_p(rows, lost, gained, middle) <= ALPHA:
            low = middle
        else:
            high = middle
    return high


# Power: what a number of rows would show.


def _chances(rows: int, churn: float, loss: float, margin: float) -> tuple[float, float]:
    """Return how often a true `loss` would be called worse, and how often not worse.

    The estimate uses the same random draws each time.
    """
    churn = min(1.0, max(churn, abs(loss)))
    shares = [(churn + loss) / 2, (churn - loss) / 2, 1 - churn]
    lost, gained, _ = np.random.default_rng(0).multinomial(rows, shares, size=_DRAWS).T
    is_worse = score_statistic(lost, gained, rows, 0.0) > REACH
    is_within = score_statistic(lost, gained, rows, margin) < -REACH
    return float(is_worse.mean()), float((is_within & ~is_worse).mean())


def _needed(rows: int, told: Told, chance: Callable[[int], float]) -> int | None:
    """Return the approximate number of rows that would be conclusive in 80 % of cases.

    It is rounded up to two digits. None if the verdict is conclusive, or if no number is large
    enough.
    """
    if told != "cannot be told":
        return None
    low, high = rows, 2 * rows
    while chance(high) < POWER:
        low, high = high, 2 * high
        if high > _MOST_ROWS:
            return None
    while high > 1.02 * low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) >= POWER else (middle, high)
    step: int = 10 ** max(0, len(str(high)) - 2)
    return -(-high // step) * step
