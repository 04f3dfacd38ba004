"""A task's scores by language, where its column is the mean of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, shown
from benchharness.leaderboard.text import visible
from benchharness.tasks.suites import complete_mean, find_task
from benchharness.tasks.task import Task, suffix_of


@dataclass(frozen=True, kw_only=True)
class LanguageTable:
    """Of a task: the names of its languages, and each entry's name with a text for each."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def language_tables(board: Board) -> Iterator[LanguageTable]:
    """One for each task of languages that has a score.

    A value is the median over seeds of the mean of the task's metrics, times 100.
    """
    for task in map(find_task, board.tasks):
        cells = [(e.name, e.cells[task.name]) for e in board.entries if task.name in e.cells]
        if task.public_tests and task.split_titles and cells:
            rows = [(visible(name), tuple(_values(task, cell))) for name, cell in cells]
            heads = tuple(task.split_titles.values())
            yield LanguageTable(title=task.title, heads=heads, rows=tuple(rows))


def _values(task: Task, cell: Cell) -> Iterator[str]:
    for ending in map(suffix_of, task.split_titles):
        names = [metric.name + ending for metric in task.metrics]
        seeds = [complete_mean([run.scores[task.name].get(n) for n in names]) for run in cell.runs]
        known = [value for value in seeds if value is not None]
        yield shown(median(known)) if known else "–"
