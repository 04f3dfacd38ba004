"""Suites of tasks, and the rules that average the scores of a suite's tasks into one score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path

from benchharness.tasks.task import Task

# A score rule defines how the scores of a suite's tasks are averaged into one number.
#
# Papers compute a "GLUE score" by different rules. So each rule has a name, and leaderboard entries
# with different rules are never ranked together.

Scores = Mapping[str, Mapping[str, float]]
"""Scores keyed by the name of the task, then by the name of the score, e.g. "accuracy_mm"."""


def complete_mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values; None if any of them is None."""
    known = [value for value in values if value is not None]
    # fmean would return the same number, but takes several times as long for few values.
    return fsum(known) / len(known) if len(known) == len(values) else None


@dataclass(frozen=True, kw_only=True)
class ScoreRule:
    """Rule that averages the scores within each task, and then the means of all tasks of a suite.

    Scores may be fractions or percentages, but all of them must have the same unit.

    Attributes:
        name: Name of the rule, e.g. "GLUE-9".
        cells: Names of the scores that count, keyed by the name of the task, e.g.
            {"glue/mrpc": ("f1", "accuracy")}. Other tasks do not count.
        cite: Citation of the paper that uses the rule.
    """

    name: str
    cells: Mapping[str, tuple[str, ...]]
    cite: str

    def task_score(self, task: str, scores: Mapping[str, float]) -> float | None:
        """Return the mean of a task's scores that count; None if one of them is missing.

        Args:
            task: Name of the task, which must be a key of `cells`.
            scores: Scores of the task, keyed by name.
        """
        return complete_mean([scores.get(cell) for cell in self.cells[task]])

    def score(self, scores: Scores) -> float | None:
        """Return the score of the suite: the mean of the task scores of all tasks in `cells`.

        The result is None if a score that counts is missing for any task.
        """
        return complete_mean([self.task_score(task, scores.get(task, {})) for task in self.cells])


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Benchmark that consists of several tasks and a rule for its score.

    Attributes:
        name: Name of the suite in commands, e.g. "glue".
        title: Name of the suite in papers.
        tasks: Full names of the tasks, in the order of the leaderboard's columns. Tasks that the
            rule leaves out, such as GLUE's diagnostic set, are run and shown too.
        rule: Rule that computes the score of the suite.
        cite: Citation of the suite's paper.
        collections: Names of the collections (groups of suites) that contain the suite.
        recipe: Recipe file with the hyperparameters that the authors of the suite use for all
            encoders; None if they do not prescribe any.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    rule: ScoreRule
    cite: str
    collections: tuple[str, ...] = ()
    recipe: Path | None = None


def suite_of(
    tasks: Sequence[Task],
    title: str,
    rule: ScoreRule,
    cite: str = "",
    collections: tuple[str, ...] = (),
) -> Suite:
    """Create a suite from its tasks.

    The name of the suite is the part of the tasks' names before the slash: "glue" for "glue/cola".

    Args:
        tasks: Tasks in the order of the leaderboard's columns.
        title: Name of the suite in papers.
        rule: Rule that computes the score of the suite.
        cite: Citation of the suite's paper; by default the citation of the first task.
        collections: Names of the collections (groups of suites) that contain the suite.
    """
    return Suite(
        name=tasks[0].suite,
        title=title,
        tasks=tuple(task.name for task in tasks),
        rule=rule,
        cite=cite or tasks[0].cite,
        collections=collections,
    )
