"""Stored predictions, and the intervals, contrasts and curves that follow from them."""

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
from benchharness.splits import read_split
from benchharness.stored import Rows, Within, gather_boards, wanted_tasks
from benchharness.tasks.custom import code_of
from benchharness.tasks.examples import Example
from benchharness.tasks.read import SplitRows
from benchharness.tasks.suites import distinct_title, find_task
from benchharness.tasks.task import Task


class UnreadableError(Exception):
    """Raised if examples cannot be read; its message is the reason."""


class StoredPredictions:
    """The finished runs of a store with their predictions, and the examples that were predicted.

    A store keeps no examples, because they may not be redistributed. They are read again from the
    run's source and must have the fingerprint that the run recorded. Rows are cached by
    fingerprint, so keep an object of this class only while runs that share rows are processed.
    """

    def __init__(self, store: Store, *, paths: bool = False) -> None:
        self._store = store
        self._paths = paths  # keep whole paths in error messages
        self._rows: dict[str, SplitRows] = {}

    def result(self, key: str) -> Result:
        """Return a finished run with its predictions."""
        result = self._store.result(key)
        assert isinstance(result, Result), "a finished run has a result"
        return result

    def rows(self, job: Job, name: str) -> SplitRows:
        """Return the rows of "task:split" that the job predicted.

        Raises DataError if they cannot be read, and ChangedRowsError if they have changed.
        """
        fingerprint = job.fingerprints[name]
        if fingerprint not in self._rows:
            self._rows[fingerprint] = read_split(job, name)
        return self._rows[fingerprint]

    def said_of(self, job: Job, reason: str) -> str:
        """Return a message about the rows of a job, without local paths unless `paths` was set."""
        known = [job.data, *(code.place for code in code_of(job.definition))]
        return reason if self._paths else without_paths(reason, known)

    def labelled_examples(self, name: str, jobs: Iterable[Job]) -> tuple[Example, ...]:
        """Return the labelled examples of "task:split" from the first job whose source has them.

        Raises UnreadableError if no job's source has them any more, or if their labels are hidden.
        """
        reasons = []
        # Seeds read the same source, so each source is tried once.
        for job in {job.data: job for job in jobs}.values():
            try:
                examples = self.rows(job, name).examples
            except BenchError as error:
                reasons.append(self.said_of(job, str(error)))
                continue
            if not any(e.is_hidden for e in examples):
                return examples
            reasons.append(f"{name.replace(':', ' ')} hides its labels there.")
        raise UnreadableError("its examples could not be read: " + " ".join(reasons))


def splits_of(task: Task, kind: str) -> tuple[str, ...]:
    """Return the dev or test splits of a task; for a diagnostic set, its only split.

    Raises BenchError if the task has no such split.
    """
    found = (task.dev_splits or task.test_splits) if kind == "dev" else task.test_splits
    if not found:
        raise BenchError(f"{task.name} has no {kind} split: leave it out with --task.")
    return found


# Uncertainty of a board.


def add_uncertainty(board: Board, store: Store, *, is_pooled: bool = False) -> Board:
    """Return the board with intervals, which requires reading all predictions of its runs.

    If the examples of a task cannot be read, its intervals are over seeds alone, and state the
    reason. `is_pooled` is passed to `with_uncertainty`.
    """
    known = {task: known_cells(board, board.entries, task, store) for task in board.tasks}
    tried = {task: _tried_cells(board, task, store) for task in board.tasks}
    return with_uncertainty(board, known, tried=tried, is_pooled=is_pooled)


def _tried_cells(board: Board, task: str, store: Store) -> list[list[Known]]:
    """Return the outcomes of the other points of a sweep that each entry's cell was chosen from."""
    stored = StoredPredictions(store, paths=board.paths)
    names = score_names(task, board.rule)
    cells = [entry.cells.get(task) for entry in board.entries]
    return [[_known(o, names, stored) for o in cell.others] if cell else [] for cell in cells]


def known_cells(
    board: Board, entries: Sequence[Entry], task: str, store: Store
) -> list[Known | None]:
    """Return the outcomes of a task's cell for some entries, keeping one entry's runs in memory.

    An entry without a cell gets None, and one whose outcomes are not available a reason.
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
    return outcomes or f"{' and '.join(names)} cannot be split by example"


def predicted_split(
    stored: StoredPredictions,
    task: Task,
    split: str,
    one: Sequence[Result],
    other: Sequence[Result] = (),
) -> PredictedSplit:
    """Return a split with its predictions by one system's runs or two systems' runs.

    Runs of both systems must be in the same order of seeds. Raises DataError if two runs have
    predicted different rows.
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
                f"runs {results[0].job.key[:12]} and {result.job.key[:12]} have predicted "
                f"different rows of {name.replace(':', ' ')} (digests {first[:12]} and "
                f"{found[:12]}): run one of them again on the other's data."
            )


# Comparison of two systems.


def contrasts_of(store: Store, rows: Rows, kind: str, *, with_slices: bool) -> list[Contrast]:
    """Return a contrast per task of two entries of a board, with p-values corrected for all tasks.

    `kind` is "dev" or "test". Raises BenchError if the entries share no seed, if a run has not
    predicted such a split, or if two runs have predicted different rows of it.
    """
    return correct([_contrast(store, rows, task, kind, with_slices) for task in rows.tasks])


def with_gains(board: Board, store: Store) -> Board:
    """Return the board with each student's gain over the same model without its teacher.

    The board must contain the runs without a teacher; predictions of both are read. Seeds are
    matched, and tasks that cannot be compared are left out.
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
    """Return the entry of the same model without its teacher; None if it is not on the board."""
    keys = (run.teacher.alone for run in entry.runs if run.teacher)
    return next((homes[key] for key in keys if key in homes), None)


def _gains(board: Board, store: Store, entry: Entry, alone: Entry) -> dict[str, Gain]:
    tasks = tuple(task for task in entry.cells if task in alone.cells)
    try:
        found = contrasts_of(store, Rows(board, (entry, alone), tasks), "dev", with_slices=False)
    except BenchError:  # no seed is shared, or other rows were predicted
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
    # Convert pairs of runs into the runs of each system, in the same order of seeds.
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
    """Return the mean of the stored scores in the headline on these splits.

    Raises BenchError if a score is missing.
    """
    every = [Measure(split, m.name) for split in splits for m in (*task.metrics, *task.details)]
    found = [run.score_of(task.name, m) for m in every if rule_name(m) in names]
    scores = [score for score in found if score is not None]
    if len(scores) < len(names):
        raise BenchError(
            f"run {run.key[:12]} of {run.model} has no score of {task.name} "
            f"{' and '.join(splits)}: its labels are hidden, or it was run without --test."
        )
    return fmean(scores)


def _of_scores(found: Contrast, scores: Sequence[Sequence[float]], reach: Interval) -> Contrast:
    """Return the contrast with an interval over seeds, from stored scores alone.

    The contrast is unchanged if there is only one seed.
    """
    if len(scores) == 1:
        return found
    one, other = (sample_of_table(np.array([side])) for side in zip(*scores, strict=True))
    return replace(found, interval=difference(one, other).interval().within(reach))


class Ties(NamedTuple):
    """Labels of the entries tied with the best, keyed by task, and notes on what was not tested."""

    found: Mapping[str, frozenset[str]]
    notes: tuple[str, ...]


def ties_of(store: Store, boards: Sequence[Board]) -> Ties:
    """Find, for each task, the models that do not differ significantly from the best of a board.

    P-values are corrected for all models that are compared with the best of a column. A task with a
    pair that cannot be tested has no ties, and a note explains it.
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
    """Yield the entries that do not differ significantly from the first; `ranked` is best first.

    Raises BenchError if a pair cannot be tested.
    """
    pairs = [Rows(board, (ranked[0], other), (task,)) for other in ranked[1:]]
    contrasts = [_contrast(store, rows, task, "dev", False) for rows in pairs]
    for other, each in zip(ranked[1:], correct(contrasts), strict=True):
        # "Not tested" is not "no difference", so the task then has no ties at all.
        if each.corrected is None:
            raise BenchError(
                f"--ties: {full_label(ranked[0])} and {full_label(other)} cannot be tested on "
                f"{distinct_title(task)}, which has no ties: {each.reason}"
            )
        if not each.is_shown:
            yield other


# Curves: score against the step of a pretraining run, or against the layer.


def find_curves(
    store: Store,
    name: str,
    suites: Sequence[str] = (),
    tasks: Sequence[str] = (),
    data: str | None = None,
) -> list[tuple[Board, StageCurve]]:
    """Return the curves of a pretraining run on every board with at least two of its checkpoints.

    Args:
        store: Store of the runs.
        name: Name of the pretraining run, or the pattern of its folders, which also finds results
            of folders that were run separately.
        suites: Suites to include; empty for all.
        tasks: Tasks to include; empty for all.
        data: Source of the rows to include; None for all.

    Raises:
        BenchError: The run is unknown, no board has two of its checkpoints, or their families
            differ.
    """
    if has_magic(name):
        # Runs of the folders are matched by weights, whatever name they were run under.
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
        """Return the stage of an entry, all of whose runs have the same weights."""
        return next((stages[run.key] for run in entry.runs if run.key in stages), None)

    boards = _narrowed(store, suites, tasks, data, models) if stages else []
    if found := [(board, curve) for board in boards for curve in curves_of(store, board, stage_of)]:
        return found
    of = f" of {', '.join([*suites, *tasks])}" if suites or tasks else ""
    raise BenchError(
        f"no two {'checkpoints' if stages else 'layers'} of {name} have results{of} on the same "
        "rows: `bench show runs` shows what is stored."
    )


def find_layers(
    store: Store,
    model: str,
    suites: Sequence[str] = (),
    tasks: Sequence[str] = (),
    data: str | None = None,
) -> list[tuple[Board, LayerCurve]]:
    """Return the curves over layers of a model on every board with at least two of its layers."""
    boards = _narrowed(store, suites, tasks, data, {model})
    return [(board, curve) for board in boards for curve in layer_curves(board)]


def _narrowed(
    store: Store,
    suites: Sequence[str],
    tasks: Sequence[str],
    data: str | None,
    models: Collection[str],
) -> Iterator[Board]:
    """Yield the boards of some models, reduced to the requested tasks."""
    wanted = wanted_tasks(store, suites, tasks)
    names = dict.fromkeys(task.partition("/")[0] for task in wanted)
    for board in gather_boards(store, Within(suites=tuple(names), data=data), models):
        chosen = tuple(task for task in board.tasks if not wanted or task in wanted)
        yield replace(board, tasks=chosen)


def _unknown(store: Store, name: str) -> BenchError:
    if has_magic(name):
        return BenchError(f"no folder that {name!r} matches has stored results: run them first.")
    runs = {row.stage.run for row in store.runs() if row.stage is not None}
    hint = (
        "Run several of its checkpoints first, `bench run --model 'DIR/step-*'`, or all layers of "
        "a model: --set features=each."
    )
    return unknown_name("pretraining run with stored checkpoints", name, runs, hint)


def curves_of(
    store: Store, board: Board, stage_of: Callable[[Entry], Stage | None], *, examples: bool = True
) -> Iterator[StageCurve]:
    """Yield the pretraining curves of a board; without `examples` noise is over seeds alone."""
    for line in lines_of(board, stage_of):
        known: dict[str, Sequence[Known | None]] = {}
        for task in board.tasks:
            known[task] = ("not read",) * len(line.entries)
            if examples:
                known[task] = known_cells(board, line.entries, task, store)
        yield from stage_curves(board, line, known)
