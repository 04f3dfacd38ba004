"""Hyperparameters of the ranking head."""

from dataclasses import dataclass
from typing import ClassVar

from benchharness.hyperparameter import POSITIVE, hyperparameter, one_of
from benchharness.models.folder import FIRST, LAST, MEAN


@dataclass(frozen=True, kw_only=True)
class RankingOptions:
    """Options for ranking documents by the cosine similarity of text vectors.

    Attributes:
        pooling: Token states that give the vector of a text: the mean over all tokens, or the state
            of the first or the last token.
        similarity_scale: Factor by which cosine similarities are multiplied before the softmax in
            training.
    """

    heads: ClassVar = ("ranking",)
    pooling: str = hyperparameter(
        one_of(MEAN, FIRST, LAST),
        MEAN,
        stated=True,
        excludes={"features": "freezes the encoder, as --shots 0 does"},
    )
    similarity_scale: float = hyperparameter(POSITIVE, 20.0, stated=True)
