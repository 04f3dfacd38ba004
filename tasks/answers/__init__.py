"""Answer types (classes, spans, tags, ...), and comparisons of stored predictions.

Each module of this package implements one or more answer types.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from benchharness.discovery import member, places
from benchharness.errors import BenchError
from benchharness.tasks.answers.base import AnswerType
from benchharness.tasks.answers.choices import Choices
from benchharness.tasks.answers.labels import Classes, LabelSets, Numbers
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
}
"""Answer types of the core, keyed by `Task.kind`."""


def answer_type(task: Task) -> AnswerType:
    """Return the object that reads, judges, averages and displays answers to this task.

    Raises:
        BenchError: Neither the core nor an extension has answers of this kind.
    """
    return _class_of(task.kind)(task)


@cache
def _class_of(kind: str) -> type[AnswerType]:
    if kind in ANSWER_TYPES:
        return ANSWER_TYPES[kind]
    added = places("answers")
    if kind not in added:
        known = ", ".join((*ANSWER_TYPES, *added))
        raise BenchError(f"no answer type is called {kind!r}; expected one of {known}.")
    found: type[AnswerType] = member(f"the answer type {kind}", added[kind])
    return found


NEAR = 1e-4
"""Largest difference at which two computations of a number count as equal."""


def compare_answers(
    task: Task, found: Sequence[Prediction], stored: Sequence[Prediction]
) -> tuple[int, float]:
    """Compare two computations of a task's predictions.

    Returns:
        Number of changed predictions, and the largest absolute difference between their numbers
        (probabilities, or the values of a regression). A prediction of a regression has changed if
        its number differs by more than NEAR; any other prediction, if its answer differs.
    """
    kind, differ, largest = answer_type(task), 0, 0.0
    for one, other in zip(found, stored, strict=True):
        # Older runs stored no probabilities, so one of the sequences may be empty.
        pairs = zip(kind.numbers(one), kind.numbers(other), strict=False)
        apart = max((abs(a - b) for a, b in pairs), default=0.0)
        differ += apart > NEAR if task.kind == "number" else kind.key(one) != kind.key(other)
        largest = max(largest, apart)
    return differ, largest


def moves(
    task: Task, found: Sequence[Prediction], stored: Sequence[Prediction]
) -> tuple[list[float], int]:
    """Measure how much each prediction differs between two computations.

    Returns:
        The largest numeric change of each prediction, and the number of changed answers that
        stored numbers do not determine (spans, tags and texts). The change of a number above 1 is
        relative. If the class or the option differs, the change is at least the margin by which
        `found` prefers its answer.
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
