"""Cells of a leaderboard: the runs of an entry on one task, with their scores and warnings."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev

from benchharness.leaderboard.result import COLLAPSED, MARK, RunRow, Selection, selection_labels
from benchharness.leaderboard.statistics import Interval, selection_gain
from benchharness.leaderboard.text import counted, grouped
from benchharness.tasks.suite import ScoreRule
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task, ending_of, suffix_of


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Cell of a leaderboard: the runs of an entry on one task, with a score per seed.

    Scores are mostly from 0 to 1. Tables show the median over seeds, because a fine-tuning run that
    fails to learn is an outlier and would distort a mean. Papers report medians too (e.g. RoBERTa).

    Attributes:
        task: Name of the task.
        runs: Finished runs, one per seed.
        values: Score of each run.
        others: For a sweep, the cells of the hyperparameter settings that were not selected.
        gain: For a sweep, the expected decrease of the score if the selected setting is run again
            with other seeds. None without a sweep, if no setting has two seeds, or if the setting
            was selected by the score on another task.
        gain_scope: What is assumed to change in the new run: "seeds" or "seeds and examples".
    """

    task: str
    runs: tuple[RunRow, ...]
    values: tuple[float, ...]
    others: tuple["Cell", ...] = ()
    gain: float | None = None
    gain_scope: str = "seeds"

    @property
    def median(self) -> float:
        """Median over seeds; for an even number of seeds, the mean of the middle two values."""
        return median(self.values)

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return fmean(self.values)

    @property
    def spread(self) -> float | None:
        """Sample standard deviation over seeds (divided by n - 1); None for one seed."""
        return spread_of(self.values)

    @property
    def flags(self) -> tuple[str, ...]:
        """Distinct warnings about these scores, e.g. "constant predictions"."""
        return _flags_of(self.task, self.runs)

    @property
    def selections(self) -> tuple[Selection, ...]:
        """How the final weights of each run were selected by evaluations during training.

        Runs without such a selection, and runs that were trained on another task, are left out.
        """
        return tuple(r.selection for r in self.runs if r.selection and self.task in r.trained_tasks)

    @property
    def selection(self) -> str:
        """How the weights were selected, e.g. "best of 10 evaluations on dev"; may be empty."""
        return ", ".join(selection_labels(self.selections))

    @property
    def collapsed(self) -> int:
        """Number of runs that have learned nothing; 0 if the runs are not of single trained models.

        Baselines, ensembles and zero-shot runs, for example, never count as collapsed.
        """
        return sum(run.has_collapsed(self.task) for run in self.runs)

    @property
    def has_learned(self) -> bool:
        """True if the run with the median score has learned something.

        For an even number of seeds, both middle runs must have learned something. If False, the
        score is never shown as the best of its column.
        """
        values = zip(
            self.values, (not run.has_collapsed(self.task) for run in self.runs), strict=True
        )
        learned = [has_learned for _, has_learned in sorted(values)]
        return all(learned[(len(learned) - 1) // 2 : len(learned) // 2 + 1])

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings with the number of collapsed runs, for display.

        Example: "1 of 5 seeds collapsed (constant predictions)".
        """
        return notes_of(self.task, self.runs)

    @property
    def text(self) -> str:
        """Median as tables show it, followed by "!" if there are warnings."""
        return marked(shown(self.median), self.notes)

    @property
    def bias(self) -> str:
        """The selection bias (`gain`) for display, e.g. "1.3" or "less than 0.1".

        Empty if it is unknown: there is no `gain`, or all seeds of every setting have the same
        score, as collapsed runs often do, so that nothing shows how much seeds matter.
        """
        settings = (self, *self.others)
        if self.gain is None:
            return ""
        if self.gain_scope == "seeds" and all(len(set(each.values)) == 1 for each in settings):
            return ""
        return text if (text := shown(self.gain)) != "0.0" else "less than 0.1"

    @property
    def choice(self) -> str:
        """Text about the selection bias, i.e. that the best score of a sweep is too high by chance.

        It states how much lower the score may be in another run, or that this is unknown. Empty
        without a `gain`.
        """
        if self.gain is None:
            return ""
        known = f"with other {self.gain_scope} it may score {self.bias} lower"
        return "this is the best of several hyperparameter settings; " + (
            known if self.bias else f"how much of the score is chance is unknown: {SAME_SEEDS}"
        )


SAME_SEEDS = "in each setting, all seeds have the same score"
"""Reason why a sweep's selection bias is unknown (see `Cell.bias`)."""


# Warnings about scores: the "!" after a score, and the notes in the legend.


def notes_of(task: str, runs: Sequence[RunRow]) -> tuple[str, ...]:
    """Return warnings about an entry's runs on a task, e.g. "1 of 5 seeds collapsed (...)".

    Args:
        task: Name of the task.
        runs: Finished runs, one per seed.
    """
    flags, collapsed = _flags_of(task, runs), sum(run.has_collapsed(task) for run in runs)
    reasons = [flag for flag in flags if flag in COLLAPSED and collapsed]
    seeds = counted(len(runs), "seed")
    said = [f"{collapsed} of {seeds} collapsed ({', '.join(reasons)})"] if reasons else []
    return (*said, *(flag for flag in flags if flag not in reasons))


def _flags_of(task: str, runs: Iterable[RunRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(flag for run in runs for flag in run.flags.get(task, ())))


def marked(text: str, notes: Iterable[str]) -> str:
    """Return `text`, a number, with "!" appended if `notes` contains a warning about the number."""
    return text + MARK if any(notes) else text


Noted = tuple[str | tuple[str, str], Iterable[str]]
"""Name of a score and the warnings about it. The name may be a pair (row of a table, task)."""


def note_lines(noted: Iterable[Noted]) -> Iterator[str]:
    """Yield a line of the legend per warning, with the names of all scores to which it applies.

    Example: "!: 3 of 3 seeds collapsed (constant predictions): tiny, 3 epochs on RTE, CoLA; tiny on
    RTE." `noted` contains the scores with their names and warnings.
    """
    found = grouped((note, name) for name, notes in noted for note in notes)
    for note, names in found.items():
        rows = grouped((name, "") if isinstance(name, str) else name for name in names)
        said = (
            f"{row} on {', '.join(dict.fromkeys(tasks))}" if any(tasks) else row
            for row, tasks in rows.items()
        )
        yield f"{MARK}: {note}: {'; '.join(said)}."


def build_cell(task: str, finished: Sequence[RunRow], rule: ScoreRule) -> Cell | None:
    """Create a cell from an entry's finished runs.

    Args:
        task: Name of the task. Runs without a score on the task are left out.
        finished: Finished runs of the entry.
        rule: Rule of the suite, which specifies the scores that count.

    Returns:
        The cell, or None if no run has a finite score on the task.
    """
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
    """Return the names of the scores whose mean is the task's value on a leaderboard.

    `rule`, which computes the suite's score, specifies these names. For a task that does not count
    in the suite's score, the only name is the task's first metric.
    """
    return rule.cells.get(task) or (find_task(task).metrics[0].name,)


def score_bounds(task: Task, names: Sequence[str], values: Iterable[float]) -> Interval:
    """Return the lowest and the highest possible value of the mean of some scores.

    Args:
        task: Task of the scores.
        names: Names of the scores.
        values: Observed values of this mean, e.g. one per seed.

    Returns:
        The bounds. They are infinite if a metric is unknown, or if an observed value is outside of
        the known bounds (e.g. because a plugin's score is in percent).
    """
    every = {
        metric.name + suffix_of(split): metric.bounds
        for split in task.source.splits
        for metric in task.every_metric
    }
    found = [every.get(name, (-math.inf, math.inf)) for name in names]
    bounds = Interval(low=fmean(low for low, _ in found), high=fmean(high for _, high in found))
    is_right = all(bounds.has(value) for value in values)
    return bounds if is_right else Interval(low=-math.inf, high=math.inf)


def column_title(task: str, rule: ScoreRule, between: str = "-") -> str:
    """Return the title of a task's column, e.g. "RTE" or "MNLI-m/mm".

    The part "m/mm" consists of the titles of the splits over which the column's value is averaged.
    It is left out for three or more splits.

    Args:
        task: Name of the task.
        rule: Rule of the suite, which specifies the scores that count.
        between: Text between the task's title and the titles of the splits.
    """
    found = find_task(task)
    scores = set(score_names(task, rule))
    splits = [
        split
        for split in found.dev_splits
        if any(metric.name + ending_of(found, split) in scores for metric in found.metrics)
    ]
    parts = [found.split_titles[split] for split in splits if split in found.split_titles]
    # Do not list three or more splits, such as languages.
    return between.join(filter(None, (found.title, "/".join(parts) if len(parts) < 3 else "")))


def spread_of(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation (divided by n - 1); None for fewer than two values."""
    return stdev(values) if len(values) > 1 else None


def shown(value: float) -> str:
    """Return a score as leaderboards display it: times 100, with one decimal."""
    # Avoid "-0.0", which would be the text for a correlation of -0.0004.
    text = f"{value * 100:.1f}"
    return "0.0" if text == "-0.0" else text


# Sweeps: several hyperparameter settings (called "points" of a grid) are run on a task, and the
# leaderboard shows the one with the best dev score, as papers do.
#
# The label of an entry contains the number of points, because the best of several points has a
# higher score by chance alone.


def count_points(runs: Iterable[RunRow]) -> int:
    """Return how many hyperparameter settings of a sweep have a finished run.

    Settings are counted separately for each task, and the largest number is returned.
    """
    finished = [run for run in runs if run.status == "finished"]
    return max((len(points) for points in _points(finished).values()), default=0)


def best_points(runs: Sequence[RunRow], rule: ScoreRule) -> list[RunRow]:
    """Return the runs of a sweep's best hyperparameter setting for each task.

    All runs are returned if they are not a sweep. The best setting has the highest median of the
    task's score over seeds; if medians are equal, the setting with more scored seeds wins. Only
    settings with the largest number of seeds (finished or not) are compared, because successive
    halving stops bad settings early, and one of them may have a lucky seed. A setting without a
    score is chosen only if none of the compared settings has a score.

    Args:
        runs: Runs of one leaderboard entry.
        rule: Rule of the suite, which specifies the scores that count.
    """
    if not runs[0].is_sweep:
        return list(runs)
    best = list[RunRow]()
    for points in _points(runs).values():
        counts = {digest: len({run.seed for run in point}) for digest, point in points.items()}
        tried = [point for d, point in points.items() if counts[d] == max(counts.values())]
        chosen = max(tried, key=lambda point: _median_and_seeds(point, rule))
        best += chosen
    return best


def beside_others(cell: Cell, runs: Sequence[RunRow], rule: ScoreRule) -> Cell:
    """Return a sweep's cell with the fields `others` and, if it is known, `gain` (see `Cell`).

    A cell of a task that is predicted by runs on another task (AX by runs on MNLI) gets no `gain`,
    because the hyperparameter settings were selected by the score on that other task.

    Args:
        cell: Cell of the sweep's best setting.
        runs: All runs of the leaderboard entry. If they are not a sweep, the cell is returned
            unchanged.
        rule: Rule of the suite, which specifies the scores that count.
    """
    if not runs[0].is_sweep:
        return cell
    trained = cell.runs[0].task
    finished = [run for run in runs if run.task == trained and run.status == "finished"]
    points = _points(finished)[trained]
    tried = (
        build_cell(cell.task, point, rule)
        for digest, point in points.items()
        if digest != cell.runs[0].recipe_digest
    )
    others = tuple(other for other in tried if other is not None)
    if trained != cell.task:
        return replace(cell, others=others)
    gain = selection_gain(cell.values, [other.values for other in others]) if others else None
    return replace(cell, others=others, gain=gain)


def _points(runs: Iterable[RunRow]) -> Mapping[str, Mapping[str, list[RunRow]]]:
    """Group the runs by task, then by the digest of their hyperparameters, sorted by both."""
    found: dict[str, dict[str, list[RunRow]]] = {}
    for run in sorted(runs, key=lambda run: (run.task, run.recipe_digest)):
        found.setdefault(run.task, {}).setdefault(run.recipe_digest, []).append(run)
    return found


def _median_and_seeds(point: Sequence[RunRow], rule: ScoreRule) -> tuple[float, int]:
    finished = [run for run in point if run.status == "finished"]
    cell = build_cell(point[0].task, finished, rule)
    return (-math.inf, 0) if cell is None else (cell.median, len(cell.values))
