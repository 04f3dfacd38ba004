"""Pairs of two systems' outcomes, made from plain numbers."""

from typing import Any

import numpy as np

from benchharness.leaderboard.comparing import Outcomes, Pairs


def pairs_of(one: Any, other: Any) -> Pairs:
    """Return pairs whose score is the mean of the outcomes, [units] or [units, seeds]."""
    arrays = [np.asarray(outcomes, dtype=np.float64) for outcomes in (one, other)]
    return Pairs(*(Outcomes(parts=array.reshape(len(array), -1, 1)) for array in arrays))
