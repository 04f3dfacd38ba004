"""What two systems make of the same examples with the same seeds, so that it can be resampled."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

__all__ = ["Pairs", "first_part", "pairs_of"]


def first_part(means: "Array") -> "Array":
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

    one: "Array"
    other: "Array"
    score: "Callable[[Array], Array]" = first_part

    @property
    def differences(self) -> "Array":
        """The one's score less the other's, seed by seed."""
        return self.score(self.one.mean(axis=0)) - self.score(self.other.mean(axis=0))

    @property
    def difference(self) -> float:
        """The mean of `differences`."""
        return float(self.differences.mean())


def pairs_of(one: Any, other: Any) -> Pairs:
    """Pairs of a score that is the mean of plain outcomes, [units] or [units, seeds]."""
    import numpy as np

    arrays = [np.asarray(outcomes, dtype=np.float64) for outcomes in (one, other)]
    shaped = [array.reshape(len(array), -1, 1) for array in arrays]
    return Pairs(one=shaped[0], other=shaped[1])
