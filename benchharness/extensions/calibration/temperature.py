"""Fit a temperature (Guo et al., On Calibration of Modern Neural Networks, ICML 2017).

The logits are divided by one number, the temperature, which maximizes the likelihood of held-out
answers. The order of the answers does not change, so the accuracy does not change either.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy  # its submodules are loaded on first use

from benchharness.errors import DataError
from benchharness.extensions.calibration.measures import Array

COLDEST, HOTTEST = 0.05, 20.0
"""Smallest and largest temperature that is fitted."""

_TINY = 1e-30
"""Smallest probability, which replaces 0, because the logarithm of 0 is infinite."""


Flags = npt.NDArray[np.bool_]


def fit_temperature(chances: Sequence[Array], gold: Sequence[Flags]) -> float:
    """Return the temperature that maximizes the likelihood of the gold answers.

    If the most probable answer of each row is right, the result is 1, because the likelihood would
    be highest at the lowest possible temperature.

    Args:
        chances: For each row, the probabilities of its possible answers, `[answers]`, with sum 1.
        gold: For each row, booleans `[answers]`: True for right answers.

    Raises:
        DataError: There are fewer than two rows, or all rows have the same right answer.
    """
    if len({tuple(each.tolist()) for each in gold}) < 2:
        raise DataError(
            f"the {len(gold)} rows that were held out of train for calibrate=temperature have "
            "the same answer, so no temperature can be fitted: train on more rows."
        )
    if all(right[chance.argmax()] for chance, right in zip(chances, gold, strict=True)):
        return 1.0
    logs = [np.log(np.maximum(chance, _TINY)) for chance in chances]

    def loss(log_temperature: float) -> float:
        """Return the mean negative log likelihood of the gold answers."""
        scaled = [each / np.exp(log_temperature) for each in logs]
        pairs = zip(scaled, gold, strict=True)
        likelihoods = (
            scipy.special.logsumexp(each[right]) - scipy.special.logsumexp(each)
            for each, right in pairs
        )
        return -float(np.mean(list(likelihoods)))

    found = scipy.optimize.minimize_scalar(
        loss, bounds=(np.log(COLDEST), np.log(HOTTEST)), method="bounded"
    )
    return float(np.exp(found.x))
