"""A model's scores as the `model-index` of its card on the hub (README.md's YAML)."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from leaderboard.boards.board import Board
from leaderboard.exports.lines import ScoreLine
from leaderboard.exports.narrow import the_model
from leaderboard.exports.official import (
    METRICS,
    TASK_TYPES,
    counted_lines,
    hub_revision,
    official,
)
from leaderboard.visible import visible
from tasks.suites import TASKS

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

__all__ = ["to_model_index"]


def to_model_index(boards: Iterable[Board]) -> str:
    """The YAML block, without its lines of dashes, of one model's scores.

    Values are in each metric's own unit. Raises BenchError where the boards hold several models.
    """
    from huggingface_hub import ModelCardData

    found = official(boards)
    model = the_model(found)[0].model
    results = [result for board in found for result in _results(board)]
    return ModelCardData(model_name=visible(model), eval_results=results).to_yaml() + "\n"


def _results(board: Board) -> "Iterator[EvalResult]":
    yield from (_result(board, line) for line in counted_lines(board))


def _result(board: Board, line: ScoreLine) -> "EvalResult":
    from huggingface_hub import EvalResult

    task, seeds = TASKS[line.task], "1 seed" if line.seeds == 1 else f"{line.seeds} seeds"
    return EvalResult(
        task_type=TASK_TYPES[task.head],
        dataset_type=task.source.hub,
        dataset_name=f"{board.title} {line.task.rpartition('/')[2]}",
        dataset_config=task.source.config,
        dataset_split=task.source.splits[line.split].hub,
        dataset_revision=hub_revision(task, board),
        metric_type=METRICS.get(line.metric, line.metric),
        metric_value=line.score,
        metric_name=f"{line.metric} (median of {seeds})",
        metric_args={"seeds": line.seeds},
    )
