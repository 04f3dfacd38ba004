"""Suites of tasks, and the rules that turn a suite's task scores into one score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import NamedTuple

from benchharness.tasks.task import Task

# Score rules: how the scores of a suite's tasks are averaged into one number.
#
# Papers use different rules under the same word "GLUE", so a rule has a name, and two rows with
# different rules are never ranked together.

Scores = Mapping[str, Mapping[str, float]]
"""Scores by task name, then by score name ("accuracy", "accuracy_mm")."""


def complete_mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values; None if one of them is missing."""
    known = [value for value in values if value is not None]
    # Same result as fmean, which takes several times as long for the few values of a cell.
    return fsum(known) / len(known) if len(known) == len(values) else None


@dataclass(frozen=True, kw_only=True)
class ScoreRule:
    """Rule that averages over tasks the mean of each task's `cells` (score names).

    Values may be fractions or percent, as long as all have the same unit.
    """

    name: str
    cells: Mapping[str, tuple[str, ...]]
    cite: str

    def task_score(self, task: str, scores: Mapping[str, float]) -> float | None:
        """Return the mean over the task's cells; None if a cell is missing."""
        return complete_mean([scores.get(cell) for cell in self.cells[task]])

    def score(self, scores: Scores) -> float | None:
        """Return the suite's score; None if a cell of any task is missing."""
        return complete_mean([self.task_score(task, scores.get(task, {})) for task in self.cells])


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Benchmark; `tasks` are full task names in the order of the board's columns.

    Tasks that the rule leaves out (GLUE's diagnostic set) are run and shown all the same.
    `collections` are the names of the collections that contain the suite, such as "seeds".
    `recipe` is a file with the values that the suite's authors give for all encoders.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    rule: ScoreRule
    cite: str
    collections: tuple[str, ...] = ()
    recipe: Path | None = None


class SuiteTasks(NamedTuple):
    """A suite and its tasks, as an extension adds them."""

    suite: Suite
    tasks: Sequence[Task]
