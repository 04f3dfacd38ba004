"""Hyperparameters of the text-to-text format."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import ClassVar

from benchharness.errors import BenchError
from benchharness.extensions.text_to_text.casts import cast_of
from benchharness.hyperparameter import FLAG, count, hyperparameter
from benchharness.tasks.task import Task

_TARGETS = count(3)  # the start token (in BART), one answer token, and the end token


def check_text_form(tasks: Iterable[Task], techniques: Collection[str]) -> None:
    """Check that the answers of tasks can be generated as text.

    Args:
        tasks: Tasks to check.
        techniques: Training techniques of the job, as in `benchharness.recipes.recipe.applying`.

    Raises:
        BenchError: The tasks are trained together, or the answers of a task have no text form.
    """
    if "together" in techniques:
        raise BenchError(
            "--multi-task and --text-to-text cannot be combined, because multi-task training needs "
            "a head per task."
        )
    for task in tasks:
        cast_of(task)


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Hyperparameters for the text-to-text format, in which a model generates its answer as text.

    Attributes:
        as_text: True to use an encoder-decoder, which reads one text and generates another, instead
            of an encoder with a head. Settings that only heads use are then left out.
        max_target_tokens: Maximum number of tokens of a generated answer; None without `as_text`.
    """

    uses_decoder: ClassVar = True
    as_text: bool = hyperparameter(FLAG, False, recipe="text", check=check_text_form)
    max_target_tokens: int | None = hyperparameter(
        _TARGETS, None, needs="as_text", aliases="max_target_length"
    )
