"""Stored predictions as the objects that metrics and submissions take."""

from collections.abc import Mapping
from typing import Any

from leaderboard.result import Evaluation
from tasks.examples import (
    ChoicePrediction,
    PairPrediction,
    Prediction,
    SpanPrediction,
    TagPrediction,
)
from tasks.suites import find_task

__all__ = ["predictions_of", "to_row"]

CLASSES: Mapping[str, type[Prediction]] = {
    "pair": PairPrediction,
    "span": SpanPrediction,
    "choice": ChoicePrediction,
    "tag": TagPrediction,
}
"""By head type."""


def predictions_of(evaluation: Evaluation) -> tuple[Prediction, ...]:
    """The predictions of one split, in its order; what `to_row` made rows of."""
    kind = CLASSES[find_task(evaluation.task).head]
    return tuple(kind(**_with_tuples(row)) for row in evaluation.predictions)


def to_row(prediction: Prediction) -> dict[str, Any]:
    """The fields as JSON gives them back: with lists, not tuples."""
    fields = vars(prediction).items()
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields}


def _with_tuples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
