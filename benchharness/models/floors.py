"""The floors: what a board shows below all encoders, because no score means much without them."""

from benchharness.models.spec import ModelSpec

__all__ = ["FLOORS"]

FLOORS = (
    ModelSpec(
        name="majority",
        checkpoint="floor:majority",
        revision="1",
        title="one answer for every row: the most frequent of the train split",
    ),
    ModelSpec(
        name="bag-of-words",
        checkpoint="floor:bag-of-words",
        revision="1",
        title="words and pairs of words, weighted by TF-IDF, under a linear model",
        cite="after the CBoW baseline of Wang et al., GLUE, ICLR 2019",
    ),
)
"""A revision goes up when a change to a floor's code changes its predictions."""
