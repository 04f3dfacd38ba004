"""Read stored predictions; compute intervals and comparisons from them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchharness.errors import BenchError, DataError, ForeignCodeError
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, notes_of, score_names
from benchharness.leaderboard.boards.entry import Entry, Gain
from benchharness.leaderboard.boards.naming import full_label
from benchharness.leaderboard.comparing import (
    Known,
    PredictedSplit,
    headline_outcomes,
)
from benchharness.leaderboard.comparing.contrast import (
    Contrast,
    contrast,
    correct,
    difference_bounds,
    match_runs,
)
from benchharness.leaderboard.comparing.noise import (
    difference,
    sample_of_table,
    with_uncertainty,
)
from benchharness.leaderboard.job import Job, different_settings
from benchharness.leaderboard.result import Measure, Result, RunRow, predictions_of, rule_name
from benchharness.leaderboard.sharing import without_paths
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.store.store import Store
from benchharness.splits import ChangedRowsError, read_split
from benchharness.stored import Rows
from benchharness.tasks.custom import code_of
from benchharness.tasks.examples import Example
from benchharness.tasks.read import SplitRows
from benchharness.tasks.suites import distinct_title, find_task, split_title
from benchharness.tasks.task import Task


class UnreadableError(Exception):
    """Exception for examples that cannot be read or have hidden labels.

    The message is the reason.
    """


class StoredPredictions:
    """Reader of finished runs with their predictions, and of the examples that they predicted.

    A store does not contain the examples, because their licenses may forbid redistribution. They
    are read again from the data source of the run, and their fingerprint must be equal to the
    recorded one. Examples are kept in memory as long as this object exists, so create one object
    per group of runs with the same examples.

    Args:
        store: Store that contains the runs.
        paths: True to keep local paths in messages; by default they are removed.
    """

    def __init__(self, store: Store, *, paths: bool = False) -> None:
        self._store = store
        self._paths = paths  # whether to keep local paths in error messages
        self._rows: dict[str, SplitRows] = {}

    def result(self, key: str) -> Result:
        """Return a finished run, including its predictions.

        Args:
            key: Key of the run.
        """
        result = self._store.result(key)
        assert isinstance(result, Result), "a finished run has a result"
        return result

    def rows(self, job: Job, name: str) -> SplitRows:
        """Return the examples of a split that a job used, read from the job's data source.

        Args:
            job: Job that used the split.
            name: Name of the split, in the form "task:split".

        Raises:
            DataError: The examples cannot be read.
            ChangedRowsError: The examples have changed since the run.
        """
        fingerprint = job.fingerprints[name]
        if fingerprint not in self._rows:
            self._rows[fingerprint] = read_split(job, name)
        return self._rows[fingerprint]

    def said_of(self, job: Job, reason: str) -> str:
        """Remove local paths from a message about the data of a job.

        If this object was created with `paths=True`, the message is returned unchanged.

        Args:
            job: The job, whose data and metric scripts may have local paths.
            reason: Message to shorten.
        """
        known = [job.data, *(code.place for code in code_of(job.definition))]
        return reason if self._paths else without_paths(reason, known)

    def labelled_examples(self, name: str, jobs: Iterable[Job]) -> tuple[Example, ...]:
        """Return the examples of a split with their labels.

        Args:
            name: Name of the split, in the form "task:split".
            jobs: Jobs that used the split. Their data sources are tried in this order.

        Raises:
            UnreadableError: The examples can be read from none of the data sources, or their labels
                are hidden.
        """
        reasons = []
        # Try each data source once: jobs that differ only in the seed share it.
        for job in {job.data: job for job in jobs}.values():
            try:
                examples = self.rows(job, name).examples
            except BenchError as error:
                reasons.append(self.said_of(job, str(error)))
                continue
            if not any(e.is_hidden for e in examples):
                return examples
            reasons.append(f"the labels of {name.replace(':', ' ')} are hidden.")
        raise UnreadableError("the examples could not be read: " + " ".join(reasons))


def splits_of(task: Task, kind: str) -> tuple[str, ...]:
    """Return the names of the dev or test splits of a task.

    A diagnostic set has only a test split, which is also returned for "dev".

    Args:
        task: Task with the splits.
        kind: "dev" for `Task.dev_splits`, or "test" for `Task.test_splits`.

    Raises:
        BenchError: The task has no such split.
    """
    found = (task.dev_splits or task.test_splits) if kind == "dev" else task.test_splits
    if not found:
        raise BenchError(f"{task.name} has no {kind} split: select other tasks with --task.")
    return found


# The following functions add confidence intervals to the scores of a leaderboard.


def add_uncertainty(board: Board, store: Store, *, is_pooled: bool = False) -> Board:
    """Add confidence intervals and possible ranks to a leaderboard, from its runs' predictions.

    If the examples of a task cannot be read, the intervals on this task cover only the variation
    over seeds, and the reason is recorded.

    Args:
        board: Leaderboard to extend.
        store: Store that contains the runs. The predictions of all of them are read.
        is_pooled: True to assume that all entries have the same variance over seeds on a task.
    """
    known = {task: known_cells(board, board.entries, task, store) for task in board.tasks}
    tried = {task: _tried_cells(board, task, store) for task in board.tasks}
    return with_uncertainty(board, known, tried=tried, is_pooled=is_pooled)


def _tried_cells(board: Board, task: str, store: Store) -> list[list[Known]]:
    """Return the outcomes per example of hyperparameter settings that were tried but not chosen.

    For each entry that is the best of a hyperparameter sweep, the result contains a list with the
    outcomes of the other settings in the sweep; for other entries, the list is empty.
    """
    stored = StoredPredictions(store, paths=board.paths)
    names = score_names(task, board.rule)
    cells = [entry.cells.get(task) for entry in board.entries]
    return [[_known(o, names, stored) for o in cell.others] if cell else [] for cell in cells]


def known_cells(
    board: Board, entries: Sequence[Entry], task: str, store: Store
) -> list[Known | None]:
    """Compute the outcomes of leaderboard entries on a task.

    The outcomes of an entry are numbers per example and seed, from which its score can be computed.

    Args:
        board: Leaderboard that contains the entries.
        entries: Leaderboard entries.
        task: Full name of the task.
        store: Store that contains the runs. Only the predictions of one entry at a time are in
            memory.

    Returns:
        One item per entry: its outcomes, None if it has no runs on the task, or a string with the
        reason why the outcomes cannot be computed.
    """
    stored = StoredPredictions(store, paths=board.paths)
    names = score_names(task, board.rule)
    return [
        _known(cell, names, stored) if (cell := entry.cells.get(task)) else None
        for entry in entries
    ]


def _known(cell: Cell, names: Sequence[str], stored: StoredPredictions) -> Known:
    task = find_task(cell.task)
    results = [stored.result(run.key) for run in cell.runs]
    try:
        splits = [predicted_split(stored, task, split, results) for split in splits_of(task, "dev")]
        outcomes = headline_outcomes(splits, names)
    except (UnreadableError, BenchError) as error:
        return stored.said_of(results[0].job, str(error))
    return outcomes or f"{' and '.join(names)} cannot be computed per example"


def predicted_split(
    stored: StoredPredictions,
    task: Task,
    split: str,
    one: Sequence[Result],
    other: Sequence[Result] = (),
) -> PredictedSplit:
    """Return the examples of a split with the predictions of one or two systems.

    Args:
        stored: Reader of the stored examples.
        task: Task with the split.
        split: Name of the split, e.g. "dev".
        one: Results of the first system, one per seed.
        other: Results of the second system, with the seeds in the same order; empty if there is
            only one system.

    Raises:
        DataError: Two runs predicted different examples, or stored predictions do not fit the
            examples.
        UnreadableError: The examples cannot be read, or their labels are hidden.
    """
    name = f"{task.name}:{split}"
    results = [*one, *other]
    _check_rows(name, results)
    examples = stored.labelled_examples(name, (result.job for result in results))
    return PredictedSplit(
        task=task,
        split=split,
        examples=examples,
        one=tuple(predictions_of(result.evaluation(name), examples) for result in one),
        other=tuple(predictions_of(result.evaluation(name), examples) for result in other),
    )


def _check_rows(name: str, results: Sequence[Result]) -> None:
    first = results[0].evaluation(name).fingerprint
    for result in results:
        found = result.evaluation(name).fingerprint
        if found != first:
            raise DataError(
                f"runs {results[0].job.key[:12]} and {result.job.key[:12]} predicted "
                f"different rows of {name.replace(':', ' ')} (digests {first[:12]} and "
                f"{found[:12]}): repeat one of the runs with the data of the other."
            )


# The following functions compare two systems.


def contrasts_of(store: Store, rows: Rows, kind: str, *, with_slices: bool) -> list[Contrast]:
    """Compare two leaderboard entries on each task, and correct p-values for the number of tasks.

    Args:
        store: Store that contains the runs.
        rows: The two entries, and the tasks on which they are compared.
        kind: "dev" to compare on the dev splits, or "test" for the test splits.
        with_slices: True to compare on slices of the examples too.

    Returns:
        One comparison per task.

    Raises:
        BenchError: The entries have no seed in common, a task has no such split, a run has no score
            on one of the splits, or two runs predicted different examples of a split.
    """
    return correct([_contrast(store, rows, task, kind, with_slices) for task in rows.tasks])


def with_gains(board: Board, store: Store) -> Board:
    """Add to each distilled student on a leaderboard its gain from distillation (`Entry.gains`).

    The gain is the difference of scores between the student and the same model trained without a
    teacher, which must be on the same leaderboard. Runs are paired by seed. Students that cannot be
    compared have no gains.

    Args:
        board: Leaderboard to extend.
        store: Store that contains the runs. The predictions of both models are read.
    """
    homes = {run.key: entry for entry in board.entries for run in entry.runs}
    entries = [
        replace(entry, gains=_gains(board, store, entry, alone))
        if (alone := _alone(entry, homes))
        else entry
        for entry in board.entries
    ]
    return replace(board, entries=tuple(entries))


def _alone(entry: Entry, homes: Mapping[str, Entry]) -> Entry | None:
    """Return the entry for the same model trained without a teacher.

    If the leaderboard has no such entry, or `entry` has no teacher, return None.
    """
    keys = (run.teacher.alone for run in entry.runs if run.teacher)
    return next((homes[key] for key in keys if key in homes), None)


def _gains(board: Board, store: Store, entry: Entry, alone: Entry) -> dict[str, Gain]:
    tasks = tuple(task for task in entry.cells if task in alone.cells)
    try:
        found = contrasts_of(store, Rows(board, (entry, alone), tasks), "dev", with_slices=False)
    except BenchError:  # the entries have no seed in common, or predicted different examples
        return {}
    return {
        each.task: Gain(
            difference=each.difference,
            seeds=each.seeds,
            interval=each.interval,
            p_value=each.corrected,
            is_shown=each.is_shown,
        )
        for each in found
    }


def _contrast(store: Store, rows: Rows, name: str, kind: str, with_slices: bool) -> Contrast:
    task, names = find_task(name), score_names(name, rows.board.rule)
    pairs = match_runs(*(entry.cells[name].runs for entry in rows.entries))
    splits = splits_of(task, kind)
    stored = StoredPredictions(store, paths=rows.board.paths)
    # Convert the list of pairs to one list of runs per system, with seeds in the same order.
    one, other = ([stored.result(run.key) for run in side] for side in zip(*pairs, strict=True))
    scores = [[_score(run, task, names, splits) for run in pair] for pair in pairs]
    means = fmean(a for a, _ in scores), fmean(b for _, b in scores)
    seeds = tuple(a.seed if a.is_single else b.seed for a, b in pairs)
    first, second = (notes_of(name, side) for side in zip(*pairs, strict=True))
    flags, jobs = (first, second), (one[0].job, other[0].job)
    is_trained = all(job.kind == "model" and find_task(job.task).is_trained for job in jobs)
    settings = different_settings(*(job.settings for job in jobs)) if is_trained else {}
    try:
        predicted = [predicted_split(stored, task, split, one, other) for split in splits]
        found = contrast(predicted, names, seeds, means, with_slices=with_slices)
    except (UnreadableError, ForeignCodeError) as error:
        reach = difference_bounds(task, names, (each for pair in scores for each in pair))
        reason = stored.said_of(one[0].job, str(error))
        plain = Contrast(task=name, seeds=seeds, scores=means, examples=0, reason=reason)
        found = _of_scores(plain, scores, reach)
    return replace(found, flags=flags, settings=settings)


def _score(run: RunRow, task: Task, names: Sequence[str], splits: Sequence[str]) -> float:
    """Return the mean of a run's scores with these names on the splits of a task.

    Raises:
        BenchError: One of these scores is missing.
    """
    every = [Measure(split, m.name) for split in splits for m in task.every_metric]
    found = [run.score_of(task.name, m) for m in every if rule_name(m) in names]
    scores = [score for score in found if score is not None]
    if len(scores) < len(names):
        raise BenchError(
            f"run {run.key[:12]} of {run.model} has no score on {task.name} "
            f"{' and '.join(splits)}: the labels are hidden, or the run was made without "
            "--test."
        )
    return fmean(scores)


def _of_scores(found: Contrast, scores: Sequence[Sequence[float]], reach: Interval) -> Contrast:
    """Add a confidence interval over seeds, computed from stored scores, to a comparison.

    `scores` has a pair of scores per seed. The interval is clipped to `reach`. With only one seed,
    the comparison is returned unchanged. Without any difference between seeds there is no interval.
    """
    if len(scores) == 1:
        return found
    one, other = (sample_of_table(np.array([side])) for side in zip(*scores, strict=True))
    interval = difference(one, other).interval()
    return replace(found, interval=interval.within(reach) if interval.has_width else None)


class Ties(NamedTuple):
    """Leaderboard entries that do not differ significantly from the best entry of a task.

    Attributes:
        found: For each task, the labels (see `full_label`) of these entries without the best entry.
        notes: Messages about tasks on which the entries could not be tested.
    """

    found: Mapping[str, frozenset[str]]
    notes: tuple[str, ...]


def ties_of(store: Store, boards: Sequence[Board]) -> Ties:
    """Find, for each task, the models that do not differ significantly from the best model.

    On each task of each leaderboard, all ranked models that have learned the task (see
    `Cell.has_learned`) are compared with the best of them, and p-values are corrected for the
    number of comparisons. If a comparison is not possible, no ties on the task of this leaderboard
    are returned, and a note contains the reason.

    Args:
        store: Store that contains the runs.
        boards: Leaderboards with the models.
    """
    found: dict[str, frozenset[str]] = {}
    notes: list[str] = []
    for board in boards:
        for task in board.tasks:
            ranked = sorted(
                (e for e in board.entries if e.competes and _has_learned(e, task)),
                key=lambda entry: -entry.cells[task].median,
            )
            try:
                tied = frozenset(full_label(e) for e in _tied(store, board, task, ranked))
            except BenchError as error:
                notes.append(str(error))
                continue
            found[task] = found.get(task, frozenset()) | tied
    return Ties(found, tuple(notes))


def _has_learned(entry: Entry, task: str) -> bool:
    cell = entry.cells.get(task)
    return cell is not None and cell.has_learned


def _tied(store: Store, board: Board, task: str, ranked: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the entries that do not differ significantly from the best one.

    `ranked` starts with the best entry.

    Raises:
        BenchError: A pair of entries cannot be tested.
    """
    pairs = [Rows(board, (ranked[0], other), (task,)) for other in ranked[1:]]
    contrasts = [_contrast(store, rows, task, "dev", False) for rows in pairs]
    for other, each in zip(ranked[1:], correct(contrasts), strict=True):
        # If a test is missing, it is unknown whether the two models differ, so show no ties.
        if each.corrected is None:
            raise BenchError(
                f"--ties shows no ties on {distinct_title(task)}, because {full_label(ranked[0])} "
                f"and {full_label(other)} could not be compared by a test: {each.reason}"
            )
        if not each.is_shown:
            yield other


# The following function reads the examples that several results predicted.


def examples_of(
    stored: StoredPredictions, name: str, results: Sequence[Result]
) -> tuple[tuple[Example, ...], str]:
    """Return the examples of a split that several runs predicted.

    Args:
        stored: Reader of the stored examples.
        name: Name of the split, in the form "task:split".
        results: Results of the runs.

    Returns:
        The examples and an empty text; or an empty tuple and a reason, if the runs predicted
        different examples or if the examples cannot be read.
    """
    digests = {result.evaluation(name).fingerprint for result in results}
    task, split = name.rsplit(":", 1)
    if len(digests) > 1:
        return (), f"the runs predicted different rows of {split_title(task, split)}."
    reason = ""
    for job in {result.job.data: result.job for result in results}.values():
        try:
            return stored.rows(job, name).examples, ""
        except ChangedRowsError:
            where = f"{split_title(task, split)} in {job.data}"
            reason = f"{where} has changed since these runs read it (the digest differs)."
        except BenchError as error:
            reason = f"{split_title(task, split)} could not be read: {error}"
        reason = stored.said_of(job, reason)
    return (), reason
