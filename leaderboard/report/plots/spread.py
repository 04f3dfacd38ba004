"""The spread of each task: every seed of every entry, with median and interval."""

from collections.abc import Iterable, Sequence

from benchharness.leaderboard.boards.cell import Cell, score_bounds, shown
from benchharness.leaderboard.report.plots.axis import Axis, score_axis
from benchharness.leaderboard.report.plots.figure import (
    WIDTH,
    Figure,
    Mark,
    Table,
    TableRow,
    Text,
    shortened,
)
from benchharness.leaderboard.report.plots.point import NamedEntry
from benchharness.leaderboard.statistics import LEAST_SEEDS, Interval, median_interval
from benchharness.tasks.suites import find_task, title_of

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
