"""Trains to the end without a job around it."""

from collections.abc import Callable, Mapping

from benchharness.training.loop import Training
from benchharness.training.meter import Fit

__all__ = ["fit"]


def fit(
    training: Training,
    evaluate: Callable[[], Mapping[str, float]],
    after_step: Callable[[], None] = lambda: None,
) -> Fit:
    """Makes every step that is left, and evaluates when the plan says so."""
    for step in training:
        if step in training.plan.evaluations:
            with training.meter.paused():
                scores = evaluate()
            training.mark(scores)
        after_step()
    return training.meter.result()
