"""Decide whether a variant of a model may replace it, from paired predictions for the same rows.

On few rows, the lack of a significant difference shows nothing. This module therefore tests whether
the variant is not worse by more than a margin (non-inferiority), and whether it is worse at all.
Both are exact unconditional tests (Berger and Sidik, Statistical Methods in Medical Research, 2003;
Sidik, Statistics in Medicine, 2003) ordered by the score statistic (Tango, Statistics in Medicine,
1998). Neither its normal approximation nor McNemar's mid-p keeps the level of 5 % if few rows
change: they reach up to 7.3 %. All functions are pure.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy  # scipy loads its submodules on first use

from benchharness.errors import BenchError
from benchharness.leaderboard.comparing import Array, Pairs, PredictedSplit, headline_pairs
from benchharness.leaderboard.comparing.contrast import FEWEST, bootstrap_interval, flips_of
from benchharness.leaderboard.comparing.noise import difference, sample_of
from benchharness.leaderboard.statistics import Interval

ALPHA = 0.05
"""Significance level of both tests. It is the probability of calling an equally good variant worse,
and of calling a variant "not worse" if it is worse by the margin.
"""

POWER = 0.8
"""Probability of a conclusive verdict if there are as many rows as `Verdict.needed`."""

MANY_ROWS = 3_000
"""Number of rows from which the default margin is one point; with fewer rows it is two points. A
margin of one point can be tested with this number of rows if one answer in 40 changes.
"""

REACH = NormalDist().inv_cdf(1 - ALPHA)
"""Distance between an estimate and its one-sided 95 % confidence limit, in standard errors."""

GAMMA = 1e-4
"""Probability that the true fraction of changed rows is outside the range that `exact_p` tries."""

_DRAWS = 4_000
_MOST_ROWS = 10**8
_EDGE = 1e-12
_TAIL = 1e-7

Told = Literal["worse", "not worse", "cannot be told"]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Verdict on whether a variant of a model is worse than the original.

    A loss is the original's score minus the variant's score. Scores, losses and margins are
    fractions: 0.01 is one percentage point.

    Attributes:
        told: The verdict: "worse", "not worse" (by more than the margin) or "cannot be told".
        margin: Loss that is accepted.
        loss: Measured loss.
        interval: 90 % confidence interval of the loss. The true loss is above `high` in one case of
            twenty, and below `low` in one case of twenty.
        rows: Number of rows, or of groups of rows that are scored together.
        lost: Number of rows that only the original predicts correctly; None if predictions are not
            simply right or wrong.
        gained: Number of rows that only the variant predicts correctly; None if predictions are not
            simply right or wrong.
        p_value: One-sided p-value of the hypothesis that there is no loss; None if the verdict
            follows from the interval.
        power: Probability of detecting a true loss of the size of the margin on as many rows.
        needed: Approximate number of rows with which the verdict would be conclusive in 80 % of
            cases; None if the verdict is conclusive already, or if no number of rows is enough.
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
        """True if the loss is significantly smaller than the margin, even if there is a loss."""
        return self.interval.high < self.margin

    def sentence(self, than: str) -> str:
        """Return the verdict as a phrase that follows the name of a variant, as in "int8: ...".

        Args:
            than: Names of the original and of the data, such as "fp32 on SST-2".
        """
        low, high = self.interval.low, self.interval.high
        least = f"at least {_points(-high)} better than {than}"
        most = least if high < 0 else f"at most {_points(high)} worse than {than}"
        match self.told:
            case "worse":
                allowed = f", within the margin of {_points(self.margin)}" if self.is_within else ""
                return f"worse than {than} by {100 * low:.2g} to {_points(high)}{allowed}"
            case "not worse":
                return most
            case _:
                rows = (
                    f"about {self.needed:,} rows would be enough"
                    if self.needed
                    else "more rows would not help"
                )
                return f"inconclusive, {most}; the margin is {_points(self.margin)}; {rows}"

    @property
    def power_sentence(self) -> str:
        """Sentence about the probability with which a loss would be detected on these rows."""
        found = f"{100 * self.power:.0f} % of cases"
        return f"A loss of {_points(self.margin)} would be detected on these rows in {found}."


def _points(share: float) -> str:
    # Points are rounded up, so that no limit looks lower than it is.
    points = math.ceil(1000 * share - 1e-6) / 10
    return f"{points:g} point{'' if points == 1 else 's'}"


def default_margin(rows: int) -> float:
    """Return the loss of score that is accepted by default, as a fraction.

    Args:
        rows: Number of rows on which the variant is judged.

    Returns:
        0.01 (one point) if there are at least MANY_ROWS rows, else 0.02.
    """
    return 0.01 if rows >= MANY_ROWS else 0.02


def judge(
    splits: Sequence[PredictedSplit], names: Sequence[str], margin: float | None = None
) -> Verdict:
    """Judge from the scores of a variant and its original whether the variant is worse.

    An accuracy is judged by exact tests, any other score by the paired bootstrap over examples.

    Args:
        splits: Examples with the predictions of the original (`one`) and the variant (`other`).
        names: Names of the scores. The mean of these scores is judged.
        margin: Loss that is accepted, as a fraction; None for `default_margin`.

    Raises:
        BenchError: The score cannot be split by example, a prediction is not a finite number, there
            are no examples, or the margin is not between 0 and 1.
    """
    headline = headline_pairs(splits, names)
    if headline is None:
        raise BenchError(
            f"{' and '.join(names)} cannot be split by example, so the variant cannot be judged."
        )
    flips = flips_of(splits)
    lost = gained = None
    if flips is not None:
        lost = sum(flip.one > flip.other for flip in flips)
        gained = len(flips) - lost
    if headline.is_accuracy and lost is not None and gained is not None:
        return judge_counts(len(headline.units), lost, gained, margin)
    return _judge_pairs(headline.pairs, lost, gained, margin)


def judge_counts(rows: int, lost: int, gained: int, margin: float | None = None) -> Verdict:
    """Judge from counts of right predictions whether a variant is worse than its original.

    Args:
        rows: Number of all rows.
        lost: Number of rows that only the original predicts correctly.
        gained: Number of rows that only the variant predicts correctly.
        margin: Loss of accuracy that is accepted, as a fraction; None for `default_margin`.

    Raises:
        BenchError: There are no rows, the counts are impossible, or the margin is not between 0 and
            1.
    """
    margin = _checked(rows, margin)
    if min(lost, gained) < 0 or lost + gained > rows:
        raise BenchError(
            f"the counts are impossible: {lost} lost and {gained} gained of {rows} rows."
        )
    loss, p_value = (lost - gained) / rows, exact_p(rows, lost, gained, 0.0)
    is_worse, is_within = p_value <= ALPHA, exact_p(rows, gained, lost, -margin) <= ALPHA
    interval = Interval(
        low=_limit(rows, lost, gained, 0.0, is_excluded=is_worse),
        high=-_limit(rows, gained, lost, -margin, is_excluded=is_within),
    )
    # With few rows it may be chance that none has changed. So two more rows are assumed, one of
    # which has changed. Very few rows do not show how large the loss is, so no loss is assumed.
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
    """Judge a variant by the paired bootstrap over units: rows, or groups that are scored together.

    The bootstrap is inconclusive if there are fewer than FEWEST units.
    """
    units = len(pairs.one.parts)
    margin = _checked(units, margin)
    if units == 1 or np.array_equal(pairs.one.parts, pairs.other.parts):
        # No unit has changed here, but units outside of this sample may change. The more units the
        # sample has, the fewer of all units can be expected to change.
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
        raise BenchError("there are no rows on which the variant can be judged.")
    if margin is None:
        return default_margin(rows)
    if not 0 < margin < 1:
        raise BenchError(f"the margin is {100 * margin:g} points, expected one between 0 and 100.")
    return margin


def _told(*, is_worse: bool, is_within: bool) -> Told:
    if is_worse:
        return "worse"
    return "not worse" if is_within else "cannot be told"


# Compute the exact test and its interval.


def score_statistic(lost: Counts, gained: Counts, rows: int, loss: float) -> Array:
    """Return the score statistic for the loss of paired predictions (Tango, 1998).

    It is the number of standard errors by which the measured loss exceeds an assumed true loss.

    Args:
        lost: Number of rows that only the original predicts correctly, in one or several samples.
        gained: Number of rows that only the variant predicts correctly, for the same samples.
        rows: Number of all rows in a sample.
        loss: Assumed true loss, as a fraction.
    """
    # Maximum-likelihood estimate of the fraction of gained rows for this loss. It is the positive
    # root of a quadratic equation (Tango, 1998).
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
    """Return the p-value of an exact test that the true loss is larger than an assumed one.

    The loss is the original's accuracy minus the variant's. A row changes if only one of the two
    predicts it correctly.

    The p-value is the probability of a score statistic at least as large as the measured one if the
    assumed loss is the true one. This probability depends on the unknown fraction of rows that
    change. So the result is its maximum over the confidence interval of this fraction, plus the
    error probability gamma of the interval (Berger and Boos, JASA 1994). The test therefore never
    exceeds its level.

    To test whether the true loss is smaller, exchange `lost` and `gained`, and negate `loss`.

    Args:
        rows: Number of all rows.
        lost: Number of rows that only the original predicts correctly.
        gained: Number of rows that only the variant predicts correctly.
        loss: Assumed true loss, as a fraction.
        over: Pair (gamma, number of fractions that are tried in the interval). A larger number than
            the default changes the result by less than 1e-5.
    """
    gamma, shares = over
    least = float(score_statistic(np.array(lost), np.array(gained), rows, loss)) - 1e-9
    reach = scipy.stats.binomtest(lost + gained, rows).proportion_ci(1 - gamma)
    low, high = (max(float(end), abs(loss), _EDGE) for end in reach)
    churn = np.linspace(low, high, shares)
    binomial = scipy.stats.binom
    first, last = binomial.ppf(_TAIL, rows, churn[0]), binomial.ppf(1 - _TAIL, rows, churn[-1])
    counts = np.arange(int(first), int(last) + 1)
    # For each number of changed rows, find the fewest lost rows that give such a large statistic,
    # by a bisection for all numbers at once.
    fewest, most = np.zeros_like(counts), counts + 1
    while (fewest < most).any():
        middle = (fewest + most) // 2
        is_large = score_statistic(middle, counts - middle, rows, loss) >= least
        fewest, most = np.where(is_large, fewest, middle + 1), np.where(is_large, middle, most)
    churn = churn[:, None]
    chance = binomial.sf(fewest - 1, counts, (churn + loss) / (2 * churn))
    found = (chance * binomial.pmf(counts, rows, churn)).sum(axis=1).max() + gamma
    return min(1.0, float(found))


def _limit(rows: int, lost: int, gained: int, at: float, *, is_excluded: bool) -> float:
    """Return the smallest loss that the counts do not exclude, by bisection.

    `is_excluded` is True if the counts exclude the loss `at`.
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


# Estimate the power, and the number of rows that is needed.


def _chances(rows: int, churn: float, loss: float, margin: float) -> tuple[float, float]:
    """Return the estimated probabilities of the verdicts "worse" and "not worse" for a true loss.

    The simulation uses the same random numbers in each call.
    """
    churn = min(1.0, max(churn, abs(loss)))
    shares = [(churn + loss) / 2, (churn - loss) / 2, 1 - churn]
    lost, gained, _ = np.random.default_rng(0).multinomial(rows, shares, size=_DRAWS).T
    is_worse = score_statistic(lost, gained, rows, 0.0) > REACH
    is_within = score_statistic(lost, gained, rows, margin) < -REACH
    return float(is_worse.mean()), float((is_within & ~is_worse).mean())


def _needed(rows: int, told: Told, chance: Callable[[int], float]) -> int | None:
    """Return the approximate number of rows for a conclusive verdict in 80 % of cases.

    It is rounded up to two digits. Returns None if the verdict is conclusive already, or if no
    number of rows is large enough.
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
