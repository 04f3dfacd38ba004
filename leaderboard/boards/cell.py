"""A cell of a board: one entry's runs of one task, and what is said of their values."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from leaderboard.collapse import COLLAPSED
from leaderboard.result import RunRow
from tasks.rules import ScoreRule
from tasks.suites import find_task

__all__ = ["Cell", "build_cell", "score_names", "shown", "spread_of"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One entry's runs of one task: one value a seed, in the score's own unit (mostly 0..1).

    The headline is the median, because a fine-tuning run that fails to learn is an outlier that
    would move a mean; papers report it too (RoBERTa: the median of five seeds).
    """

    task: str
    runs: tuple[RunRow, ...]
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value over seeds; of an even number, the mean of the middle two."""
        return median(self.values)

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return fmean(self.values)

    @property
    def spread(self) -> float | None:
        """The sample standard deviation over seeds (divided by n - 1); None for one seed."""
        return spread_of(self.values)

    @property
    def flags(self) -> tuple[str, ...]:
        """What a reader must know of these scores, each said once."""
        flags = (flag for run in self.runs for flag in run.flags.get(self.task, ()))
        return tuple(dict.fromkeys(flags))

    @property
    def collapsed(self) -> int:
        """How many of the runs have learned nothing; a floor has nothing to learn."""
        trained = [run for run in self.runs if run.kind == "model"]
        return sum(bool(COLLAPSED & set(run.flags.get(self.task, ()))) for run in trained)

    @property
    def notes(self) -> Iterator[str]:
        """The flags as sentences: "1 of 5 seeds collapsed (constant predictions)"."""
        reasons = [flag for flag in self.flags if flag in COLLAPSED and self.collapsed]
        if reasons:
            seeds = "1 seed" if len(self.runs) == 1 else f"{len(self.runs)} seeds"
            yield f"{self.collapsed} of {seeds} collapsed ({', '.join(reasons)})"
        yield from (flag for flag in self.flags if flag not in reasons)


def build_cell(task: str, finished: Sequence[RunRow], rule: ScoreRule) -> Cell | None:
    """The cell of a task, None where no run scored it (a score that is not finite is none)."""
    pairs = [(run, _value(task, run.scores[task], rule)) for run in finished if task in run.scores]
    valid = [(run, value) for run, value in pairs if value is not None and math.isfinite(value)]
    if not valid:
        return None
    found, values = zip(*valid, strict=True)
    return Cell(task=task, runs=found, values=values)


def _value(task: str, scores: Mapping[str, float], rule: ScoreRule) -> float | None:
    if task in rule.cells:
        return rule.task_score(task, scores)
    return scores.get(*score_names(task, rule))


def score_names(task: str, rule: ScoreRule) -> tuple[str, ...]:
    """What a task's value is the mean of: the rule's cells, or the first metric of an extra."""
    return rule.cells.get(task) or (find_task(task).metrics[0].name,)


def spread_of(values: Sequence[float]) -> float | None:
    """The sample standard deviation (divided by n - 1); None where one value shows no spread."""
    return stdev(values) if len(values) > 1 else None


def shown(value: float) -> str:
    """A score as every board shows it: times 100, one decimal."""
    text = f"{value * 100:.1f}"
    return "0.0" if text == "-0.0" else text
