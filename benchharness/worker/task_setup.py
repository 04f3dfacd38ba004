"""How a job becomes a network (`load_run`), and each of its tasks: rows, head, what is learned."""

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
"""What the rows of train that are not trained on are called, next to the splits of the job."""


@dataclass(kw_only=True)
class TaskSetup:
    """What a job does of one of the tasks that it is trained on: mostly the only one.

    Its `splits` are by "task:split": `trained` on, `predicted` in the end (also those of tasks that
    follow this one), and `judged` in training, which may be a part of train. `network` has the
    head's output layers on the encoder, which tasks may share; `on_layers` is as in TaskBatches.
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
        """The setup of a task's splits among those of its job."""
        task = find_task(name)
        trained = f"{name}:train"  # which is learned, not predicted
        predicted = [split for split in splits if _leader(split) == name and split != trained]
        # The first technique that has one of its own gives it.
        heads = (technique.head(task, encoder) for technique in techniques)
        return cls(
            task=task,
            head=next(filter(None, heads), None) or head_for(task, recipe.of_head(task.head)),
            trained=trained,
            predicted=tuple(predicted),
            judged=next(iter(predicted), ""),  # dev, or the first of several
        )

    @property
    def splits(self) -> tuple[str, ...]:
        """Every split of it once, that which is trained on first."""
        return tuple(dict.fromkeys((self.trained, *self.predicted, self.judged)))

    def batches(
        self, features: Mapping[str, Features], rows: Mapping[str, SplitRows]
    ) -> TaskBatches:
        """What is learned."""
        # A long text is several rows of features (spans), so targets are made of both.
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
    """The task whose model predicts "task:split"."""
    name = split.rpartition(":")[0]
    return find_task(name).trained_on or name


# What setups are made of, and what becomes of them.


def read_rows(job: Job, recipe: Recipe) -> dict[str, SplitRows]:
    """The rows of every split of the job; of those that are trained on, the shots it draws.

    Raises DataError where a split is no longer what the job was planned with.
    """
    rows = {name: read_split(job, name) for name in job.fingerprints}
    check_documents(job, rows)
    trained = f"{job.task}:train"
    if recipe.rows.shots:
        # Drawn before anything is held out: k shots are all that is seen of train.
        rows[trained] = draw_shots(rows[trained], recipe.rows.shots, job.seed)
    return rows


def load_pretrained(job: Job, recipe: Recipe) -> Encoder:
    """The encoder of a job's checkpoint, with as many layers as its recipe keeps.

    Raises ModelError for a checkpoint that cannot be used.
    """
    revision = hub_revision(job.weights)
    is_text = recipe.text is not None
    encoder = load_encoder(job.checkpoint, revision, job.seed, job.trust, whole=is_text)
    keep_layers(encoder, recipe.encoder.layers)  # with the weights that the checkpoint has for them
    return encoder


@dataclass(frozen=True, kw_only=True)
class LoadedRun:
    """The network of a job's tasks with their heads on its `encoder`, and how long its rows are."""

    encoder: Encoder
    techniques: Sequence[Technique]
    setups: Sequence[TaskSetup]
    network: Any
    limits: Limits

    def to_predict(self) -> None:
        """Has the network, whose encoder has its weights by now, predict without a training."""
        for technique in self.techniques:
            for setup in self.setups:
                technique.to_predict(setup.network)


def load_run(
    work: Work, encoder: Encoder | None = None, *, task: str = "", every_state: bool = False
) -> LoadedRun:
    """Puts the heads of a job, with its techniques, on an encoder, by default its checkpoint's.

    It has all tasks that the job is trained on, unless one `task` is named. With `every_state` the
    last layer gives all tokens' states, whatever the head reads. Raises ModelError for a checkpoint
    that cannot be used, or reads no rows of that length.
    """
    job, recipe = work.job, work.recipe
    encoder = encoder or load_pretrained(job, recipe)
    with torch.random.fork_rng(devices=[]):  # a teacher takes no draws from the heads
        techniques = techniques_of(work)
    if work.trains:  # before the heads are made, which read their rate from the config
        set_dropout(encoder, recipe.encoder.dropout, recipe.encoder.classifier_dropout)
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
    """Makes the rows that are trained on, and takes out those that are judged instead of dev."""
    orders = recipe.pair.orders if recipe.pair else GIVEN_ORDER
    for setup in setups:
        trained = setup.trained
        if recipe.selection.held_out:
            setup.judged = f"{setup.task.name}:{HELD_OUT}"
            rows[trained], rows[setup.judged] = hold_out(rows[trained], recipe.selection.held_out)
        for technique in techniques:
            rows[trained] = technique.learned_rows(rows[trained], setup.task)
        rows[trained] = setup.head.learned(rows[trained])
        # Last, so that no row is trained on in one order and judged in the other.
        rows[trained] = in_orders(rows[trained], orders)


def network_of(
    setups: Sequence[TaskSetup],
    encoder: Encoder,
    device: torch.device,
    techniques: Sequence[Technique] = (),
    *,
    every_state: bool = False,
) -> nn.Module:
    """The network of a task, or of several, made fast for the device; gives each setup its own.

    `every_state` is as for `load_run`.
    """
    made = (technique.shared_network(setups, encoder) for technique in techniques)
    network = next((each for each in made if each is not None), None)
    if network is None:
        (setup,) = setups  # several tasks share a network by a technique
        network = setup.network = setup.head.network(encoder, setup.task)
    every_state = every_state or any(technique.every_state for technique in techniques)
    if getattr(network, "reads_first_token", False) and not every_state:
        use_first_token(encoder.network)
    prepare_for(device, network)  # last: the head has dropout too
    return network


def limits_of(recipe: Recipe, encoder: Encoder) -> Limits:
    """The recipe's limits; ModelError where the encoder does not take such long rows."""
    check_reach(recipe.rows.max_tokens, encoder.max_tokens)
    span = recipe.span or SpanOptions()
    return Limits(
        max_tokens=recipe.rows.max_tokens,
        stride=span.stride,
        max_question_tokens=span.max_question_tokens,
        is_causal=encoder.is_causal,
    )
