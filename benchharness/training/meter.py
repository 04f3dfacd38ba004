"""Counters of a training: losses, tokens, time, and the learning curve."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from benchharness.errors import JobError
from benchharness.leaderboard.result import CurvePoint
from benchharness.progress import Progress, Reporter
from benchharness.recipes.recipe import Recipe, count_steps
from benchharness.training.compute import Compute

CURVE_POINTS = 40
"""Maximum number of losses in a learning curve, in addition to the evaluations: enough for a small
plot, and few enough to be stored with every result."""

COUNTED = ("step", "tokens", "examples", "rate", "losses", "evaluating", "values")
"""Names of the fields of a Meter that snapshots contain unchanged."""

STEPS_BETWEEN_READS = {"cpu": 1, "cuda": 16}
"""Number of steps between two reads of the losses, keyed by device type. It is larger on a GPU,
because a read makes the CPU wait for the GPU."""


class DivergedError(JobError):
    """Error raised if a loss, a gradient or a prediction is not finite."""

    kind = "diverged"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of a training: the number of steps, and the steps that are followed by other work.

    Attributes:
        steps: Number of optimizer steps.
        layer_steps: Number of steps of the first stage (`Recipe.first_stage`), in which a student
            learns only from its teacher's layers.
        evaluations: Numbers of the steps (from 1) after which the network is evaluated.
        points: Numbers of the steps after which the learning curve gets a point, including all
            evaluations.
        reads: Numbers of the steps after which the losses are read from the device, including all
            points.
    """

    steps: int
    layer_steps: int
    evaluations: frozenset[int]
    points: frozenset[int]
    reads: frozenset[int]

    @classmethod
    def of(cls, items: Sequence[int], recipe: Recipe, compute: Compute) -> "Plan":
        """Return the plan of a run.

        Args:
            items: Number of items of each task.
            recipe: Recipe of the run.
            compute: Device of the computation, which determines how often losses are read.
        """
        schedule, batch_size = recipe.schedule, recipe.optim.batch_size
        last = schedule.steps or count_steps(items, batch_size, schedule.epochs)
        epochs, _ = recipe.first_stage
        first = count_steps(items, batch_size, epochs) if epochs else 0
        steps = first + last
        # Layer distillation does not train the output layer, so evaluations begin after it.
        times = recipe.selection.evaluations
        evaluations = frozenset(first + step for step in _evenly(last, times))
        points = evaluations | _evenly(steps, CURVE_POINTS)
        interval = STEPS_BETWEEN_READS[compute.device.type]
        reads = points | frozenset(range(interval, steps + 1, interval))
        return cls(
            steps=steps, layer_steps=first, evaluations=evaluations, points=points, reads=reads
        )


def _evenly(steps: int, times: int) -> frozenset[int]:
    """Return `times` evenly spaced steps, the last of which is the last step."""
    times = min(times, steps)  # so that no step occurs twice
    return frozenset(round(steps * (turn + 1) / times) for turn in range(times))


@dataclass(kw_only=True)
class Meter:
    """Counters of a training: steps, tokens, time, losses and scores.

    To avoid waiting for a GPU, losses stay on the device until `read` is called.

    Attributes:
        items: Number of items of all tasks together, i.e. of one epoch.
        steps: Planned number of steps.
        report: Function that is called with the progress.
        step: Number of finished steps.
        tokens: Number of trained tokens, without padding.
        examples: Number of trained items.
        rate: Learning rate of the last step.
        evaluating: Seconds spent on evaluations and predictions.
        started: Time of the monotonic clock at which the training began. A resumed training gets
            the time at which it would have begun without the interruption.
        curve: Points of the learning curve.
        unread: Loss and gradient norm of each step since the last read.
        losses: Loss of each step since the last point of the curve, as far as losses were read.
        values: Score of each evaluation, the higher the better; None if the score is undefined.
    """

    items: int
    steps: int
    report: Reporter
    step: int = 0
    tokens: int = 0
    examples: int = 0
    rate: float = 0.0  # learning rate of the last step
    evaluating: float = 0.0
    started: float = field(default_factory=time.monotonic)
    curve: list[CurvePoint] = field(default_factory=list)
    unread: list[Tensor] = field(default_factory=list)  # (2,) each: loss and norm
    losses: list[float] = field(default_factory=list)  # since the last point of the curve
    values: list[float | None] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Training time so far in seconds, without evaluations; always greater than 0."""
        # The result is never 0, even if the clock has not moved, because speeds are divided by it.
        return max(time.monotonic() - self.started - self.evaluating, 1e-9)

    @property
    def epoch(self) -> float:
        """Number of passes over the data so far."""
        return round(self.examples / self.items, 4)

    @property
    def is_marked(self) -> bool:
        """True if the learning curve has a point for the last finished step."""
        return bool(self.curve) and self.curve[-1].step == self.step

    @property
    def best(self) -> int | None:
        """Index of the best evaluation, the first one on ties; None if none has a score."""
        defined = [number for number, value in enumerate(self.values) if value is not None]
        return max(defined, key=lambda number: self.values[number] or 0.0, default=None)

    @property
    def waited(self) -> int:
        """Number of evaluations since the best one; 0 if no evaluation has a score."""
        return 0 if self.best is None else len(self.values) - 1 - self.best

    def count(self, loss: Tensor, norm: Tensor, rate: float, *, items: int, tokens: int) -> None:
        """Count one optimizer step.

        Args:
            loss: Mean loss of the batch: a scalar on the device.
            norm: Norm of the gradients: a scalar on the device.
            rate: Learning rate of the step.
            items: Number of items of the batch.
            tokens: Number of tokens of the batch, without padding.
        """
        self.step += 1
        self.rate = rate
        self.examples += items
        self.tokens += tokens
        self.unread.append(torch.stack([loss, norm]))  # (2,); the host does not wait for it

    def read(self) -> None:
        """Read the losses since the last read from the device, and report the progress.

        Raises DivergedError if a loss or a gradient norm is NaN or infinite.
        """
        if not self.unread:
            return
        values = torch.stack(self.unread).tolist()  # (steps, 2): the host waits once for all
        self.unread.clear()
        for step, (loss, norm) in enumerate(values, start=self.step - len(values) + 1):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise DivergedError(
                    f"the training diverged: at step {step} of {self.steps}, the loss is {loss:g} "
                    f"and the gradient norm is {norm:g}. Try a lower learning rate (--set "
                    "learning_rate=...)."
                )
            self.losses.append(loss)
        self.report(
            Progress(
                phase="training",
                step=self.step,
                steps=self.steps,
                epoch=self.epoch,
                loss=self.losses[-1],
                examples_per_second=self.examples / self.seconds,
            )
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Context manager that counts its block's time as evaluation instead of training."""
        start = time.monotonic()
        yield  # if the block raises, it is repeated and counted when the job is resumed
        self.evaluating += time.monotonic() - start

    def mark(self, scores: Mapping[str, float]) -> None:
        """Add a point to the learning curve, with the mean loss since the previous point.

        The losses must have been read before. `scores` are the scores of an evaluation after the
        last step, keyed by metric; empty without an evaluation.
        """
        self.curve.append(
            CurvePoint(
                step=self.step,
                epoch=self.epoch,
                loss=sum(self.losses) / len(self.losses),
                learning_rate=self.rate,
                scores=scores,
            )
        )
        self.losses.clear()

    def numbers(self) -> dict[str, Any]:
        """Return all counters as data that can be stored as JSON and passed to `restore`.

        Call `read` before, because losses that have not been read are not included.
        """
        return {
            **{name: copy(getattr(self, name)) for name in COUNTED},
            "seconds": self.seconds,
            "curve": [asdict(point) for point in self.curve],
        }

    def restore(self, numbers: Mapping[str, Any]) -> None:
        """Load the counters that `numbers` returned.

        The time since the call of `numbers` does not count as training time.
        """
        for name in COUNTED:
            setattr(self, name, copy(numbers[name]))
        # Set the start as if this process had made the training so far without a break.
        self.started = time.monotonic() - numbers["seconds"] - self.evaluating
        self.curve = [CurvePoint(**point) for point in numbers["curve"]]

    def announce_saving(self) -> None:
        """Report that a state is about to be saved.

        The process that started this job then waits longer before it kills the job.
        """
        self.report(Progress(phase="saving", step=self.step, steps=self.steps))
