"""Stored predictions of a board's entries, read with their examples, for its intervals."""

from collections.abc import Sequence

from benchharness.cli.stored_rows import (
    UnreadableError,
    evaluation_of,
    examples_of,
    result_of,
    splits_of,
)
from leaderboard.boards.board import Board
from leaderboard.boards.cell import Cell, score_names
from leaderboard.comparing.standings import Known, with_standings
from leaderboard.paired import PredictedSplit, headline_outcomes
from leaderboard.predictions import predictions_of
from leaderboard.result import Result
from leaderboard.store.store import Store
from tasks.errors import BenchError
from tasks.examples import Example
from tasks.suites import find_task
from tasks.task import Task

__all__ = ["add_standings"]

Rows = dict[str, tuple[Example, ...]]


def add_standings(board: Board, store: Store) -> Board:
    """The board with intervals, which every prediction of its runs is read for.

    Where the examples of a task cannot be read, its intervals are over seeds alone, and say why.
    """
    return with_standings(board, {task: _column(board, task, store) for task in board.tasks})


def _column(board: Board, task: str, store: Store) -> list[Known | None]:
    """What is known of a task's cell of each entry; one entry's runs are held at a time."""
    rows: Rows = {}
    names = score_names(task, board.rule)
    return [
        _known(cell, names, store, rows) if (cell := entry.cells.get(task)) else None
        for entry in board.entries
    ]


def _known(cell: Cell, names: Sequence[str], store: Store, rows: Rows) -> Known:
    task = find_task(cell.task)
    results = [result_of(store, run.key) for run in cell.runs]
    try:
        splits = [_predicted(task, split, results, rows) for split in splits_of(task, "dev")]
    except (UnreadableError, BenchError) as error:
        return str(error)
    outcomes = headline_outcomes(splits, names)
    return outcomes or f"{' and '.join(names)} cannot be taken apart by examples"


def _predicted(task: Task, split: str, results: Sequence[Result], rows: Rows) -> PredictedSplit:
    evaluations = [evaluation_of(result, task, split) for result in results]
    if split not in rows:
        rows[split] = examples_of(task, split, (result.job for result in results))
    return PredictedSplit(
        task=task,
        split=split,
        examples=rows[split],
        one=tuple(map(predictions_of, evaluations)),
    )
