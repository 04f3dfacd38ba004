"""All plots of one board."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.report.plots import (
    Figure,
    NamedEntry,
    Table,
    named_entries,
)
from benchharness.leaderboard.report.plots.cost import Facts, Sizes, Timed
from benchharness.leaderboard.report.plots.lines import layer_figures, shot_figures
from benchharness.leaderboard.report.plots.rows import (
    MOST_ROWS,
    categories_of_task,
    spread_of_task,
)
from benchharness.leaderboard.report.plots.tradeoff import (
    cost_table,
    measured_points,
    published_points,
    tradeoffs,
)
from benchharness.leaderboard.report.table import Contrasts
from benchharness.tasks.suites import title_of

_FEW_ROWS = 60  # rows of all spreads that fit one or two screens

FEW_ENTRIES = 16
"""Largest number of entries for which all plots are plain SVG; with more, the page would open
slowly."""

BoardKey = tuple[str, tuple[str, ...], int | None, str]


Pages = Mapping[tuple[str, str], str]
"""Addresses of predictions pages, keyed by the anchor of a group of runs and by the task."""

Places = Mapping[str, str]
"""Addresses of files that contain sections, keyed by the ids of the sections."""


def board_key(board: Board) -> BoardKey:
    """Return a key that identifies a board, even if only its best rows are left."""
    first = next((run.key for entry in board.entries for run in entry.runs), "")
    return board.suite, board.data, board.limit, first


@dataclass(frozen=True, kw_only=True)
class Background:
    """Facts for plots that boards do not contain, such as sizes and times of checkpoints.

    `stages` are the figures of pretraining runs, which need all rows of a board. `contrasts` are
    tests of two entries, keyed by their indexes on the board. `predictions` are the addresses of
    predictions pages, `places` the files of sections that `write_runs` has written.
    """

    sizes: Sizes = field(default_factory=dict)
    timed: Timed = field(default_factory=Timed)
    stages: Mapping[BoardKey, tuple[Figure, ...]] = field(default_factory=dict)
    contrasts: Mapping[BoardKey, Contrasts] = field(default_factory=dict)
    predictions: Pages = field(default_factory=dict)
    places: Places = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Tradeoff:
    """Figures of one score against each cost, and a table of the same numbers.

    `measured` is the number of the board's models that have the score.
    """

    anchor: str
    score: str
    measured: int
    figures: tuple[Figure, ...]
    table: Table


@dataclass(frozen=True, kw_only=True)
class Plots:
    """Plots of a board; `entries` are the ids and names that can be highlighted in all of them.

    `first` is the trade-off that is open initially: the suite's score, else the task that most
    models have.
    """

    anchor: str
    title: str
    data: str
    entries: tuple[tuple[str, str], ...]
    first: str
    tradeoffs: tuple[Tradeoff, ...]
    spreads: tuple[Figure, ...]
    categories: tuple[Figure, ...]
    stages: tuple[Figure, ...]
    shots: tuple[Figure, ...]
    layers: tuple[Figure, ...]

    @property
    def is_small(self) -> bool:
        """True if all spreads fit one or two screens, so that they need not be folded."""
        return sum(len(figure.marks) for figure in self.spreads) <= _FEW_ROWS

    @property
    def is_packed(self) -> bool:
        """True if all plots except the first are packed, and unpacked when they are opened."""
        return len(self.entries) > FEW_ENTRIES

    def draws(self, kind: str) -> bool:
        """Return whether a spread has paths of this kind: "interval" or "crosses"."""
        return any(kind in mark.paths for figure in self.spreads for mark in figure.marks)

    def __bool__(self) -> bool:
        return bool(self.tradeoffs or self.spreads)


def build_plots(board: Board, anchor: str, facts: Facts, background: Background) -> Plots:
    """Return the plots under a board's table; the result is false if there is nothing to show.

    Args:
        board: Board to plot.
        anchor: Id of the board's table.
        facts: Facts of runs, keyed by the runs' keys.
        background: Facts for plots that the board does not contain.
    """
    named = named_entries(board, anchor)
    found = tuple(_tradeoffs(board, anchor, named, facts, background))
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
        stages=background.stages.get(board_key(board), ()),
        shots=shot_figures(named, board),
        layers=layer_figures(named, board),
    )


def _tradeoffs(
    board: Board, anchor: str, named: Sequence[NamedEntry], facts: Facts, known: Background
) -> Iterator[Tradeoff]:
    for place, task in enumerate((None, *board.tasks)):
        measured = measured_points(named, board.rule, task, facts, known.sizes)
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
