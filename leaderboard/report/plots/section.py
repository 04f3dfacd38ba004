"""The plots of one board, put together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, score_bounds, shown
from benchharness.leaderboard.job import FEATURES_SETTING
from benchharness.leaderboard.report.plots.axis import Axis, score_axis
from benchharness.leaderboard.report.plots.category import categories_of_task
from benchharness.leaderboard.report.plots.cost import Facts, Sizes
from benchharness.leaderboard.report.plots.figure import (
    WIDTH,
    Figure,
    Mark,
    Table,
    TableRow,
    Text,
    shortened,
)
from benchharness.leaderboard.report.plots.history import histories
from benchharness.leaderboard.report.plots.point import (
    NamedEntry,
    measured_points,
    named_entries,
    published_points,
)
from benchharness.leaderboard.report.plots.tradeoff import cost_table, tradeoffs
from benchharness.leaderboard.report.table import Contrasts
from benchharness.leaderboard.statistics import LEAST_SEEDS, Interval, median_interval
from benchharness.leaderboard.store.store import PastRun
from benchharness.tasks.suites import find_task, title_of

_FEW_ROWS = 60
"""Of all spreads: one or two screens."""

FEW_ENTRIES = 16
"""Of more, the plots are so many elements that a page with all of them opens slowly."""

_MOST_HISTORIES = 40


BoardKey = tuple[str, tuple[str, ...], int | None, str]


Pages = Mapping[tuple[str, str], str]
"""The addresses of pages of every prediction, by the anchor of a group of runs and the task."""


def board_key(board: Board) -> BoardKey:
    """What tells a board from others, also where only its best rows are left."""
    first = next((run.key for entry in board.entries for run in entry.runs), "")
    return board.suite, board.data, board.limit, first


@dataclass(frozen=True, kw_only=True)
class Background:
    """What plots show that is on no board: sizes of checkpoints, and runs over time.

    `stages` are the figures of pretraining runs, which need all rows of a board. `contrasts` are
    tests of two entries of a board, by their places on it. `predictions` are where runs lead to.
    """

    sizes: Sizes = field(default_factory=dict)
    past: Sequence[PastRun] = ()
    stages: Mapping[BoardKey, tuple[Figure, ...]] = field(default_factory=dict)
    contrasts: Mapping[BoardKey, Contrasts] = field(default_factory=dict)
    predictions: Pages = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Tradeoff:
    """One score against everything that it costs, and the table of the same numbers.

    `measured` counts the models of the board that have the score.
    """

    anchor: str
    score: str
    measured: int
    figures: tuple[Figure, ...]
    table: Table


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
    tradeoffs: tuple[Tradeoff, ...]
    spreads: tuple[Figure, ...]
    categories: tuple[Figure, ...]
    histories: tuple[Figure, ...]
    more_histories: int
    stages: tuple[Figure, ...] = ()
    shots: tuple[Figure, ...] = ()
    layers: tuple[Figure, ...] = ()

    @property
    def is_small(self) -> bool:
        """Whether all spreads are on one or two screens, so that they need not be folded."""
        return sum(len(figure.marks) for figure in self.spreads) <= _FEW_ROWS

    @property
    def is_packed(self) -> bool:
        """Whether all but the first plots are packed, to be unpacked when they are looked at."""
        return len(self.entries) > FEW_ENTRIES

    def draws(self, kind: str) -> bool:
        """Whether a spread has paths of that kind: "interval" or "crosses"."""
        return any(kind in mark.paths for figure in self.spreads for mark in figure.marks)

    def __bool__(self) -> bool:
        return bool(self.tradeoffs or self.spreads)


def build_plots(board: Board, anchor: str, facts: Facts, background: Background) -> Plots:
    """The plots under a board's table, whose id is `anchor`; false where there is nothing to show.

    `facts` are those of the runs that have a section in the page.
    """
    named = named_entries(board, anchor)
    past = histories(board, background.past, facts)
    found = tuple(_tradeoffs(board, anchor, named, facts, background.sizes))
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
        spreads=tuple(figure for figure in spreads if figure is not None),
        categories=tuple(figure for figure in categories if figure is not None),
        histories=past[:_MOST_HISTORIES],
        more_histories=max(len(past) - _MOST_HISTORIES, 0),
        stages=background.stages.get(board_key(board), ()),
        shots=_shots(named, board),
        layers=_layers(named, board),
    )


def _sets(named: Sequence[NamedEntry], setting: str) -> bool:
    """Whether an entry has runs with a setting that few boards have."""
    return any(setting in run.settings for each in named for run in each.entry.runs[:1])


def _layers(named: Sequence[NamedEntry], board: Board) -> tuple[Figure, ...]:
    if not _sets(named, FEATURES_SETTING):
        return ()
    from benchharness.leaderboard.report.plots.layers import layer_figures  # noqa: PLC0415  (few boards)

    return layer_figures(named, board)


def _shots(named: Sequence[NamedEntry], board: Board) -> tuple[Figure, ...]:
    if not _sets(named, "shots"):
        return ()
    from benchharness.leaderboard.report.plots.shots import shot_figures  # noqa: PLC0415  (few boards)

    return shot_figures(named, board)


def _tradeoffs(
    board: Board, anchor: str, named: Sequence[NamedEntry], facts: Facts, sizes: Sizes
) -> Iterator[Tradeoff]:
    for place, task in enumerate((None, *board.tasks)):
        measured = measured_points(named, board.rule, task, facts, sizes)
        if not measured:
            continue
        points = [*measured, *published_points(board, anchor, task, sizes)]
        score = board.rule.name if task is None else title_of(task)
        if figures := tradeoffs(points, score):
            yield Tradeoff(
                anchor=f"{anchor}-cost-{place}",
                score=score,
                measured=len(measured),
                figures=figures,
                table=cost_table(points),
            )


# The spread of each task: every seed of every entry, with median and interval.

_ACROSS, _TOP, _STEP = (176, WIDTH - 22), 8, 20
"""Names stand left of the axis; rows are STEP apart."""

MOST_ROWS = 200
"""Nobody reads a longer figure; the board itself has all rows."""


def spread_of_task(named: Sequence[NamedEntry], task: str) -> Figure | None:
    """The figure of a task's column, the best median on top; None of fewer than two runs."""
    found = [(each, each.entry.cells[task]) for each in named if task in each.entry.cells]
    if sum(len(cell.values) for _, cell in found) < 2:
        return None
    found.sort(key=lambda pair: -pair[1].median)
    drawn, left_out = found[:MOST_ROWS], len(found) - MOST_ROWS
    name = title_of(task)
    values = [100 * value for _, cell in drawn for value in cell.values]
    x = score_axis(values, name, _ACROSS)
    y = Axis(label="", low=0, high=len(drawn), start=_TOP, end=_TOP + _STEP * len(drawn))
    best, cell = drawn[0]
    return Figure(
        title=f"{name}, seed by seed",
        x=x,
        y=y,
        description=f"{len(drawn)} {'row' if len(drawn) == 1 else 'rows'}, best median first: "
        f"{best.entry.model} {shown(cell.median)}. The table below has every seed.",
        note=f"The best {MOST_ROWS}; {left_out:,} more are in the board's table." * (left_out > 0),
        marks=tuple(_mark(*pair, x, y(place + 0.5)) for place, pair in enumerate(drawn)),
        table=Table(
            columns=("model", "median", "95 % interval", "every seed"),
            words=("every seed",),
            rows=tuple(_entry_row(*pair) for pair in drawn),
        ),
    )


def _mark(named: NamedEntry, cell: Cell, x: Axis, y: float) -> Mark:
    collapsed = [run.has_collapsed(cell.task) for run in cell.runs]
    places = [x(100 * value) for value in cell.values]
    # Lines of no length, which a round cap makes dots: the shortest way to draw many.
    dots = _joined(f"M{at:g},{y:g}h0" for at, bad in zip(places, collapsed, strict=True) if not bad)
    crosses = _joined(
        f"M{at - 3:g},{y - 3:g}l6,6m0,-6l-6,6"
        for at, bad in zip(places, collapsed, strict=True)
        if bad
    )
    median = f"M{x(100 * cell.median):g},{y - 7:g}v14" if len(cell.values) > 1 else ""
    interval = _line(_interval(cell), x, y)
    paths = {"interval": interval, "median": median, "dots": dots, "crosses": crosses}
    name = shortened(named.name, 22)
    text, between, seeds = _texts(cell)
    said = f"median {text}" + (f" (95 % from {between})" if between else "")
    return Mark(
        kind="row",
        x=x(100 * cell.median),
        y=y,
        note=f"{named.title}: {said}: {seeds}",
        paths={kind: d for kind, d in paths.items() if d},
        texts=(Text(x=x.start - 8, y=y + 3.5, text=name, anchor="end", kind="row-name"),),
        entry=named.id,
        href=named.href(cell),
    )


def _joined(pieces: Iterable[str]) -> str:
    return "".join(pieces)


def _interval(cell: Cell) -> Interval | None:
    """The 95 % interval of the median over seeds, in percent; None of too few seeds."""
    if len(cell.values) < LEAST_SEEDS:
        return None
    task = find_task(cell.task)
    bounds = score_bounds(task, [metric.name for metric in task.metrics], cell.values)
    found = median_interval(cell.values).within(bounds)
    return Interval(low=100 * found.low, high=100 * found.high)


def _line(interval: Interval | None, x: Axis, y: float) -> str:
    """The interval with a mark at each end; beyond the axis it goes on, and has none."""
    if interval is None:
        return ""
    ends = sorted((interval.low, interval.high))
    low, high = (x(min(max(end, x.low), x.high)) for end in ends)
    caps = (f"M{x(end):g},{y - 3:g}v6" for end in ends if x.low <= end <= x.high)
    return f"M{low:g},{y:g}H{high:g}{_joined(caps)}"


def _texts(cell: Cell) -> tuple[str, str, str]:
    """The median, its interval and every seed; no interval is an empty text."""
    interval = _interval(cell)
    between = f"{interval.low:.1f} to {interval.high:.1f}" if interval else ""
    seeds = zip(cell.runs, cell.values, strict=True)
    said = ", ".join(f"{shown(value)} (seed {run.seed})" for run, value in seeds)
    return shown(cell.median), between, said


def _entry_row(named: NamedEntry, cell: Cell) -> TableRow:
    median, between, seeds = _texts(cell)
    cells = (median, between or "–", seeds)
    return TableRow(name=named.title, href=named.href(cell), cells=cells)
