"""Which runs have collapsed: fine-tuning that ended where it began, or with one answer for all.

Small data sets and large encoders collapse with some seeds and not with others (Mosbach et al.,
On the Stability of Fine-tuning BERT, ICLR 2021): such a run counts, and a reader must see it.
"""

from collections.abc import Sequence
from statistics import fmean

from tasks.metrics.flags import CONSTANT

__all__ = ["COLLAPSED", "NEVER_FELL", "curve_ends", "curve_flags", "flags_of_ends"]

NEVER_FELL = "the training loss never fell"

COLLAPSED = frozenset({CONSTANT, NEVER_FELL})
"""The flags of a run that has learned nothing."""

FEWEST_POINTS = 4
"""A curve with fewer points has no first and last quarter to compare."""

LEAST_FALL = 0.02
"""The share by which the loss of a run that learns falls at the very least: a classifier that only
finds the labels' shares moves by about one per cent, from its random start to their entropy."""


def curve_flags(losses: Sequence[float]) -> tuple[str, ...]:
    """Says "the training loss never fell" where a curve ends as high as it begins.

    `losses` are the means of a learning curve's stretches, in their order; its first quarter is
    compared with the last, and too few points say nothing.
    """
    return flags_of_ends(curve_ends(losses))


def curve_ends(losses: Sequence[float]) -> tuple[float, float] | None:
    """The mean loss of a curve's first quarter and of its last; None for too few points."""
    if len(losses) < FEWEST_POINTS:
        return None
    quarter = len(losses) // 4
    return fmean(losses[:quarter]), fmean(losses[-quarter:])


def flags_of_ends(ends: Sequence[float] | None) -> tuple[str, ...]:
    """What `curve_flags` says, by what `curve_ends` gave."""
    if ends is None:
        return ()
    first, last = ends
    return (NEVER_FELL,) if last >= first * (1 - LEAST_FALL) else ()
