"""Confidence intervals, selection bias, and Holm's correction. All functions are pure.

numpy and scipy are imported only when they are used, because every leaderboard imports this module
and importing scipy takes half a second.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median, stdev, variance
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Interval from `low` to `high`, both included, on the scale of the score.

    It is usually a confidence interval, but may also be the range of possible scores.
    """

    low: float
    high: float

    def has(self, value: float) -> bool:
        """Return whether the value is between `low` and `high`, inclusive."""
        return self.low <= value <= self.high

    def within(self, bounds: "Interval") -> "Interval":
        """Return the intersection of the interval and `bounds`, which must overlap."""
        return Interval(low=max(self.low, bounds.low), high=min(self.high, bounds.high))

    @property
    def has_width(self) -> bool:
        """False if both ends are equal except for rounding errors, so that the noise is unknown."""
        return self.high - self.low > 1e-9


def unseen_share(units: int, *, level: float = 0.95) -> float:
    """Return the largest share of units that may differ, although none of a sample does.

    This is the end of the exact interval of Clopper and Pearson (Biometrika, 1934) for 0 of `units`
    units. For 40 right answers of 40, up to 8.8 % of all answers may be wrong.
    """
    return 1.0 - float(((1 - level) / 2) ** (1 / units))


def _numpy() -> Any:
    import numpy  # noqa: PLC0415, ICN001  (a tenth of a second; most boards do not need it)

    return numpy


def student_t(freedom: float, chance: float) -> float:
    """Return a quantile of Student's t distribution.

    Args:
        freedom: Degrees of freedom.
        chance: Probability that a value is below the quantile.
    """
    from scipy.special import stdtrit  # noqa: PLC0415  (half a second)

    return float(stdtrit(freedom, chance))


# Uncertainty of the median over a sample of seeds, as an estimate of the median over all seeds.

LOSS = math.sqrt(math.pi / 2)
"""Standard error of the median divided by that of the mean, for many normally distributed values
(Kenney and Keeping, Mathematics of Statistics, 1962, part 1, section 14.9). For three to ten values
the ratio is only 1.08 to 1.20, so that intervals based on this constant are slightly too wide.
"""


def median_error(values: Sequence[float]) -> float:
    """Return the standard error of the median over seeds; 0 if there is only one seed."""
    return median_deviation(stdev(values), len(values)) if len(values) > 1 else 0.0


def median_deviation(deviation: float, count: int) -> float:
    """Return the standard error of the median of `count` normally distributed values.

    `deviation` is the standard deviation of the values.
    """
    loss = LOSS if count > 2 else 1.0  # the median of two values is their mean
    return loss * deviation / math.sqrt(count)


def pooled_deviation(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """Return the pooled standard deviation within groups, and its degrees of freedom.

    A group contains, for example, the scores of a system's seeds. All groups are assumed to have
    the same true standard deviation, so that even groups of two values contribute. Both results are
    0 if no group has two values.
    """
    # s^2 = sum((n - 1) * s_i^2) / sum(n - 1): each group is weighted by its degrees of freedom.
    several = [values for values in groups if len(values) > 1]
    freedom = sum(len(values) - 1 for values in several)
    squares = sum((len(values) - 1) * variance(values) for values in several)
    return (math.sqrt(squares / freedom), freedom) if freedom else (0.0, 0)


LEAST_SEEDS = 3
"""Minimum number of seeds for an interval. An interval from two seeds would be useless, because it
is more than twelve times as wide as the difference of their scores.
"""


def median_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """Return a confidence interval for the median of the scores of n seeds.

    It is based on Student's t distribution with n - 1 degrees of freedom. For a single seed, its
    width is 0.

    Args:
        values: Scores of the seeds.
        level: Confidence level.
    """
    reach = median_error(values)
    # Student's t has no degrees of freedom for a single value, whose standard error is 0.
    if reach:
        reach *= student_t(len(values) - 1, (1 + level) / 2)
    return Interval(low=median(values) - reach, high=median(values) + reach)


def useful_interval(values: Sequence[float]) -> Interval | None:
    """Return the 95 % confidence interval of the median; None for fewer than three values."""
    return median_interval(values) if len(values) >= LEAST_SEEDS else None


# Selection bias: the part of the best candidate's score that is due to chance.


CONTENDERS = 3.0
"""Maximum distance from the best median, in standard errors, at which a candidate is assumed to
have had a chance to be the best by luck.
"""

GAIN_DRAWS = 4_000
"""Number of random draws for estimating the expected gain by luck. The error of the estimate is
below 2 % of the standard deviation of the noise.
"""


def selection_gain(
    chosen: Sequence[float], others: Sequence[Sequence[float]], redrawn: Sequence[Any] = ()
) -> float | None:
    """Estimate how far the median of the best candidate is above its expected value on new seeds.

    Candidates are, for example, hyperparameter settings. The best of k equal candidates exceeds
    their common value by the expected maximum of k errors (Dodge et al., Show your work, 2019). If
    the candidates differ, the gain is smaller, because the best candidate is also truly better.
    Therefore the medians of the candidates that could have won are shrunk towards their mean by the
    share of their variance that seeds explain (empirical Bayes, as in Efron and Morris, 1975), and
    the gain is the expected noise of the winner among them. The standard deviation of seeds is
    estimated from the median difference between two seeds of a candidate, because a few collapsed
    runs do not change this median. Candidates whose seeds all have the same score (usually because
    they have collapsed) are left out of it, because many of them would make this median 0; they
    count as candidates without noise. The variance due to examples is computed over resampled test
    sets, from the candidates' deviations from their common mean, without the part that is due to
    seeds.

    In simulations of 8 candidates with 5 seeds, the mean error is below a quarter of the standard
    deviation of seeds. If most candidates or runs collapse, it is larger: up to about half of
    the true gain.

    Args:
        chosen: Scores of the best candidate, one per seed.
        others: Scores of each other candidate, one per seed.
        redrawn: Scores on resampled examples: one array `[draws, seeds]` per candidate, the best
            candidate first. If these are given, the result is the distance to the expected value on
            new seeds and new examples.

    Returns:
        The gain, or None if no candidate has two seeds, so that the noise is unknown. The gain is 0
        if no other candidate is close enough to have won by luck, or if the medians are equal.
    """
    candidates = [chosen, *others]
    if all(len(values) < 2 for values in candidates):
        return None
    medians = [median(values) for values in candidates]
    error = median_deviation(_deviation(candidates), len(chosen))
    # Use only the best candidate (index 0) and candidates close to it. A candidate far below could
    # not have won by luck, and would increase the variance of the medians.
    near = [
        place
        for place, value in enumerate(medians)
        if abs(medians[0] - value) <= CONTENDERS * _error(error, redrawn, place)
    ]
    tried = [medians[place] for place in near]
    # A single candidate was not chosen by luck, so the gain is 0. For equal medians, the code below
    # would divide by their variance, which is 0.
    if len(near) < 2 or max(tried) == min(tried):
        return 0.0
    contenders = [candidates[place] for place in near]
    deviation = _deviation(contenders)
    # Average the variances of the candidates, because their numbers of seeds may differ, and some
    # have no noise.
    noise = fmean(
        0.0 if _is_constant(values) else median_deviation(deviation, len(values)) ** 2
        for values in contenders
    )
    noise += _noise_of_examples([redrawn[place] for place in near]) if redrawn else 0.0
    return _expected_gain(tried, noise)


def _is_constant(values: Sequence[float]) -> bool:
    """Return whether there are several seeds, and all have the same score."""
    return len(values) > 1 and max(values) == min(values)


def _deviation(candidates: Sequence[Sequence[float]]) -> float:
    """Estimate the standard deviation over seeds of the candidates whose seeds differ.

    It is 0 if there is no such candidate.
    """
    varying = [values for values in candidates if not _is_constant(values)]
    pairs = [abs(a - b) for values in varying for a, b in combinations(values, 2)]
    # The difference of two normal values has sqrt(2) times their standard deviation. The median of
    # its absolute value is 0.6745 (the third quartile of the normal distribution) times that.
    return median(pairs) / (0.6745 * math.sqrt(2)) if pairs else 0.0


def _expected_gain(medians: Sequence[float], noise: float) -> float:
    """Return how far the best candidate's score is expected to be above its true value.

    `noise` is the variance of the noise of each score. The true values are assumed to be the
    medians, moved towards their mean until their variance plus `noise` equals the variance of the
    medians.
    """
    np = _numpy()
    center, spread = fmean(medians), variance(medians)
    # var(medians) = var(values) + noise, so the values keep this share of the medians' standard
    # deviation. If the noise alone explains the variance, all values are equal.
    kept = math.sqrt(max(0.0, 1 - noise / spread))
    values = center + kept * (np.asarray(medians) - center)
    chance = np.random.default_rng(0).normal(0, math.sqrt(noise), (GAIN_DRAWS, len(medians)))
    # The gain is the mean noise of the winner over all draws.
    best = (values + chance).argmax(axis=1)
    return float(np.take_along_axis(chance, best[:, None], axis=1).mean())


def _error(error: float, redrawn: Sequence[Any], place: int) -> float:
    """Return the standard error with which a candidate's distance to the best is compared.

    It is `error`, which is due to seeds, combined with the noise of resampled examples, if these
    are given. `place` is the index of the candidate.
    """
    # Resampling examples cannot change the difference of the best (index 0) to itself.
    if not redrawn or not place:
        return error
    return math.sqrt(error**2 + _noise_of_examples([redrawn[0], redrawn[place]]))


def _noise_of_examples(redrawn: Sequence[Any]) -> float:
    """Return the variance of each candidate's score that is due to the choice of examples.

    Variation that all candidates share is left out. Variation of single seeds is left out too,
    because the variance over seeds already contains it; it is estimated by comparing the variance
    of single seeds with the variance of the mean over seeds. `redrawn` contains an array
    `[draws, seeds]` per candidate.
    """
    np = _numpy()
    seeds = min(scores.shape[1] for scores in redrawn)
    # Stack the scores, each centered over the draws, as [candidates, draws, seeds]. The variance
    # over candidates does not contain the effect that a draw has on all candidates.
    found = np.stack([scores[:, :seeds] - scores.mean(axis=0)[:seeds] for scores in redrawn])
    single = float(found.var(axis=0, ddof=1).mean())
    together = float(found.mean(axis=2).var(axis=0, ddof=1).mean())
    # single = shared + own, and together = shared + own / seeds: `shared` is common to all seeds.
    own = (single - together) * seeds / (seeds - 1) if seeds > 1 else 0.0
    return float(max(0.0, together - own / seeds))


def standing(value: float, values: Iterable[float]) -> str:
    """Compare the score of one seed with the scores of all seeds.

    Scores are rounded to four decimals, i.e. to two decimals in percent.

    Args:
        value: Score of the seed.
        values: Scores of all seeds, including `value`.

    Returns:
        "the best", "as good as the best" (if another seed has the same score) or "not the best".
    """
    order = sorted((round(each, 4) for each in values), reverse=True)
    if round(value, 4) < order[0]:
        return "not the best"
    return "the best" if order[:2].count(order[0]) == 1 else "as good as the best"


# Holm's correction of the p-values of several tests.


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the p-values corrected by Holm's method, in the given order.

    If corrected p-values below alpha are called significant, the probability of even one false
    positive is at most alpha, however the tests depend on each other (Holm, A simple sequentially
    rejective multiple test procedure, Scandinavian Journal of Statistics 1979).
    """
    # The smallest of m p-values is multiplied by m, the next by m - 1 and so on. A corrected value
    # is never smaller than the previous one.
    count, highest = len(p_values), 0.0
    corrected = [1.0] * count
    for place, index in enumerate(sorted(range(count), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (count - place) * p_values[index]))
        corrected[index] = highest
    return tuple(corrected)
