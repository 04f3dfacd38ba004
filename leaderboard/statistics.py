"""Intervals and tests for what a limited number of examples and of seeds can show. Pure.

numpy and scipy are imported on use: every board imports Interval, and scipy takes half a second.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median, stdev, variance
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Interval:
    """From `low` to `high`, both in the unit of what it is of."""

    low: float
    high: float

    def has(self, value: float) -> bool:
        """Whether the value lies between them."""
        return self.low <= value <= self.high

    def within(self, bounds: "Interval") -> "Interval":
        """The part of it that lies within `bounds`, which it must touch."""
        return Interval(low=max(self.low, bounds.low), high=min(self.high, bounds.high))


def _numpy() -> Any:
    import numpy  # noqa: PLC0415, ICN001  (a tenth of a second, which most boards need not pay)

    return numpy


def student_t(freedom: float, chance: float) -> float:
    """The value that Student's t stays below with this chance."""
    from scipy.special import stdtrit  # noqa: PLC0415  (half a second)

    return float(stdtrit(freedom, chance))


# How far the median over seeds may lie from that of all seeds there could be.

LOSS = math.sqrt(math.pi / 2)
"""How much larger a median's standard error is than a mean's, of many normal values; of three to
ten it is 1.08 to 1.20 times as large, so the interval errs to the wide side (Kenney and Keeping,
Mathematics of Statistics, 1962, part 1, section 14.9)."""


def median_error(values: Sequence[float]) -> float:
    """The standard error of the median of some seeds; 0 for one, which shows no spread."""
    return median_deviation(stdev(values), len(values)) if len(values) > 1 else 0.0


def median_deviation(deviation: float, count: int) -> float:
    """That of the median of so many normal values, each of the given standard deviation."""
    loss = LOSS if count > 2 else 1.0  # of two the median is the mean
    return loss * deviation / math.sqrt(count)


def pooled_deviation(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """The standard deviation within groups, and its degrees of freedom; both 0 without two values.

    The groups are taken for equally noisy, so that those of two seeds each tell it together.
    """
    # s^2 = sum((n - 1) * s_i^2) / sum(n - 1): groups weigh by their degrees of freedom.
    several = [values for values in groups if len(values) > 1]
    freedom = sum(len(values) - 1 for values in several)
    squares = sum((len(values) - 1) * variance(values) for values in several)
    return (math.sqrt(squares / freedom), freedom) if freedom else (0.0, 0)


LEAST_SEEDS = 3
"""The interval of two seeds is more than twelve times as wide as they are apart: of no use."""


def median_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """The interval of the median over seeds: Student's t with n - 1 degrees of freedom."""
    reach = median_error(values)
    # One value has no degree of freedom for a t, and its reach of 0 needs none.
    if reach:
        reach *= student_t(len(values) - 1, (1 + level) / 2)
    return Interval(low=median(values) - reach, high=median(values) + reach)


def useful_interval(values: Sequence[float]) -> Interval | None:
    """The 95 % interval of the median, None of fewer than LEAST_SEEDS."""
    return median_interval(values) if len(values) >= LEAST_SEEDS else None


# What the best of several gains by chance alone.


CONTENDERS = 3.0
"""How many standard errors below the best a candidate may be, and still have been able to win."""

GAIN_DRAWS = 4_000
"""So many draws tell an expected maximum within 2 % of the noise."""


def selection_gain(
    chosen: Sequence[float], others: Sequence[Sequence[float]], redrawn: Sequence[Any] = ()
) -> float | None:
    """How far the best median stands above what other seeds of the same candidate would give.

    `chosen` are the values of the best over its seeds, `others` those of each other one; `redrawn`
    are, for the chosen and for each other one, the same values on other draws of the examples
    [draws, seeds]. With these it is the gain over other seeds and other examples. Of k alike
    the best stands above their common value by the expected maximum of k errors (Dodge et al., Show
    your work, 2019); of unlike ones by less, since the best is also better. So the medians of those
    that could have won are shrunk to their mean, by the share of their variance that seeds explain
    (empirical Bayes, as Efron and Morris, 1975): the gain is how far the best is shrunk. A seed's
    deviation is told by the median of the differences between two seeds of one candidate, which
    collapsed runs do not move. What examples add is the variance of the candidates' deviations from
    their common mean over the draws, less the seeds' own part in it.

    In simulations of 8 candidates with 5 seeds the mean error is below a quarter of a seed's
    deviation. None where no candidate has two seeds, since one shows no noise.
    """
    candidates = [chosen, *others]
    if all(len(values) < 2 for values in candidates):
        return None
    medians = [median(values) for values in candidates]
    error = median_deviation(_deviation(candidates), len(chosen))
    # Only contenders count, the chosen one (place 0) among them: a candidate far below could not
    # have won by luck, and would widen the spread of the medians that the noise is set against.
    near = [
        place
        for place, value in enumerate(medians)
        if abs(medians[0] - value) <= CONTENDERS * _error(error, redrawn, place)
    ]
    tried = [medians[place] for place in near]
    # A lone contender was not chosen by luck, and equal medians have no variance to divide by.
    if len(near) < 2 or max(tried) == min(tried):
        return 0.0
    deviation = _deviation([candidates[place] for place in near])
    # The mean of the contenders' variances, since one may have more seeds than another.
    noise = fmean(median_deviation(deviation, len(candidates[place])) ** 2 for place in near)
    noise += _noise_of_examples([redrawn[place] for place in near]) if redrawn else 0.0
    return _expected_gain(tried, noise)


def _deviation(candidates: Sequence[Sequence[float]]) -> float:
    """A seed's standard deviation, 0 where no candidate has two seeds."""
    pairs = [abs(a - b) for values in candidates for a, b in combinations(values, 2)]
    # The difference of two normal values has sqrt(2) times their deviation, and the median of its
    # size is 0.6745 of that, the third quartile of the normal distribution.
    return median(pairs) / (0.6745 * math.sqrt(2)) if pairs else 0.0


def _expected_gain(medians: Sequence[float], noise: float) -> float:
    """How far the best of candidates is above its own value where each has this much noise.

    The candidates' values are taken for the medians, drawn together until their variance and that
    of the noise make that of the medians.
    """
    np = _numpy()
    center, spread = fmean(medians), variance(medians)
    # var(medians) = var(values) + noise, so the values keep this share of the medians' spread. All
    # are equal where the noise alone explains it.
    kept = math.sqrt(max(0.0, 1 - noise / spread))
    values = center + kept * (np.asarray(medians) - center)
    chance = np.random.default_rng(0).normal(0, math.sqrt(noise), (GAIN_DRAWS, len(medians)))
    # The winner of each draw, and the noise that it has won by: the mean of that is the gain.
    best = (values + chance).argmax(axis=1)
    return float(np.take_along_axis(chance, best[:, None], axis=1).mean())


def _error(error: float, redrawn: Sequence[Any], place: int) -> float:
    """The standard error that tells whether a candidate could have been the best."""
    # The chosen one (place 0) differs from itself by nothing, whatever the examples are.
    if not redrawn or not place:
        return error
    return math.sqrt(error**2 + _noise_of_examples([redrawn[0], redrawn[place]]))


def _noise_of_examples(redrawn: Sequence[Any]) -> float:
    """The variance that other examples add to each of some candidates, beyond their common part.

    A seed's own chance on each example is in the seeds' spread already. It is told by how much
    more a single seed varies over the draws than the mean over seeds does, and left out.
    """
    np = _numpy()
    seeds = min(scores.shape[1] for scores in redrawn)
    # [candidates, draws, seeds], each around its mean over the draws. The variance over candidates
    # leaves out what a set of examples does to all of them alike.
    found = np.stack([scores[:, :seeds] - scores.mean(axis=0)[:seeds] for scores in redrawn])
    single = float(found.var(axis=0, ddof=1).mean())
    together = float(found.mean(axis=2).var(axis=0, ddof=1).mean())
    # single = shared + own and together = shared + own / seeds, of which all seeds have `shared`.
    own = (single - together) * seeds / (seeds - 1) if seeds > 1 else 0.0
    return float(max(0.0, together - own / seeds))


# Holm's correction: the p-values of several tests, made good for all of them at once.


def standing(value: float, values: Iterable[float]) -> str:
    """How a score stands among those of all seeds, its own among them; equal as tables show it."""
    order = sorted((round(each, 4) for each in values), reverse=True)
    if round(value, 4) < order[0]:
        return "not the best"
    return "the best" if order[:2].count(order[0]) == 1 else "as good as the best"


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The corrected p-values, in the order given.

    Where those below alpha are called differences, the chance to call even one that is none is at
    most alpha, however the tests depend on each other (Holm, A simple sequentially rejective
    multiple test procedure, Scandinavian Journal of Statistics 1979).
    """
    # The smallest of m p-values is multiplied by m, the next by m - 1 and so on, and none may fall
    # below a smaller one before it.
    count, highest = len(p_values), 0.0
    corrected = [1.0] * count
    for place, index in enumerate(sorted(range(count), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (count - place) * p_values[index]))
        corrected[index] = highest
    return tuple(corrected)
