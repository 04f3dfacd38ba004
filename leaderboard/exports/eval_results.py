"""A model's scores as a file of the hub's `.eval_results` folder."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from leaderboard.boards.board import Board
from leaderboard.boards.cell import score_names
from leaderboard.boards.entry import Entry
from leaderboard.exports.narrow import the_model
from leaderboard.exports.official import hub_revision, official
from tasks.suites import TASKS

if TYPE_CHECKING:
    from huggingface_hub import EvalResultEntry

__all__ = ["to_eval_results"]


def to_eval_results(boards: Iterable[Board]) -> str:
    """The YAML of one model's scores: one value a task, in percent.

    Raises BenchError where the boards hold several models.
    """
    from huggingface_hub import eval_result_entries_to_yaml
    from huggingface_hub.utils import yaml_dump  # type: ignore[attr-defined]

    found = official(boards)
    pairs = zip(found, the_model(found), strict=True)
    entries = [result for board, entry in pairs for result in _entries(board, entry)]
    return yaml_dump(eval_result_entries_to_yaml(entries), sort_keys=False)


def _entries(board: Board, entry: Entry) -> "Iterator[EvalResultEntry]":
    from huggingface_hub import EvalResultEntry

    for name in board.tasks:
        if (cell := entry.cells.get(name)) is None:
            continue
        task, metrics = TASKS[name], " and ".join(score_names(name, board.rule))
        split = (*task.dev_splits, *task.test_splits)[0]
        seeds = "1 seed" if len(cell.values) == 1 else f"{len(cell.values)} seeds"
        yield EvalResultEntry(
            dataset_id=task.source.hub,
            task_id=task.source.config,
            dataset_revision=hub_revision(task, board),
            # Rounded to take away the noise of the product: 0.943 times 100 is 94.30000000000001.
            value=round(100 * cell.median, 10),
            date=max(run.finished for run in cell.runs),
            notes=f"{metrics} on {split}, the median of {seeds}, recipe {entry.recipe}",
        )
