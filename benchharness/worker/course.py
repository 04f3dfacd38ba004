"""How far a job has come: its training, then the splits that the trained network predicts."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from benchharness.interruption import SIGNALS
from benchharness.progress import Progress
from benchharness.restart.state import State
from benchharness.training.loop import Training, fit
from benchharness.training.meter import Fit
from benchharness.training.snapshots import Snapshots
from leaderboard.result import Evaluation

__all__ = ["Course"]


@dataclass(kw_only=True)
class Course:
    """A job from its first step to its last prediction.

    `evaluate` predicts one of the `splits`, of which the first is evaluated in training too.
    `snapshots` is None where no state is kept. `began` is when this process began the job,
    `earlier` how many seconds others before it have spent, and `resumed` the steps after which it
    was taken up again. `predicting` are the seconds of predictions after the training.
    """

    training: Training
    splits: Sequence[str]
    evaluate: Callable[[str], Evaluation]
    snapshots: Snapshots | None
    began: float
    earlier: float = 0.0
    predicting: float = 0.0
    resumed: list[int] = field(default_factory=list)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """What the job has taken so far, without the time in which it did not run."""
        return self.earlier + time.monotonic() - self.began

    @property
    def record(self) -> dict[str, Any]:
        """What a result says of how the job was stopped and taken up again."""
        if not self.resumed:
            return {}
        return {"resumed": {"times": len(self.resumed), "steps": list(self.resumed)}}

    def run(self) -> Fit:
        """Trains to the end, then predicts every split."""
        first, *others = self.splits
        with self._kept_when_stopped():
            fitted = fit(self.training, lambda: self._predict(first).scores, self._keep_when_due)
            for name in others:
                if name not in self.evaluations:
                    start = time.monotonic()
                    self._predict(name)
                    self.predicting += time.monotonic() - start
                    self._keep_when_due()
        return fitted

    def restore(self, state: State) -> None:
        """Goes on from a state of the same job."""
        self.training.restore(state)
        numbers = state.numbers["job"]
        self.earlier, self.predicting = numbers["seconds"], numbers["predicting"]
        self.resumed = [*numbers["resumed"], self.training.meter.step]
        kept = map(Evaluation.from_json, numbers["evaluations"])
        self.evaluations = {evaluation.name: evaluation for evaluation in kept}

    def state(self) -> State:
        """All that `restore` needs; the evaluations only where they are the last ones."""
        state = self.training.state()
        final = self.evaluations.values() if self.training.is_over else ()
        job = {
            "seconds": self.seconds,
            "predicting": self.predicting,
            "resumed": self.resumed,
            "evaluations": [asdict(evaluation) for evaluation in final],
        }
        return replace(state, numbers={**state.numbers, "job": job})

    def _predict(self, name: str) -> Evaluation:
        self.evaluations[name] = self.evaluate(name)
        return self.evaluations[name]

    def _keep_when_due(self) -> None:
        if self.snapshots is not None:
            self.snapshots.save_when_due(self.state)

    @contextmanager
    def _kept_when_stopped(self) -> Iterator[None]:
        if self.snapshots is None:
            yield
            return
        with SIGNALS.announced_by(self._say_saving), self.snapshots.saved_at_a_signal(self.state):
            yield

    def _say_saving(self) -> None:
        meter = self.training.meter
        meter.report(Progress(phase="saving", step=meter.step, steps=meter.steps))
