"""Hyperparameters of the ordinal head and of the technique."""

from dataclasses import dataclass
from typing import ClassVar

from benchharness.hyperparameter import COUNT_OR_NONE, POSITIVE, hyperparameter


@dataclass(frozen=True, kw_only=True)
class OrdinalOptions:
    """Options for ordered levels; `threshold_gap` is the first distance between two thresholds."""

    heads: ClassVar = ("ordinal",)
    threshold_gap: float = hyperparameter(POSITIVE, 1.0)


@dataclass(frozen=True, kw_only=True)
class FreshOptions:
    """Options of the technique: the `fresh_layers` top layers begin with random weights."""

    fresh_layers: int = hyperparameter(COUNT_OR_NONE, 0)
