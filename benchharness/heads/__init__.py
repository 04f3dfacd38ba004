"""The head types: one file holds the whole road of one type."""

from collections.abc import Mapping

from benchharness.heads.choice import CHOICE
from benchharness.heads.head import Head, Limits
from benchharness.heads.pair import PAIR, PAIR_ADDED
from benchharness.heads.span import SPAN
from benchharness.heads.tag import TAG
from benchharness.recipes.recipe import ADDED_ORDERS, GIVEN_ORDER
from benchharness.tasks.errors import BenchError
from benchharness.tasks.task import Task

__all__ = ["HEADS", "Head", "Limits", "head_for"]

HEADS: Mapping[str, Head] = {"pair": PAIR, "span": SPAN, "choice": CHOICE, "tag": TAG}
"""By the name that a Task class gives its head type."""


def head_for(task: Task, orders: str = GIVEN_ORDER) -> Head:
    """The head that trains and predicts a task; `orders` are those in which it reads a pair."""
    if task.head not in HEADS:
        known = ", ".join(HEADS)
        raise BenchError(f"{task.name} needs a {task.head} head, and there are only: {known}.")
    is_added = task.head == "pair" and orders == ADDED_ORDERS
    return PAIR_ADDED if is_added else HEADS[task.head]
