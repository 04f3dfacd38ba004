"""Techniques of training as hooks: each changes a job at the points where `run_job` calls it.

A technique is a module of this package with a function `technique(work=...)`. Only the techniques
that a job has are imported. Their part in planning is in driver/technique.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

from torch import nn

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
    """Options of the worker.

    Attributes:
        start_from: Folder with the encoder of the run that the job starts from.
        teacher: Folder with the network of the run that the job learns from.
        keep: Folder for this run's own network.
        snapshots: Folder for the job's state, which it keeps there and resumes from.
        checkpoint_every: Seconds between two snapshots; one more is written before a signal
            ends the job.
    """

    start_from: Path | None
    teacher: Path | None
    keep: Path | None
    snapshots: Path | None
    checkpoint_every: float


@dataclass(frozen=True, kw_only=True)
class Work:
    """A job with its recipe, its computation, its progress report and its folders.

    The encoder has the recipe's dropout if `trains`.
    """

    job: Job
    recipe: Recipe
    compute: Compute
    report: Reporter = lambda _: None
    folders: Folders = field(default_factory=Folders)
    trains: bool = True

    @classmethod
    def to_predict(cls, job: Job, compute: Compute) -> Self:
        """Return the work of a job without its training, and therefore without a teacher."""
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
    """Hooks of a technique, in the order in which a job calls them; by default they change nothing.

    `provenance` contains facts for the job's result. It is read after `on_network`.
    """

    work: Work
    provenance: Mapping[str, Any] = field(default_factory=dict)

    whole_vocabulary: ClassVar = False
    """True if the whole vocabulary is needed, and not only the rows that are used."""

    every_state: ClassVar = False
    """True if the last layer must return the states of all tokens, whatever the head reads."""

    def head(self, task: Task, encoder: Encoder) -> Head | None:
        """Return the head of a task; None for the head of its type."""
        return None

    def learned_rows(self, rows: SplitRows, task: Task) -> SplitRows:
        """Return the rows to train on, made from the rows of a train split."""
        return rows

    def feature_key(self, task: Task) -> str:
        """Return a key of what features depend on in addition to head, limits and tokenizer."""
        return ""

    def shared_network(self, setups: Sequence["TaskSetup"], encoder: Encoder) -> nn.Module | None:
        """Return the network of all tasks, and set each setup's own; None for a single task."""
        return None

    def on_setups(self, setups: Sequence["TaskSetup"]) -> None:
        """Change the heads, before there is a network."""

    def on_network(self, prepared: Prepared) -> None:
        """Change the network or the features, after both are made."""

    def on_vocabulary(self, vocabulary: UsedVocabulary) -> None:
        """Adapt to a cut vocabulary, of which some rows are left."""

    def to_predict(self, network: Any) -> None:
        """Change a network that is not to be trained, after its encoder has its weights."""

    def before_writing(self, network: nn.Module) -> None:
        """Turn the encoder into one that other programs can load."""


TECHNIQUES: Mapping[str, Callable[[Job, Recipe], object]] = {
    "distillation": lambda job, _: job.teacher,
    "multi_task": lambda job, _: len(job.trained_tasks) > 1,
    "text_to_text": lambda _, recipe: recipe.text,
    "language_model_loss": lambda _, recipe: recipe.pair and recipe.pair.lm_weight,
    "frozen": lambda _, recipe: recipe.encoder.is_frozen,
    "adapters": lambda _, recipe: recipe.encoder.lora_rank,
}
"""Modules of the techniques, and which jobs have them. The teacher is loaded first, before random
numbers are drawn from the seed."""


def techniques_of(work: Work) -> list[Technique]:
    """Create the techniques of a job, in table order."""
    # The order of the table matters: the random numbers depend on it.
    found = [name for name, has in TECHNIQUES.items() if has(work.job, work.recipe)]
    return [import_module(f"benchharness.worker.{name}").technique(work=work) for name in found]
