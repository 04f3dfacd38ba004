"""How far a job has come: its training, then the splits that the trained network predicts."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from benchharness.encoder import Encoder
from benchharness.kept_folders import check_checkpoint, new_checkpoint, require_room
from benchharness.progress import SIGNALS, Progress
from benchharness.training.loop import Training, fit
from benchharness.training.meter import Fit
from benchharness.training.snapshots import Snapshots, State
from leaderboard.job import Job
from leaderboard.result import Evaluation
from tasks.errors import JobError

__all__ = ["Course", "Keeper", "take_up"]


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


# The encoder that a run leaves behind for others, and how they take it up.

WEIGHTS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class Keeper:
    """An encoder that is to be written when its training is over.

    `weights` are all of its weights by name, which training changes in place, and `config` is the
    one it was loaded with. They are noted before a head is put on the encoder, because a head may
    take the pooler away: to train it with itself (BERT's), or because it reads every token. Either
    way the pooler is written as the head has left it.
    """

    folder: Path
    job: Job
    tokenizer: Any
    config: Any
    weights: Mapping[str, Tensor]

    @classmethod
    def of(cls, encoder: Encoder, folder: Path, job: Job) -> "Keeper":
        """The keeper of a whole encoder; JobError where the folder's disk is too small for it."""
        weights = encoder.network.state_dict(keep_vars=True)
        require_room(folder, sum(w.numel() * w.element_size() for w in weights.values()))
        return cls(
            folder=folder,
            job=job,
            tokenizer=encoder.tokenizer,
            config=deepcopy(encoder.config),
            weights=weights,
        )

    def write(self) -> None:
        """Writes a checkpoint that transformers can load, whole or not at all.

        It has every name that the network has, so weights that it ties are there twice. Raises
        JobError where it cannot be written.
        """
        if self.tokenizer.is_fast:  # what encoding has left in it would be saved too
            self.tokenizer.backend_tokenizer.no_truncation()
            self.tokenizer.backend_tokenizer.no_padding()
        try:
            with new_checkpoint(self.folder, self.job) as draft:
                self._write_files(draft)
        except (OSError, SafetensorError) as error:
            raise JobError(
                f"the encoder that other jobs start from cannot be written to {self.folder} "
                f"({error}): free the disk, or do without (--start-from scratch)."
            ) from error

    def _write_files(self, folder: Path) -> None:
        copies = {name: w.detach().cpu().clone().contiguous() for name, w in self.weights.items()}
        save_file(copies, folder / WEIGHTS, metadata={"format": "pt"})
        self.config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def take_up(encoder: Encoder, folder: Path | None, job: Job) -> Mapping[str, str]:
    """Puts the weights that another run has left in the place of the encoder's; says which.

    Tokenizer and config stay those of the pretrained checkpoint, from which that run started too.
    Raises JobError where the folder is gone or damaged, or is of another network.
    """
    assert job.start_from, "only a job that starts from another takes up its encoder"
    if folder is None:
        raise JobError(f"no folder was given with the encoder of {job.started_from}.")
    digests = check_checkpoint(folder, job.start_from)
    try:
        encoder.network.load_state_dict(load_file(folder / WEIGHTS))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise JobError(
            f"the encoder of {job.started_from} in {folder} does not fit this model ({reason}): "
            "delete that folder, and the same command trains it again."
        ) from error
    return {"name": job.started_from, "run": job.start_from, "sha256": digests[WEIGHTS]}
