"""Trains to the end without a job around it."""

from collections.abc import Callable, Mapping

from benchharness.training.loop import Training
from benchharness.training.meter import Meter

__all__ = ["fit"]


def fit(
    training: Training,
    evaluate: Callable[[], Mapping[str, float]],
    after_step: Callable[[], None] = lambda: None,
    value: Callable[[int], float | None] = lambda _: None,
) -> Meter:
    """Makes every step that is left, and evaluates when the plan says so.

    `value` is what an evaluation is worth, by its number from 0.
    """
    for step in training:
        if step in training.plan.evaluations:
            with training.meter.paused():
                scores = evaluate()
            training.mark(scores, value(len(training.meter.values)))
        after_step()
    return training.meter
