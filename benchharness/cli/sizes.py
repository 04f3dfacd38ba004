"""The sizes of known checkpoints, for the report's plots."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaderboard.report.plots.size import Sizes

__all__ = ["known_sizes"]

NOT_DENSE = ("albert", "funnel")
"""Families in which a token does not pass every weight once: shared layers, pooled tokens."""


def known_sizes() -> "Sizes":
    """By every name that a checkpoint goes by here, in lower case; those of unknown size have none.

    A folder goes by its own name, which mostly is the last part of the hub's.
    """
    from benchharness.models import MODELS
    from leaderboard.report.plots.size import ModelSize

    found: dict[str, ModelSize] = {}
    for spec in MODELS.values():
        if spec.parameters is not None:
            size = ModelSize(
                parameters=spec.parameters * 1e6,
                backbone=None if spec.backbone is None else spec.backbone * 1e6,
                is_dense=spec.family not in NOT_DENSE,
            )
            for name in (spec.checkpoint.rpartition("/")[2], *spec.aliases, spec.name):
                found[name.lower()] = size
    return found
