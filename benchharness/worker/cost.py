"""What a job has taken: seconds, steps, memory."""

import resource
import sys

import torch

from benchharness.training.meter import Fit
from benchharness.worker.course import Course
from leaderboard.result import Cost

__all__ = ["cost_of"]


def cost_of(parameters: int, fitted: Fit, course: Course) -> Cost:
    """The cost of a course that is over, in all processes that it took."""
    return Cost(
        seconds=course.seconds,
        train_seconds=fitted.seconds,
        predict_seconds=fitted.evaluation_seconds + course.predicting,
        steps=fitted.steps,
        train_examples_per_second=fitted.examples / fitted.seconds,
        train_tokens=fitted.tokens,
        parameters=parameters,
        peak_memory_bytes=_peak_memory(),
    )


def _peak_memory() -> int:
    """The most memory of the device that this process held at once, in bytes."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): kilobytes on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
