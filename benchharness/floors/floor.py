"""What a floor is: it learns from a train split, and predicts any rows of that kind."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tasks.examples import Prediction
from tasks.task import Task

__all__ = ["Learner", "Predictor"]

Predictor = Callable[[Sequence[Any]], tuple[Prediction, ...]]
"""One prediction for each example, in their order."""

Learner = Callable[[Task, Sequence[Any], Mapping[str, Any]], Predictor]
"""A task, its training examples and the values of the job's settings to a predictor."""
