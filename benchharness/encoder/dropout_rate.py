"""Dropout other than the checkpoint's own: some papers fine-tune without it."""

from typing import Any

from torch import nn

from benchharness.encoder.load import Encoder

__all__ = ["set_dropout"]

NUMBERS = ("dropout", "attention_dropout")
"""How modules of transformers call a rate that they keep as a number instead of as a layer."""

CLASSIFIER_RATES = (
    "classifier_dropout",
    "classifier_dropout_prob",
    "cls_dropout",
    "qa_dropout",
    "seq_classif_dropout",
    "summary_last_dropout",
)
"""How configs of transformers call the rate right before the output layer."""


def set_dropout(encoder: Encoder, rate: float | None, classifier_rate: float | None) -> None:
    """Gives an encoder, and the head that is made for it, these rates; None leaves its own.

    To be called before the head is made, which reads its rate from the config.
    """
    if rate is not None:
        for module in encoder.network.modules():
            _set_rate(module, rate)
    if classifier_rate is not None:
        for name in CLASSIFIER_RATES:
            setattr(encoder.config, name, classifier_rate)


def _set_rate(module: Any, rate: float) -> None:
    if isinstance(module, nn.Dropout):
        module.p = rate
    for name in NUMBERS:
        if isinstance(getattr(module, name, None), float):
            setattr(module, name, rate)
