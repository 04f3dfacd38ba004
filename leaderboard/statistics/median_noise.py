"""How far the median over seeds may lie from that of all seeds there could be."""

import math
from collections.abc import Sequence
from statistics import median, stdev

from leaderboard.statistics.interval import Interval

__all__ = ["median_error", "median_interval"]

LOSS = math.sqrt(math.pi / 2)
"""How much larger a median's standard error is than a mean's, of many normal values; of three to
ten it is 1.08 to 1.20 times as large, so the interval errs to the wide side (Kenney and Keeping,
Mathematics of Statistics, 1962, part 1, section 14.9)."""


def median_error(values: Sequence[float]) -> float:
    """The standard error of the median of some seeds; 0 for one, which shows no spread."""
    if len(values) < 2:
        return 0.0
    loss = LOSS if len(values) > 2 else 1.0  # of two the median is the mean
    return loss * stdev(values) / math.sqrt(len(values))


def median_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """The interval of the median over seeds: Student's t with n - 1 degrees of freedom."""
    from scipy.special import stdtrit

    reach = median_error(values)
    if reach:
        reach *= float(stdtrit(len(values) - 1, (1 + level) / 2))
    return Interval(low=median(values) - reach, high=median(values) + reach)
