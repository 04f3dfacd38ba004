"""The head types: one file holds the whole road of one type."""

from collections.abc import Mapping

from benchharness.heads.answer import answer_head
from benchharness.heads.auxiliary import with_auxiliary
from benchharness.heads.choice import CHOICE
from benchharness.heads.coref import coref_head
from benchharness.heads.head import Head, Limits, with_language_model
from benchharness.heads.pair import PAIR, PAIR_ADDED
from benchharness.heads.span import SPAN, span_head
from benchharness.heads.tag import TAG, tag_head
from benchharness.recipes.recipe import (
    ADDED_ORDERS,
    DOCUMENT,
    CorefOptions,
    HeadOptions,
    PairOptions,
    SpanOptions,
    TagOptions,
)
from benchharness.tasks.errors import BenchError
from benchharness.tasks.task import CorefTask, SpanTask, Task

__all__ = ["HEADS", "Head", "Limits", "head_for"]

HEADS: Mapping[str, Head] = {"pair": PAIR, "span": SPAN, "choice": CHOICE, "tag": TAG}
"""By the name that a Task class gives its head type."""


def head_for(task: Task, options: HeadOptions | None = None) -> Head:
    """The head that trains and predicts a task, with the options of a recipe for its type.

    The one that answers in words is `text_head` (heads/text.py), which needs a tokenizer.
    """
    if isinstance(task, CorefTask):
        segments = options.training_segments if isinstance(options, CorefOptions) else None
        return coref_head(task.genres, segments)
    if task.head not in HEADS:
        known = ", ".join(HEADS)
        raise BenchError(f"{task.name} needs a {task.head} head, and there are only: {known}.")
    match options:
        case SpanOptions(answerable_weight=weight, beam_size=beam) if weight or beam:
            head = answer_head(options)
        case SpanOptions():
            head = span_head(options.max_answer_tokens)
        case TagOptions():
            head = tag_head(options.lstm_size, in_documents=options.context == DOCUMENT)
        case PairOptions():
            added = task.head == "pair" and options.orders == ADDED_ORDERS
            head = with_language_model(PAIR_ADDED if added else HEADS[task.head], options.lm_weight)
        case _:
            head = HEADS[task.head]
    if isinstance(task, SpanTask) and (task.classes or task.facts):
        return with_auxiliary(head, task)
    return head
