"""Whether a hyperparameter's name, type and range are right, and its value in the right type."""

import math
from dataclasses import dataclass, fields
from typing import Literal

from benchharness.recipes.recipe import Recipe
from leaderboard.job import Setting
from tasks.errors import BenchError, unknown_name

__all__ = ["check_setting"]


@dataclass(frozen=True, kw_only=True)
class _Range:
    """The values a hyperparameter may have, between `low` and `high`."""

    low: float
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)

    def __str__(self) -> str:
        low = f"above {self.low:g}" if self.open_low else f"at least {self.low:g}"
        if self.high == math.inf:
            return low
        return low + (
            f" and below {self.high:g}" if self.open_high else f" and at most {self.high:g}"
        )


_RANGES = {
    "learning_rate": _Range(low=0, open_low=True),
    "epochs": _Range(low=0, open_low=True),
    "batch_size": _Range(low=1),
    "accumulation": _Range(low=1),
    "warmup_ratio": _Range(low=0, high=1),
    "weight_decay": _Range(low=0),
    "adam_beta1": _Range(low=0, high=1, open_high=True),
    "adam_beta2": _Range(low=0, high=1, open_high=True),
    "adam_epsilon": _Range(low=0, open_low=True),
    "max_grad_norm": _Range(low=0),
    # Four special tokens at most (RoBERTa's pair) and one of each text.
    "max_tokens": _Range(low=6),
    "evaluations": _Range(low=1),
}

_TYPES: dict[str, type] = {
    f.name: float if f.type in (float, "float") else int for f in fields(Recipe)
}


def check_setting(name: str, setting: Setting) -> Setting:
    """The same setting with its value as the recipe's type (an epoch count is always a float).

    A text is parsed, so that `--set epochs=3` and `epochs = 3` in a file are one value and give one
    job key. Raises BenchError for an unknown name, another type or a value out of range.
    """
    if name not in _RANGES:
        raise unknown_name("hyperparameter", name, _RANGES)
    kind: Literal["a whole number", "a number"] = (
        "a whole number" if _TYPES[name] is int else "a number"
    )
    value = _number(setting.value, whole=_TYPES[name] is int)
    if value is None or not math.isfinite(value) or not _RANGES[name].holds(value):
        raise BenchError(
            f"{name} is {setting.value!r} ({setting.source}), expected {kind} that is "
            f"{_RANGES[name]}."
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
