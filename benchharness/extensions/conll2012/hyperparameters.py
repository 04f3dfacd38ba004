"""Hyperparameters of the coreference head."""

from dataclasses import dataclass
from typing import ClassVar

from benchharness.hyperparameter import COUNT, hyperparameter


@dataclass(frozen=True, kw_only=True)
class CorefOptions:
    """Options for coreference resolution.

    Attributes:
        training_segments: Maximum number of consecutive segments of a document that a training step
            reads; the first one is chosen at random. A segment has at most `max_tokens` tokens.
            None for the default of the head, which is 5.
    """

    heads: ClassVar = ("coref",)
    training_segments: int | None = hyperparameter(COUNT, None)
