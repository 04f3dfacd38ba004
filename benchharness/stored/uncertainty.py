"""How sure a board is, by the stored predictions of every cell."""

from collections.abc import Sequence

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, score_names
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.comparing.breakdown import PredictedSplit, headline_outcomes
from benchharness.leaderboard.comparing.uncertainty import Known, with_uncertainty
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.leaderboard.store.store import Store
from benchharness.stored.predictions import StoredPredictions, UnreadableError, splits_of
from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task


def add_uncertainty(board: Board, store: Store, *, is_pooled: bool = False) -> Board:
    """The board with intervals, which every prediction of its runs is read for.

    Where the examples of a task cannot be read, its intervals are over seeds alone, and say why.
    `is_pooled` is as `with_uncertainty` takes it.
    """
    known = {task: known_cells(board, board.entries, task, store) for task in board.tasks}
    tried = {task: _tried_cells(board, task, store) for task in board.tasks}
    return with_uncertainty(board, known, tried=tried, is_pooled=is_pooled)


def _tried_cells(board: Board, task: str, store: Store) -> list[list[Known]]:
    """What is known of the points that each entry's own was chosen from."""
    stored = StoredPredictions(store)
    names = score_names(task, board.rule)
    cells = [entry.cells.get(task) for entry in board.entries]
    return [[_known(o, names, stored) for o in cell.others] if cell else [] for cell in cells]


def known_cells(
    board: Board, entries: Sequence[Entry], task: str, store: Store
) -> list[Known | None]:
    """What is known of a task's cell of some entries; one entry's runs are held at a time."""
    stored = StoredPredictions(store)
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
    except (UnreadableError, BenchError) as error:
        return str(error)
    outcomes = headline_outcomes(splits, names)
    return outcomes or f"{' and '.join(names)} cannot be taken apart by examples"


def predicted_split(
    stored: StoredPredictions,
    task: Task,
    split: str,
    one: Sequence[Result],
    other: Sequence[Result] = (),
) -> PredictedSplit:
    """A split as the runs of one system, or of two, have predicted it; seeds are in one order.

    Raises DataError where two runs have predicted different rows.
    """
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
