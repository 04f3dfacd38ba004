"""Hyperparameters of the coreference head."""

from dataclasses import dataclass
from typing import ClassVar

from benchharness.hyperparameter import COUNT, hyperparameter


@dataclass(frozen=True, kw_only=True)
class CorefOptions:
    """Options for coreference resolution.

    A training step reads `training_segments` consecutive segments of a document, from a random
    position, or all segments if the document has fewer. Each segment has at most `max_tokens`
    tokens. None stands for the head's default number of segments.
    """

    heads: ClassVar = ("coref",)
    training_segments: int | None = hyperparameter(COUNT, None)
