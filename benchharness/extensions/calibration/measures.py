"""Compute measures of calibration from the confidences of answers and from their correctness.

The confidence of an answer is the probability that the model gives to it. All functions are pure,
and no result depends on the order of the rows: answers with equal confidences are treated equally.
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
"""Smallest probability in logarithms, as in scikit-learn's `log_loss`: the negative log likelihood
of a gold answer with probability 0 is 36."""


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
        gold: Index of the gold class of each row, `[rows]`.
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
    """Return the index of each answer's bin, for bins that contain equally many answers.

    Indices are from 0, in ascending order of the confidence. Answers with equal confidences are in
    one bin, so bins may differ in size, and there may be fewer bins than `count`.

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
    """Return the index of each answer's bin, for bins of equal width from 0 to 1.

    Some bins may be empty. A confidence on the border of two bins belongs to the upper bin, and 1
    to the last bin.

    Args:
        confidence: Confidence of each answer.
        count: Number of bins.
    """
    bins = np.searchsorted(np.linspace(0, 1, count + 1), confidence, side="right") - 1
    found: Places = np.minimum(bins, count - 1)
    return found


def calibration_error(confidence: Array, right: Array, bins: Places) -> float:
    """Return the expected calibration error (ECE), from 0 to 1.

    It is the mean over bins, weighted by their sizes, of the absolute difference between mean
    confidence and accuracy (Naeini et al., AAAI 2015). It is biased upwards, because the accuracy
    of a bin is noisy and all differences count as positive: see `error_if_calibrated`.

    Args:
        confidence: Confidence of each answer.
        right: 1 for each right answer, 0 for each wrong answer.
        bins: Index of each answer's bin.
    """
    return float(np.abs(np.bincount(bins, right - confidence)).sum() / len(right))


def error_if_calibrated(confidence: Array, bins: Places) -> float:
    """Return the expected ECE of a calibrated model with these confidences.

    A model is calibrated if the probability that an answer is right equals its confidence. Its true
    calibration error is 0, so the result is the bias of the ECE. The accuracy of a bin is treated
    as normally distributed. This is the closed form of the resampling by Bröcker and Smith
    (Increasing the Reliability of Reliability Diagrams, Weather and Forecasting, 2007).

    Args:
        confidence: Confidence of each answer.
        bins: Index of each answer's bin.
    """
    deviations = np.sqrt(np.bincount(bins, confidence * (1 - confidence)))
    # The mean absolute value of a normal variable is sqrt(2 / pi) times its standard deviation.
    return float(math.sqrt(2 / math.pi) * deviations.sum() / len(confidence))


# The squared calibration error without bias.
#
# The square of a bin's mean difference is too large by the variance of this mean. The mean over all
# pairs of two different units (a U-statistic) does not have this bias. Kumar et al. (Verified
# Uncertainty Calibration, NeurIPS 2019) and Bröcker (Estimating reliability and resolution of
# probability forecasts, Climate Dynamics, 2012) subtract an estimate of the same variance. The ECE
# itself cannot be corrected as well as this, because the absolute value has a corner at 0: twice
# the ECE minus its mean over resamples keeps 59 % of the bias for a calibrated model. (Roelofs et
# al., Mitigating Bias in Calibration Error Estimation, AISTATS 2022, measure biases of this kind.)

_PARTS = 4


def squared_error_parts(
    confidence: Array, right: Array, bins: Places, unit: Places, units: int
) -> Array:
    """Return the sums per unit from which `squared_error` is computed, `[units, 4 * bins]`.

    A unit is a row, or a group of rows that are scored together.

    Args:
        confidence: Confidence of each answer.
        right: 1 for each right answer, 0 for each wrong answer.
        bins: Index of each answer's bin.
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
    """Return the mean squared calibration error without bias, `[...]`.

    It may be negative by chance.

    Args:
        means: Means over units of the numbers from `squared_error_parts`, `[..., 4 * bins]`.
        units: Number of units.
    """
    sums = means.reshape(*means.shape[:-1], -1, _PARTS) * units
    total, number, squares, pairs = (sums[..., part] for part in range(_PARTS))
    errors = divided(total**2 - squares, number**2 - pairs)
    mean: Array = (errors * number).sum(-1) / number.sum(-1)
    return mean


# Selective prediction: only the rows with the highest confidence are answered.


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranked:
    """Rows sorted by confidence, the most confident first; all arrays are `[rows]`.

    Attributes:
        order: Index that each row had before sorting.
        confidence: Confidence of each row.
        first: For each row, the number of rows with a higher confidence.
        after: For each row, the number of rows with the same or a higher confidence.
        right: 1 for each row with a right answer, else 0.
        shared: For each row, the mean of `right` over all rows with the same confidence.
    """

    order: Places
    confidence: Array
    first: Places
    after: Places
    right: Array
    shared: Array


def ranked(confidence: Array, right: Array) -> Ranked:
    """Sort rows by confidence, the most confident first.

    Args:
        confidence: Confidence of each row, `[rows]`.
        right: 1 for each row with a right answer, else 0, `[rows]`.
    """
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
    """Return, for each row, the mean of `values` over all rows with the same confidence."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    means: Array = (total[after] - total[first]) / (after - first)
    return means


def _from_end(values: Array) -> Array:
    sums: Array = np.cumsum(values[::-1])[::-1]
    return sums


def risk_area(rows: Ranked) -> tuple[float, Array]:
    """Return the area under the risk-coverage curve (AURC), and the influence of each row on it.

    The area is the mean, over k = 1 to all rows, of the error rate of the k most confident rows
    (Geifman et al., Bias-Reduced Uncertainty Estimation, ICLR 2019). The order of rows with equal
    confidence counts as random. The influences, `[rows]` in the original order of the rows, are the
    values of the infinitesimal jackknife.
    """
    count = len(rows.right)
    inverse = 1 / np.arange(1, count + 1)
    # An error at rank i adds 1 / k to the error rates of the k = i, i + 1, ... most confident rows.
    weights = _shared(_from_end(inverse), rows.first, rows.after)
    losses = 1 - rows.right
    # An additional row moves less confident rows down by one rank, which lowers their weights.
    moved = _shared(_from_end((1 - rows.shared) * inverse), rows.first, rows.after)
    influence = np.empty(count)
    influence[rows.order] = weights * losses - moved
    return float((weights * losses).sum() / count), influence


def accuracies(rows: Ranked) -> Array:
    """Return the accuracy of the k most confident rows, for k = 1 to all rows, `[rows]`."""
    means: Array = np.cumsum(rows.shared) / np.arange(1, len(rows.right) + 1)
    return means


_NEAR = 0.05
"""Share of the rows on each side of a rank from which the accuracy near the rank is estimated."""


def accuracy_at(rows: Ranked, coverage: float) -> tuple[float, Array]:
    """Return the accuracy of the most confident rows, and the influence of each row on it.

    The influences, `[rows]`, are in the original order of the rows. They take into account that
    with another sample of rows, the same coverage has another lowest confidence.

    Args:
        rows: Rows sorted by confidence.
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
    """Return the lowest confidence among the most confident rows.

    Args:
        rows: Rows sorted by confidence.
        coverage: Share of the rows that are answered, above 0 and at most 1.
    """
    place = math.ceil(coverage * len(rows.right) - 1e-9) - 1
    return float(rows.confidence[max(0, place)])


def per_unit(value: float, influence: Array, unit: Places, units: int) -> Array:
    """Return numbers per unit whose mean is a statistic, `[units]`.

    The variance of these numbers, divided by their count, is the variance of the statistic.

    Args:
        value: Value of the statistic.
        influence: Influence of each row on the statistic, up to a constant, `[rows]`.
        unit: Index of the unit of each row, `[rows]`.
        units: Number of units.
    """
    sums = np.bincount(unit, influence - influence.mean(), units)
    numbers: Array = value + sums * units / len(influence)
    return numbers
