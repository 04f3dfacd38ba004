"""Numbers of parameters of checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchharness.leaderboard.boards.published import PublishedRow, find_system, printed_size


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """Number of parameters of a checkpoint, with facts about its architecture.

    Attributes:
        parameters: Number of parameters.
        backbone: Number of parameters without embeddings; None if unknown.
        is_dense: True if each parameter except embeddings is used once per token. False if layers
            share parameters (ALBERT), or if later layers process fewer tokens (Funnel).
        family: Architecture, e.g. "roberta"; empty if unknown.
        cite: Paper that describes the checkpoint; empty if unknown.
    """

    parameters: float
    backbone: float | None = None
    is_dense: bool = True
    family: str = ""
    cite: str = ""


Sizes = Mapping[str, ModelSize]
"""Sizes of checkpoints, keyed by their names on leaderboards in lower case."""


def known_size(model: str, sizes: Sizes) -> ModelSize | None:
    """Return the known size of a model; None if it is unknown.

    Args:
        model: Name or path of the model; only the part after the last "/" is used.
        sizes: Known sizes, keyed by lower-case name.
    """
    return sizes.get(model.rpartition("/")[2].lower())


def published_size(row: PublishedRow, sizes: Sizes) -> tuple[float | None, ModelSize | None]:
    """Return the number of parameters for a published row, and the known size of its checkpoint.

    The number is the one that the source prints. If the source prints none, it is the known number
    of the checkpoint. Each result is None if it is unknown.
    """
    system = find_system(row.system, row.table)
    known = known_size(system.model, sizes) if system is not None else None
    return printed_size(row.parameters) or (known.parameters if known else None), known


def in_units(value: float, *units: tuple[float, str]) -> str:
    """Format a number with three digits in the largest suitable unit, e.g. "22.7M" or "9.5 min"."""
    # Use the next unit from 999.5 on, because this would be "1e+03" with three digits.
    unit, sign = next((found for found in units if value >= 0.9995 * found[0]), units[-1])
    return f"{value / unit:.3g}{sign}"


def count_text(value: float) -> str:
    """Format a large number with three digits, e.g. "22.7M"."""
    return in_units(value, (1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (1, ""))
