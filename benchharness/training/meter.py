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
from benchharness.recipes.recipe import Recipe
from benchharness.training.batching import count_steps
from benchharness.training.compute import Compute

CURVE_POINTS = 40
"""Maximum number of losses in a learning curve, in addition to the evaluations: enough for a small
plot, and few enough to be stored with every result."""

COUNTED = ("step", "tokens", "examples", "rate", "losses", "evaluating", "values")
"""Fields of a Meter that snapshots contain unchanged."""

STEPS_BETWEEN_READS = {"cpu": 1, "cuda": 16}
"""Number of steps between two reads of the losses: a read makes the host wait for the GPU."""


class DivergedError(JobError):
    """Error raised if a loss, a gradient or a prediction is not finite."""

    kind = "diverged"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Plan of a training: the number of steps, and the steps that are followed by other work.

    Attributes:
        steps: Number of optimizer steps.
        layer_steps: Number of steps at the beginning that belong to the recipe's `layer_epochs`.
        evaluations: Steps after which the network is evaluated.
        points: Steps after which the learning curve gets a point.
        reads: Steps after which the losses are read from the device.
    """

    steps: int
    layer_steps: int
    evaluations: frozenset[int]
    points: frozenset[int]
    reads: frozenset[int]

    @classmethod
    def of(cls, items: Sequence[int], recipe: Recipe, compute: Compute) -> "Plan":
        """Return the plan of a run; `items` contains the number of items of each task."""
        schedule, batch_size = recipe.schedule, recipe.optim.batch_size
        last = schedule.steps or count_steps(items, batch_size, schedule.epochs)
        layers = recipe.student.layer_epochs if recipe.student else 0.0
        first = count_steps(items, batch_size, layers) if layers else 0
        steps = first + last
        # Evaluations follow after layer distillation, which does not train the output layer.
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
    times = min(times, steps)  # no step occurs twice
    return frozenset(round(steps * (turn + 1) / times) for turn in range(times))


@dataclass(kw_only=True)
class Meter:
    """Counters of a training; losses stay on the device until they are read.

    Attributes:
        items: Number of items of all tasks.
        steps: Planned number of steps.
        report: Function that gets the progress.
        step: Number of finished steps.
        tokens: Number of trained tokens, without padding.
        examples: Number of trained items.
        rate: Learning rate of the last step.
        evaluating: Seconds spent on evaluations.
        started: Start of the training, by the monotonic clock.
        curve: Points of the learning curve.
        unread: Loss and gradient norm of each step since the last read.
        losses: Losses since the last point of the curve.
        values: Score of each evaluation, the higher the better; None if undefined.
    """

    items: int
    steps: int
    report: Reporter
    step: int = 0
    tokens: int = 0
    examples: int = 0
    rate: float = 0.0  # of the last step
    evaluating: float = 0.0
    started: float = field(default_factory=time.monotonic)
    curve: list[CurvePoint] = field(default_factory=list)
    unread: list[Tensor] = field(default_factory=list)  # (2,) each: loss and norm
    losses: list[float] = field(default_factory=list)  # since the last point of the curve
    values: list[float | None] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Training time so far in seconds, without evaluations."""
        # The result is never 0, even if the clock has not moved, because speeds are divided by it.
        return max(time.monotonic() - self.started - self.evaluating, 1e-9)

    @property
    def epoch(self) -> float:
        """Number of passes over the data so far."""
        return round(self.examples / self.items, 4)

    @property
    def is_marked(self) -> bool:
        """True if the curve has a point for the last step."""
        return bool(self.curve) and self.curve[-1].step == self.step

    @property
    def best(self) -> int | None:
        """Index of the best evaluation, the first one on ties; None if none has a score."""
        defined = [number for number, value in enumerate(self.values) if value is not None]
        return max(defined, key=lambda number: self.values[number] or 0.0, default=None)

    @property
    def waited(self) -> int:
        """Number of evaluations since the best one."""
        return 0 if self.best is None else len(self.values) - 1 - self.best

    def count(self, loss: Tensor, norm: Tensor, rate: float, *, items: int, tokens: int) -> None:
        """Count one optimizer step."""
        self.step += 1
        self.rate = rate
        self.examples += items
        self.tokens += tokens
        self.unread.append(torch.stack([loss, norm]))  # (2,); the host does not wait for it

    def read(self) -> None:
        """Read and report the losses since the last read; raise DivergedError for a NaN or inf."""
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
        """Add a point to the curve, with the mean loss since the previous point."""
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
        """Return all counters as plain data for `restore`; call `read` before."""
        return {
            **{name: copy(getattr(self, name)) for name in COUNTED},
            "seconds": self.seconds,
            "curve": [asdict(point) for point in self.curve],
        }

    def restore(self, numbers: Mapping[str, Any]) -> None:
        """Load the counters that `numbers` returned; the time since then does not count."""
        for name in COUNTED:
            setattr(self, name, copy(numbers[name]))
        # Set the start as if this process had made the training so far without a break.
        self.started = time.monotonic() - numbers["seconds"] - self.evaluating
        self.curve = [CurvePoint(**point) for point in numbers["curve"]]

    def announce_saving(self) -> None:
        """Report to the engine that a state is about to be saved, so that the engine waits."""
        self.report(Progress(phase="saving", step=self.step, steps=self.steps))
