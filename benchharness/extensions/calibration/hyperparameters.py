"""Hyperparameter that turns on calibrated probabilities."""

from dataclasses import dataclass

from benchharness.hyperparameter import hyperparameter, one_of

NONE, TEMPERATURE = "none", "temperature"


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """Hyperparameters for calibrated probabilities.

    Attributes:
        calibrate: "temperature" to divide the logits of the trained model by a temperature, which
            is fitted on a tenth of train that is excluded from training; "none" to leave them
            unchanged.
    """

    calibrate: str = hyperparameter(
        one_of(NONE, TEMPERATURE),
        NONE,
        heads=("pair", "choice"),
        excludes={
            "features": "trains only the head, on stored states",
            "as_text": "answers with a text, which has no probabilities",
        },
    )
