"""Read stored predictions; compute intervals, comparisons and curves from them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from glob import has_magic
from statistics import fmean
from typing import NamedTuple

import numpy as np

from benchharness.errors import BenchError, DataError, ForeignCodeError, unknown_name
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
from benchharness.leaderboard.comparing.curves import (
    LayerCurve,
    StageCurve,
    layer_curves,
    lines_of,
    stage_curves,
)
from benchharness.leaderboard.comparing.noise import (
    difference,
    sample_of_table,
    with_uncertainty,
)
from benchharness.leaderboard.job import Job, Stage
from benchharness.leaderboard.result import Measure, Result, RunRow, predictions_of, rule_name
from benchharness.leaderboard.sharing import without_paths
from benchharness.leaderboard.statistics import Interval
from benchharness.leaderboard.store.store import Store
from benchharness.models import find_models, weights_identity
from benchharness.splits import ChangedRowsError, read_split
from benchharness.stored import Rows, Within, gather_boards, wanted_tasks
from benchharness.tasks.custom import code_of
from benchharness.tasks.examples import Example
from benchharness.tasks.read import SplitRows
from benchharness.tasks.suites import distinct_title, find_task, split_title
from benchharness.tasks.task import Task


class UnreadableError(Exception):
    """Exception for examples that cannot be read; its message is the reason."""


class StoredPredictions:
    """Reader of finished runs with their predictions, and of the examples that they predicted.

    A store does not contain the examples, because their licenses may forbid redistribution. They
    are read again from the run's data source, and their fingerprint must equal the one that the run
    recorded. Examples stay in memory as long as this object, so create one object per group of runs
    that share examples.
    """

    def __init__(self, store: Store, *, paths: bool = False) -> None:
        self._store = store
        self._paths = paths  # whether to keep local paths in error messages
        self._rows: dict[str, SplitRows] = {}

    def result(self, key: str) -> Result:
        """Return the finished run with this key, including its predictions."""
        result = self._store.result(key)
        assert isinstance(result, Result), "a finished run has a result"
        return result

    def rows(self, job: Job, name: str) -> SplitRows:
        """Return the examples that a job used in a split.

        Args:
            job: The job.
            name: The split, in the form "task:split".

        Raises:
            DataError: The examples cannot be read.
            ChangedRowsError: The examples have changed since the run.
        """
        fingerprint = job.fingerprints[name]
        if fingerprint not in self._rows:
            self._rows[fingerprint] = read_split(job, name)
        return self._rows[fingerprint]

    def said_of(self, job: Job, reason: str) -> str:
        """Return `reason`, a message about a job's data, with the job's local paths removed.

        If the object was created with `paths=True`, the message is returned unchanged.
        """
        known = [job.data, *(code.place for code in code_of(job.definition))]
        return reason if self._paths else without_paths(reason, known)

    def labelled_examples(self, name: str, jobs: Iterable[Job]) -> tuple[Example, ...]:
        """Return the examples of a split with their labels.

        Args:
            name: The split, in the form "task:split".
            jobs: Jobs whose data sources are tried in order.

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
    """Return the dev or test splits of a task.

    A diagnostic set has only a test split, which is also returned for "dev".

    Raises:
        BenchError: The task has no split of this kind.
    """
    found = (task.dev_splits or task.test_splits) if kind == "dev" else task.test_splits
    if not found:
        raise BenchError(f"{task.name} has no {kind} split: select other tasks with --task.")
    return found


# Uncertainty of the scores on a leaderboard.


def add_uncertainty(board: Board, store: Store, *, is_pooled: bool = False) -> Board:
    """Return the leaderboard with confidence intervals; this reads all predictions of its runs.

    If the examples of a task cannot be read, its intervals cover only the variation over seeds, and
    the reason is recorded. `is_pooled` is passed to `with_uncertainty`.
    """
    known = {task: known_cells(board, board.entries, task, store) for task in board.tasks}
    tried = {task: _tried_cells(board, task, store) for task in board.tasks}
    return with_uncertainty(board, known, tried=tried, is_pooled=is_pooled)


def _tried_cells(board: Board, task: str, store: Store) -> list[list[Known]]:
    """Return, for each entry, the outcomes per example of settings that were tried but not chosen.

    If an entry is the best of a hyperparameter sweep, these are the other settings of the sweep.
    """
    stored = StoredPredictions(store, paths=board.paths)
    names = score_names(task, board.rule)
    cells = [entry.cells.get(task) for entry in board.entries]
    return [[_known(o, names, stored) for o in cell.others] if cell else [] for cell in cells]


def known_cells(
    board: Board, entries: Sequence[Entry], task: str, store: Store
) -> list[Known | None]:
    """Return the outcomes per example of some entries on a task, reading one entry at a time.

    For an entry without runs on the task, the list contains None. For an entry whose outcomes are
    not available, it contains the reason as a string.
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
        stored: Stored runs and their examples.
        task: The task.
        split: The name of the split.
        one: The first system's results, one per seed.
        other: The second system's results, with the seeds in the same order; may be empty.

    Raises:
        DataError: Two runs predicted different examples.
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


# Comparing two systems.


def contrasts_of(store: Store, rows: Rows, kind: str, *, with_slices: bool) -> list[Contrast]:
    """Compare two leaderboard entries on each task, with p-values corrected for all tasks.

    `kind` is "dev" or "test".

    Raises:
        BenchError: The entries have no seed in common, a run has no predictions for a split of this
            kind, or two runs predicted different examples of it.
    """
    return correct([_contrast(store, rows, task, kind, with_slices) for task in rows.tasks])


def with_gains(board: Board, store: Store) -> Board:
    """Return the leaderboard with the gain of each student from distillation.

    A student is compared with the same model trained without a teacher, which must be on the same
    leaderboard. The predictions of both are read, and runs are paired by seed. Tasks on which they
    cannot be compared are left out.
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
    flags = (first, second)
    plain = Contrast(task=name, seeds=seeds, scores=means, examples=0, flags=flags)
    try:
        predicted = [predicted_split(stored, task, split, one, other) for split in splits]
        found = contrast(predicted, names, seeds, means, with_slices=with_slices)
    except (UnreadableError, ForeignCodeError) as error:
        reach = difference_bounds(task, names, (each for pair in scores for each in pair))
        reason = stored.said_of(one[0].job, str(error))
        return _of_scores(replace(plain, reason=reason), scores, reach)
    return replace(found, flags=flags)


def _score(run: RunRow, task: Task, names: Sequence[str], splits: Sequence[str]) -> float:
    """Return the task score of a run on these splits: the mean of its scores called `names`.

    Raises:
        BenchError: One of these scores is missing.
    """
    every = [Measure(split, m.name) for split in splits for m in (*task.metrics, *task.details)]
    found = [run.score_of(task.name, m) for m in every if rule_name(m) in names]
    scores = [score for score in found if score is not None]
    if len(scores) < len(names):
        raise BenchError(
            f"run {run.key[:12]} of {run.model} has no score on {task.name} "
            f"{' and '.join(splits)}: the labels are hidden, or it was run without --test."
        )
    return fmean(scores)


def _of_scores(found: Contrast, scores: Sequence[Sequence[float]], reach: Interval) -> Contrast:
    """Return the contrast with a confidence interval over seeds, computed from stored scores.

    `scores` has a pair of scores per seed, and the interval is limited to `reach`. With only one
    seed, the contrast is returned unchanged.
    """
    if len(scores) == 1:
        return found
    one, other = (sample_of_table(np.array([side])) for side in zip(*scores, strict=True))
    return replace(found, interval=difference(one, other).interval().within(reach))


class Ties(NamedTuple):
    """Entries that are tied with the best entry of a task.

    Attributes:
        found: Labels of the tied entries, keyed by task.
        notes: Messages about tasks for which ties could not be tested.
    """

    found: Mapping[str, frozenset[str]]
    notes: tuple[str, ...]


def ties_of(store: Store, boards: Sequence[Board]) -> Ties:
    """Find, for each task, the models that do not differ significantly from the best model.

    P-values are corrected for all models that are compared with the best one on the task. If a pair
    of models cannot be tested, the task has no ties, and a note contains the reason.
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
        # If a test is missing, it is unknown whether two models are equal, so show no ties.
        if each.corrected is None:
            raise BenchError(
                f"--ties shows no ties on {distinct_title(task)}, because {full_label(ranked[0])} "
                f"and {full_label(other)} could not be compared by a test: {each.reason}"
            )
        if not each.is_shown:
            yield other


# Curves of a score over the steps of a pretraining run, or over the layers of a model.


def find_curves(
    store: Store,
    name: str,
    suites: Sequence[str] = (),
    tasks: Sequence[str] = (),
    data: str | None = None,
) -> list[tuple[Board, StageCurve]]:
    """Return the score curves of a pretraining run over its checkpoints.

    There are curves for every leaderboard with at least two of the run's checkpoints.

    Args:
        store: Store that contains the runs.
        name: Name of the pretraining run, or a glob pattern that matches the checkpoint folders.
            A pattern also finds results of checkpoints that were run under other names.
        suites: Suites to include; empty for all.
        tasks: Tasks to include; empty for all.
        data: Data source of the runs to include; None for all.

    Raises:
        BenchError: The pretraining run is unknown, no leaderboard has two of its checkpoints, or
            the checkpoints have different model families.
    """
    if has_magic(name):
        # Match runs by their weights, because their models may have any name.
        by_weights = {weights_identity(spec): spec.stage for spec in find_models(name)}
    stages, models = dict[str, Stage](), set[str]()
    for row in store.runs():
        if has_magic(name):
            stage = by_weights.get(row.weights)
        else:
            stage = row.stage if row.stage and row.stage.run == name else None
        if stage is not None:
            stages[row.key] = stage
            models.add(row.model)
    if not stages and not find_layers(store, name):
        raise _unknown(store, name)

    def stage_of(entry: Entry) -> Stage | None:
        """Return the pretraining stage of an entry; all of its runs have the same weights."""
        return next((stages[run.key] for run in entry.runs if run.key in stages), None)

    boards = _narrowed(store, suites, tasks, data, models) if stages else []
    if found := [(board, curve) for board in boards for curve in curves_of(store, board, stage_of)]:
        return found
    of = f" on {', '.join([*suites, *tasks])}" if suites or tasks else ""
    raise BenchError(
        f"no two {'checkpoints' if stages else 'layers'} of {name} have results{of} with the same "
        "data: `bench show runs` lists the stored runs."
    )


def find_layers(
    store: Store,
    model: str,
    suites: Sequence[str] = (),
    tasks: Sequence[str] = (),
    data: str | None = None,
) -> list[tuple[Board, LayerCurve]]:
    """Return the score curves of a model over its layers.

    There are curves for every leaderboard with results of at least two layers.
    """
    boards = _narrowed(store, suites, tasks, data, {model})
    return [(board, curve) for board in boards for curve in layer_curves(board)]


def _narrowed(
    store: Store,
    suites: Sequence[str],
    tasks: Sequence[str],
    data: str | None,
    models: Collection[str],
) -> Iterator[Board]:
    """Yield the leaderboards of the given models, reduced to the requested tasks."""
    wanted = wanted_tasks(store, suites, tasks)
    names = dict.fromkeys(task.partition("/")[0] for task in wanted)
    for board in gather_boards(store, Within(suites=tuple(names), data=data), models):
        chosen = tuple(task for task in board.tasks if not wanted or task in wanted)
        yield replace(board, tasks=chosen)


def _unknown(store: Store, name: str) -> BenchError:
    if has_magic(name):
        return BenchError(
            f"no checkpoint that {name!r} matches has stored results: run the checkpoints first."
        )
    runs = {row.stage.run for row in store.runs() if row.stage is not None}
    hint = (
        "Run several of its checkpoints first with `bench run --model 'DIR/step-*'`, or all layers "
        "of a model with --set features=each."
    )
    return unknown_name("pretraining run with stored checkpoints", name, runs, hint)


def curves_of(
    store: Store, board: Board, stage_of: Callable[[Entry], Stage | None], *, examples: bool = True
) -> Iterator[StageCurve]:
    """Yield the curves of the pretraining runs on a leaderboard.

    Without `examples`, predictions are not read, and the noise covers only seeds.
    """
    for line in lines_of(board, stage_of):
        known: dict[str, Sequence[Known | None]] = {}
        for task in board.tasks:
            known[task] = ("not read",) * len(line.entries)
            if examples:
                known[task] = known_cells(board, line.entries, task, store)
        yield from stage_curves(board, line, known)


def examples_of(
    stored: StoredPredictions, name: str, results: Sequence[Result]
) -> tuple[tuple[Example, ...], str]:
    """Return the examples that all of the results predicted, and an empty reason.

    If the results predicted different examples, or the examples cannot be read, return () and the
    reason.
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
            reason = f"{where} has changed since these runs read it (its fingerprint differs)."
        except BenchError as error:
            reason = f"{split_title(task, split)} could not be read: {error}"
        reason = stored.said_of(job, reason)
    return (), reason
