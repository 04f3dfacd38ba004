"""What stored predictions say: of two systems how far apart they are, of a board how sure it is."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from benchharness.stored.boards import Rows
from benchharness.stored.predictions import StoredPredictions, UnreadableError, splits_of
from leaderboard.boards.board import Board
from leaderboard.boards.cell import Cell, score_names
from leaderboard.comparing import (
    Contrast,
    PredictedSplit,
    contrast,
    correct,
    headline_outcomes,
    match_runs,
)
from leaderboard.comparing.uncertainty import Known, with_uncertainty
from leaderboard.result import Measure, Result, RunRow, predictions_of, rule_name
from leaderboard.statistics import mean_interval
from leaderboard.store.store import Store
from tasks.errors import BenchError, DataError
from tasks.suites import find_task
from tasks.task import Task


def contrasts_of(store: Store, rows: Rows, kind: str, *, with_slices: bool) -> list[Contrast]:
    """A contrast for each task of two entries of a board, with p-values corrected for all of them.

    `kind` is "dev" or "test". Raises BenchError where no seed is shared, where a run has not
    predicted such a split, or where two have predicted different rows of it.
    """
    return correct([_contrast(store, rows, task, kind, with_slices) for task in rows.tasks])


def _contrast(store: Store, rows: Rows, name: str, kind: str, with_slices: bool) -> Contrast:
    task, names = find_task(name), score_names(name, rows.board.rule)
    pairs = match_runs(*(entry.cells[name].runs for entry in rows.entries))
    splits = splits_of(task, kind)
    stored = StoredPredictions(store)
    one, other = ([stored.result(run.key) for run in side] for side in zip(*pairs, strict=True))
    scores = [[_score(run, task, names, splits) for run in pair] for pair in pairs]
    means = fmean(a for a, _ in scores), fmean(b for _, b in scores)
    seeds = tuple(a.seed if a.is_single else b.seed for a, b in pairs)
    plain = Contrast(task=name, seeds=seeds, scores=means, examples=0)
    try:
        predicted = [_predicted(stored, task, split, one, other) for split in splits]
    except UnreadableError as error:
        return _of_scores(replace(plain, reason=str(error)), [a - b for a, b in scores])
    return contrast(predicted, names, seeds, means, with_slices=with_slices)


def _score(run: RunRow, task: Task, names: Sequence[str], splits: Sequence[str]) -> float:
    """The mean of the stored scores that the headline is made of, on these splits."""
    found = [run.score_of(task.name, m) for m in _measures(task, names, splits)]
    scores = [score for score in found if score is not None]
    if len(scores) < len(names):
        raise BenchError(
            f"run {run.key[:12]} of {run.model} has no score of {task.name} "
            f"{' and '.join(splits)}: its labels are hidden, or it was run without --test."
        )
    return fmean(scores)


def _measures(task: Task, names: Sequence[str], splits: Sequence[str]) -> list[Measure]:
    """What a rule's scores of these names are of on these splits, dev or test."""
    every = [Measure(split, m.name) for split in splits for m in (*task.metrics, *task.details)]
    return [measure for measure in every if rule_name(measure) in names]


def _of_scores(found: Contrast, differences: Sequence[float]) -> Contrast:
    """What the stored scores alone say: an interval over seeds, where there are several."""
    several = len(differences) > 1
    return replace(found, interval=mean_interval([differences]) if several else None)


# The intervals of a board's entries, and the splits that both are made of.


def add_uncertainty(board: Board, store: Store) -> Board:
    """The board with intervals, which every prediction of its runs is read for.

    Where the examples of a task cannot be read, its intervals are over seeds alone, and say why.
    """
    return with_uncertainty(board, {task: _column(board, task, store) for task in board.tasks})


def _column(board: Board, task: str, store: Store) -> list[Known | None]:
    """What is known of a task's cell of each entry; one entry's runs are held at a time."""
    stored = StoredPredictions(store)
    names = score_names(task, board.rule)
    return [
        _known(cell, names, stored) if (cell := entry.cells.get(task)) else None
        for entry in board.entries
    ]


def _known(cell: Cell, names: Sequence[str], stored: StoredPredictions) -> Known:
    task = find_task(cell.task)
    results = [stored.result(run.key) for run in cell.runs]
    try:
        splits = [_predicted(stored, task, split, results) for split in splits_of(task, "dev")]
    except (UnreadableError, BenchError) as error:
        return str(error)
    outcomes = headline_outcomes(splits, names)
    return outcomes or f"{' and '.join(names)} cannot be taken apart by examples"


def _predicted(
    stored: StoredPredictions,
    task: Task,
    split: str,
    one: Sequence[Result],
    other: Sequence[Result] = (),
) -> PredictedSplit:
    """A split as the runs of one system, or of two, have predicted it; seeds are in one order."""
    name = f"{task.name}:{split}"
    results = [*one, *other]
    _check_rows(name, results)
    return PredictedSplit(
        task=task,
        split=split,
        examples=stored.labelled_examples(name, (result.job for result in results)),
        one=tuple(predictions_of(result.evaluation(name)) for result in one),
        other=tuple(predictions_of(result.evaluation(name)) for result in other),
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
