"""Kinds of answers, a module each: what differs between them is said there and nowhere else."""

from collections.abc import Mapping

from benchharness.tasks.answers.base import AnswerType
from benchharness.tasks.answers.choices import Choices
from benchharness.tasks.answers.clusters import Coreference
from benchharness.tasks.answers.labels import Classes, LabelSets, Numbers
from benchharness.tasks.answers.rankings import Rankings
from benchharness.tasks.answers.spans import Spans
from benchharness.tasks.answers.tags import Roles, Tags
from benchharness.tasks.task import Task

ANSWER_TYPES: Mapping[str, type[AnswerType]] = {
    "class": Classes,
    "labels": LabelSets,
    "number": Numbers,
    "span": Spans,
    "choice": Choices,
    "tag": Tags,
    "role": Roles,
    "coref": Coreference,
    "ranking": Rankings,
}
"""By the kind of a task."""


def answer_type(task: Task) -> AnswerType:
    """How answers to this task are read, judged, averaged and shown."""
    return ANSWER_TYPES[task.kind](task)
