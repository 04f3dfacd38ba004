"""One file of a submission: which predictions it holds and how they are written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tasks.submission.answers import Answers
from tasks.submission.faults import Fault, Faults

__all__ = ["AnswerFile", "Reading", "conclude"]


@dataclass(frozen=True, kw_only=True)
class AnswerFile:
    """A file by the name that the server looks for.

    `rows` is how many answers it must hold, `fill` the answer, by the task's own name, that stands
    on every row of a task that was not run. "tsv" is GLUE's table of index and prediction, "jsonl"
    an object a line with idx and label, "multirc" an object a line for each paragraph, of which
    there are `paragraphs` with `questions` in all (None: however many).
    """

    name: str
    task: str
    rows: int
    answers: Answers
    fill: str | float
    split: str = "test"
    format: Literal["tsv", "jsonl", "multirc"] = "tsv"
    paragraphs: int | None = None
    questions: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was found in a file: its answers as the server wants them, and every fault.

    `answers` is None where a fault leaves more than one answer possible.
    """

    answers: Sequence[Any] | None
    faults: tuple[Fault, ...]


def conclude(answers: Sequence[Any] | None, faults: Faults) -> Reading:
    """The reading of a file, whose answers count only where every fault can be mended."""
    found = faults.all()
    is_clear = all(fault.mendable for fault in found)
    return Reading(answers=answers if is_clear else None, faults=found)
