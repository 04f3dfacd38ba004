"""Techniques of training, such as distillation: hooks that `run_job` calls to change a job.

A technique is a module of this package with a function `technique(work=...)`. Only the modules of
the job's techniques are imported. Hooks for planning are in driver/technique.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

from torch import nn

from benchharness.discovery import member, places
from benchharness.encoder import Encoder
from benchharness.heads import Head, Limits
from benchharness.leaderboard.job import Job
from benchharness.progress import Reporter
from benchharness.recipes.recipe import Recipe
from benchharness.tasks.read import SplitRows
from benchharness.tasks.task import Task
from benchharness.training.batching import Features
from benchharness.training.compute import Compute
from benchharness.training.optimizer import UsedVocabulary

if TYPE_CHECKING:
    from benchharness.worker.task_setup import TaskSetup


class Folders(TypedDict, total=False):
    """Folders that a worker reads and writes, and the time between two snapshots.

    Attributes:
        start_from: Folder with the encoder of the run that the job starts from.
        teacher: Folder with the teacher's network, for distillation.
        keep: Folder to write the trained network into.
        snapshots: Folder for snapshots of the job's state, from which it can resume.
        checkpoint_every: Seconds between two snapshots. Another one is written when a signal ends
            the job.
    """

    start_from: Path | None
    teacher: Path | None
    keep: Path | None
    snapshots: Path | None
    checkpoint_every: float


@dataclass(frozen=True, kw_only=True)
class Work:
    """Job to be computed, with its recipe, device, progress reporter and folders.

    If `trains` is False, the network is only used for prediction and the recipe's dropout is not
    set.
    """

    job: Job
    recipe: Recipe
    compute: Compute
    report: Reporter = lambda _: None
    folders: Folders = field(default_factory=Folders)
    trains: bool = True

    @classmethod
    def to_predict(cls, job: Job, compute: Compute) -> Self:
        """Return the Work of a job whose network is only used for prediction, without a teacher."""
        recipe, alone = Recipe.from_settings(job.settings), replace(job, teacher=None)
        return cls(job=alone, recipe=recipe, compute=compute, trains=False)


@dataclass(kw_only=True)
class Prepared:
    """Network of a job, with the features and rows of its splits, keyed by "task:split"."""

    setups: Sequence["TaskSetup"]
    network: Any
    rows: Mapping[str, SplitRows]
    features: dict[str, Features]
    limits: Limits


@dataclass(kw_only=True)
class Technique:
    """Hooks of a technique; by default they change nothing.

    `provenance` contains facts for the job's result. It is read after `on_network`.
    """

    work: Work
    provenance: Mapping[str, Any] = field(default_factory=dict)

    whole_vocabulary: ClassVar = False
    """True if the network needs its whole vocabulary, not only the tokens of the job's texts."""

    every_state: ClassVar = False
    """True if the last layer must return all tokens' states, even if the head reads only some."""

    def head(self, task: Task, encoder: Encoder) -> Head | None:
        """Return a head for the task, or None to use the ordinary head of the task's type."""
        return None

    def learned_rows(self, rows: SplitRows, task: Task) -> SplitRows:
        """Return the rows to train on, given the rows of a train split."""
        return rows

    def feature_key(self, task: Task) -> str:
        """Return a cache key for the technique's own effect on features; "" if it has none."""
        return ""

    def shared_network(self, setups: Sequence["TaskSetup"], encoder: Encoder) -> nn.Module | None:
        """Return a network for all tasks and set the network of each setup, or return None.

        If all techniques return None, the job has a single task, whose head creates the network.
        """
        return None

    def on_setups(self, setups: Sequence["TaskSetup"]) -> None:
        """Change the heads of the setups before the network is created."""

    def on_network(self, prepared: Prepared) -> None:
        """Change the network or the features after both were created."""

    def on_vocabulary(self, vocabulary: UsedVocabulary) -> None:
        """Adapt to a vocabulary that was cut to the tokens of the job's texts."""

    def to_predict(self, network: Any) -> None:
        """Change a network that is only used for prediction after its encoder was loaded."""

    def before_writing(self, network: nn.Module) -> None:
        """Change the encoder, before it is written, to a form that other programs can load."""


TECHNIQUES: Mapping[str, Callable[[Job, Recipe], object]] = {
    "distillation": lambda job, _: job.teacher,
    "multi_task": lambda job, _: len(job.trained_tasks) > 1,
    "text_to_text": lambda _, recipe: recipe.text,
    "language_model_loss": lambda _, recipe: recipe.pair and recipe.pair.lm_weight,
    "frozen": lambda _, recipe: recipe.encoder.is_frozen,
}
"""Condition under which a job has a technique, keyed by the technique's module. Distillation is
first, because loading the teacher has to precede drawing random numbers from the seed."""


def techniques_of(work: Work) -> list[Technique]:
    """Create the techniques of a job: those of the core in the order of TECHNIQUES, then others.

    A job has a technique of an extension if its recipe has the technique's hyperparameters.
    """
    # The order must be that of TECHNIQUES, because the random numbers depend on it.
    found = [name for name, has in TECHNIQUES.items() if has(work.job, work.recipe)]
    makers = [import_module(f"benchharness.worker.{name}").technique for name in found]
    makers += [
        member(f"the technique {name}", place)
        for name, place in places("techniques").items()
        if name in work.recipe.added
    ]
    return [make(work=work) for make in makers]
