"""A score as a line of a table that others compute with: one system, one metric of one split."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from leaderboard.boards.board import Board
from leaderboard.boards.cell import spread_of
from leaderboard.boards.entry import Entry
from leaderboard.result import RunRow
from leaderboard.split_of import split_of

__all__ = ["ScoreLine", "score_lines"]


@dataclass(frozen=True, kw_only=True)
class ScoreLine:
    """One score over its seeds, in the metric's own unit (mostly 0 to 1).

    `score` is the median. A suite's score has the suite for a task and its rule for a metric; it
    stands for the medians of the tasks, as on the board, and mean and the others for its seeds.
    `spread` is the sample standard deviation, None for one seed. `kind` is "model", "ensemble" or
    "floor", `source` says who measured it, `date` when its newest run ended.
    """

    model: str
    task: str
    metric: str
    split: str
    score: float
    source: str
    kind: str
    recipe: str
    precision: str
    data: str
    limit: int | None
    rank: int | None
    seeds: int
    mean: float
    spread: float | None
    low: float
    high: float
    date: str


def score_lines(boards: Iterable[Board]) -> list[ScoreLine]:
    """Every score of the boards, entry by entry: the suite's first, where it has all its tasks."""
    return [line for board in boards for entry in board.entries for line in _lines(board, entry)]


def _lines(board: Board, entry: Entry) -> Iterator[ScoreLine]:
    if entry.score is not None and set(board.rule.cells) <= set(board.tasks):
        scores, name = entry.seed_scores or (entry.score,), (board.suite, board.rule.name)
        finished = [run for run in entry.runs if run.status == "finished"]
        yield _line(board, entry, finished, name=name, score=entry.score, values=scores)
    for task in board.tasks:
        for metric in _metrics(entry, task):
            runs = [run for run in entry.cells[task].runs if metric in run.scores[task]]
            values = [run.scores[task][metric] for run in runs]
            name, score = (task, metric), median(values)
            yield _line(board, entry, runs, name=name, score=score, values=values)


def _metrics(entry: Entry, task: str) -> tuple[str, ...]:
    """Every score that a run of the task has, whether it counts or not."""
    runs = entry.cells[task].runs if task in entry.cells else ()
    return tuple(dict.fromkeys(name for run in runs for name in run.scores[task]))


def _line(  # noqa: PLR0913  (a score, its name and what it is of)
    board: Board,
    entry: Entry,
    runs: Sequence[RunRow],
    *,
    name: tuple[str, str],
    score: float,
    values: Sequence[float],
) -> ScoreLine:
    task, stored = name
    metric, split = split_of(task, stored)
    return ScoreLine(
        model=entry.model,
        task=task,
        metric=metric,
        split=split,
        score=score,
        source="benchharness",
        kind=entry.kind,
        recipe=entry.recipe_label,
        precision=entry.precision,
        data=" and ".join(board.data),
        limit=board.limit,
        rank=entry.rank,
        seeds=len(values),
        mean=fmean(values),
        spread=spread_of(values),
        low=min(values),
        high=max(values),
        date=max(run.finished for run in runs),
    )
