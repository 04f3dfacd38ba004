"""The hyperparameters of a fine-tuning run, as the training loop reads them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from leaderboard.job import Setting

__all__ = ["FEATURES", "FINE_TUNED", "UNFREEZING", "Recipe"]

FINE_TUNED = "fine-tuned"
FEATURES = (FINE_TUNED, "last", "second-to-last", "sum-last-4", "concat-last-4", "mix")
"""What a head reads: the fine-tuned encoder's last layer, or layers of a frozen one."""

UNFREEZING = ("all", "gradual")


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

    `features` says which states the head reads; all choices but "fine-tuned" leave the encoder as
    it is. `lora_rank` above 0 trains low-rank adapters in the encoder's place. With `unfreeze`
    "gradual" the first epoch trains the head alone and every further one a layer more. The learning
    rate is multiplied with `layer_decay` from each layer to the one below it; the top layer is
    `top_layer_depth` such steps below the head.

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
    features: str = FINE_TUNED
    lora_rank: int = 0
    unfreeze: str = "all"
    layer_decay: float = 1.0
    top_layer_depth: int = 2
    stride: int | None = None
    max_question_tokens: int | None = None

    @property
    def is_frozen(self) -> bool:
        """True where only the head is trained, on states that never change."""
        return self.features != FINE_TUNED

    @classmethod
    def from_settings(cls, settings: Mapping[str, Setting]) -> "Recipe":
        """The recipe that a job's resolved settings hold."""
        names = [field.name for field in fields(cls) if field.name in settings]
        values: dict[str, Any] = {name: settings[name].value for name in names}
        return cls(**values | {"max_grad_norm": values["max_grad_norm"] or math.inf})
