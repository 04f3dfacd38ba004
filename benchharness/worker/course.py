"""A task of a job: its rows, its head on the job's encoder, and what is learned of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from benchharness.encoder import Encoder, load_encoder
from benchharness.encoder.layers import keep_layers, use_first_token
from benchharness.encoder.load import check_reach
from benchharness.encoder.network import is_foreign
from benchharness.encoder.packing import prepare_for
from benchharness.heads import Head, Limits, head_for
from benchharness.heads.pair import in_orders
from benchharness.leaderboard.job import Job
from benchharness.models.spec import Trust
from benchharness.models.weights import hub_revision
from benchharness.recipes.recipe import GIVEN_ORDER, Recipe, SpanOptions
from benchharness.splits import check_documents, read_split
from benchharness.tasks.cast import rows_to_learn
from benchharness.tasks.errors import ModelError
from benchharness.tasks.read import SplitRows, draw_shots, hold_out
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task
from benchharness.training.batching import Features
from benchharness.training.loop import Lesson

if TYPE_CHECKING:
    from benchharness.heads.teacher import Teacher

HELD_OUT = "held-out"
"""What the rows of train that are not trained on are called, beside the splits of the job."""


@dataclass(kw_only=True)
class Course:
    """What a job does of one of the tasks that it is trained on: mostly the only one.

    Its `splits` are by "task:split": `trained` on, `predicted` in the end (also those of tasks that
    follow this one), and `judged` in training, which may be a part of train. `network` has the
    head's output layers on the encoder, which tasks may share; `teacher` is whom it learns from.
    """

    task: Task
    head: Head
    trained: str
    predicted: tuple[str, ...]
    judged: str
    network: nn.Module = field(default_factory=nn.Identity)
    teacher: "Teacher | None" = None

    @classmethod
    def of(cls, name: str, splits: Iterable[str], recipe: Recipe, encoder: Encoder) -> Self:
        """The course of a task's splits among those of its job."""
        task = find_task(name)
        predicted = [split for split in splits if _leader(split) == name]
        predicted.remove(f"{name}:train")
        return cls(
            task=task,
            head=_head(task, recipe, encoder),
            trained=f"{name}:train",
            predicted=tuple(predicted),
            judged=predicted[0],
        )

    @property
    def splits(self) -> tuple[str, ...]:
        """Every split of it once, that which is trained on first."""
        return tuple(dict.fromkeys((self.trained, *self.predicted, self.judged)))

    def lesson(self, features: Mapping[str, Features], rows: Mapping[str, SplitRows]) -> Lesson:
        """What is learned."""
        encoded, examples = features[self.trained], rows[self.trained].examples
        targets = self.head.targets(encoded, examples, self.task)
        lesson = Lesson(
            network=self.network,
            features=encoded,
            targets=torch.from_numpy(targets),
            loss=self.head.loss,
        )
        return lesson if self.teacher is None else replace(lesson, on_layers=self.teacher.turn_to)


def _leader(split: str) -> str:
    """The task whose model predicts "task:split"."""
    name = split.rpartition(":")[0]
    return find_task(name).trained_on or name


def _head(task: Task, recipe: Recipe, encoder: Encoder) -> Head:
    if recipe.text is not None:
        # What decodes takes a moment to import.
        from benchharness.heads.text import text_head  # noqa: PLC0415

        return text_head(
            task, encoder.tokenizer, recipe.text.max_target_tokens or encoder.max_tokens
        )
    return head_for(task, recipe.of_head(task.head))


# What courses are made of, and what becomes of them.


def read_rows(job: Job, recipe: Recipe) -> dict[str, SplitRows]:
    """The rows of every split of the job; of those that are trained on, the shots it draws.

    Raises DataError where a split is no longer what the job was planned with.
    """
    rows = {name: read_split(job, name) for name in job.fingerprints}
    check_documents(job, rows)
    trained = f"{job.task}:train"
    if recipe.rows.shots:
        rows[trained] = draw_shots(rows[trained], recipe.rows.shots, job.seed)
    return rows


def load_pretrained(job: Job, recipe: Recipe) -> Encoder:
    """The encoder of a job's checkpoint, with as many layers as its recipe keeps.

    Raises ModelError for a checkpoint that cannot be used.
    """
    revision = hub_revision(job.weights)
    is_text = recipe.text is not None
    encoder = load_encoder(job.checkpoint, revision, job.seed, Trust.of(job), whole=is_text)
    keep_layers(encoder, recipe.encoder.layers)
    return encoder


def hold_rows_out(courses: Iterable[Course], rows: dict[str, SplitRows], recipe: Recipe) -> None:
    """Makes the rows that are trained on, and takes out those that are judged instead of dev."""
    for course in courses:
        trained = course.trained
        if recipe.selection.held_out:
            course.judged = f"{course.task.name}:{HELD_OUT}"
            rows[trained], rows[course.judged] = hold_out(rows[trained], recipe.selection.held_out)
        rows[trained] = _to_learn(rows[trained], course.task, recipe)


def _to_learn(rows: SplitRows, task: Task, recipe: Recipe) -> SplitRows:
    """The rows of a train split as they are trained on."""
    if recipe.text is not None:
        return rows_to_learn(rows, task)
    return in_orders(rows, recipe.pair.orders if recipe.pair else GIVEN_ORDER)


def network_of(
    courses: Sequence[Course], encoder: Encoder, recipe: Recipe, device: torch.device
) -> nn.Module:
    """The network of a task, or of several, made fast for the device; gives each course its own."""
    if len(courses) == 1:
        network = courses[0].network = courses[0].head.network(encoder, courses[0].task)
    else:
        network = share(encoder, [(course.head, course.task) for course in courses])
        for course, own in zip(courses, network.networks, strict=True):
            course.network = own
    # Frozen states are computed once for every layer and kept: there the last one is whole.
    if getattr(network, "reads_first_token", False) and not recipe.encoder.is_frozen:
        use_first_token(encoder.network)
    prepare_for(device, network)
    return network


def limits_of(recipe: Recipe, encoder: Encoder) -> Limits:
    """The recipe's limits; ModelError where the encoder does not take such long rows."""
    check_reach(recipe.rows.max_tokens, encoder.max_tokens)
    span = recipe.span or SpanOptions()
    return Limits(
        max_tokens=recipe.rows.max_tokens,
        stride=span.stride,
        max_question_tokens=span.max_question_tokens,
    )


# One encoder under the heads of several tasks, which are trained together.
#
# As Liu et al., arXiv:1901.11504, section 3, have it: the encoder with its pooler is shared, and
# each task has output layers of its own.

_READS_BY_HEAD = {
    "funnel": "its decoder is there for some of them alone",
    "longformer": "which of its tokens see all others depends on it",
}
"""Families (transformers' model_type) that a head type changes, and how."""


class SharedEncoder(nn.Module):
    """The networks of several tasks that have one encoder, in the order of the tasks.

    It is no network of its own: what is computed goes through one of `networks`.
    """

    def __init__(self, encoder: Any, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.encoder = encoder
        self.networks = nn.ModuleList(networks)
        # What the last layer leaves out, no other head may read.
        self.reads_first_token = all(getattr(n, "reads_first_token", False) for n in networks)


def share(encoder: Encoder, heads: Sequence[tuple[Head, Task]]) -> SharedEncoder:
    """The networks of these heads on one encoder.

    Raises ModelError for a family that each head type uses in another way, where there are several.
    """
    types = {task.head for _, task in heads}
    if encoder.family in _READS_BY_HEAD and len(types) > 1:
        raise ModelError(
            f"heads of unlike types ({', '.join(sorted(types))}) cannot share {encoder.family}: "
            f"{_READS_BY_HEAD[encoder.family]}; train tasks of one head type together."
        )
    pooler = getattr(encoder.network, "pooler", None)
    networks = []
    for head, task in heads:
        if pooler is not None and not is_foreign(encoder.network):
            encoder.network.pooler = pooler  # the head before has taken it off
        networks.append(head.network(encoder, task))
    return SharedEncoder(encoder.network, networks)
