"""The spread of each task: every seed of every entry, with median and interval."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leaderboard.boards.cell import Cell, shown
from leaderboard.boards.entry import Entry
from leaderboard.report.plots.axis import WIDTH, Axis, Frame, frame_of, linear_axis
from leaderboard.report.plots.labels import shortened
from leaderboard.report.plots.point import NamedEntry
from leaderboard.report.table import group_anchor
from leaderboard.result import COLLAPSED
from leaderboard.statistics import Interval, median_interval

__all__ = ["Spread", "SpreadRow", "spread_of_task"]

LEFT, RIGHT, TOP, BOTTOM, STEP = 176, 22, 8, 42, 20
"""Names stand left of the axis; rows are STEP apart."""

MOST_ROWS = 200
"""Nobody reads a longer figure; the board itself has all rows."""

LEAST_SEEDS = 3
"""The interval of two seeds is more than twelve times as wide as they are apart: of no use."""


@dataclass(frozen=True, kw_only=True)
class SpreadRow:
    """One entry; `dots` and `crosses` (collapsed runs) are SVG paths.

    One seed has no `median`. `low` and `high` are None without an interval; `caps` are the ends of
    it that are on the axis, beyond which it may go on.
    """

    entry: str
    name: str
    title: str
    sentence: str
    href: str
    y: float
    dots: str
    crosses: str
    median: float | None
    low: float | None
    high: float | None
    caps: tuple[float, ...]

    @property
    def note(self) -> str:
        """All that the row shows, in words."""
        return f"{self.title}: {self.sentence}"


@dataclass(frozen=True, kw_only=True)
class Spread:
    """One task's figure: rows from the best median down; of very many the worst are left out."""

    task: str
    title: str
    description: str
    frame: Frame
    rows: tuple[SpreadRow, ...]
    has_intervals: bool
    has_crosses: bool
    left_out: int


def spread_of_task(named: Sequence[NamedEntry], task: str) -> Spread | None:
    """The figure of a task's column; None where no entry has a score there."""
    found = [each for each in named if task in each.entry.cells]
    if not found:
        return None
    found.sort(key=lambda each: -each.entry.cells[task].median)
    left_out = len(found) - MOST_ROWS
    found = found[:MOST_ROWS]
    height = TOP + STEP * len(found) + BOTTOM
    values = [100 * value for each in found for value in each.entry.cells[task].values]
    x = linear_axis(values, LEFT, WIDTH - RIGHT)
    y = Axis(low=0, high=1, start=height - BOTTOM, end=TOP, values=(), text=str)
    name = task.rpartition("/")[2]
    rows = tuple(_row(each, task, place, x) for place, each in enumerate(found))
    starts = f", axis from {x.text(x.low)}" if x.low else ""
    return Spread(
        task=task,
        title=f"{name}, seed by seed",
        description=_describe([each.entry for each in found], task),
        frame=frame_of(x, y, height=height, x_label=f"{name} × 100{starts}", y_label=""),
        rows=rows,
        has_intervals=any(row.low is not None for row in rows),
        has_crosses=any(row.crosses for row in rows),
        left_out=max(left_out, 0),
    )


def _row(named: NamedEntry, task: str, place: int, x: Axis) -> SpreadRow:
    entry = named.entry
    cell = entry.cells[task]
    y = TOP + STEP * (place + 0.5)
    interval = interval_of(cell)
    ends = (interval.low, interval.high) if interval else ()
    return SpreadRow(
        entry=named.id,
        name=shortened(named.name, 22),
        href="#" + group_anchor(entry, cell.runs[0].task),
        title=f"{entry.model} ({entry.recipe_label})",
        sentence=sentence_of(cell),
        y=y,
        dots=_dots(cell, x, y),
        crosses=_crosses(cell, x, y),
        median=x(100 * cell.median) if len(cell.values) > 1 else None,
        low=x(x.clip(min(ends))) if ends else None,
        high=x(x.clip(max(ends))) if ends else None,
        caps=tuple(x(end) for end in ends if x.low <= end <= x.high),
    )


def interval_of(cell: Cell) -> Interval | None:
    """The 95 % interval of the median over seeds, in percent; None of too few seeds."""
    if len(cell.values) < LEAST_SEEDS:
        return None
    return median_interval([100 * value for value in cell.values])


def sentence_of(cell: Cell) -> str:
    """A cell in words: the median, its interval and every seed."""
    interval = interval_of(cell)
    between = f" (95 % from {interval.low:.1f} to {interval.high:.1f})" if interval else ""
    seeds = ", ".join(
        f"{shown(value)} (seed {run.seed})"
        for run, value in zip(cell.runs, cell.values, strict=True)
    )
    return f"median {shown(cell.median)}{between}: {seeds}"


def _is_collapsed(cell: Cell, place: int) -> bool:
    run = cell.runs[place]
    return run.is_single and bool(COLLAPSED & set(run.flags.get(cell.task, ())))


def _dots(cell: Cell, x: Axis, y: float) -> str:
    """Lines of no length, which a round cap makes dots: the shortest way to draw many."""
    good = (v for i, v in enumerate(cell.values) if not _is_collapsed(cell, i))
    return "".join(f"M{x(100 * value):g},{y:g}h0" for value in good)


def _crosses(cell: Cell, x: Axis, y: float) -> str:
    bad = (v for i, v in enumerate(cell.values) if _is_collapsed(cell, i))
    return "".join(f"M{x(100 * value) - 3:g},{y - 3:g}l6,6m0,-6l-6,6" for value in bad)


def _describe(entries: Sequence[Entry], task: str) -> str:
    return ". ".join(_sentences(entries, task)) + "."


def _sentences(entries: Sequence[Entry], task: str) -> Iterator[str]:
    yield f"{len(entries)} {'row' if len(entries) == 1 else 'rows'}, best median first"
    for entry in entries[:5]:
        cell = entry.cells[task]
        seeds = "1 seed" if len(cell.values) == 1 else f"{len(cell.values)} seeds"
        yield f"{entry.model}: median {shown(cell.median)} of {seeds}"
    if len(entries) > 5:
        yield f"{len(entries) - 5} more in the table below"
