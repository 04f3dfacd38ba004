"""The hyperparameters of a fine-tuning run, as the training loop reads them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, get_args

from benchharness.leaderboard.job import Setting
from benchharness.tasks.errors import BenchError, unknown_name

FINE_TUNED = "fine-tuned"
FEATURES = (FINE_TUNED, "last", "second-to-last", "sum-last-4", "concat-last-4", "mix")
"""What a head reads: the fine-tuned encoder's last layer, or layers of a frozen one."""

_UNFREEZING = ("all", "gradual")

GIVEN_ORDER, BOTH_ORDERS, ADDED_ORDERS = "given", "both", "added"


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

    Only pair tasks have `orders`, for texts whose order means nothing: with "both" each pair is
    trained on in both orders, so that an epoch has twice as many rows, and with "added" both are
    read and their states added before the classifier. `lm_weight` times the language model's mean
    loss on the same texts is added to theirs, for models that read from left to right.

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
    orders: str = GIVEN_ORDER
    lm_weight: float = 0.0
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


# Whether a hyperparameter's name, type and range are right, and its value in the right type.


class _Rule(NamedTuple):
    """Which values are right, in words and as a test."""

    words: str
    holds: Callable[[float], bool]


_POSITIVE = _Rule("above 0", lambda value: value > 0)
_NOT_NEGATIVE = _Rule("at least 0", lambda value: value >= 0)
_COUNT = _Rule("at least 1", lambda value: value >= 1)
_SHARE = _Rule("at least 0 and at most 1", lambda value: 0 <= value <= 1)
_BELOW_ONE = _Rule("at least 0 and below 1", lambda value: 0 <= value < 1)
_FACTOR = _Rule("above 0 and at most 1", lambda value: 0 < value <= 1)
# Four special tokens at most (RoBERTa's around a pair) and one of each text.
_ROOM = _Rule("at least 6", lambda value: value >= 6)

_RULES = {
    "learning_rate": _POSITIVE,
    "epochs": _POSITIVE,
    "batch_size": _COUNT,
    "accumulation": _COUNT,
    "warmup_ratio": _SHARE,
    "weight_decay": _NOT_NEGATIVE,
    "adam_beta1": _BELOW_ONE,
    "adam_beta2": _BELOW_ONE,
    "adam_epsilon": _POSITIVE,
    "max_grad_norm": _NOT_NEGATIVE,
    "max_tokens": _ROOM,
    "evaluations": _COUNT,
    "dropout": _BELOW_ONE,
    "classifier_dropout": _BELOW_ONE,
    "lora_rank": _NOT_NEGATIVE,
    "layer_decay": _FACTOR,
    "top_layer_depth": _NOT_NEGATIVE,
    "lm_weight": _NOT_NEGATIVE,
    "stride": _COUNT,
    "max_question_tokens": _COUNT,
}

_WORDS = {
    "features": FEATURES,
    "unfreeze": _UNFREEZING,
    "orders": (GIVEN_ORDER, BOTH_ORDERS, ADDED_ORDERS),
}
"""The settings that are one of a few words."""

_TYPES: dict[str, type] = {
    f.name: float if float in (f.type, *get_args(f.type)) else int for f in fields(Recipe)
}


def check_setting(name: str, setting: Setting) -> Setting:
    """The same setting with its value as the recipe's type (an epoch count is always a float).

    A text is parsed, so that `--set epochs=3` and `epochs = 3` in a file are one value and give one
    job key. Raises BenchError for an unknown name, another type or a value out of range.
    """
    if name in _WORDS:
        if setting.value not in _WORDS[name]:
            raise BenchError(
                f"{name} is {setting.value!r} ({setting.source}), expected one of: "
                f"{', '.join(_WORDS[name])}."
            )
        return setting
    if name not in _RULES:
        raise unknown_name("hyperparameter", name, (*_RULES, *_WORDS))
    kind = "a whole number" if _TYPES[name] is int else "a number"
    value = _number(setting.value, whole=_TYPES[name] is int)
    if value is None or not math.isfinite(value) or not _RULES[name].holds(value):
        raise BenchError(
            f"{name} is {setting.value!r} ({setting.source}), expected {kind} that is "
            f"{_RULES[name].words}."
        )
    return Setting(value=value, source=setting.source)


def _number(value: object, *, whole: bool) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not whole:
        return number
    return int(number) if number.is_integer() else None
