"""What an example must hold to be one of its task's."""

import math

from tasks.examples import ChoiceExample, Example, PairExample, SpanExample, TagExample
from tasks.task import ChoiceTask, PairTask, SpanTask, TagTask, Task

__all__ = ["find_fault"]


def find_fault(task: Task, example: Example) -> str:
    """What is wrong with an example, to be said after its place; empty where nothing is."""
    match task, example:
        case PairTask(), PairExample():
            return _label_fault(task, example) or _mark_fault(task, example)
        case SpanTask(), SpanExample():
            return _answer_fault(task, example)
        case ChoiceTask(), ChoiceExample():
            return _gold_fault(example)
        case TagTask(), TagExample():
            return _tag_fault(task, example)
    return f"is a {type(example).__name__}, which no {task.head} task has"


def _label_fault(task: PairTask, example: PairExample) -> str:
    label = example.label
    texts: tuple[object, object] = (example.text_a, example.text_b)
    if not isinstance(texts[0], str) or not isinstance(texts[1], str | None):
        return f"has no text: found {texts[0]!r} and {texts[1]!r}"
    if label is None:
        return ""
    if task.value_range is not None:
        low, high = task.value_range
        if not (isinstance(label, float) and math.isfinite(label) and low <= label <= high):
            return f"has the label {label!r}; expected {low:g} to {high:g}"
    elif label not in task.labels:
        return f"has the label {label!r}; expected one of {', '.join(task.labels)}"
    return ""


def _mark_fault(task: PairTask, example: PairExample) -> str:
    if len(example.marks) != task.marks:
        return f"has {len(example.marks)} marks; expected {task.marks}"
    for mark in example.marks:
        marked = example.text_a if mark.text == "a" else example.text_b or ""
        if not 0 <= mark.start < mark.end <= len(marked):
            return (
                f"marks the characters {mark.start} to {mark.end} of text {mark.text}, which has "
                f"{len(marked)}"
            )
    return ""


def _answer_fault(task: SpanTask, example: SpanExample) -> str:
    if example.answers == () and not task.no_answer:
        return f"has no answer, but every question of {task.name} has one"
    for text, start in example.answers or ():
        if start >= 0 and not example.context.startswith(text, start):
            return f"has the answer {text!r}, which is not at character {start} of its context"
    return ""


def _gold_fault(example: ChoiceExample) -> str:
    count = len(example.options)
    if not count:
        return "has no options"
    gold = example.gold
    if gold is not None and not (gold and set(gold) <= set(range(count))):
        return f"has the right options {gold}; expected some of 0 to {count - 1}"
    return ""


def _tag_fault(task: TagTask, example: TagExample) -> str:
    if not example.words:
        return "has no words"
    if example.tags is None:
        return ""
    if len(example.tags) != len(example.words):
        return f"has {len(example.words)} words and {len(example.tags)} tags"
    if unknown := sorted(set(example.tags) - set(task.tags)):
        return f"has the tag {unknown[0]!r}; expected one of {', '.join(task.tags)}"
    return ""
