"""Setup of a job: create its network (`load_run`), and select the rows and head of each task."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import nn

from benchharness.encoder import (
    Encoder,
    check_reach,
    keep_layers,
    load_encoder,
    set_dropout,
    use_first_token,
)
from benchharness.encoder.packing import prepare_for
from benchharness.heads import Head, Limits, head_for
from benchharness.heads.pair import in_orders
from benchharness.leaderboard.job import Job
from benchharness.models.weights import hub_revision
from benchharness.recipes.recipe import GIVEN_ORDER, Recipe, SpanOptions
from benchharness.splits import check_documents, read_split
from benchharness.tasks.read import SplitRows, draw_shots, hold_out
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task
from benchharness.training.batching import Features
from benchharness.training.loop import TaskBatches
from benchharness.worker.technique import Technique, Work, techniques_of

HELD_OUT = "held-out"
"""Name of the additional split with the rows of train that are held out for evaluation."""


@dataclass(kw_only=True)
class TaskSetup:
    """Setup of one task that a job is trained on; most jobs have only one task.

    Attributes:
        task: Task of the setup.
        head: Head of the task.
        trained: Name of the split that is trained on, as in "glue/rte:train".
        predicted: Names of the splits that are predicted at the end. They include splits of other
            tasks that are predicted with the model of this task.
        judged: Name of the split that is evaluated during training: dev (the first, if there are
            several), or a split with held-out rows of train.
        network: The encoder with the task's head; several tasks may share the encoder.
        on_layers: Function that is called before each training step (see `TaskBatches.on_layers`).
    """

    task: Task
    head: Head
    trained: str
    predicted: tuple[str, ...]
    judged: str
    network: nn.Module = field(default_factory=nn.Identity)
    on_layers: Callable[[bool], None] = lambda _: None

    @classmethod
    def of(
        cls,
        name: str,
        splits: Iterable[str],
        recipe: Recipe,
        encoder: Encoder,
        techniques: Sequence[Technique] = (),
    ) -> Self:
        """Return the setup of a task, which does not have its network yet.

        Args:
            name: Name of the task.
            splits: Names of all splits of the job.
            recipe: Recipe of the job.
            encoder: Encoder of the job.
            techniques: Techniques of the job. The first head that one of them returns replaces the
                ordinary head of the task.
        """
        task = find_task(name)
        trained = f"{name}:train"  # the split to train on, which is not predicted
        predicted = [split for split in splits if _leader(split) == name and split != trained]
        # If several techniques return a head, the first of these heads is used.
        heads = (technique.head(task, encoder) for technique in techniques)
        return cls(
            task=task,
            head=next(filter(None, heads), None) or head_for(task, recipe.of_head(task.head)),
            trained=trained,
            predicted=tuple(predicted),
            judged=next(iter(predicted), ""),  # dev, or the first of several dev splits
        )

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of all splits of the task, without duplicates, beginning with `trained`."""
        return tuple(dict.fromkeys((self.trained, *self.predicted, self.judged)))

    def batches(
        self, features: Mapping[str, Features], rows: Mapping[str, SplitRows]
    ) -> TaskBatches:
        """Return the training data of the task.

        `features` and `rows` contain the encoded and the original rows of each split, keyed by the
        name of the split.
        """
        # Targets need features and examples: an example with a long context has several rows.
        encoded, examples = features[self.trained], rows[self.trained].examples
        targets = self.head.targets(encoded, examples, self.task)
        return TaskBatches(
            network=self.network,
            features=encoded,
            targets=torch.from_numpy(targets),
            loss=self.head.loss,
            on_layers=self.on_layers,
            is_whole=self.head.whole_batch,
        )


def _leader(split: str) -> str:
    """Return the name of the task whose model predicts the split "task:split"."""
    name = split.rpartition(":")[0]
    return find_task(name).trained_on or name


# Functions that read the rows and create the network of a job.


def read_rows(job: Job, recipe: Recipe) -> dict[str, SplitRows]:
    """Return the rows of every split of a job, keyed by the split's name, as in "glue/rte:train".

    If the recipe sets `shots`, the train split contains only about this number of rows, drawn with
    the job's seed. Raises DataError if a split has changed since the job was planned.
    """
    rows = {name: read_split(job, name) for name in job.fingerprints}
    check_documents(job, rows)
    trained = f"{job.task}:train"
    if recipe.rows.shots:
        # Draw before rows are held out: they must be among the drawn rows, because no other rows of
        # train may be used.
        rows[trained] = draw_shots(rows[trained], recipe.rows.shots, job.seed)
    return rows


def load_pretrained(job: Job, recipe: Recipe) -> Encoder:
    """Return the encoder of a job's checkpoint, with the layers that its recipe keeps.

    Raises ModelError for a checkpoint that cannot be used.
    """
    revision = hub_revision(job.weights)
    whole = recipe.uses_decoder
    encoder = load_encoder(job.checkpoint, revision, job.seed, job.trust, whole=whole)
    keep_layers(encoder, recipe.encoder.layers)  # after the weights of all layers were loaded
    return encoder


@dataclass(frozen=True, kw_only=True)
class LoadedRun:
    """Network of a job, created by `load_run`.

    Attributes:
        encoder: Encoder with its tokenizer and config.
        techniques: Techniques of the job.
        setups: Setup of each task, with its network.
        network: Network of the task, or a network that contains those of several tasks.
        limits: Length limits of the rows.
    """

    encoder: Encoder
    techniques: Sequence[Technique]
    setups: Sequence[TaskSetup]
    network: Any
    limits: Limits

    def to_predict(self) -> None:
        """Let the techniques prepare the networks for prediction without training.

        Call this after the weights of the encoder were loaded.
        """
        for technique in self.techniques:
            for setup in self.setups:
                technique.to_predict(setup.network)


def load_run(
    work: Work, encoder: Encoder | None = None, *, task: str = "", every_state: bool = False
) -> LoadedRun:
    """Create the network of a job: put the heads of its tasks on an encoder.

    Args:
        work: The job with its recipe and device.
        encoder: Encoder to use. By default, the encoder of the job's checkpoint is loaded.
        task: Name of the only task to set up. By default, all tasks that the job is trained on are
            set up.
        every_state: Whether the last layer returns the states of all tokens, even if the head does
            not read all of them.

    Raises:
        ModelError: The checkpoint cannot be used, or cannot read rows of `max_tokens` tokens.
    """
    job, recipe = work.job, work.recipe
    encoder = encoder or load_pretrained(job, recipe)
    # Loading a teacher draws random numbers, which must not change the random weights of heads.
    with torch.random.fork_rng(devices=[]):
        techniques = techniques_of(work)
    if work.trains:  # must precede the creation of heads, which read their rate from the config
        set_dropout(encoder, recipe.encoder.dropout, recipe.encoder.classifier_dropout)
    for technique in techniques:
        technique.on_encoder(encoder)
    names = (task,) if task else job.trained_tasks
    setups = [TaskSetup.of(n, job.fingerprints, recipe, encoder, techniques) for n in names]
    for technique in techniques:
        technique.on_setups(setups)
    return LoadedRun(
        encoder=encoder,
        techniques=techniques,
        setups=setups,
        network=network_of(
            setups, encoder, work.compute.device, techniques, every_state=every_state
        ),
        limits=limits_of(recipe, encoder),
    )


def hold_rows_out(
    setups: Iterable[TaskSetup],
    rows: dict[str, SplitRows],
    recipe: Recipe,
    techniques: Sequence[Technique],
) -> None:
    """Replace the rows of each train split with the rows to train on, in place.

    If the recipe sets `held_out`, some rows of train are moved to a new split (see HELD_OUT), which
    is then evaluated during training. The techniques, the head and the option `orders` of the
    recipe may change the rows that are left.

    Args:
        setups: Setup of each task. With `held_out`, its field `judged` is set to the new split.
        rows: Rows of each split, keyed by the name of the split.
        recipe: Recipe of the job.
        techniques: Techniques of the job, which may change the rows to train on.
    """
    orders = recipe.pair.orders if recipe.pair else GIVEN_ORDER
    for setup in setups:
        trained = setup.trained
        if recipe.selection.held_out:
            setup.judged = f"{setup.task.name}:{HELD_OUT}"
            rows[trained], rows[setup.judged] = hold_out(rows[trained], recipe.selection.held_out)
        for technique in techniques:
            rows[trained] = technique.learned_rows(rows[trained], setup.task)
        rows[trained] = setup.head.learned(rows[trained])
        # Add orders after rows are held out, so that no pair is trained on in one order and
        # evaluated in the other.
        rows[trained] = in_orders(rows[trained], orders)


def network_of(
    setups: Sequence[TaskSetup],
    encoder: Encoder,
    device: torch.device,
    techniques: Sequence[Technique] = (),
    *,
    every_state: bool = False,
) -> nn.Module:
    """Create the network of one or several tasks for a device, and set the network of each setup.

    Args:
        setups: Setup of each task.
        encoder: Encoder of the job, to which the heads are attached.
        device: Device of the computation.
        techniques: Techniques of the job, one of which may create the network.
        every_state: Whether the last layer returns the states of all tokens (see `load_run`).

    Returns:
        The network of the task, or a network that contains those of several tasks.
    """
    made = (technique.shared_network(setups, encoder) for technique in techniques)
    network = next((each for each in made if each is not None), None)
    if network is None:
        (setup,) = setups  # with several tasks, a technique creates the network
        network = setup.network = setup.head.network(encoder, setup.task)
    every_state = every_state or any(technique.every_state for technique in techniques)
    if getattr(network, "reads_first_token", False) and not every_state:
        use_first_token(encoder.network)
    prepare_for(device, network)  # called last, because it replaces the dropout of the head too
    return network


def limits_of(recipe: Recipe, encoder: Encoder) -> Limits:
    """Return the length limits of a recipe.

    Raises ModelError if the encoder cannot read rows of `max_tokens` tokens.
    """
    check_reach(recipe.rows.max_tokens, encoder.max_tokens)
    span = recipe.span or SpanOptions()
    return Limits(
        max_tokens=recipe.rows.max_tokens,
        stride=span.stride,
        max_question_tokens=span.max_question_tokens,
        is_causal=encoder.is_causal,
    )
