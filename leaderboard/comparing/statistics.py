"""The paired permutation test: how often a difference comes about when the names are drawn."""

from typing import TYPE_CHECKING, Any

from leaderboard.statistics.pairs import Pairs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from leaderboard.statistics.pairs import Array

__all__ = ["permutation_p_value"]

ALL_UP_TO = 12
"""So many units that differ have 4,096 permutations: fewer than are drawn, so all are tried."""

CHUNK = 2**22
"""Numbers that are held at once."""

ALIKE = 1e-12
"""Differences that are equal but for the order in which floats were added."""


def permutation_p_value(pairs: Pairs, *, draws: int = 10_000, seed: int = 0) -> float:
    """The two-sided p-value of the mean difference over seeds.

    Without a difference the two outputs for a unit could as well have been exchanged, all seeds of
    it at once, because seeds of one example are alike (Noreen, Computer-Intensive Methods for
    Testing Hypotheses, 1989). Of few units all exchanges are tried, of more `draws` are drawn,
    always the same, and the one that was seen is counted with them.
    """
    import numpy as np

    found = abs(pairs.difference) * (1 - ALIKE) - ALIKE
    steps, counts = _distinct(pairs)
    if counts.sum() <= ALL_UP_TO:
        everything = np.array(list(np.ndindex(*(counts + 1))), dtype=np.float64)
        weights = _ways(everything, counts)
        extreme = np.abs(_differences(pairs, everything @ steps)) >= found
        return float(weights[extreme].sum() / weights.sum())
    generator, extreme_count = np.random.default_rng(seed), 0
    for size in _chunks(draws, len(counts)):
        swapped = _exchanged(counts, size, generator).astype(np.float64)
        extreme_count += int((np.abs(_differences(pairs, swapped @ steps)) >= found).sum())
    return (extreme_count + 1) / (draws + 1)


def _distinct(pairs: Pairs) -> "tuple[Array, npt.NDArray[np.intp]]":
    """What an exchange of a unit moves, without those that move nothing; equal ones are counted.

    How many of k equal units are exchanged is binomial, so one number is drawn and not k.
    """
    import numpy as np

    moved = (pairs.one - pairs.other).reshape(len(pairs.one), -1)
    steps, counts = np.unique(moved[moved.any(axis=1)], axis=0, return_counts=True)
    return steps, counts


def _exchanged(
    counts: "npt.NDArray[np.intp]", size: int, generator: "np.random.Generator"
) -> "npt.NDArray[np.integer[Any]]":
    """How many of each kind change sides, [size, kinds]; of single units a bit is quicker drawn."""
    if counts.max() == 1:
        return generator.integers(0, 2, size=(size, len(counts)), dtype="int8")
    return generator.binomial(counts, 0.5, size=(size, len(counts)))


def _ways(exchanges: "Array", counts: "npt.NDArray[np.intp]") -> "Array":
    """In how many ways so many of each kind can be exchanged."""
    from scipy.special import comb

    ways: Array = comb(counts, exchanges).prod(axis=1)
    return ways


def _differences(pairs: Pairs, moved: "Array") -> "Array":
    """The mean difference over seeds, after sums [draws, seeds x parts] have changed sides."""
    units, seeds, parts = pairs.one.shape
    shift = moved.reshape(-1, seeds, parts) / units
    one, other = pairs.one.mean(axis=0) - shift, pairs.other.mean(axis=0) + shift
    differences: Array = (pairs.score(one) - pairs.score(other)).mean(axis=-1)
    return differences


def _chunks(draws: int, width: int) -> list[int]:
    size = max(1, CHUNK // max(1, width))
    return [min(size, draws - start) for start in range(0, draws, size)]
