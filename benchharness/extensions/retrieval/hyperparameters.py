"""Hyperparameters of the ranking head."""

from dataclasses import dataclass
from typing import ClassVar

from benchharness.hyperparameter import POSITIVE, hyperparameter, one_of
from benchharness.models.folder import FIRST, LAST, MEAN


@dataclass(frozen=True, kw_only=True)
class RankingOptions:
    """Options for text vectors, by which documents are ranked.

    `pooling` makes a text's vector from its token states: their mean, or the state of the first or
    last token. Training multiplies cosines by `similarity_scale` before the softmax.
    """

    heads: ClassVar = ("ranking",)
    pooling: str = hyperparameter(
        one_of(MEAN, FIRST, LAST),
        MEAN,
        stated=True,
        excludes={"features": "reads a frozen encoder, as --shots 0 does"},
    )
    similarity_scale: float = hyperparameter(POSITIVE, 20.0, stated=True)
