"""Compute the scores of groups of rows for stored systems."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from benchharness.errors import BenchError, ForeignCodeError
from benchharness.extensions.groups.conditions import Groups, Rows, with_groups
from benchharness.extensions.groups.measure import Grouping, measure
from benchharness.leaderboard.boards.cell import Cell, score_bounds, score_names
from benchharness.leaderboard.comparing import (
    PredictedSplit,
    Units,
    headline_outcomes,
    units_of,
)
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.store.store import Store
from benchharness.stored import Rows as Selected
from benchharness.stored.predictions import (
    StoredPredictions,
    UnreadableError,
    predicted_split,
    splits_of,
)
from benchharness.tasks.answers import answer_type
from benchharness.tasks.suite import ScoreRule
from benchharness.tasks.suites import SUITES, find_task, split_title
from benchharness.tasks.task import suffix_of


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options for the scores of groups.

    Attributes:
        specs: Values of `--groups`; empty for the groupings in `conditions.DEFAULT`.
        split: "dev" or "test".
        points: Gap, in points (hundredths of a score), for which the power and the number of needed
            rows are computed.
    """

    specs: tuple[str, ...] = ()
    split: str = "dev"
    points: float = 5.0


DEFAULTS = Wanted()


@dataclass(frozen=True, kw_only=True)
class Found:
    """Scores of the groups of a split, for all runs of a system.

    Attributes:
        task: Name of the task.
        split: Name of the split.
        flags: Warnings about the runs.
        reason: Reason why there are no scores; empty if there are scores.
        rows: Number of rows of the split.
        seeds: Number of runs, one per seed.
        metrics: Names of the metrics; the score of a group is their mean.
        groupings: Groupings with their groups; may be empty if the split has no groups.
        ids: Id of each row of the split, in order.
        wrong: True for each row that at least half of the runs answer wrongly.
        keys: Keys of the runs.
    """

    task: str
    split: str
    flags: tuple[str, ...] = ()
    reason: str = ""
    rows: int = 0
    seeds: int = 0
    metrics: tuple[str, ...] = ()
    groupings: tuple[Grouping, ...] = ()
    ids: tuple[str, ...] = ()
    wrong: tuple[bool, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Title of the task and the split, such as "RTE dev"."""
        return split_title(self.task, self.split)


def found_of(store: Store, rows: Selected, wanted: Wanted) -> Iterator[Found]:
    """Yield the groups of the first entry of `rows`, for each split of its tasks.

    Args:
        store: Store that contains the runs.
        rows: Leaderboard entry and tasks.
        wanted: Options for the scores of groups.

    Raises:
        BenchError: A value of `--groups` does not fit a split, or `points` is out of range.
    """
    if not 0 < wanted.points < 100:
        raise BenchError(
            f"--points must be above 0 and below 100, but got {wanted.points:g}: use 5 for a gap "
            "of 5 points."
        )
    stored = StoredPredictions(store, paths=rows.board.paths)
    for task in rows.tasks:
        yield from cell_groups(stored, rows.entries[0].cells[task], wanted)


def cell_groups(stored: StoredPredictions, cell: Cell, wanted: Wanted) -> Iterator[Found]:
    """Yield the groups of the runs in a leaderboard's cell, for each split of the task.

    If the rows or the predictions cannot be read, the field `reason` of the result explains why.

    Args:
        stored: Reader of the stored predictions and their examples.
        cell: Cell with the runs.
        wanted: Options for the scores of groups.

    Raises:
        BenchError: A value of `--groups` does not fit the split.
    """
    results, task = [stored.result(run.key) for run in cell.runs], find_task(cell.task)
    try:
        splits = splits_of(task, wanted.split)
    except BenchError as error:
        yield Found(task=cell.task, split=wanted.split, reason=str(error))
        return
    jobs = [result.job for result in results]
    for split in splits:
        plain = Found(
            task=cell.task,
            split=split,
            flags=cell.notes,
            seeds=len(jobs),
            keys=tuple(job.key for job in jobs),
        )
        try:
            predicted = predicted_split(stored, task, split, results)
        except (UnreadableError, BenchError) as error:
            yield replace(plain, reason=stored.said_of(jobs[0], str(error)))
            continue
        try:
            yield groups_of_split(predicted, jobs[0], plain, wanted)
        except ForeignCodeError as error:  # the metric is a script that the user has not allowed
            yield replace(plain, reason=stored.said_of(jobs[0], str(error)))


def groups_of_split(
    predicted: PredictedSplit, job: Job, plain: Found, wanted: Wanted = DEFAULTS
) -> Found:
    """Compute the score of each group of rows in a split.

    Args:
        predicted: Examples of the split, and the predictions of each run.
        job: Job of one of the runs.
        plain: Result to complete: it has the task, the split and the runs, but no scores.
        wanted: Options for the scores of groups.

    Returns:
        The completed result. If the metric cannot be computed per row, its `reason` is set and it
        has no groupings.

    Raises:
        BenchError: A value of `--groups` does not fit the split.
    """
    examples, kind = predicted.examples, answer_type(predicted.task)
    groupings = with_groups(wanted.specs, Rows(examples=examples, job=job, split=predicted.split))
    names = metrics_of(predicted)
    outcomes = headline_outcomes([predicted], names)
    pairs = (zip(run, examples, strict=True) for run in predicted.one)
    right = [[kind.is_right(*pair) for pair in run] for run in pairs]
    found = replace(
        plain,
        rows=len(examples),
        seeds=len(predicted.one),
        metrics=names,
        ids=tuple(example.id for example in examples),
        wrong=tuple(fmean(column) <= 0.5 for column in zip(*right, strict=True)),
    )
    if outcomes is None:
        said = f"{' and '.join(names)} of {plain.title} cannot be computed per row"
        return replace(found, reason=said)
    units = units_of(examples)
    bounds = score_bounds(predicted.task, names, map(float, outcomes.scores))
    measured = measure(outcomes, _in_units(groupings, units), bounds, points=wanted.points / 100)
    return replace(found, groupings=tuple(_in_rows(each, units) for each in measured))


def _in_units(groupings: Mapping[str, Groups], units: Units) -> dict[str, Groups]:
    """Return groupings with units in place of rows; rows that are scored together form a unit.

    A unit belongs to the group of its first row. Groups of fewer than two units are left out.
    """
    first = {unit[0]: number for number, unit in enumerate(units)}
    found = {
        spec: {name: [first[row] for row in rows if row in first] for name, rows in groups.items()}
        for spec, groups in groupings.items()
    }
    return {s: {n: f for n, f in groups.items() if len(f) > 1} for s, groups in found.items()}


def _in_rows(grouping: Grouping, units: Units) -> Grouping:
    """Return a grouping with the rows of each unit in place of the unit."""
    rows = [[row for unit in each.places for row in units[unit]] for each in grouping.groups]
    groups = (
        replace(each, rows=len(found), places=tuple(found))
        for each, found in zip(grouping.groups, rows, strict=True)
    )
    return replace(grouping, groups=tuple(groups))


def metrics_of(predicted: PredictedSplit) -> tuple[str, ...]:
    """Return the names of the scores on a split from which its task's score is computed."""
    task = predicted.task
    rule: ScoreRule = SUITES[task.suite].rule
    ending, counted = suffix_of(predicted.split), score_names(task.name, rule)
    own = [metric.name + ending for metric in task.metrics if metric.name + ending in counted]
    return tuple(own or [task.metrics[0].name + ending])


def ids_of(found: Found, places: Sequence[int]) -> tuple[str, ...]:
    """Return the ids of the rows with the given indices in the split."""
    return tuple(found.ids[place] for place in places)
