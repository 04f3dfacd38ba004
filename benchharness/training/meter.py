"""What is counted while a network is trained: losses, tokens, time, and the learning curve."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from benchharness.leaderboard.result import CurvePoint
from benchharness.progress import Progress, Reporter
from benchharness.recipes.recipe import Recipe
from benchharness.tasks.errors import JobError
from benchharness.training.batching import count_steps
from benchharness.training.compute import Compute

CURVE_POINTS = 40
"""How many losses a learning curve shows at most, besides the evaluations; enough for a small plot,
and few enough to be stored with every result."""

COUNTED = ("step", "tokens", "examples", "rate", "losses", "evaluating", "values")
"""The fields of a Meter that a snapshot has as they are."""

STEPS_BETWEEN_READS = {"cpu": 1, "cuda": 16}
"""Reading a loss makes the host wait for the GPU, so there it is done only now and then."""


class DivergedError(JobError):
    """The loss, a gradient or a prediction is no longer a finite number."""

    kind = "diverged"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """After which steps losses are read, the curve gets a point, and the network is evaluated.

    The first `layer_steps` of all `steps` are those of the recipe's `layer_epochs`.
    """

    steps: int
    layer_steps: int
    evaluations: frozenset[int]
    points: frozenset[int]
    reads: frozenset[int]

    @classmethod
    def of(cls, items: Sequence[int], recipe: Recipe, compute: Compute) -> "Plan":
        """The plan of a run over these numbers of items of each task."""
        schedule, batch_size = recipe.schedule, recipe.optim.batch_size
        last = schedule.steps or count_steps(items, batch_size, schedule.epochs)
        layers = recipe.student.layer_epochs if recipe.student else 0.0
        first = count_steps(items, batch_size, layers) if layers else 0
        steps = first + last
        # Behind the layers' steps, before which no output is learned.
        times = recipe.selection.evaluations
        evaluations = frozenset(first + step for step in _evenly(last, times))
        points = evaluations | _evenly(steps, CURVE_POINTS)
        interval = STEPS_BETWEEN_READS[compute.device.type]
        reads = points | frozenset(range(interval, steps + 1, interval))
        return cls(
            steps=steps, layer_steps=first, evaluations=evaluations, points=points, reads=reads
        )


def _evenly(steps: int, times: int) -> frozenset[int]:
    """The steps after which something is done `times` times, at last after the last step."""
    times = min(times, steps)  # no step is taken twice
    return frozenset(round(steps * (turn + 1) / times) for turn in range(times))


@dataclass(kw_only=True)
class Meter:
    """Counts what training does; losses stay on the device until they are read.

    `tokens` are real ones, without padding. `evaluating` are the seconds of the evaluations and
    `values` what these are worth, the higher the better, None where one is undefined.
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
        """Training time so far, without evaluations."""
        # Not 0, by which examples per second would be divided where the clock has not moved.
        return max(time.monotonic() - self.started - self.evaluating, 1e-9)

    @property
    def epoch(self) -> float:
        """Passes over the data so far."""
        return round(self.examples / self.items, 4)

    @property
    def is_marked(self) -> bool:
        """Whether the curve has a point of the last step."""
        return bool(self.curve) and self.curve[-1].step == self.step

    @property
    def best(self) -> int | None:
        """The number of the best evaluation from 0, the first of equal ones; None for none."""
        defined = [number for number, value in enumerate(self.values) if value is not None]
        return max(defined, key=lambda number: self.values[number] or 0.0, default=None)

    @property
    def waited(self) -> int:
        """How many evaluations in a row were not better than the best one before them."""
        return 0 if self.best is None else len(self.values) - 1 - self.best

    def count(self, loss: Tensor, norm: Tensor, rate: float, *, items: int, tokens: int) -> None:
        """Takes note of one optimizer step."""
        self.step += 1
        self.rate = rate
        self.examples += items
        self.tokens += tokens
        self.unread.append(torch.stack([loss, norm]))  # (2,), not waited for

    def read(self) -> None:
        """Reads the losses since the last time, reports the last, and stops at one not finite."""
        if not self.unread:
            return
        values = torch.stack(self.unread).tolist()  # (steps, 2): the host waits once for all
        self.unread.clear()
        for step, (loss, norm) in enumerate(values, start=self.step - len(values) + 1):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise DivergedError(
                    f"the training diverged: at step {step} of {self.steps} the loss is {loss:g} "
                    f"and the gradient's norm {norm:g}; try a lower --set learning_rate."
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
        """A block, such as an evaluation, whose time is counted apart from that of training."""
        start = time.monotonic()
        yield  # one that raises is repeated when the job is resumed, and counted then
        self.evaluating += time.monotonic() - start

    def mark(self, scores: Mapping[str, float]) -> None:
        """Puts a point on the curve: the mean loss since the point before."""
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
        """Everything counted so far as plain data, from which `restore` counts on; after `read`."""
        return {
            **{name: copy(getattr(self, name)) for name in COUNTED},
            "seconds": self.seconds,
            "curve": [asdict(point) for point in self.curve],
        }

    def restore(self, numbers: Mapping[str, Any]) -> None:
        """Counts on from what `numbers` gave; the time in between does not count."""
        for name in COUNTED:
            setattr(self, name, copy(numbers[name]))
        # As if this process had begun so long ago, without the time in which none ran.
        self.started = time.monotonic() - numbers["seconds"] - self.evaluating
        self.curve = [CurvePoint(**point) for point in numbers["curve"]]

    def announce_saving(self) -> None:
        """Tells the engine that a state is about to be saved, for which it has to wait."""
        self.report(Progress(phase="saving", step=self.step, steps=self.steps))
