"""A column of a board's table."""

from dataclasses import dataclass

from leaderboard.boards.board import Board
from leaderboard.boards.cell import score_names
from leaderboard.report.rows import basis_of
from tasks.suites import find_task

__all__ = ["Column", "build_column"]


@dataclass(frozen=True, kw_only=True)
class Column:
    """A task's column; its values are the mean of `scores` on a split."""

    task: str
    name: str
    scores: tuple[str, ...]
    split: str
    extra: bool

    @property
    def basis(self) -> str:
        """What its values are of."""
        return basis_of(self.split, self.scores)

    @property
    def metrics(self) -> str:
        """The scores in words."""
        return " and ".join(self.scores)


def build_column(board: Board, task: str) -> Column:
    """The column of a task, also of one that only published rows have."""
    return Column(
        task=task,
        name=task.rpartition("/")[2],
        scores=score_names(task, board.rule),
        split="dev" if find_task(task).dev_splits else "test",
        extra=task not in board.rule.cells,
    )
