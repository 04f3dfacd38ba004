"""Sizes of checkpoints, and what a run of one has computed."""

from collections.abc import Mapping
from dataclasses import dataclass

from leaderboard.report.plots.facts import RunFacts

__all__ = ["ModelSize", "Sizes", "size_of_run", "token_flops", "training_flops"]

NEAR = 0.15
"""A checkpoint's published size and that of a run of it differ by less, whatever its head is."""


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """A checkpoint's weights: all of them, and those besides embeddings, None where unknown.

    `is_dense` where every token passes every weight besides embeddings once: not where layers share
    weights (ALBERT), nor where later layers see fewer tokens (Funnel).
    """

    parameters: float
    backbone: float | None = None
    is_dense: bool = True


Sizes = Mapping[str, ModelSize]
"""By the names, in lower case, that checkpoints have on a board."""


def size_of_run(model: str, facts: RunFacts, sizes: Sizes) -> ModelSize:
    """The size of a run's model, as far as its name says it; else that of all weights it had.

    A known name (a folder's last part) is not believed where the numbers of weights differ.
    """
    known = sizes.get(model.rpartition("/")[2].lower())
    if known is None or abs(known.parameters - facts.parameters) > NEAR * facts.parameters:
        return ModelSize(parameters=facts.parameters)
    return known


def training_flops(size: ModelSize, facts: RunFacts) -> float | None:
    """6·N·T (Kaplan et al. 2020, section 2.1), None where weights were not all trained."""
    if not (size.is_dense and facts.trains_all and facts.tokens):
        return None
    return 6.0 * (size.backbone or size.parameters) * facts.tokens


def token_flops(size: ModelSize) -> float | None:
    """2·N for each token that is predicted (Kaplan et al. 2020, section 2.1)."""
    return 2.0 * size.backbone if size.is_dense and size.backbone else None
