"""What one system makes of the units of a task, and its scores on units that are drawn anew."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

__all__ = ["Outcomes", "redrawn_scores"]

CHUNK = 2**23
"""How often each unit was drawn: numbers that are held at once, 64 MiB."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """A system's parts of a score, [units, seeds, parts]; `score` makes a score of their means.

    As in Pairs: [..., parts] to [...], so that a score need be no mean over examples.
    """

    parts: "Array"
    score: "Callable[[Array], Array]"

    @property
    def scores(self) -> "Array":
        """The score of each seed."""
        return self.score(self.parts.mean(axis=0))


def redrawn_scores(
    systems: Sequence[Outcomes], generator: "np.random.Generator", *, draws: int
) -> "list[Array]":
    """Each system's scores on `draws` sets of as many units, [draws, seeds].

    Units are drawn with replacement, the same ones for all systems, each with all seeds, so that
    the systems stay paired (Efron and Tibshirani, An Introduction to the Bootstrap, 1993).
    """
    import numpy as np

    units = len(systems[0].parts)
    flat = [system.parts.reshape(units, -1) for system in systems]
    found: list[list[Array]] = [[] for _ in systems]
    for times in _times_drawn(units, draws, generator):
        for system, parts, scores in zip(systems, flat, found, strict=True):
            means = (times @ parts / units).reshape(len(times), *system.parts.shape[1:])
            scores.append(system.score(means))
    return [np.concatenate(scores) for scores in found]


def _times_drawn(units: int, draws: int, generator: "np.random.Generator") -> "Iterator[Array]":
    """How often each unit comes in some of the sets, [sets, units]."""
    import numpy as np

    size = max(1, CHUNK // units)
    for start in range(0, draws, size):
        few = min(size, draws - start)
        samples = (generator.integers(units, size=units) for _ in range(few))
        counts = [np.bincount(sample, minlength=units) for sample in samples]
        yield np.stack(counts).astype(np.float64)  # floats multiply much faster
