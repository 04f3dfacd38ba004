"""The paired bootstrap: how far a difference moves with other examples and other seeds."""

import math
from typing import TYPE_CHECKING

from leaderboard.statistics.interval import Interval
from leaderboard.statistics.pairs import Pairs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leaderboard.statistics.pairs import Array

__all__ = ["bootstrap_interval"]

CHUNK = 2**22
"""Numbers that are held at once."""

FEW = 16
"""A kind takes about so much longer to be drawn by the multinomial distribution than a unit."""


def bootstrap_interval(
    pairs: Pairs, *, level: float = 0.95, draws: int = 5_000, seed: int = 0
) -> Interval:
    """The interval of the mean difference over seeds.

    Units are drawn with replacement, each with both systems and all seeds (Efron and Tibshirani,
    An Introduction to the Bootstrap, 1993, percentile interval). Of three or five seeds nothing can
    be drawn: their part is Student's t times the standard error of the differences seed by seed,
    which counts the examples' share in it twice and so errs to the wide side. One seed tells of the
    examples alone.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    found = _redrawn(pairs, draws, generator) + _seed_noise(pairs, draws, generator)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Interval(low=float(low), high=float(high))


def _redrawn(pairs: Pairs, draws: int, generator: "np.random.Generator") -> "Array":
    """The difference on `draws` sets of as many units.

    Where many units are equal, they are drawn together: how often each kind comes is multinomial.
    """
    import numpy as np

    units, seeds, parts = pairs.one.shape
    both = np.stack([pairs.one, pairs.other], axis=1).reshape(units, -1)
    kinds, kind_of, counts = np.unique(both, axis=0, return_inverse=True, return_counts=True)
    size = max(1, CHUNK // len(counts))
    means = []
    for start in range(0, draws, size):
        few = min(size, draws - start)
        if len(kinds) < units // FEW:
            times = generator.multinomial(units, counts / units, size=few)
        else:
            times = _counted(kind_of.ravel(), len(kinds), few, generator)
        means.append(times.astype(np.float64) @ kinds / units)  # floats multiply much faster
    scores = pairs.score(np.concatenate(means).reshape(draws, 2, seeds, parts))
    differences: Array = (scores[:, 0] - scores[:, 1]).mean(axis=-1)
    return differences


def _counted(
    kind_of: "npt.NDArray[np.intp]", kinds: int, draws: int, generator: "np.random.Generator"
) -> "npt.NDArray[np.intp]":
    """How often each kind comes where units are drawn one by one, [draws, kinds]."""
    import numpy as np

    units = len(kind_of)
    samples = (kind_of[generator.integers(units, size=units)] for _ in range(draws))
    return np.stack([np.bincount(sample, minlength=kinds) for sample in samples])


def _seed_noise(pairs: Pairs, draws: int, generator: "np.random.Generator") -> "Array":
    import numpy as np

    differences = pairs.differences
    if len(differences) < 2:
        return np.zeros(draws)
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    return error * generator.standard_t(len(differences) - 1, size=draws)
