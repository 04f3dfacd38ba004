"""Answer types (classes, spans, tags, ...), and comparisons of stored predictions.

An answer type implements what depends on the form of a task's answers, e.g. how they are converted,
compared and displayed. Each module of this package contains one or more answer types.
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
"""Classes of this package's answer types, keyed by `Task.kind`; extensions add further ones."""


def answer_type(task: Task) -> AnswerType:
    """Return the object that converts, compares, averages and displays answers to a task.

    Raises:
        BenchError: If no class for `Task.kind` is in the core or in an extension.
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
"""Largest difference at which two computations of a regression's number count as equal."""


def compare_answers(
    task: Task, found: Sequence[Prediction], stored: Sequence[Prediction]
) -> tuple[int, float]:
    """Compare newly computed predictions with stored ones.

    Args:
        task: Task that was predicted.
        found: The new predictions.
        stored: The stored predictions, in the same order.

    Returns:
        Number of predictions that changed, and the largest absolute difference between two
        corresponding numbers (probabilities, no-answer scores, or the values of a regression). A
        regression's prediction changed if the numbers differ by more than NEAR (0.0001); any other
        prediction changed if the answers differ.
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
    """Measure how much newly computed predictions differ from stored ones.

    Args:
        task: Task that was predicted.
        found: The new predictions.
        stored: The stored predictions, in the same order.

    Returns:
        The change of each prediction, and the number of changed answers that are not computed from
        stored numbers (spans, tags, texts, and predictions without probabilities).

        The change of a prediction is the largest absolute difference between a new number (e.g. the
        probability of a class) and the stored number. A difference is divided by the absolute value
        of the stored number if that is above 1. If the predicted class or option changed, the
        change is at least the difference between the two highest probabilities of the new
        prediction.
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
