"""A cell of a board: one entry's runs of one task, and what is said of their values."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev

from benchharness.leaderboard.result import COLLAPSED, MARK, RunRow, Selection, selection_labels
from benchharness.leaderboard.statistics import Interval, selection_gain
from benchharness.leaderboard.text import counted, grouped
from benchharness.tasks.suites import ScoreRule, find_task
from benchharness.tasks.task import Task, ending_of, suffix_of


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One entry's runs of one task: one value a seed, in the score's own unit (mostly 0..1).

    The headline is the median, because a fine-tuning run that fails to learn is an outlier that
    would move a mean; papers report it too (RoBERTa: the median of five seeds).

    `gain` is how far the best of a sweep's points is expected to stand above other seeds of the
    same point, in the unit of the values, and above other examples too where `gain_scope` says so;
    None for what was not chosen, or where one seed shows no noise. `others` are the other points.
    """

    task: str
    runs: tuple[RunRow, ...]
    values: tuple[float, ...]
    others: tuple["Cell", ...] = ()
    gain: float | None = None
    gain_scope: str = "seeds"

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
        return _flags_of(self.task, self.runs)

    @property
    def selections(self) -> tuple[Selection, ...]:
        """How the runs chose their weights; nothing of a task that another one's run predicts."""
        return tuple(r.selection for r in self.runs if r.selection and self.task in r.trained_tasks)

    @property
    def selection(self) -> str:
        """The same for a reader: "best of 10 evaluations on dev", empty where nothing chose."""
        return ", ".join(selection_labels(self.selections))

    @property
    def collapsed(self) -> int:
        """How many of the runs have learned nothing; a baseline has nothing to learn."""
        return sum(run.has_collapsed(self.task) for run in self.runs)

    @property
    def has_learned(self) -> bool:
        """Whether the median is of runs that have learned; what is not is nowhere the best.

        Of an even number of seeds both in the middle must have.
        """
        values = zip(
            self.values, (not run.has_collapsed(self.task) for run in self.runs), strict=True
        )
        learned = [has_learned for _, has_learned in sorted(values)]
        return all(learned[(len(learned) - 1) // 2 : len(learned) // 2 + 1])

    @property
    def notes(self) -> tuple[str, ...]:
        """The flags as sentences: "1 of 5 seeds collapsed (constant predictions)"."""
        return notes_of(self.task, self.runs)

    @property
    def text(self) -> str:
        """The median as every table shows it, with the mark of what must be known of it."""
        return marked(shown(self.median), self.notes)

    @property
    def choice(self) -> str:
        """What was gained by choosing the best, as a sentence; empty where nothing was chosen."""
        if self.gain is None:
            return ""
        gain = shown(self.gain)
        return f"the best of several: with other {self.gain_scope} it may score {gain} lower"


# The mark of a number that must be read with care, and what it stands for.


def notes_of(task: str, runs: Sequence[RunRow]) -> tuple[str, ...]:
    """The flags of some runs of a task as sentences; those of a collapse are counted."""
    flags, collapsed = _flags_of(task, runs), sum(run.has_collapsed(task) for run in runs)
    reasons = [flag for flag in flags if flag in COLLAPSED and collapsed]
    seeds = counted(len(runs), "seed")
    said = [f"{collapsed} of {seeds} collapsed ({', '.join(reasons)})"] if reasons else []
    return (*said, *(flag for flag in flags if flag not in reasons))


def _flags_of(task: str, runs: Iterable[RunRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(flag for run in runs for flag in run.flags.get(task, ())))


def marked(text: str, notes: Iterable[str]) -> str:
    """A number with a mark, where there are notes on it."""
    return text + MARK if any(notes) else text


def note_lines(noted: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """What the marks of a table stand for, a line a note, by the names of the numbers with notes.

    "!: 3 of 3 seeds collapsed (constant predictions): tiny, 3 epochs RTE; tiny RTE."
    """
    found = grouped((note, name) for name, notes in noted for note in notes)
    for note, names in found.items():
        yield f"{MARK}: {note}: {'; '.join(dict.fromkeys(names))}."


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


def score_bounds(task: Task, names: Sequence[str], values: Iterable[float]) -> Interval:
    """The lowest and the highest that the mean of these scores can be.

    Without end where a metric is unknown, or a measured value is outside (a plugin's score in
    percent, whose bounds nobody gave).
    """
    every = {
        metric.name + suffix_of(split): metric.bounds
        for split in task.source.splits
        for metric in (*task.metrics, *task.details)
    }
    found = [every.get(name, (-math.inf, math.inf)) for name in names]
    bounds = Interval(low=fmean(low for low, _ in found), high=fmean(high for _, high in found))
    is_right = all(bounds.has(value) for value in values)
    return bounds if is_right else Interval(low=-math.inf, high=math.inf)


def column_title(task: str, rule: ScoreRule, between: str = "-") -> str:
    """What a task's column is called: "MNLI-m/mm" where its value is the mean of both splits."""
    found = find_task(task)
    scores = set(score_names(task, rule))
    splits = [
        split
        for split in found.dev_splits
        if any(metric.name + ending_of(found, split) in scores for metric in found.metrics)
    ]
    parts = [found.split_titles[split] for split in splits if split in found.split_titles]
    # Of many splits, languages, none is named.
    return between.join(filter(None, (found.title, "/".join(parts) if len(parts) < 3 else "")))


def spread_of(values: Sequence[float]) -> float | None:
    """The sample standard deviation (divided by n - 1); None where one value shows no spread."""
    return stdev(values) if len(values) > 1 else None


def shown(value: float) -> str:
    """A score as every board shows it: times 100, one decimal."""
    # A correlation of -0.0004 would read "-0.0".
    text = f"{value * 100:.1f}"
    return "0.0" if text == "-0.0" else text


# Sweeps: several points of a grid tried on a task, of which a board shows the best on dev.
#
# Papers report "the best of a grid on dev". The label of an entry says of how many, because the
# best of several is higher than any one of them by chance alone.


def count_points(runs: Iterable[RunRow]) -> int:
    """How many points have finished on a task, on that with the most."""
    finished = [run for run in runs if run.status == "finished"]
    return max((len(points) for points in _points(finished).values()), default=0)


def best_points(runs: Sequence[RunRow], rule: ScoreRule) -> list[RunRow]:
    """Of a sweep's runs those by the best point, task by task; all runs of anything else.

    The best point is that with the best median over seeds of the task's own score; of equal ones
    that with more seeds. Only points with as many seeds as any other has can be it, finished or
    not: halving ends what is behind, and one lucky seed of it says nothing. A point without a
    score is the best only where no other has one.
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
    """The cell of a sweep's best point, with its other points and what the choice gains by chance.

    `runs` are all of the sweep's; the cell of anything else is left as it is.
    """
    if not runs[0].is_sweep:
        return cell
    finished = [run for run in runs if run.task == cell.task and run.status == "finished"]
    points = _points(finished)[cell.task]
    tried = (
        build_cell(cell.task, point, rule)
        for digest, point in points.items()
        if digest != cell.runs[0].recipe_digest
    )
    others = tuple(other for other in tried if other is not None)
    gain = selection_gain(cell.values, [other.values for other in others])
    return replace(cell, others=others, gain=gain)


def _points(runs: Iterable[RunRow]) -> Mapping[str, Mapping[str, list[RunRow]]]:
    """The runs by task and by the digest of their values, in an order that is always the same."""
    found: dict[str, dict[str, list[RunRow]]] = {}
    for run in sorted(runs, key=lambda run: (run.task, run.recipe_digest)):
        found.setdefault(run.task, {}).setdefault(run.recipe_digest, []).append(run)
    return found


def _median_and_seeds(point: Sequence[RunRow], rule: ScoreRule) -> tuple[float, int]:
    finished = [run for run in point if run.status == "finished"]
    cell = build_cell(point[0].task, finished, rule)
    return (-math.inf, 0) if cell is None else (cell.median, len(cell.values))
