"""The head types: one file holds the whole road of one type."""

from collections.abc import Mapping

from benchharness.heads.answer import answer_head
from benchharness.heads.beside import with_beside
from benchharness.heads.choice import CHOICE
from benchharness.heads.coref import coref_head
from benchharness.heads.head import Head, Limits, with_language_model
from benchharness.heads.pair import PAIR, PAIR_ADDED
from benchharness.heads.span import SPAN, span_head
from benchharness.heads.tag import TAG, tag_head
from benchharness.recipes.recipe import (
    ADDED_ORDERS,
    DOCUMENT,
    GIVEN_ORDER,
    MAX_ANSWER_TOKENS,
    SENTENCE,
)
from benchharness.tasks.errors import BenchError
from benchharness.tasks.task import CorefTask, SpanTask, Task

__all__ = ["HEADS", "Head", "Limits", "head_for"]

HEADS: Mapping[str, Head] = {"pair": PAIR, "span": SPAN, "choice": CHOICE, "tag": TAG}
"""By the name that a Task class gives its head type."""


def head_for(  # noqa: PLR0913  (the values of a recipe that are for heads)
    task: Task,
    *,
    orders: str = GIVEN_ORDER,
    lm_weight: float = 0.0,
    answerable_weight: float = 0.0,
    beam_size: int = 0,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
    lstm_size: int = 0,
    context: str = SENTENCE,
    training_segments: int | None = None,
) -> Head:
    """The head that trains and predicts a task, with the values of a recipe that are for heads.

    The one that answers in words is `text_head` (heads/text.py), which needs a tokenizer.
    """
    if isinstance(task, CorefTask):
        return coref_head(task.genres, training_segments)
    if task.head not in HEADS:
        known = ", ".join(HEADS)
        raise BenchError(f"{task.name} needs a {task.head} head, and there are only: {known}.")
    if task.head == "span" and (answerable_weight or beam_size):
        return _with_beside(answer_head(beam_size, answerable_weight, max_answer_tokens), task)
    if task.head == "span":
        return _with_beside(span_head(max_answer_tokens), task)
    if task.head == "tag":
        return tag_head(lstm_size, in_documents=context == DOCUMENT)
    if task.head == "pair" and orders == ADDED_ORDERS:
        return with_language_model(PAIR_ADDED, lm_weight)
    return with_language_model(HEADS[task.head], lm_weight)


def _with_beside(head: Head, task: Task) -> Head:
    """A span head with what its task asks beside the answer, where that is anything."""
    if not isinstance(task, SpanTask) or not (task.classes or task.facts):
        return head
    return with_beside(head, task)
