"""Ways of training as hooks: what each changes of a job, at the points where `run_job` asks.

A technique is a module of this folder, whose `technique(work=...)` makes it. Those that a job has
not are neither asked nor imported. What one changes of a plan is in driver/technique.py.
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
    """The worker's options.

    `start_from` is the folder in which the run that the job starts from has left its encoder,
    `teacher` that in which the run that it learns from has left its network, and `keep` the one in
    which this run leaves its own. In the folder `snapshots` it keeps its state every
    `checkpoint_every` seconds and before a signal ends it, and resumes from there.
    """

    start_from: Path | None
    teacher: Path | None
    keep: Path | None
    snapshots: Path | None
    checkpoint_every: float


@dataclass(frozen=True, kw_only=True)
class Work:
    """A job, its recipe, where it is computed, who is told how it goes, and its folders.

    Where it `trains`, its encoder has the recipe's dropout.
    """

    job: Job
    recipe: Recipe
    compute: Compute
    report: Reporter = lambda _: None
    folders: Folders = field(default_factory=Folders)
    trains: bool = True

    @classmethod
    def to_predict(cls, job: Job, compute: Compute) -> Self:
        """The work of a job without its training, so nobody teaches it."""
        recipe, alone = Recipe.from_settings(job.settings), replace(job, teacher=None)
        return cls(job=alone, recipe=recipe, compute=compute, trains=False)


@dataclass(kw_only=True)
class Prepared:
    """A job's network with the features and rows of its splits, by "task:split"."""

    setups: Sequence["TaskSetup"]
    network: Any
    rows: Mapping[str, SplitRows]
    features: dict[str, Features]
    limits: Limits


@dataclass(kw_only=True)
class Technique:
    """The hooks, in the order in which a job asks for them; by default they change nothing.

    `provenance` is what a result says of it; read last.
    """

    work: Work
    provenance: Mapping[str, Any] = field(default_factory=dict)

    whole_vocabulary: ClassVar = False
    """Whether all of the vocabulary is needed, and not the used rows alone."""

    every_state: ClassVar = False
    """Whether the states of all tokens are needed of the last layer, whatever the head reads."""

    def head(self, task: Task, encoder: Encoder) -> Head | None:
        """The head of a task, None for the one of its type."""
        return None

    def learned_rows(self, rows: SplitRows, task: Task) -> SplitRows:
        """The rows of a train split as they are trained on."""
        return rows

    def feature_key(self, task: Task) -> str:
        """What features depend on, besides their head, its limits and the tokenizer."""
        return ""

    def shared_network(self, setups: Sequence["TaskSetup"], encoder: Encoder) -> nn.Module | None:
        """The network of all tasks, each setup's own in it; None for that of the only one."""
        return None

    def on_setups(self, setups: Sequence["TaskSetup"]) -> None:
        """Changes the heads, before there is a network."""

    def on_network(self, prepared: Prepared) -> None:
        """Changes the network or the features, once there are both."""

    def on_vocabulary(self, vocabulary: UsedVocabulary) -> None:
        """Learns which rows of the vocabulary are left."""

    def to_predict(self, network: Any) -> None:
        """Changes a network that is not to be trained, once its encoder has its weights."""

    def before_writing(self, network: nn.Module) -> None:
        """Makes the encoder one that others can load."""


TECHNIQUES: Mapping[str, Callable[[Job, Recipe], object]] = {
    "distillation": lambda job, _: job.teacher,
    "multi_task": lambda job, _: len(job.trained_tasks) > 1,
    "text_to_text": lambda _, recipe: recipe.text,
    "language_model_loss": lambda _, recipe: recipe.pair and recipe.pair.lm_weight,
    "frozen": lambda _, recipe: recipe.encoder.is_frozen,
    "adapters": lambda _, recipe: recipe.encoder.lora_rank,
}
"""Their modules, and which jobs have them. A teacher is loaded first: before what the seed draws.
"""


def techniques_of(work: Work) -> list[Technique]:
    """What a job has."""
    # In the order of the table: what the seed draws depends on it.
    found = [name for name, has in TECHNIQUES.items() if has(work.job, work.recipe)]
    return [import_module(f"benchharness.worker.{name}").technique(work=work) for name in found]
