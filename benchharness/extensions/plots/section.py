"""Section of the report with all plots of one leaderboard."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchharness.extensions.plots.chart import (
    Figure,
    NamedEntry,
    Table,
    named_entries,
)
from benchharness.extensions.plots.cost import Facts, Timed
from benchharness.extensions.plots.lines import shot_figures
from benchharness.extensions.plots.rows import (
    MOST_ROWS,
    categories_of_task,
    spread_of_task,
)
from benchharness.extensions.plots.tradeoff import (
    cost_table,
    measured_points,
    published_points,
    tradeoffs,
)
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.report.sizes import Sizes
from benchharness.leaderboard.store.store import Store
from benchharness.tasks.suites import title_of

_FEW_ROWS = 60  # maximum total number of rows in seed-by-seed plots that are open initially

FEW_ENTRIES = 16
"""Maximum number of entries of a leaderboard whose plots are all plain SVG. If there are more
entries, the largest plots are compressed, because the page would open slowly otherwise."""

Draw = Callable[[Sequence[NamedEntry], Board], tuple[Figure, ...]]
"""Function that draws figures, given a leaderboard and its entries with the ids of their marks. The
leaderboard may have been reduced to its best entries."""


class Plot(NamedTuple):
    """Figures that an extension adds to the plots of each leaderboard.

    Attributes:
        heading: Heading above the figures.
        prepare: Function `(store, board, examples)` that returns a function that draws the figures
            (see `Draw`). `board` is the leaderboard with all of its entries. If `examples` is
            false, `prepare` must not read predictions and examples, because that would take too
            long. It raises BenchError if there can be no figures; the message becomes a note on the
            report.
    """

    heading: str
    prepare: Callable[[Store, Board, bool], Draw]


class Drawing(NamedTuple):
    """Function that draws figures of a leaderboard.

    Attributes:
        kind: CSS class of the section with the figures. It is also part of the section's ids.
        heading: Heading above the figures.
        draw: Function that draws the figures.
    """

    kind: str
    heading: str
    draw: Draw


class Added(NamedTuple):
    """Figures that an extension has added, with their kind and heading as in Drawing."""

    kind: str
    heading: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, kw_only=True)
class Known:
    """Data for the plots of a leaderboard that the leaderboard does not contain.

    Attributes:
        facts: Costs of runs, keyed by the runs' keys.
        sizes: Sizes of checkpoints, keyed by lower-case name.
        timed: Prediction times of checkpoints.
        drawings: Functions of extensions that draw figures.
    """

    facts: Facts = field(default_factory=dict)
    sizes: Sizes = field(default_factory=dict)
    timed: Timed = field(default_factory=Timed)
    drawings: Sequence[Drawing] = ()


@dataclass(frozen=True, kw_only=True)
class Tradeoff:
    """Figures that plot one score against each kind of cost, with a table of the same numbers.

    Attributes:
        anchor: Id of the figures in the page.
        score: Name of the score: the suite's score, or the title of a task.
        measured: Number of points for models that were measured here.
        figures: One figure per kind of cost.
        table: Table of the points with all their costs.
    """

    anchor: str
    score: str
    measured: int
    figures: tuple[Figure, ...]
    table: Table


@dataclass(frozen=True, kw_only=True)
class Plots:
    """Plots of a leaderboard, for a section of the report.

    Attributes:
        anchor: Id of the section.
        title: Title of the suite.
        data: Description of the data.
        entries: Pairs (id, name) of the entries that can be highlighted in all plots.
        first: Id of the trade-off plots that are open initially. They are for the suite's score or,
            without one, for the task with results of the most models.
        tradeoffs: Scores against costs.
        spreads: Scores seed by seed, one figure per task.
        categories: Scores for each category of examples, one figure per task.
        shots: Scores over the number of training rows.
        added: Figures of extensions.
    """

    anchor: str
    title: str
    data: str
    entries: tuple[tuple[str, str], ...]
    first: str
    tradeoffs: tuple[Tradeoff, ...]
    spreads: tuple[Figure, ...]
    categories: tuple[Figure, ...]
    shots: tuple[Figure, ...]
    added: tuple[Added, ...]

    @property
    def is_small(self) -> bool:
        """True if the seed-by-seed plots have at most 60 rows in total.

        They are then open initially, unless they are compressed.
        """
        return sum(len(figure.marks) for figure in self.spreads) <= _FEW_ROWS

    @property
    def is_packed(self) -> bool:
        """True if plots are compressed in the page, and unpacked when a reader opens them.

        These are the seed-by-seed plots, and the trade-off plots except those with the id `first`.
        All other plots are never compressed.
        """
        return len(self.entries) > FEW_ENTRIES

    def draws(self, kind: str) -> bool:
        """Return whether any seed-by-seed plot shows intervals or crosses, for the legend.

        Args:
            kind: "interval" for confidence intervals, "crosses" for runs that learned nothing.
        """
        return any(kind in mark.paths for figure in self.spreads for mark in figure.marks)

    def __bool__(self) -> bool:
        figures = (self.tradeoffs, self.spreads, self.categories, self.shots)
        return any(figures) or any(drawn for *_, drawn in self.added)


def build_plots(board: Board, anchor: str, known: Known) -> Plots:
    """Create the plots of a leaderboard.

    The truth value of the result is False if there is nothing to plot.

    Args:
        board: Leaderboard to plot.
        anchor: Id of the leaderboard's table.
        known: Data that the leaderboard does not contain.
    """
    named = named_entries(board, anchor)
    found = tuple(_tradeoffs(board, anchor, named, known))
    spreads = (spread_of_task(named, task) for task in board.tasks)
    categories = (categories_of_task(named, board.rule, task) for task in board.tasks)
    ranked = sorted(found, key=lambda each: (each.score != board.rule.name, -each.measured))
    return Plots(
        anchor=f"{anchor}-plots",
        title=board.title,
        data=board.data_label,
        entries=tuple((each.id, each.name) for each in named[:MOST_ROWS]),
        first=ranked[0].anchor if ranked else "",
        tradeoffs=found,
        spreads=tuple(filter(None, spreads)),
        categories=tuple(filter(None, categories)),
        shots=shot_figures(named, board),
        added=tuple(
            Added(kind, heading, draw(named, board)) for kind, heading, draw in known.drawings
        ),
    )


def _tradeoffs(
    board: Board, anchor: str, named: Sequence[NamedEntry], known: Known
) -> Iterator[Tradeoff]:
    for place, task in enumerate((None, *board.tasks)):
        if task is None and not board.shows_score:
            continue
        measured = measured_points(named, board.rule, task, known.facts, known.sizes)
        if not measured:
            continue
        points = [*measured, *published_points(board, anchor, task, known.sizes)]
        score = board.rule.name if task is None else title_of(task)
        if figures := tradeoffs(points, score, known.timed.machine):
            yield Tradeoff(
                anchor=f"{anchor}-cost-{place}",
                score=score,
                measured=len(measured),
                figures=figures,
                table=cost_table(points),
            )
