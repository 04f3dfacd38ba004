"""Measures of calibration, computed from confidences and from which answers are right.

The confidence of an answer is the probability that the model gives to it. All functions are pure,
and none depends on the order of the rows: answers with equal confidences are always treated alike.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchharness.leaderboard.comparing import divided

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

# Scores of single answers.

LEAST_CHANCE = float(np.finfo(np.float64).eps)
"""Smallest probability whose logarithm is taken, as in scikit-learn's `log_loss`: a gold answer
with probability 0 has a negative log likelihood of 36."""


def log_losses(chances: Array) -> Array:
    """Return the negative log likelihood of gold answers, in nats.

    Args:
        chances: Probabilities of the gold answers, of any shape.
    """
    losses: Array = -np.log(np.clip(chances, LEAST_CHANCE, 1.0))
    return losses


def brier_scores(chances: Array, gold: Places) -> Array:
    """Return the Brier score of each row, from 0 to 2.

    It is the sum over classes of the squared difference between the probability and 1 (for the gold
    class) or 0 (for the others), as Brier defined it (Monthly Weather Review, 1950). For two
    classes, scikit-learn's `brier_score_loss` returns half of it by default.

    Args:
        chances: Probabilities, `[rows, classes]`.
        gold: Index of the gold class of each row.
    """
    errors = chances.copy()
    errors[np.arange(len(gold)), gold] -= 1
    scores: Array = (errors**2).sum(axis=-1)
    return scores


# Bins of answers with similar confidences.

BINS = 15
"""Largest number of bins, as in Guo et al., On Calibration of Modern Neural Networks, ICML 2017."""

LEAST_IN_BIN = 10
"""Smallest mean number of answers per bin: fewer than 150 answers have fewer than 15 bins."""


def equal_mass(confidence: Array, count: int = 0) -> Places:
    """Return the bin of each answer, for bins that contain equally many answers.

    Bins are numbered from 0, in the order of the confidence. Answers with equal confidences are in
    one bin, so bins may differ in size, and may be fewer than `count`.

    Args:
        confidence: Confidence of each answer.
        count: Number of bins; 0 for 15, or fewer if there are fewer than 150 answers.
    """
    answers = len(confidence)
    count = count or max(1, min(BINS, answers // LEAST_IN_BIN))
    # The rank of an answer is the number of answers with a lower confidence.
    ranks = np.searchsorted(np.sort(confidence), confidence, side="left")
    _, bins = np.unique(ranks * count // answers, return_inverse=True)
    return bins


def equal_width(confidence: Array, count: int = BINS) -> Places:
    """Return the bin of each answer, for bins of equal width from 0 to 1; some may be empty.

    A confidence at the border of two bins belongs to the upper one, and 1 to the last bin.
    """
    bins = np.searchsorted(np.linspace(0, 1, count + 1), confidence, side="right") - 1
    found: Places = np.minimum(bins, count - 1)
    return found


def calibration_error(confidence: Array, right: Array, bins: Places) -> float:
    """Return the expected calibration error (ECE): the mean distance of confidence and accuracy.

    It is the mean over bins, weighted by their sizes, of the distance between the mean confidence
    and the accuracy (Naeini et al., AAAI 2015). It is too high, because the accuracy of a bin is
    noisy and every distance counts: see `error_if_calibrated`.

    Args:
        confidence: Confidence of each answer.
        right: 1 for each right answer, 0 for each wrong one.
        bins: Bin of each answer.
    """
    return float(np.abs(np.bincount(bins, right - confidence)).sum() / len(right))


def error_if_calibrated(confidence: Array, bins: Places) -> float:
    """Return the ECE to be expected if every confidence were the true probability.

    It is the bias of the ECE of a calibrated model. The accuracy of a bin is treated as normally
    distributed; it is the closed form of the resampling by Bröcker and Smith (Increasing the
    Reliability of Reliability Diagrams, Weather and Forecasting, 2007).
    """
    deviations = np.sqrt(np.bincount(bins, confidence * (1 - confidence)))
    # The mean absolute value of a normal variable is sqrt(2 / pi) times its standard deviation.
    return float(math.sqrt(2 / math.pi) * deviations.sum() / len(confidence))


# The squared calibration error without bias.
#
# The square of a bin's mean difference is too large by the variance of this mean, which the mean
# over all pairs of two different units leaves out (a U-statistic). Kumar et al. (Verified
# Uncertainty Calibration, NeurIPS 2019) and Bröcker (Estimating reliability and resolution of
# probability forecasts, Climate Dynamics, 2012) subtract an estimate of the same variance. The ECE
# itself cannot be corrected as well, because the absolute value has a corner at 0: twice the ECE
# minus its mean over resamples keeps 59 % of the bias for a calibrated model. (Roelofs et al.,
# Mitigating Bias in Calibration Error Estimation, AISTATS 2022, measure such biases.)

_PARTS = 4


def squared_error_parts(
    confidence: Array, right: Array, bins: Places, unit: Places, units: int
) -> Array:
    """Return the sums per unit from which `squared_error` is computed, `[units, 4 * bins]`.

    A unit is a row, or a group of rows that are scored together.

    Args:
        confidence: Confidence of each answer.
        right: 1 for each right answer, 0 for each wrong one.
        bins: Bin of each answer.
        unit: Index of the unit of each answer.
        units: Number of units.
    """
    count = int(bins.max()) + 1
    place, size = unit * count + bins, units * count
    sums = np.bincount(place, right - confidence, size)
    numbers = np.bincount(place, minlength=size).astype(np.float64)
    parts = np.stack([sums, numbers, sums**2, numbers**2], axis=-1)
    return parts.reshape(units, count * _PARTS)


def squared_error(means: Array, units: int) -> Array:
    """Return the mean squared calibration error, without bias; it may be below 0 by chance.

    Args:
        means: Means over units of the numbers from `squared_error_parts`, `[..., 4 * bins]`.
        units: Number of units.
    """
    sums = means.reshape(*means.shape[:-1], -1, _PARTS) * units
    total, number, squares, pairs = (sums[..., part] for part in range(_PARTS))
    errors = divided(total**2 - squares, number**2 - pairs)
    mean: Array = (errors * number).sum(-1) / number.sum(-1)
    return mean


# Answering only the rows with the highest confidence.


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranked:
    """Rows in the order of their confidence, the highest first.

    All arrays have one number per row.

    Attributes:
        order: Index of each row before they were ordered.
        confidence: Confidence.
        first: Number of rows with a higher confidence.
        after: Number of rows with the same or a higher confidence.
        right: 1 if the answer is right, else 0.
        shared: Mean of `right` over all rows with the same confidence.
    """

    order: Places
    confidence: Array
    first: Places
    after: Places
    right: Array
    shared: Array


def ranked(confidence: Array, right: Array) -> Ranked:
    """Order rows by their confidence."""
    order = np.argsort(-confidence, kind="stable")
    falling = -confidence[order]
    first = np.searchsorted(falling, falling, side="left")
    after = np.searchsorted(falling, falling, side="right")
    return Ranked(
        order=order,
        confidence=confidence[order],
        first=first,
        after=after,
        right=right[order],
        shared=_shared(right[order], first, after),
    )


def _shared(values: Array, first: Places, after: Places) -> Array:
    """Replace each value with the mean over rows of the same confidence."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    means: Array = (total[after] - total[first]) / (after - first)
    return means


def _from_end(values: Array) -> Array:
    sums: Array = np.cumsum(values[::-1])[::-1]
    return sums


def risk_area(rows: Ranked) -> tuple[float, Array]:
    """Return the area under the risk-coverage curve (AURC), and the influence of each row on it.

    It is the mean error rate of the k rows with the highest confidence, over k = 1 to all rows
    (Geifman et al., Bias-Reduced Uncertainty Estimation, ICLR 2019). The order of rows with equal
    confidence counts as random. The influences, which are in the original order of the rows, are
    the values of the infinitesimal jackknife.
    """
    count = len(rows.right)
    inverse = 1 / np.arange(1, count + 1)
    # The error of the row at rank i is in the rates of k = i, i + 1, ..., each divided by k.
    weights = _shared(_from_end(inverse), rows.first, rows.after)
    losses = 1 - rows.right
    # A further row with a higher confidence moves a row down, which lowers its weight.
    moved = _shared(_from_end((1 - rows.shared) * inverse), rows.first, rows.after)
    influence = np.empty(count)
    influence[rows.order] = weights * losses - moved
    return float((weights * losses).sum() / count), influence


def accuracies(rows: Ranked) -> Array:
    """Return the accuracy of the k rows with the highest confidence, for k = 1 to all rows."""
    means: Array = np.cumsum(rows.shared) / np.arange(1, len(rows.right) + 1)
    return means


_NEAR = 0.05
"""Share of the rows on each side of a rank from which the accuracy near the rank is estimated."""


def accuracy_at(rows: Ranked, coverage: float) -> tuple[float, Array]:
    """Return the accuracy of the rows with the highest confidence, and the influence of each row.

    The influences are in the original order of the rows. They include that of the limit: with
    another sample of rows, the same coverage reaches down to another confidence.

    Args:
        rows: The rows in the order of their confidence.
        coverage: Share of the rows that are answered, above 0 and at most 1.
    """
    count = len(rows.right)
    reach = coverage * count
    # If the limit is among rows with equal confidence, an equal part of each of them counts.
    part = np.clip((reach - rows.first) / (rows.after - rows.first), 0, 1)
    accuracy = float((part * rows.right).sum() / reach)
    near = max(5.0, _NEAR * count)
    window = slice(max(0, math.floor(reach - near)), min(count, math.ceil(reach + near)))
    margin = float(rows.shared[window].mean())
    influence = np.empty(count)
    influence[rows.order] = part * (rows.right - margin) / coverage
    return accuracy, influence


def confidence_at(rows: Ranked, coverage: float) -> float:
    """Return the lowest confidence among this share of rows, which have the highest ones."""
    place = math.ceil(coverage * len(rows.right) - 1e-9) - 1
    return float(rows.confidence[max(0, place)])


def per_unit(value: float, influence: Array, unit: Places, units: int) -> Array:
    """Return a number per unit whose mean is a value, from the influences of rows on the value.

    The variance of these numbers, divided by their count, is that of the value.

    Args:
        value: The value.
        influence: Influence of each row, up to a constant.
        unit: Index of the unit of each row.
        units: Number of units.
    """
    sums = np.bincount(unit, influence - influence.mean(), units)
    numbers: Array = value + sums * units / len(influence)
    return numbers
