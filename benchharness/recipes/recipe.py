"""The hyperparameters of a fine-tuning run, as the training loop reads them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from leaderboard.job import Setting

__all__ = ["Recipe"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Every value that training depends on, besides model, data and seed.

    `batch_size` counts the examples of one optimizer step; they are computed in `accumulation`
    parts with the same result. `warmup_ratio` is the share of all steps in which the learning rate
    rises linearly; after it the rate falls linearly to zero. `max_grad_norm` is infinite where
    gradients are not clipped; a setting says 0 for it, as fairseq does, because JSON has no
    infinity. `max_tokens` bounds an encoded example. `evaluations` is how often dev is scored,
    evenly spaced, the last time at the end.

    `dropout` is that of the encoder and `classifier_dropout` that of the layer on it, the
    checkpoint's own where they are None.

    Only span tasks have `stride` and `max_question_tokens`: windows of a long context begin every
    `stride` tokens, and each holds at most `max_question_tokens` of the question.
    """

    learning_rate: float
    epochs: float
    batch_size: int
    accumulation: int
    warmup_ratio: float
    weight_decay: float
    adam_beta1: float
    adam_beta2: float
    adam_epsilon: float
    max_grad_norm: float
    max_tokens: int
    evaluations: int
    dropout: float | None = None
    classifier_dropout: float | None = None
    stride: int | None = None
    max_question_tokens: int | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Setting]) -> "Recipe":
        """The recipe that a job's resolved settings hold."""
        names = [field.name for field in fields(cls) if field.name in settings]
        values: dict[str, Any] = {name: settings[name].value for name in names}
        return cls(**values | {"max_grad_norm": values["max_grad_norm"] or math.inf})
