"""What stored runs have predicted, and the examples that they predicted it for, read again."""

from collections.abc import Iterable

from benchharness.splits import read_split
from leaderboard.job import Job
from leaderboard.result import Evaluation, Result
from leaderboard.store.store import Store
from tasks.errors import BenchError
from tasks.examples import Example
from tasks.task import Task, is_hidden

__all__ = ["UnreadableError", "evaluation_of", "examples_of", "result_of", "splits_of"]


class UnreadableError(Exception):
    """The examples cannot be had; says why."""


def splits_of(task: Task, kind: str) -> tuple[str, ...]:
    """The dev splits or the test splits; of a diagnostic set the only one."""
    found = (task.dev_splits or task.test_splits) if kind == "dev" else task.test_splits
    if not found:
        raise BenchError(f"{task.name} has no {kind} split: leave it out with --task.")
    return found


def result_of(store: Store, key: str) -> Result:
    """The finished run of a board's cell, complete."""
    result = store.result(key)
    assert isinstance(result, Result), "a cell of a board holds finished runs"
    return result


def evaluation_of(result: Result, task: Task, split: str) -> Evaluation:
    """What the run has predicted of a split; BenchError where that is nothing."""
    for evaluation in result.evaluations:
        if (evaluation.task, evaluation.split) == (task.name, split):
            return evaluation
    raise BenchError(
        f"run {result.job.key[:12]} of {result.job.model} has not predicted {task.name} {split}: "
        "leave the task out with --task, or run it again."
    )


def examples_of(task: Task, split: str, jobs: Iterable[Job]) -> tuple[Example, ...]:
    """The rows that these jobs predicted, through the first door that still has them.

    Raises UnreadableError where none has, or where their labels are hidden.
    """
    reasons = []
    for job in {job.data: job for job in jobs}.values():
        try:
            examples = read_split(job, f"{task.name}:{split}").examples
        except BenchError as error:
            reasons.append(str(error))
            continue
        if not any(map(is_hidden, examples)):
            return examples
        reasons.append(f"{task.name} {split} hides its labels there.")
    raise UnreadableError("its examples could not be read: " + " ".join(reasons))
