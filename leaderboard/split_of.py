"""Which split a stored score is of, by its name."""

from tasks.suites import TASKS
from tasks.task import Task, ending_of

__all__ = ["AVERAGE_SPLITS", "split_of", "stored_name"]

AVERAGE_SPLITS = {"dev": "", "test": "_test"}
"""The splits that a suite's score may be of, and what its name ends with."""


def split_of(task: str, name: str) -> tuple[str, str]:
    """The metric and the split of a score of a task, or of a suite's: "f1_test" is f1 of test."""
    endings = _endings(task)
    fitting = (split for split, ending in endings.items() if name.endswith(ending))
    split = max(fitting, key=lambda split: len(endings[split]))
    return name.removesuffix(endings[split]), split


def stored_name(task: str, metric: str, split: str) -> str:
    """What the score is called in a store; the other way round."""
    return metric + _endings(task)[split]


def _endings(task: str) -> dict[str, str]:
    """By split, the first one without an ending."""
    if task not in TASKS:
        return AVERAGE_SPLITS
    found = TASKS[task]
    return {split: ending_of(found, split) for split in _scored_splits(found)}


def _scored_splits(task: Task) -> tuple[str, ...]:
    return task.dev_splits + task.test_splits
