"""Plots of the report. Their geometry is computed in Python, and templates draw them as SVG.

This module contains the elements of all charts: axes with ticks, lines, marks, labels and a table.
All functions are pure.
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
    """Tick of an axis.

    Attributes:
        place: Position on the axis, in the units of the SVG drawing.
        text: Text next to the tick.
    """

    place: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Axis of a chart, which maps values to positions in the drawing.

    Attributes:
        label: Label with the unit.
        low: Value at the low end.
        high: Value at the high end.
        start: Position of the low end, in the units of the SVG drawing.
        end: Position of the high end, in the same units.
        values: Values that have ticks.
        text: Function that converts the value of a tick to the text next to the tick.
        log: True if the axis is logarithmic.
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
        """Return the position of a value in the drawing, rounded to one decimal.

        For a value below `low` or above `high`, the position is beyond the end of the axis.
        """
        low, high = self.low, self.high
        if self.log:
            low, high, value = map(math.log, (low, high, value))
        return round(self.start + (value - low) / (high - low) * (self.end - self.start), 1)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Ticks of the axis."""
        return tuple(Tick(self(value), self.text(value)) for value in self.values)


_LEAST_SPAN = 1e-11  # for a smaller span, ticks rounded to twelve decimals could be equal


def linear_axis(
    values: Sequence[float], label: str, span: tuple[float, float], *, smallest: float = 0.0
) -> Axis:
    """Create a linear axis that contains the values and has round numbers at its ends.

    Args:
        values: Values that the axis must contain.
        label: Label with the unit.
        span: Positions of the low and the high end in the drawing.
        smallest: Minimum difference between two ticks.
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
    """Create a linear axis for a score in percent.

    If the axis does not begin at 0, its label states the value at which it begins.

    Args:
        values: Scores in percent that the axis must contain.
        score: Name of the score, for the label.
        span: Positions of the low and the high end in the drawing.
    """
    axis = linear_axis(values, f"{score} × 100", span)
    starts = f", axis from {axis.text(axis.low)}" if axis.low else ""
    return replace(axis, label=axis.label + starts)


def _nice_ticks(values: Sequence[float], smallest: float = 0.0) -> list[float]:
    """Return two to six round numbers around the values; their step is 1, 2 or 5 times 10**n."""
    low, high = min(values), max(values)
    span = high - low
    # Treat values whose relative difference is below 1e-4 as equal, and draw a flat line.
    if span <= max(abs(high) * 1e-4, _LEAST_SPAN):
        span = abs(high) if abs(high) > _LEAST_SPAN else 1.0
    # Use the smallest of 1, 2, 5 and 10 times a power of ten that gives at most four steps.
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
    """Create a logarithmic axis that contains the values, with a margin at both ends.

    The value 0, which has no logarithm, is shown below all other values. If the axis contains too
    many of the `steps`, only some of them have ticks, preferably powers of ten. If it contains too
    few, other round numbers have ticks.

    Args:
        values: Values that the axis must contain. They must not be negative, and at least one must
            be positive.
        label: Label with the unit.
        span: Positions of the low and the high end in the drawing.
        steps: Round values in ascending order that may have ticks.
        text: Function that converts the value of a tick to the text next to the tick.
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
    # Keep every n-th tick, with n rounded up so that at most _MOST_LOG_TICKS ticks remain.
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
"""Width of all charts except learning curves, in units of the SVG drawing. The page scales it."""


@dataclass(frozen=True, kw_only=True)
class Path:
    """Line or shape in a chart.

    Attributes:
        kind: CSS classes.
        d: Attribute `d` of the SVG path, i.e. its drawing commands.
        note: Text that is shown on hover; may be empty.
    """

    kind: str
    d: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Text:
    """Text in a chart.

    Attributes:
        x: Horizontal position.
        y: Vertical position of the baseline.
        text: Text to show.
        anchor: Part of the text that is at x: "start", "middle" or "end" (SVG's text-anchor).
        kind: CSS classes.
    """

    x: float
    y: float
    text: str
    anchor: str = "start"
    kind: str = "label"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Symbol in a chart that stands for a leaderboard entry or a run.

    Attributes:
        kind: CSS classes of the mark.
        x: Horizontal position.
        y: Vertical position.
        note: Text that is shown on hover.
        paths: SVG paths of which the mark consists, keyed by the CSS class of each path.
        texts: Labels next to the symbol.
        entry: Id of the leaderboard entry; all marks with the same id are highlighted together.
            May be empty.
        href: Link that a click follows; may be empty.
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
    """Item of a legend: a sample of a line and a mark, with the text that explains them.

    Attributes:
        line: CSS classes of the line.
        text: Text that explains the line or mark.
        mark: CSS classes of the mark.
        shape: SVG path of the mark; empty if there is only a line.
    """

    line: str
    text: str
    mark: str = ""
    shape: str = ""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """Row of a figure's table.

    Attributes:
        name: Content of the first column.
        cells: Contents of the other columns.
        href: Link of the name; may be empty.
        details: Text in small print after the name; may be empty.
    """

    name: str
    cells: tuple[str, ...]
    href: str = ""
    details: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table of the numbers in a figure, for readers who cannot see the figure.

    Attributes:
        columns: Titles of the columns. The first column contains the names of the rows.
        rows: Rows of the table.
        words: Titles of the columns that contain text, without the first column. All other columns
            contain numbers.
    """

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Chart with axes, ready to be drawn.

    Attributes:
        title: Title of the chart.
        x: Horizontal axis.
        y: Vertical axis.
        description: Content of the chart in words.
        note: Explanation of how to read the chart.
        choice: Name of the chart, if readers can switch between several charts; else empty.
        width: Width in the units of the drawing.
        keys: Items of the legend.
        paths: Lines that are drawn below the marks.
        marks: Symbols in the chart.
        texts: Labels that are drawn above the marks.
        table: Table of the same numbers.
        spans: Pairs (upper end, lower end) of the pieces into which each vertical grid line is
            divided, so that it does not cross headings. If empty, grid lines have the full height.
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
        """Return the SVG path of a vertical grid line at the horizontal position `place`."""
        spans = self.spans or ((self.top, self.bottom),)
        return "".join(f"M{place:g},{top:g}V{bottom:g}" for top, bottom in spans)

    @property
    def top(self) -> float:
        """Vertical position of the upper end of the drawing."""
        return min(self.y.start, self.y.end)

    @property
    def bottom(self) -> float:
        """Vertical position of the lower end of the drawing, where the x axis is."""
        return max(self.y.start, self.y.end)

    @property
    def height(self) -> float:
        """Height of the chart, including the ticks and the label of the x axis."""
        return self.bottom + 44


Corner = tuple[float, float]


def polyline(corners: Sequence[Corner]) -> str:
    """Return the SVG path of a line through `corners`, which are pairs (x, y).

    The path is "" if there are no corners.
    """
    return "M" + " ".join(f"{x:g},{y:g}" for x, y in corners) if corners else ""


_SHAPES = (
    "m-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0z",  # a circle
    "m-3.3,-3.3h6.6v6.6h-6.6z",  # a square
    "m0,-4.6l4.3,7.6h-8.6z",  # a triangle
    "m0,-5l5,5l-5,5l-5,-5z",  # a diamond
)


def cross(x: float, y: float) -> str:
    """Return the SVG path of a cross at x, y, which marks a run that has learned nothing."""
    return f"M{x - 3:g},{y - 3:g}l6,6m0,-6l-6,6"


def shape(number: int, x: float, y: float) -> str:
    """Return the SVG path of a shape that is centered at x, y.

    The shape is a circle if `number` is 0, a square for 1, a triangle for 2, and a diamond for
    larger numbers.
    """
    return f"M{x:g},{y:g}{_SHAPES[min(number, len(_SHAPES) - 1)]}"


@dataclass(frozen=True, kw_only=True)
class NamedEntry:
    """Leaderboard entry with an id that all of its marks in plots share.

    Marks with the same id are highlighted together.

    Attributes:
        id: Id of the marks.
        name: Unique name of the entry.
        entry: Leaderboard entry.
    """

    id: str
    name: str
    entry: Entry

    @property
    def title(self) -> str:
        """Name, followed by further words in parentheses, e.g. "minilm (paper)"."""
        unsaid = self.entry.beside_name
        return f"{self.name} ({unsaid})" if unsaid else self.name

    def href(self, cell: Cell) -> str:
        """Return the link to the runs of one of the entry's cells."""
        return "#" + group_anchor(self.entry, cell.runs[0].task)


def named_entries(board: Board, anchor: str) -> tuple[NamedEntry, ...]:
    """Return the entries of a leaderboard with the ids of their marks in plots.

    Args:
        board: Leaderboard with the entries.
        anchor: Id of the leaderboard's table, with which the ids begin.
    """
    return tuple(
        NamedEntry(id=f"{anchor}-e{number}", name=entry.name, entry=entry)
        for number, entry in enumerate(board.entries)
    )


# Placement of labels next to points, so that no label covers another.

_LETTER, _LINE = 7.2, 13.0
"""Approximate width of a letter and height of a line in chart units. They are for narrow screens,
on which letters are larger."""

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
"""Possible positions of a label: its offset from the point and its text-anchor, best first. The
first is above the point on the left, where no Pareto front crosses the label, because a front comes
from below and continues to the right."""

_Box = tuple[float, float, float, float]  # left, top, right, bottom


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return a text for display in a chart.

    Invisible characters are escaped. A text that then has more than `longest` characters is cut to
    this length, and ends with "…".
    """
    seen = visible(text)
    return seen if len(seen) <= longest else seen[: longest - 1] + "…"


def place_labels(
    points: Sequence[Text],
    marks: Sequence[Corner],
    lines: Iterable[Sequence[Corner]],
    axes: tuple[Axis, Axis],
) -> list[Text | None]:
    """Place a label next to each point so that labels do not overlap.

    Returns the placed labels in the order of the points, with None for labels without room.

    Args:
        points: Texts of the labels, at the positions of their points.
        marks: Positions of marks that labels must not cover.
        lines: Lines that labels should not cover if possible.
        axes: Horizontal and vertical axis, between whose ends labels must stay.
    """
    x, y = axes
    taken = [(across - 3, up - 3, across + 3, up + 3) for across, up in marks]
    drawn = [(*place, *place) for line in lines for place in _along(line)]
    found: list[Text | None] = []
    for point in points:
        # All possible positions of the label, each with the number of points on lines that it would
        # cover. Positions grow downwards, so the y axis starts at its larger position.
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
    """Yield closely spaced points on a line, so that a label cannot be between two of them."""
    for (x, y), (to_x, to_y) in pairwise(line):
        parts = int(max(abs(to_x - x), abs(to_y - y)) / 6) + 1
        for part in range(parts + 1):
            yield x + (to_x - x) * part / parts, y + (to_y - y) * part / parts


def _places(point: Text) -> Iterator[tuple[Text, _Box]]:
    # Approximate box of the text. y is its baseline, and descenders extend 2 below the baseline.
    width = _LETTER * len(point.text)
    for dx, dy, anchor in _SIDES:
        x, y = round(point.x + dx, 1), round(point.y + dy, 1)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        yield replace(point, x=x, y=y, anchor=anchor), (left, y + 2 - _LINE, left + width, y + 2)


def _meet(one: _Box, other: _Box) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]
