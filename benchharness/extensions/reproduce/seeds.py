"""Test whether the scores of a job and of its repetition differ by more than other seeds would."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

from benchharness.leaderboard.statistics import student_t

ALPHA = 0.05
"""Significance level of all tests on a run together: the probability that a repetition counts as
different although it differs only as much as a run with another seed."""

POINT = 0.01
"""Difference between scores for which the power is stated: one point on a scale of 100."""

_POWER = 0.8  # power for which the detectable difference is stated
_MANY = 1e9  # degrees of freedom of a normal distribution


@dataclass(frozen=True, kw_only=True)
class ScoreTest:
    """Test of the difference between a stored score and the score of its repetition.

    Attributes:
        name: Name of the score, with its task.
        stored: Score of the stored run.
        found: Score of the repetition.
        limit: Largest absolute difference that other seeds explain.
        deviation: Standard deviation of the score over seeds.
        seeds: Number of other seeds from which the deviation was estimated; 0 if it was computed
            from the number of examples (see `check_scores`).
        rows: Number of examples of the split.
        power: Probability that the test finds a true difference of one point (0.01).
        detectable: Difference that the test finds with a probability of 80 %.
    """

    name: str
    stored: float
    found: float
    limit: float
    deviation: float
    seeds: int
    rows: int
    power: float
    detectable: float

    @property
    def is_within(self) -> bool:
        """True if the difference is not larger than the limit."""
        return abs(self.found - self.stored) <= self.limit

    @property
    def sentence(self) -> str:
        """Description of the test's result, with the source of the limit and the power."""
        source = (
            f"from {self.seeds} other seeds"
            if self.seeds
            else "from the standard error of a difference of two scores on "
            f"{self.rows:,} rows, because fewer than two other seeds with different scores are "
            "stored"
        )
        verb = "is within" if self.is_within else "exceeds"
        return (
            f"{self.name} was {100 * self.stored:.2f} and is {100 * self.found:.2f}: the "
            f"difference {100 * (self.found - self.stored):+.2f} {verb} ±{100 * self.limit:.2f} "
            f"({source}). The test finds a difference of 1 point with a probability of "
            f"{self.power:.0%}, and one of {100 * self.detectable:.1f} points with 80 %."
        )


def check_scores(
    pairs: Mapping[str, tuple[float, float]],
    others: Mapping[str, Sequence[float]],
    rows: Mapping[str, int],
    widths: Mapping[str, float],
) -> list[ScoreTest]:
    """Test each score of a run; together the tests have the level `ALPHA` (Bonferroni).

    If the scores of two or more other seeds are stored and differ, the difference of two runs has a
    t distribution, whose scale is the standard deviation of these scores times the square root of
    2. Otherwise, the standard deviation is assumed to be the standard error of a score as a mean
    over the examples of the split. This assumption is lenient, because two seeds of one model
    mostly give the same answers.

    Args:
        pairs: Pairs (stored score, score of the repetition), keyed by the name of the score.
        others: Scores of stored runs that differ only in the seed, keyed by the name of the score.
        rows: Number of examples of the score's split, keyed by the name of the score.
        widths: Highest minus lowest possible value of a score, keyed by its name.
    """
    level = ALPHA / max(1, len(pairs))
    return [
        _test(name, *pair, others.get(name, ()), rows[name], widths[name], level)
        for name, pair in pairs.items()
    ]


def _test(  # noqa: PLR0913, PLR0917  (facts about one score)
    name: str,
    stored: float,
    found: float,
    others: Sequence[float],
    rows: int,
    width: float,
    level: float,
) -> ScoreTest:
    deviation = stdev(others) if len(others) > 1 else 0.0
    is_known = deviation > 0
    if not is_known:
        # The variance of a mean of values from 0 to 1 is at most p (1 - p) / n.
        share = min(max(found, 0.0), 1.0)
        spread = math.sqrt(share * (1 - share)) if width == 1 else width / 2
        deviation = max(spread, 0.5 / math.sqrt(rows)) / math.sqrt(rows)
    freedom = len(others) - 1.0 if is_known else _MANY
    critical, scale = student_t(freedom, 1 - level / 2), deviation * math.sqrt(2)
    return ScoreTest(
        name=name,
        stored=stored,
        found=found,
        limit=critical * scale,
        deviation=deviation,
        seeds=len(others) if is_known else 0,
        rows=rows,
        power=power(POINT / scale, freedom, critical),
        detectable=scale * _shift(freedom, critical),
    )


def power(shift: float, freedom: float, critical: float) -> float:
    """Return the probability that the absolute value of a test statistic exceeds a critical value.

    The statistic has a noncentral t distribution (Cohen, Statistical Power Analysis, 1988, 2.5).

    Args:
        shift: True difference divided by the scale of the difference, the noncentrality parameter.
        freedom: Degrees of freedom.
        critical: Two-sided critical value of the statistic.
    """
    from scipy.special import nctdtr, ndtr  # noqa: PLC0415  (half a second)

    upper = 1 - float(nctdtr(freedom, shift, critical))
    found = upper + float(nctdtr(freedom, shift, -critical))
    # Far in the tails, or with very many degrees of freedom, scipy returns NaN.
    if freedom >= _MANY or not math.isfinite(found):
        found = float(ndtr(shift - critical) + ndtr(-shift - critical))
    return min(1.0, max(0.0, found))


def _shift(freedom: float, critical: float) -> float:
    """Return the shift (see `power`) at which the power is 80 %."""
    low, high = 0.0, 10 * critical + 10
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if power(middle, freedom, critical) < _POWER else (low, middle)
    return high
