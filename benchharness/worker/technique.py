"""Techniques of training, such as distillation: hooks that `run_job` calls to change a job.

Extensions define them, as a class or function that is called with `work=...` and returns a
Technique (`Extension.techniques`). Only the modules of the job's techniques are imported. Hooks for
the planning of jobs are in driver/technique.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

from torch import nn

from benchharness.discovery import member, places
from benchharness.encoder import Encoder
from benchharness.heads import Head, Limits
from benchharness.leaderboard.job import FEATURES_SETTING, TEACHER, TOGETHER, Job
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

    A folder that is absent or None is not used.

    Attributes:
        start_from: Folder with the encoder of the run that the job starts from.
        teacher: Folder with the teacher's network, for distillation.
        keep: Folder to write the trained network into.
        snapshots: Folder for snapshots of the job's state, from which it can resume.
        checkpoint_every: Seconds between two snapshots. A snapshot is also written when a signal
            ends the job.
    """

    start_from: Path | None
    teacher: Path | None
    keep: Path | None
    snapshots: Path | None
    checkpoint_every: float


@dataclass(frozen=True, kw_only=True)
class Work:
    """Job to compute, with everything that the computation needs.

    Attributes:
        job: Job to compute.
        recipe: Recipe of the job.
        compute: Device, precision and processes.
        report: Function that is called with the progress.
        folders: Folders that are read and written.
        trains: Whether the network is trained. If not, the recipe's dropout rates are not set.
    """

    job: Job
    recipe: Recipe
    compute: Compute
    report: Reporter = lambda _: None
    folders: Folders = field(default_factory=Folders)
    trains: bool = True

    @classmethod
    def to_predict(cls, job: Job, compute: Compute) -> Self:
        """Return what is needed to predict with the network that a job has trained.

        The network is not trained again. The returned `job` has no teacher, because only training
        needs one, and there are no folders.
        """
        recipe, alone = Recipe.from_settings(job.settings), replace(job, teacher=None)
        return cls(job=alone, recipe=recipe, compute=compute, trains=False)


@dataclass(kw_only=True)
class Prepared:
    """Network and data of a job.

    Attributes:
        setups: Setup of each task.
        network: Network of the task, or a network that contains those of several tasks.
        rows: Rows of each split, keyed by its name, as in "glue/rte:train".
        features: Encoded rows of each split, keyed by its name.
        limits: Length limits of the rows.
    """

    setups: Sequence["TaskSetup"]
    network: Any
    rows: Mapping[str, SplitRows]
    features: dict[str, Features]
    limits: Limits


@dataclass(kw_only=True)
class Technique:
    """Base class of techniques. Its hooks change nothing; each technique overrides some of them.

    Attributes:
        work: The job with its recipe and device.
        provenance: Facts that are added to the provenance of the job's result. They are read after
            the calls of `on_network` and `on_trained`, which may set them.
        config: Values that are added to the config of the model that is written.
    """

    work: Work
    provenance: Mapping[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)

    whole_vocabulary: ClassVar = False
    """True if the network needs the embeddings of all tokens, not only those of the job's texts."""

    every_state: ClassVar = False
    """True if the last layer must return the states of all tokens, even if the head does not read
    all of them."""

    def on_encoder(self, encoder: Encoder) -> None:
        """Change the encoder in place, before heads are created and rows are encoded."""

    def head(self, task: Task, encoder: Encoder) -> Head | None:
        """Return a head for the task, or None to use the ordinary head of the task's type."""
        return None

    def learned_rows(self, rows: SplitRows, task: Task) -> SplitRows:
        """Return the rows to train on, given the rows of a train split."""
        return rows

    def feature_key(self, task: Task) -> str:
        """Return a text that becomes part of the key of encoded rows in the cache.

        The text must identify everything by which the technique changes how rows of the task are
        encoded. It is "" if the technique does not change this.
        """
        return ""

    def shared_network(self, setups: Sequence["TaskSetup"], encoder: Encoder) -> nn.Module | None:
        """Return a network that contains the networks of all tasks, or None.

        A technique that returns a network must also set the `network` of each setup. If all
        techniques return None, the job must have a single task, whose head creates the network.
        """
        return None

    def on_setups(self, setups: Sequence["TaskSetup"]) -> None:
        """Change the setups of the tasks, such as their heads, before the network is created."""

    def on_network(self, prepared: Prepared) -> None:
        """Change the network or the features, after both were created and before the training."""

    def on_vocabulary(self, vocabulary: UsedVocabulary) -> None:
        """Adapt to the new token ids, after the vocabulary was cut (see UsedVocabulary)."""

    def on_trained(self, prepared: Prepared) -> bool:
        """Change the trained network; return whether splits must be predicted again."""
        return False

    def to_predict(self, network: Any) -> None:
        """Change a network that is used only for prediction, after its encoder was loaded."""

    def before_writing(self, network: nn.Module) -> None:
        """Change a network, before it is written to disk, so that other programs can load it."""


def techniques_of(work: Work) -> list[Technique]:
    """Create the techniques that a job uses; extensions define all of them.

    A technique is used if the recipe has its hyperparameters. Besides, "teacher" is used if the job
    has a teacher, "together" if it is trained on several tasks, and "features" if the encoder is
    frozen. The teacher comes first, because other techniques change the head that it returns.
    """
    job, recipe = work.job, work.recipe
    is_used = {
        TEACHER: job.teacher is not None,
        TOGETHER: len(job.trained_tasks) > 1,
        FEATURES_SETTING: recipe.encoder.is_frozen,
    }
    used = ({*recipe.added} - is_used.keys()) | {name for name, is_so in is_used.items() if is_so}
    found = {name: place for name, place in places("techniques").items() if name in used}
    in_order = sorted(found, key=lambda name: name != TEACHER)
    return [member(f"the technique {name}", found[name])(work=work) for name in in_order]
