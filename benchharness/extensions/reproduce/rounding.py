"""Rounding of probabilities in runs that are shared, so that their archives are small."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from benchharness.leaderboard.result import Evaluation, Result

ROUNDED = "rounded_digits"
"""Field of a run's provenance with the number of decimals to which its probabilities were rounded;
missing if they were not."""

_FIELD = "scores"  # field of predictions with the probabilities; answers are never rounded


def digits_of(provenance: object) -> int | None:
    """Return the number of decimals to which a run's probabilities were rounded; None if not."""
    found = provenance.get(ROUNDED) if isinstance(provenance, dict) else None
    return found if type(found) is int and 0 < found < 17 else None


def with_digits(result: Result, digits: int | None) -> Result:
    """Return a run with rounded probabilities, and with their decimals in its provenance.

    Answers and scores do not change.

    Args:
        result: Run to round; it is not changed.
        digits: Number of decimals; None to return the run itself.
    """
    if digits is None:
        return result
    return replace(
        result,
        evaluations=tuple(_rounded(each, digits) for each in result.evaluations),
        provenance={**result.provenance, ROUNDED: digits},
    )


def _rounded(evaluation: Evaluation, digits: int) -> Evaluation:
    rows = tuple(_row(row, digits) for row in evaluation.predictions)
    return replace(evaluation, predictions=rows)


def _row(row: Mapping[str, Any], digits: int) -> Mapping[str, Any]:
    scores = row.get(_FIELD)
    if not isinstance(scores, list | tuple) or not all(isinstance(s, float) for s in scores):
        return row
    return {**row, _FIELD: [round(score, digits) for score in scores]}
