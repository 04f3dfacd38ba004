"""Resampled examples: the paired bootstrap, the permutation test, and one system alone. Pure."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchharness.leaderboard.statistics import Interval

Array = npt.NDArray[np.float64]


def first_part(means: Array) -> Array:
    """The score that is a mean over examples: accuracy, exact match."""
    first: Array = means[..., 0]
    return first


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Two systems' parts of a score, both of shape [units, seeds, parts].

    A unit is what a benchmark draws: an example, or a group that is scored together. `score` makes
    a score of the means of the parts over the units, [..., parts] to [...]; so a score that is no
    mean of its examples can be resampled too: F1 of the counts (right, predicted, gold),
    correlations of the moments. Seed by seed both systems are paired.
    """

    one: Array
    other: Array
    score: Callable[[Array], Array] = first_part

    @property
    def differences(self) -> Array:
        """The one's score less the other's, seed by seed."""
        return self.score(self.one.mean(axis=0)) - self.score(self.other.mean(axis=0))

    @property
    def difference(self) -> float:
        """The mean of `differences`."""
        return float(self.differences.mean())


# The paired bootstrap: how far a difference moves with other examples.

CHUNK = 2**22
"""Numbers that are held at once, 32 MiB."""

FEW = 16
"""A kind takes about so much longer to be drawn by the multinomial distribution than a unit."""


def bootstrap_interval(pairs: Pairs, *, level: float = 0.95, draws: int = 5_000) -> Interval:
    """The interval of the mean difference for these runs and other units.

    Units are drawn with replacement, each with both systems and all seeds (Efron and Tibshirani,
    An Introduction to the Bootstrap, 1993, percentile interval).
    """
    found = _resampled(pairs, draws, np.random.default_rng(0))
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Interval(low=float(low), high=float(high))


def _resampled(pairs: Pairs, draws: int, generator: np.random.Generator) -> Array:
    """The difference on `draws` sets of as many units.

    Where many units are equal, they are drawn together: how often each kind comes is multinomial.
    """
    units, seeds, parts = pairs.one.shape
    both = np.stack([pairs.one, pairs.other], axis=1).reshape(units, -1)
    kinds, kind_of, counts = np.unique(both, axis=0, return_inverse=True, return_counts=True)
    means = []
    for few in _chunks(draws, len(counts)):
        if len(kinds) < units // FEW:
            times = generator.multinomial(units, counts / units, size=few)
        else:
            times = _counted(kind_of.ravel(), len(kinds), few, generator)
        means.append(times.astype(np.float64) @ kinds / units)  # floats multiply much faster
    scores = pairs.score(np.concatenate(means).reshape(draws, 2, seeds, parts))
    differences: Array = (scores[:, 0] - scores[:, 1]).mean(axis=-1)
    return differences


def _counted(
    kind_of: npt.NDArray[np.intp], kinds: int, draws: int, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """How often each kind comes where units are drawn one by one, [draws, kinds]."""
    units = len(kind_of)
    samples = (kind_of[generator.integers(units, size=units)] for _ in range(draws))
    return np.stack([np.bincount(sample, minlength=kinds) for sample in samples])


# The paired permutation test: how often a difference comes about when the names are random.

ALL_UP_TO = 12
"""So many units that differ have 4,096 permutations: fewer than are drawn, so all are tried."""

CHOICES = np.array(
    [[math.comb(n, k) for k in range(ALL_UP_TO + 1)] for n in range(ALL_UP_TO + 1)], dtype=float
)
"""n choose k: in how many ways k of n equal units can be exchanged."""

ALIKE = 1e-12
"""Differences that are equal but for the order in which floats were added."""


def permutation_p_value(pairs: Pairs, *, draws: int = 10_000) -> float:
    """The two-sided p-value of the mean difference over seeds.

    Without a difference the two outputs for a unit could as well have been exchanged, all seeds of
    it at once, because seeds of one example are alike (Noreen, Computer-Intensive Methods for
    Testing Hypotheses, 1989). Of few units all exchanges are tried, of more `draws` are drawn,
    always the same, and the one that was seen is counted with them.
    """
    found = abs(pairs.difference) * (1 - ALIKE) - ALIKE
    steps, counts = _distinct(pairs)
    if counts.sum() <= ALL_UP_TO:
        everything = np.array(list(np.ndindex(*(counts + 1))), dtype=np.float64)
        weights: Array = CHOICES[counts, everything.astype(np.intp)].prod(axis=1)
        extreme = np.abs(_differences(pairs, everything @ steps)) >= found
        return float(weights[extreme].sum() / weights.sum())
    generator, extreme_count = np.random.default_rng(0), 0
    for size in _chunks(draws, len(counts)):
        swapped = _exchanged(counts, size, generator).astype(np.float64)
        extreme_count += int((np.abs(_differences(pairs, swapped @ steps)) >= found).sum())
    return (extreme_count + 1) / (draws + 1)


def _distinct(pairs: Pairs) -> tuple[Array, npt.NDArray[np.intp]]:
    """What an exchange of a unit moves, without those that move nothing; equal ones are counted.

    How many of k equal units are exchanged is binomial, so one number is drawn and not k.
    """
    moved = (pairs.one - pairs.other).reshape(len(pairs.one), -1)
    steps, counts = np.unique(moved[moved.any(axis=1)], axis=0, return_counts=True)
    return steps, counts


def _exchanged(
    counts: npt.NDArray[np.intp], size: int, generator: np.random.Generator
) -> npt.NDArray[np.integer[Any]]:
    """How many of each kind change sides, [size, kinds]; of single units a bit is quicker drawn."""
    if counts.max() == 1:
        return generator.integers(0, 2, size=(size, len(counts)), dtype="int8")
    return generator.binomial(counts, 0.5, size=(size, len(counts)))


def _differences(pairs: Pairs, moved: Array) -> Array:
    """The mean difference over seeds, after sums [draws, seeds x parts] have changed sides."""
    units, seeds, parts = pairs.one.shape
    shift = moved.reshape(-1, seeds, parts) / units
    one, other = pairs.one.mean(axis=0) - shift, pairs.other.mean(axis=0) + shift
    differences: Array = (pairs.score(one) - pairs.score(other)).mean(axis=-1)
    return differences


def _chunks(draws: int, width: int, most: int = CHUNK) -> Iterator[int]:
    """The draws in parts, of as many numbers as are held at once."""
    size = max(1, most // max(1, width))
    yield from (min(size, draws - start) for start in range(0, draws, size))


DRAWS_CHUNK = 2**23
"""How often each unit was drawn: numbers that are held at once, 64 MiB."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """A system's parts of a score, [units, seeds, parts]; `score` makes a score of their means.

    As in Pairs: [..., parts] to [...], so that a score need be no mean over examples.
    """

    parts: Array
    score: Callable[[Array], Array]

    @property
    def scores(self) -> Array:
        """The score of each seed."""
        return self.score(self.parts.mean(axis=0))


Known = Outcomes | str
"""What a cell's stored predictions are worth, seed by seed, or why they cannot be had."""


def resampled_scores(
    systems: Sequence[Outcomes], generator: np.random.Generator, *, draws: int
) -> list[Array]:
    """Each system's scores on `draws` sets of as many units, [draws, seeds].

    Units are drawn with replacement, the same ones for all systems, each with all seeds, so that
    the systems stay paired (Efron and Tibshirani, An Introduction to the Bootstrap, 1993).
    """
    units = len(systems[0].parts)
    flat = [system.parts.reshape(units, -1) for system in systems]
    found: list[list[Array]] = [[] for _ in systems]
    for few in _chunks(draws, units, DRAWS_CHUNK):
        # floats multiply much faster
        times = _counted(np.arange(units), units, few, generator).astype(np.float64)
        for system, parts, scores in zip(systems, flat, found, strict=True):
            means = (times @ parts / units).reshape(len(times), *system.parts.shape[1:])
            scores.append(system.score(means))
    return [np.concatenate(scores) for scores in found]
