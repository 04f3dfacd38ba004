"""Hyperparameter that asks for calibrated probabilities."""

from dataclasses import dataclass

from benchharness.hyperparameter import hyperparameter, one_of

NONE, TEMPERATURE = "none", "temperature"


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """Options for probabilities that can be trusted.

    Attributes:
        calibrate: "temperature" to divide the logits of the trained model by a number, which is
            fitted on a tenth of train that is not trained on; "none" to leave them unchanged.
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
