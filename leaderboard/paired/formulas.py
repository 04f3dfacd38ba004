"""Scores of the means of their parts, for any number of resamples at once.

Every function takes an array [..., parts] and gives [...]. All are ratios, so that it does not
matter whether the parts are means or sums.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

__all__ = ["correlation", "f1_of_counts", "f1_of_label", "macro_f1", "matthews", "ratio"]


def ratio(means: "Array") -> "Array":
    """Points by what they are given for: (points, 1)."""
    return _divided(means[..., 0], means[..., 1])


def f1_of_counts(means: "Array") -> "Array":
    """F1 of (right, predicted, gold)."""
    return _divided(2 * means[..., 0], means[..., 1] + means[..., 2])


def f1_of_label(means: "Array", label: int) -> "Array":
    """F1 of one class of a confusion matrix, gold by predicted, laid flat."""
    matrix = _matrix(means)
    right = matrix[..., label, label]
    return _divided(2 * right, matrix[..., label, :].sum(-1) + matrix[..., :, label].sum(-1))


def macro_f1(means: "Array") -> "Array":
    """The mean of every class's F1."""
    import numpy as np

    count = _matrix(means).shape[-1]
    mean: Array = np.mean([f1_of_label(means, label) for label in range(count)], axis=0)
    return mean


def matthews(means: "Array") -> "Array":
    """Matthews correlation of a confusion matrix, for any number of classes.

    Gorodkin, Comparing two K-category assignments by a K-category correlation coefficient,
    Computational Biology and Chemistry 2004. 0 for constant predictions.
    """
    import numpy as np

    matrix = _matrix(means)
    gold, guess, total = matrix.sum(-1), matrix.sum(-2), matrix.sum((-1, -2))
    shared = np.trace(matrix, axis1=-2, axis2=-1) * total - (gold * guess).sum(-1)
    spreads = (total**2 - (guess**2).sum(-1)) * (total**2 - (gold**2).sum(-1))
    return _divided(shared, np.sqrt(np.clip(spreads, 0, None)))


def correlation(means: "Array") -> "Array":
    """Pearson's correlation of the moments (1, x, y, xy, xx, yy)."""
    import numpy as np

    one, x, y, xy, xx, yy = (means[..., part] for part in range(6))
    spreads = (one * xx - x**2) * (one * yy - y**2)
    return _divided(one * xy - x * y, np.sqrt(np.clip(spreads, 0, None)))


def _matrix(means: "Array") -> "Array":
    size = round(means.shape[-1] ** 0.5)
    return means.reshape(*means.shape[:-1], size, size)


def _divided(above: "Array", below: "Array") -> "Array":
    """The quotient, 0 for a division by (nearly) nothing."""
    import numpy as np

    empty = below < 1e-12
    quotient: Array = np.where(empty, 0.0, above / np.where(empty, 1.0, below))
    return quotient
