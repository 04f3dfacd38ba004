"""The plots of one board, put together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from leaderboard.board import Board
from leaderboard.past import PastRun
from leaderboard.report.plots.category import Categories, categories_of_task
from leaderboard.report.plots.history import History, histories
from leaderboard.report.plots.point import (
    Facts,
    Point,
    entry_id,
    measured_points,
    published_points,
)
from leaderboard.report.plots.quantity import QUANTITIES
from leaderboard.report.plots.size import Sizes
from leaderboard.report.plots.spread import Spread, note_of, spread_of_task
from leaderboard.report.plots.tradeoff import Tradeoff, tradeoffs

__all__ = ["Background", "Plots", "SpreadView", "TradeoffView", "build_plots"]

FEW_ROWS = 60

WHOLE_SCORE = "suite"
"""Stands for the suite's score where others have a task's name."""


@dataclass(frozen=True, kw_only=True)
class Background:
    """What plots show that is on no board: sizes of checkpoints, and runs over time."""

    sizes: Sizes = field(default_factory=dict)
    past: Sequence[PastRun] = ()


@dataclass(frozen=True, kw_only=True)
class TradeoffView:
    """One score against everything that it costs, with the table of the same numbers.

    `columns` are the costs; a row is a name, what it is, a link, its score and its costs.
    """

    anchor: str
    score: str
    figures: tuple[Tradeoff, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Point, tuple[str, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class SpreadView:
    """One task's spread, with the table of the same numbers: name, link, sentence."""

    anchor: str
    figure: Spread
    rows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Plots:
    """The plots of a board. `entries` are the ids and names of what can be pointed out in all.

    `first` is the trade-off that stands open: the suite's score, else the task that most have.
    """

    anchor: str
    title: str
    data: str
    entries: tuple[tuple[str, str], ...]
    first: str
    tradeoffs: tuple[TradeoffView, ...]
    spreads: tuple[SpreadView, ...]
    categories: tuple[Categories, ...]
    histories: tuple[History, ...]

    @property
    def is_small(self) -> bool:
        """Whether all spreads are on one or two screens, so that they need not be folded."""
        return sum(len(view.rows) for view in self.spreads) <= FEW_ROWS

    @property
    def has_intervals(self) -> bool:
        """Whether a task has enough seeds for intervals."""
        return any(view.figure.has_intervals for view in self.spreads)

    @property
    def has_crosses(self) -> bool:
        """Whether a run has collapsed."""
        return any(view.figure.has_crosses for view in self.spreads)

    def __bool__(self) -> bool:
        return bool(self.tradeoffs or self.spreads)


def build_plots(board: Board, anchor: str, facts: Facts, background: Background) -> Plots:
    """The plots under a board's table, whose id is `anchor`; false where there is nothing to show.

    `facts` are those of the runs that have a section in the page.
    """
    views = tuple(_tradeoff_views(board, anchor, facts, background.sizes))
    return Plots(
        anchor=f"{anchor}-plots",
        title=board.title,
        data=board.data_label,
        entries=tuple(_entries(board, anchor)),
        first=_first(views),
        tradeoffs=views,
        spreads=tuple(_spread_views(board, anchor)),
        categories=tuple(
            found for task in board.tasks if (found := categories_of_task(board, anchor, task))
        ),
        histories=histories(board, background.past, facts),
    )


def _entries(board: Board, anchor: str) -> Iterator[tuple[str, str]]:
    for number, entry in enumerate(board.entries):
        yield entry_id(anchor, number), f"{entry.model} ({entry.recipe_label})"


def _first(views: Sequence[TradeoffView]) -> str:
    """The suite's score if a model has it, else the task with most measured points."""
    if not views:
        return ""

    def measured(view: TradeoffView) -> int:
        return sum(point.kind == "measured" for point, _ in view.rows)

    whole = [view for view in views if view.anchor.endswith(WHOLE_SCORE) and measured(view)]
    return (whole or [max(views, key=measured)])[0].anchor


def _tradeoff_views(
    board: Board, anchor: str, facts: Facts, sizes: Sizes
) -> Iterator[TradeoffView]:
    for task in (None, *board.tasks):
        points = measured_points(board, anchor, task, facts, sizes)
        if not points:
            continue
        points += published_points(board, anchor, task, sizes)
        score = board.rule.name if task is None else task.rpartition("/")[2]
        if figures := tradeoffs(points, score):
            place = WHOLE_SCORE if task is None else str(board.tasks.index(task))
            yield TradeoffView(
                anchor=f"{anchor}-cost-{place}",
                score=score,
                figures=figures,
                columns=tuple(quantity.title for quantity in QUANTITIES),
                rows=tuple(_rows(points)),
            )


def _rows(points: Iterable[Point]) -> Iterator[tuple[Point, tuple[str, ...]]]:
    for point in points:
        if point.costs:
            costs = (
                quantity.text(point.costs[quantity.name]) if quantity.name in point.costs else "–"
                for quantity in QUANTITIES
            )
            yield point, tuple(costs)


def _spread_views(board: Board, anchor: str) -> Iterator[SpreadView]:
    for number, task in enumerate(board.tasks):
        if figure := spread_of_task(board, anchor, task):
            by_id = {entry_id(anchor, n): entry for n, entry in enumerate(board.entries)}
            rows = (
                (by_id[row.entry].model, row.href, note_of(by_id[row.entry].cells[task]))
                for row in figure.rows
            )
            yield SpreadView(anchor=f"{anchor}-spread-{number}", figure=figure, rows=tuple(rows))
