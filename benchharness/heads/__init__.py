"""The head types: one file holds the whole road of one type, and jobs import the one they need."""

from importlib import import_module
from typing import Any

from benchharness.heads.head import Head, Limits
from benchharness.recipes.recipe import HeadOptions, SpanOptions
from benchharness.tasks.errors import BenchError
from benchharness.tasks.task import CorefTask, SpanTask, Task

__all__ = ["HEADS", "Head", "Limits", "head_for"]

HEADS = ("pair", "span", "choice", "tag")
"""The names that Task classes give their head types, which are those of the files here."""


def head_for(task: Task, options: HeadOptions | None = None) -> Head:
    """The head that trains and predicts a task, with the options of a recipe for its type.

    The one that answers in words is `text_head` (heads/text.py), which needs a tokenizer.
    """
    if task.head not in HEADS and not isinstance(task, CorefTask):
        known = ", ".join(HEADS)
        raise BenchError(f"{task.name} needs a {task.head} head, and there are only: {known}.")
    answers = isinstance(options, SpanOptions) and (options.answerable_weight or options.beam_size)
    head: Head = _file("answer" if answers else task.head).head(task, options)
    if isinstance(task, SpanTask) and (task.classes or task.facts):
        head = _file("auxiliary").with_auxiliary(head, task)
    return head


def _file(name: str) -> Any:
    return import_module(f"{__name__}.{name}")
