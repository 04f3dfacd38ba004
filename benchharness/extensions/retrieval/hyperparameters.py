"""Hyperparameters of the ranking head."""

from dataclasses import dataclass
from typing import ClassVar

from benchharness.hyperparameter import POSITIVE, hyperparameter, one_of
from benchharness.models.folder import FIRST, LAST, MEAN


@dataclass(frozen=True, kw_only=True)
class RankingOptions:
    """Options for ranking documents by the cosine similarity of text vectors.

    `pooling` determines the vector of a text: the mean of its token states, or the state of the
    first or last token. In training, cosine similarities are multiplied by `similarity_scale`
    before the softmax.
    """

    heads: ClassVar = ("ranking",)
    pooling: str = hyperparameter(
        one_of(MEAN, FIRST, LAST),
        MEAN,
        stated=True,
        excludes={"features": "freezes the encoder, as --shots 0 does"},
    )
    similarity_scale: float = hyperparameter(POSITIVE, 20.0, stated=True)
