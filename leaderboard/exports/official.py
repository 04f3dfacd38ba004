"""The official data sets as the hub names them, and which boards are of them."""

from collections.abc import Iterable

from leaderboard.boards.board import Board
from leaderboard.exports.lines import ScoreLine, score_lines
from tasks.errors import BenchError
from tasks.suites import TASKS
from tasks.task import Task

__all__ = ["METRICS", "TASK_TYPES", "counted_lines", "hub_revision", "official"]

TASK_TYPES = {
    "pair": "text-classification",
    "span": "question-answering",
    "choice": "multiple-choice",
    "tag": "token-classification",
}
"""The hub's name for what a head type does (huggingface.co/tasks)."""

METRICS = {
    "mcc": "matthews_correlation",
    "pearson": "pearsonr",
    "spearman": "spearmanr",
    "em": "exact_match",
}
"""The hub's names of metrics (huggingface.co/evaluate-metric) that have others here."""


def official(boards: Iterable[Board]) -> list[Board]:
    """The boards whose rows are a benchmark's own, all of them.

    Raises BenchError where there is none: a model card with a score on made-up or cut rows would
    say what is not so.
    """
    if found := [board for board in boards if board.is_whole]:
        return found
    raise BenchError(
        "only scores on the official data, without --limit, go onto a model card; what fits here "
        "was measured on mini or cut data. The formats csv, json, markdown, latex and "
        "every-eval-ever take that too."
    )


def counted_lines(board: Board) -> list[ScoreLine]:
    """The scores of tasks by the metrics that count, whose scale is known: to 1, from 0 or -1."""
    return [
        line
        for line in score_lines([board])
        if line.task in TASKS and line.metric in {m.name for m in TASKS[line.task].metrics}
    ]


def hub_revision(task: Task, board: Board) -> str | None:
    """The commit of the data set, None where the rows came from files."""
    return task.source.revision if board.data == ("hub",) and task.source.is_pinned else None
