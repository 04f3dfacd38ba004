"""Hyperparameters of the ordinal head."""

from dataclasses import dataclass
from typing import ClassVar

from benchharness.hyperparameter import POSITIVE, hyperparameter


@dataclass(frozen=True, kw_only=True)
class OrdinalOptions:
    """Options for ordered levels; `threshold_gap` is the first distance between two thresholds."""

    heads: ClassVar = ("ordinal",)
    threshold_gap: float = hyperparameter(POSITIVE, 1.0)
