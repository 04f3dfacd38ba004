"""Plots of the report: geometry computed in Python, drawn as inline SVG by templates.

This module has the elements of every chart: axes with ticks, lines, marks, labels and a table. All
functions are pure.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.report.table import group_anchor
from benchharness.leaderboard.text import visible


class Tick(NamedTuple):
    """Tick at the position `place` along its axis, with its text."""

    place: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Map from values `low` to `high` to positions `start` to `end`, logarithmic if `log`.

    `label` is the axis label with the unit; `values` are the values that have ticks.
    """

    label: str
    low: float
    high: float
    start: float
    end: float
    values: tuple[float, ...] = ()
    text: Callable[[float], str] = str
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of a value, rounded to a tenth; it may lie beyond the ends."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = map(math.log, (low, high, value))
        return round(self.start + (value - low) / (high - low) * (self.end - self.start), 1)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Ticks with positions and texts."""
        return tuple(Tick(self(value), self.text(value)) for value in self.values)


_LEAST_SPAN = 1e-11  # ticks are rounded to twelve decimals, which must distinguish them


def linear_axis(
    values: Sequence[float], label: str, span: tuple[float, float], *, smallest: float = 0.0
) -> Axis:
    """Return a linear axis between round numbers around the values.

    Args:
        values: Values that the axis must contain.
        label: Axis label with the unit.
        span: Positions of the low and the high end.
        smallest: Smallest distance between two ticks.
    """
    ticks = _nice_ticks(values, smallest)
    return Axis(
        label=label,
        low=ticks[0],
        high=ticks[-1],
        start=span[0],
        end=span[1],
        values=tuple(ticks),
        text=lambda value: f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}",
    )


def score_axis(values: Sequence[float], score: str, span: tuple[float, float]) -> Axis:
    """Return an axis for a score in percent; its label names the first value unless that is 0."""
    axis = linear_axis(values, f"{score} × 100", span)
    starts = f", axis from {axis.text(axis.low)}" if axis.low else ""
    return replace(axis, label=axis.label + starts)


def _nice_ticks(values: Sequence[float], smallest: float = 0.0) -> list[float]:
    """Return two to six round numbers around the values, spaced 1, 2 or 5 times a power of 10."""
    low, high = min(values), max(values)
    span = high - low
    # A relative difference below 1e-4 counts as none: such a line is drawn flat.
    if span <= max(abs(high) * 1e-4, _LEAST_SPAN):
        span = abs(high) if abs(high) > _LEAST_SPAN else 1.0
    # The smallest of 1, 2, 5 and 10 times a power of ten with at most four steps.
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * f for f in (1, 2, 5, 10) if span / (power * f) <= 4)
    step = max(step, smallest)
    first, last = math.floor(low / step), math.ceil(high / step)
    last += first == last
    return [round(number * step, 12) for number in range(first, last + 1)]


_LEAST_LOG_TICKS, _MOST_LOG_TICKS = 2, 6


def log_axis(
    values: Sequence[float],
    label: str,
    span: tuple[float, float],
    *,
    steps: Sequence[float],
    text: Callable[[float], str],
) -> Axis:
    """Return a logarithmic axis with a margin on both sides, at least a factor of 4 wide.

    If 0, which has no logarithm, is among the values, it gets a position below all others. If too
    many `steps` lie inside the axis, only the powers of ten have ticks, or every second or third of
    these. If too few do, round numbers between them are added.

    Args:
        values: Values that the axis must contain; at least one is positive.
        label: Axis label with the unit.
        span: Positions of the low and the high end.
        steps: Round values in ascending order that may have a tick.
        text: Function that formats the value of a tick.
    """
    above = [value for value in values if value > 0]
    low, high = min(above), max(above)
    room = max((high / low) ** 0.08, 2.0 if high < 2 * low else 1.15)
    low, high = low / room, high * room
    inside = [value for value in steps if low <= value <= high]
    powers = [value for value in inside if math.log10(value).is_integer()]
    if len(inside) > _MOST_LOG_TICKS and len(powers) >= _MOST_LOG_TICKS // 2:
        inside = powers
    if len(inside) < _LEAST_LOG_TICKS:
        inside = [value for value in _nice_ticks([low, high]) if low <= value <= high]
    decades = [10.0**n for n in range(math.floor(math.log10(low)), 1 + int(math.log10(high)))]
    for factors in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)):
        if len(inside) < _LEAST_LOG_TICKS:
            rounds = [decade * factor for decade in decades for factor in factors]
            inside = [value for value in rounds if low <= value <= high]
    # Rounded up, so that no more than _MOST_LOG_TICKS ticks remain.
    apart = -(-len(inside) // _MOST_LOG_TICKS) or 1
    axis = Axis(
        label=label,
        low=low,
        high=high,
        start=span[0],
        end=span[1],
        values=tuple(inside[::apart]),
        text=text,
        log=True,
    )
    if len(above) == len(values):
        return axis
    zero = low / (high / low) ** 0.08
    values, text_of = (zero, *axis.values), lambda value: "0" if value == zero else text(value)
    return replace(axis, low=zero, values=values, text=text_of)


WIDTH = 520
"""Width of every chart except the small learning curves, in chart units; a page scales it."""


@dataclass(frozen=True, kw_only=True)
class Path:
    """Line or shape: the `d` of an SVG path and the CSS classes that style it.

    `note` is shown on hover.
    """

    kind: str
    d: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Text:
    """Text at a position; `anchor` is SVG's text-anchor, `kind` has the CSS classes."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    kind: str = "label"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Mark of an entry or run at x, y: paths keyed by their CSS classes, and texts.

    `note` is shown on hover, all marks of one `entry` are highlighted together, and a click follows
    `href`.
    """

    kind: str
    x: float
    y: float
    note: str
    paths: Mapping[str, str]
    texts: tuple[Text, ...] = ()
    entry: str = ""
    href: str = ""


@dataclass(frozen=True, kw_only=True)
class Key:
    """Item of the legend: a piece of line and a shape as they are drawn, with their meaning."""

    line: str
    text: str
    mark: str = ""
    shape: str = ""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """Row of a figure's table, with its link and with details in small print."""

    name: str
    cells: tuple[str, ...]
    href: str = ""
    details: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Numbers of figures as a table, for readers who cannot see the figures.

    The first of `columns` is the name's; columns listed in `words` contain text, the others
    numbers.
    """

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Chart; `paths` are drawn below the marks, `texts` above them.

    `description` is the content of the chart in words, `note` explains how to read it, and `choice`
    names the chart among those that a reader can switch between. `spans` are the vertical ranges
    over which vertical lines are drawn, so that they cross no heading; the whole height if there
    are none.
    """

    title: str
    x: Axis
    y: Axis
    description: str = ""
    note: str = ""
    choice: str = ""
    width: float = WIDTH
    keys: tuple[Key, ...] = ()
    paths: tuple[Path, ...] = ()
    marks: tuple[Mark, ...] = ()
    texts: tuple[Text, ...] = ()
    table: Table | None = None
    spans: tuple[tuple[float, float], ...] = ()

    def upright(self, place: float) -> str:
        """Return the SVG path of a vertical line at this position."""
        spans = self.spans or ((self.top, self.bottom),)
        return "".join(f"M{place:g},{top:g}V{bottom:g}" for top, bottom in spans)

    @property
    def top(self) -> float:
        """Upper end of the drawing."""
        return min(self.y.start, self.y.end)

    @property
    def bottom(self) -> float:
        """Lower end of the drawing, above the ticks of the x axis."""
        return max(self.y.start, self.y.end)

    @property
    def height(self) -> float:
        """Height of the whole chart, with the ticks and the label of its x axis."""
        return self.bottom + 44


Corner = tuple[float, float]


def polyline(corners: Sequence[Corner]) -> str:
    """Return the SVG path through these corners, empty if there are none."""
    return "M" + " ".join(f"{x:g},{y:g}" for x, y in corners) if corners else ""


_SHAPES = (
    "m-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0z",  # a circle
    "m-3.3,-3.3h6.6v6.6h-6.6z",  # a square
    "m0,-4.6l4.3,7.6h-8.6z",  # a triangle
    "m0,-5l5,5l-5,5l-5,-5z",  # a diamond
)


def cross(x: float, y: float) -> str:
    """Return the SVG path of a cross, the mark of a run that has learned nothing."""
    return f"M{x - 3:g},{y - 3:g}l6,6m0,-6l-6,6"


def shape(number: int, x: float, y: float) -> str:
    """Return the SVG path of a circle (0), square, triangle or diamond (3 and more) around x, y."""
    return f"M{x:g},{y:g}{_SHAPES[min(number, len(_SHAPES) - 1)]}"


@dataclass(frozen=True, kw_only=True)
class NamedEntry:
    """Entry with the `id` that all its marks share, and a name that no other entry has."""

    id: str
    name: str
    entry: Entry

    @property
    def title(self) -> str:
        """Name with the words of the recipe that the name leaves out."""
        unsaid = self.entry.beside_name
        return f"{self.name} ({unsaid})" if unsaid else self.name

    def href(self, cell: Cell) -> str:
        """Return the link to the runs of a cell."""
        return "#" + group_anchor(self.entry, cell.runs[0].task)


def named_entries(board: Board, anchor: str) -> tuple[NamedEntry, ...]:
    """Return the entries of a board with ids; `anchor` is the id of the board in the page."""
    return tuple(
        NamedEntry(id=f"{anchor}-e{number}", name=entry.name, entry=entry)
        for number, entry in enumerate(board.entries)
    )


# Labels next to points, placed so that none covers another.

_LETTER, _LINE = 7.2, 13.0
"""Approximate width of a letter and height of a line in chart units, for the larger letters of
narrow screens."""

_LONGEST = 26

_SIDES = (
    (-8.0, -8.0, "end"),
    (0.0, -11.0, "middle"),
    (8.0, -8.0, "start"),
    (-8.0, 4.0, "end"),
    (8.0, 16.0, "start"),
    (0.0, 19.0, "middle"),
    (-8.0, 16.0, "end"),
    (8.0, 4.0, "start"),
)
"""Positions of a label relative to its point, best first. A Pareto front comes from below and goes
on to the right, so the position above on the left is free of it."""

_Box = tuple[float, float, float, float]  # left, top, right, bottom


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return the text as charts show it: invisible characters escaped, a long text cut."""
    seen = visible(text)
    return seen if len(seen) <= longest else seen[: longest - 1] + "…"


def place_labels(
    points: Sequence[Text],
    marks: Sequence[Corner],
    lines: Iterable[Sequence[Corner]],
    axes: tuple[Axis, Axis],
) -> list[Text | None]:
    """Return a label next to each point, in the same order; None if there is no room.

    A label covers neither another label nor one of `marks`, avoids `lines` if possible, and stays
    between the axes.
    """
    x, y = axes
    taken = [(across - 3, up - 3, across + 3, up + 3) for across, up in marks]
    drawn = [(*place, *place) for line in lines for place in _along(line)]
    found: list[Text | None] = []
    for point in points:
        # Positions between the axes that cover no mark and no label, each with the number of line
        # points that it covers. Positions grow downwards, so the y axis starts at the larger one.
        free = [
            (sum(_meet(box, other) for other in drawn), label, box)
            for label, box in _places(point)
            if x.start <= box[0] and box[2] <= x.end and y.end <= box[1] and box[3] <= y.start
            if not any(_meet(box, other) for other in taken)
        ]
        _, label, box = min(free, key=lambda place: place[0], default=(0, None, None))
        found.append(label)
        taken += [box] if box else []
    return found


def _along(line: Sequence[Corner]) -> Iterator[Corner]:
    """Yield points on a polyline that are closer to each other than the height of a label."""
    for (x, y), (to_x, to_y) in pairwise(line):
        parts = int(max(abs(to_x - x), abs(to_y - y)) / 6) + 1
        for part in range(parts + 1):
            yield x + (to_x - x) * part / parts, y + (to_y - y) * part / parts


def _places(point: Text) -> Iterator[tuple[Text, _Box]]:
    # Approximate box of the text: y is its baseline, and descenders reach 2 below that.
    width = _LETTER * len(point.text)
    for dx, dy, anchor in _SIDES:
        x, y = round(point.x + dx, 1), round(point.y + dy, 1)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        yield replace(point, x=x, y=y, anchor=anchor), (left, y + 2 - _LINE, left + width, y + 2)


def _meet(one: _Box, other: _Box) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]
