"""Whether a hyperparameter's name, type and range are right, and its value in the right type."""

import math
from collections.abc import Callable
from dataclasses import fields
from typing import NamedTuple, get_args

from benchharness.recipes.recipe import FEATURES, UNFREEZING, Recipe
from leaderboard.job import Setting
from tasks.errors import BenchError, unknown_name

__all__ = ["check_setting"]


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
    "stride": _COUNT,
    "max_question_tokens": _COUNT,
}

_WORDS = {"features": FEATURES, "unfreeze": UNFREEZING}
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
        return _check_word(name, setting)
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


def _check_word(name: str, setting: Setting) -> Setting:
    if setting.value not in _WORDS[name]:
        raise BenchError(
            f"{name} is {setting.value!r} ({setting.source}), expected one of: "
            f"{', '.join(_WORDS[name])}."
        )
    return setting


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
