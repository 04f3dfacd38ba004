"""Kinds of answers, one module each, with everything that differs between the kinds."""

from collections.abc import Mapping, Sequence

from benchharness.tasks.answers.base import AnswerType
from benchharness.tasks.answers.choices import Choices
from benchharness.tasks.answers.clusters import Coreference
from benchharness.tasks.answers.labels import Classes, LabelSets, Numbers, Timings
from benchharness.tasks.answers.rankings import Rankings
from benchharness.tasks.answers.spans import Spans
from benchharness.tasks.answers.tags import Roles, Tags
from benchharness.tasks.examples import Prediction
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
    "timed": Timings,
}
"""Answer classes by the kind of a task."""


def answer_type(task: Task) -> AnswerType:
    """Return the object that reads, judges, averages and shows answers to this task."""
    return ANSWER_TYPES[task.kind](task)


NEAR = 1e-4
"""Largest difference of two computations of the same number."""


def compare_answers(
    task: Task, found: Sequence[Prediction], stored: Sequence[Prediction]
) -> tuple[int, float]:
    """Count the changed predictions, and return the largest change of their numbers.

    A regression's prediction has changed if its number differs by more than NEAR, any other if its
    answer differs.
    """
    kind, differ, largest = answer_type(task), 0, 0.0
    for one, other in zip(found, stored, strict=True):
        # Older runs have no stored probabilities.
        pairs = zip(kind.numbers(one), kind.numbers(other), strict=False)
        apart = max((abs(a - b) for a, b in pairs), default=0.0)
        differ += apart > NEAR if task.kind == "number" else kind.key(one) != kind.key(other)
        largest = max(largest, apart)
    return differ, largest


def moves(
    task: Task, found: Sequence[Prediction], stored: Sequence[Prediction]
) -> tuple[list[float], int]:
    """Return each prediction's largest numeric change, and the number of other changed answers.

    Changes of numbers above 1 are relative. For another class or option the change is at least the
    margin by which `found` prefers its answer. The other changed answers do not follow from
    numbers, or have none: spans, tags, words.
    """
    kind, changes, others = answer_type(task), list[float](), 0
    for one, other in zip(found, stored, strict=True):
        pairs = list(zip(kind.numbers(one), kind.numbers(other), strict=False))
        change = max((abs(a - b) / max(1.0, abs(b)) for a, b in pairs), default=0.0)
        follows, is_other = pairs and task.kind != "span", kind.key(one) != kind.key(other)
        if is_other and len(pairs) > 1 and task.kind in ("class", "choice"):
            second, first = sorted(kind.numbers(one))[-2:]
            change = max(change, first - second)
        changes.append(change)
        others += not follows and is_other
    return changes, others
