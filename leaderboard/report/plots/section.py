"""The plots of one board, put together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from leaderboard.boards.board import Board
from leaderboard.report.plots.category import Categories, categories_of_task
from leaderboard.report.plots.history import History, histories
from leaderboard.report.plots.point import (
    QUANTITIES,
    Facts,
    NamedEntry,
    Point,
    Sizes,
    measured_points,
    named_entries,
    published_points,
)
from leaderboard.report.plots.spread import MOST_ROWS, Spread, spread_of_task
from leaderboard.report.plots.tradeoff import Tradeoff, tradeoffs
from leaderboard.store.store import PastRun

__all__ = ["Background", "Plots", "TradeoffView", "build_plots"]

FEW_ROWS = 60
"""Of all spreads: one or two screens."""

FEW_ENTRIES = 40
"""Of more, the plots are so many elements that a page with all of them opens slowly."""

MOST_HISTORIES = 40


@dataclass(frozen=True, kw_only=True)
class Background:
    """What plots show that is on no board: sizes of checkpoints, and runs over time."""

    sizes: Sizes = field(default_factory=dict)
    past: Sequence[PastRun] = ()


@dataclass(frozen=True, kw_only=True)
class TradeoffView:
    """One score against everything that it costs, with the table of the same numbers.

    `is_whole` for the suite's score. `measured` counts the models of the board that have the score;
    `columns` are the costs, and a row is a point and the texts of its costs, the best first and
    only so many of each kind.
    """

    anchor: str
    score: str
    is_whole: bool
    measured: int
    figures: tuple[Tradeoff, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Point, tuple[str, ...]], ...]


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
    spreads: tuple[Spread, ...]
    categories: tuple[Categories, ...]
    histories: tuple[History, ...]
    more_histories: int

    @property
    def is_small(self) -> bool:
        """Whether all spreads are on one or two screens, so that they need not be folded."""
        return sum(len(figure.rows) for figure in self.spreads) <= FEW_ROWS

    @property
    def has_intervals(self) -> bool:
        """Whether a task has enough seeds for intervals."""
        return any(figure.has_intervals for figure in self.spreads)

    @property
    def has_crosses(self) -> bool:
        """Whether a run has collapsed."""
        return any(figure.has_crosses for figure in self.spreads)

    @property
    def is_packed(self) -> bool:
        """Whether all but the first plots are packed, to be unpacked when they are looked at."""
        return len(self.entries) > FEW_ENTRIES

    def __bool__(self) -> bool:
        return bool(self.tradeoffs or self.spreads)


def build_plots(board: Board, anchor: str, facts: Facts, background: Background) -> Plots:
    """The plots under a board's table, whose id is `anchor`; false where there is nothing to show.

    `facts` are those of the runs that have a section in the page.
    """
    named = named_entries(board, anchor)
    past = histories(board, background.past, facts)
    views = tuple(_tradeoff_views(board, anchor, named, facts, background.sizes))
    return Plots(
        anchor=f"{anchor}-plots",
        title=board.title,
        data=board.data_label,
        entries=tuple((each.id, each.name) for each in named[:MOST_ROWS]),
        first=_first(views),
        tradeoffs=views,
        spreads=tuple(each for task in board.tasks if (each := spread_of_task(named, task))),
        categories=tuple(
            found for task in board.tasks if (found := categories_of_task(named, board.rule, task))
        ),
        histories=past[:MOST_HISTORIES],
        more_histories=max(len(past) - MOST_HISTORIES, 0),
    )


def _first(views: Sequence[TradeoffView]) -> str:
    """The suite's score if a model has it, else the task with most measured points."""
    if not views:
        return ""
    whole = [view for view in views if view.is_whole]
    return (whole or [max(views, key=lambda view: view.measured)])[0].anchor


def _tradeoff_views(
    board: Board, anchor: str, named: Sequence[NamedEntry], facts: Facts, sizes: Sizes
) -> Iterator[TradeoffView]:
    for place, task in enumerate((None, *board.tasks)):
        points = measured_points(named, board.rule, task, facts, sizes)
        if not points:
            continue
        measured = len(points)
        points += published_points(board, anchor, task, sizes)
        score = board.rule.name if task is None else task.rpartition("/")[2]
        if figures := tradeoffs(points, score):
            yield TradeoffView(
                anchor=f"{anchor}-cost-{place}",
                score=score,
                is_whole=task is None,
                measured=measured,
                figures=figures,
                columns=tuple(quantity.title for quantity in QUANTITIES),
                rows=tuple(_rows(points)),
            )


def _rows(points: Iterable[Point]) -> Iterator[tuple[Point, tuple[str, ...]]]:
    known = [point for point in points if point.costs]
    for kind in ("measured", "published"):
        alike = [point for point in known if point.kind == kind]
        for point in sorted(alike, key=lambda point: -point.score)[:MOST_ROWS]:
            costs = (
                quantity.text(point.costs[quantity.name]) if quantity.name in point.costs else "–"
                for quantity in QUANTITIES
            )
            yield point, tuple(costs)
