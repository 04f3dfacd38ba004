"""How many seeds tell two systems apart: the power of Welch's two-sided t-test."""

import math

__all__ = ["MOST_SEEDS", "seeds_needed", "welch_p_value", "welch_power"]

MOST_SEEDS = 10_000
"""Beyond so many the answer is no plan any more."""


def welch_power(
    seeds: int, difference: float, spreads: tuple[float, float], alpha: float = 0.05
) -> float:
    """The chance that the test finds a true difference of the means, with `seeds` runs of each.

    `spreads` are the standard deviations over seeds of both systems. The statistic is taken for a
    noncentral t with the degrees of freedom of Welch and Satterthwaite; where the spreads are equal
    this is the power of Student's test (Cohen, Statistical Power Analysis, 1988, chapter 2).
    """
    from scipy.stats import nct, norm, t

    variances = [spread**2 for spread in spreads]
    if sum(variances) == 0:
        return float(difference != 0)
    freedom = (seeds - 1) * sum(variances) ** 2 / sum(v**2 for v in variances)
    shift = abs(difference) * math.sqrt(seeds / sum(variances))
    critical = t.ppf(1 - alpha / 2, freedom)
    power = float(nct.sf(critical, freedom, shift) + nct.cdf(-critical, freedom, shift))
    # Far out in the tail scipy gives up; the normal distribution is as good there.
    return power if math.isfinite(power) else float(norm.cdf(shift - critical))


def seeds_needed(
    difference: float, spreads: tuple[float, float], alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """The fewest seeds of each system, 2 or more, that reach the power; None beyond MOST_SEEDS."""
    if welch_power(MOST_SEEDS, difference, spreads, alpha) < power:
        return None
    low, high = 1, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        if welch_power(middle, difference, spreads, alpha) >= power:
            high = middle
        else:
            low = middle
    return high


def welch_p_value(one: tuple[float, ...], other: tuple[float, ...]) -> float | None:
    """The p-value of the values themselves; None where it is undefined: one value, no spread."""
    from scipy.stats import ttest_ind

    if min(len(one), len(other)) < 2 or len(set(one)) == len(set(other)) == 1:
        return None
    return float(ttest_ind(one, other, equal_var=False).pvalue)
