"""Stored predictions of two systems, read with their examples and held against each other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeVar

from benchharness.stored.boards import Rows
from benchharness.stored.predictions import (
    UnreadableError,
    evaluation_of,
    examples_of,
    result_of,
    splits_of,
)
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
from leaderboard.comparing.standings import Known, with_standings
from leaderboard.result import (
    Evaluation,
    Measure,
    Result,
    RunRow,
    predictions_of,
    rule_name,
)
from leaderboard.statistics import mean_interval
from leaderboard.store.store import Store
from tasks.errors import BenchError, DataError
from tasks.examples import Example
from tasks.suites import find_task
from tasks.task import Task

__all__ = ["add_standings", "contrasts_of"]

T = TypeVar("T")
ResultPairs = Sequence[tuple[Result, Result]]


def contrasts_of(store: Store, rows: Rows, kind: str, *, with_slices: bool) -> list[Contrast]:
    """A contrast for each task of two entries of a board, with p-values corrected for all of them.

    `kind` is "dev" or "test". Raises BenchError where no seed is shared, where a run has not
    predicted such a split, or where two have predicted different rows of it.
    """
    return correct([_contrast(store, rows, task, kind, with_slices) for task in rows.tasks])


def _contrast(store: Store, rows: Rows, name: str, kind: str, with_slices: bool) -> Contrast:
    task, names = find_task(name), score_names(name, rows.board.rule)
    one, other = (entry.cells[name].runs for entry in rows.entries)
    runs = match_runs(one, other)
    splits = splits_of(task, kind)
    results = [(result_of(store, a.key), result_of(store, b.key)) for a, b in runs]
    scores = [[_score(run, task, names, splits) for run in pair] for pair in runs]
    means = fmean(one for one, _ in scores), fmean(other for _, other in scores)
    seeds = tuple(a.seed if a.is_single else b.seed for a, b in runs)
    plain = Contrast(task=name, seeds=seeds, scores=means, examples=0)
    try:
        predicted = [_predicted(task, split, results) for split in splits]
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


def _predicted(task: Task, split: str, results: ResultPairs) -> PredictedSplit:
    pairs = [(evaluation_of(a, task, split), evaluation_of(b, task, split)) for a, b in results]
    _check_rows(task, split, results, pairs)
    return PredictedSplit(
        task=task,
        split=split,
        examples=examples_of(task, split, (result.job for result in _flat(results))),
        one=tuple(predictions_of(a) for a, _ in pairs),
        other=tuple(predictions_of(b) for _, b in pairs),
    )


def _check_rows(
    task: Task,
    split: str,
    results: ResultPairs,
    pairs: Sequence[tuple[Evaluation, Evaluation]],
) -> None:
    first = pairs[0][0].fingerprint
    flat = zip(_flat(results), _flat(pairs), strict=True)
    for result, evaluation in flat:
        if evaluation.fingerprint != first:
            raise DataError(
                f"runs {results[0][0].job.key[:12]} and {result.job.key[:12]} have predicted "
                f"different rows of {task.name} {split} (digests {first[:12]} and "
                f"{evaluation.fingerprint[:12]}): run one of them again on the other's data."
            )


def _flat(pairs: Sequence[tuple[T, T]]) -> Iterator[T]:
    return (member for pair in pairs for member in pair)


def _of_scores(found: Contrast, differences: Sequence[float]) -> Contrast:
    """What the stored scores alone say: an interval over seeds, where there are several."""
    several = len(differences) > 1
    return replace(found, interval=mean_interval([differences]) if several else None)


# Stored predictions of a board's entries, read with their examples, for its intervals.

ExamplesBySplit = dict[str, tuple[Example, ...]]


def add_standings(board: Board, store: Store) -> Board:
    """The board with intervals, which every prediction of its runs is read for.

    Where the examples of a task cannot be read, its intervals are over seeds alone, and say why.
    """
    return with_standings(board, {task: _column(board, task, store) for task in board.tasks})


def _column(board: Board, task: str, store: Store) -> list[Known | None]:
    """What is known of a task's cell of each entry; one entry's runs are held at a time."""
    rows: ExamplesBySplit = {}
    names = score_names(task, board.rule)
    return [
        _known(cell, names, store, rows) if (cell := entry.cells.get(task)) else None
        for entry in board.entries
    ]


def _known(cell: Cell, names: Sequence[str], store: Store, rows: ExamplesBySplit) -> Known:
    task = find_task(cell.task)
    results = [result_of(store, run.key) for run in cell.runs]
    try:
        splits = [_predicted_by_one(task, split, results, rows) for split in splits_of(task, "dev")]
    except (UnreadableError, BenchError) as error:
        return str(error)
    outcomes = headline_outcomes(splits, names)
    return outcomes or f"{' and '.join(names)} cannot be taken apart by examples"


def _predicted_by_one(
    task: Task, split: str, results: Sequence[Result], rows: ExamplesBySplit
) -> PredictedSplit:
    evaluations = [evaluation_of(result, task, split) for result in results]
    if split not in rows:
        rows[split] = examples_of(task, split, (result.job for result in results))
    return PredictedSplit(
        task=task,
        split=split,
        examples=rows[split],
        one=tuple(map(predictions_of, evaluations)),
    )
