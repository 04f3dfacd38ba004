"""The report's plots: worked out as geometry in Python, drawn as inline SVG by templates.

Here is what every chart is made of: axes with ticks, lines, marks, labels, a table. Pure.
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
    """A tick at `place` along its axis, with its text."""

    place: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Values from `low` to `high` on places from `start` to `end`, by their logarithms if `log`.

    `label` is the name beside it, with the unit; `values` are those that have ticks.
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
        """The place of a value, to a tenth; values beyond the ends stand beyond them."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = map(math.log, (low, high, value))
        return round(self.start + (value - low) / (high - low) * (self.end - self.start), 1)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """The ticks as they are drawn."""
        return tuple(Tick(self(value), self.text(value)) for value in self.values)


_LEAST_SPAN = 1e-11  # ticks are rounded to twelve decimals, which must tell them apart


def linear_axis(
    values: Sequence[float], label: str, span: tuple[float, float], *, smallest: float = 0.0
) -> Axis:
    """An axis from a round number below the values to one above; ticks are `smallest` apart.

    It lies on places from the first to the second of `span`, as every axis here.
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
    """An axis of a score in percent, which says where it starts if that is not 0."""
    axis = linear_axis(values, f"{score} × 100", span)
    starts = f", axis from {axis.text(axis.low)}" if axis.low else ""
    return replace(axis, label=axis.label + starts)


def _nice_ticks(values: Sequence[float], smallest: float = 0.0) -> list[float]:
    """Two to six round numbers that enclose the values; steps are 1, 2 or 5 times a power of 10."""
    low, high = min(values), max(values)
    span = high - low
    # A difference that six digits do not show is none: such a line is flat.
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
    """A logarithmic axis with room on both sides, at least one factor of 4 wide.

    Where there is a 0, which has no logarithm, it has a place before all others.

    `steps` are round values in rising order that a tick may have. Of too many inside, the powers of
    ten are drawn, or every second or third; of too few, round numbers between them too.
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
    # Divided and rounded up, so that no more than _MOST_LOG_TICKS stay.
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
"""Of every chart but the small learning curves, in its own units; a page scales it."""


@dataclass(frozen=True, kw_only=True)
class Path:
    """A line or shape: the `d` of an SVG path, and the classes that give it its style.

    A `note` comes when it is pointed at.
    """

    kind: str
    d: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text at a place; `anchor` is SVG's text-anchor, `kind` its classes."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    kind: str = "label"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What stands for one entry or run at x, y: paths by their classes, and texts.

    `note` comes when it is pointed at, all marks of one `entry` are lit together, and a click
    follows `href`.
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
    """A line of the legend: a piece of line and a shape as they are drawn, and what they are."""

    line: str
    text: str
    mark: str = ""
    shape: str = ""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of a figure's numbers, with its link and what is said of it in small letters."""

    name: str
    cells: tuple[str, ...]
    href: str = ""
    details: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """The numbers of figures, for those who do not see them.

    `columns` begin with that of the names; those in `words` hold text, the others numbers.
    """

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One chart. `paths` lie below the marks, `texts` above them.

    `description` says in words what is to be seen, `note` what must be known to read it, and
    `choice` names it among the figures that it stands with. `spans` are the heights that upright
    lines are drawn over, so that they cross no heading; all of it where there are none.
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
        """The path of an upright line."""
        spans = self.spans or ((self.top, self.bottom),)
        return "".join(f"M{place:g},{top:g}V{bottom:g}" for top, bottom in spans)

    @property
    def top(self) -> float:
        """Where the drawing begins."""
        return min(self.y.start, self.y.end)

    @property
    def bottom(self) -> float:
        """Where the drawing ends, above the x axis's ticks."""
        return max(self.y.start, self.y.end)

    @property
    def height(self) -> float:
        """Of the whole chart, with the ticks and the label of its x axis."""
        return self.bottom + 44


Corner = tuple[float, float]


def polyline(corners: Sequence[Corner]) -> str:
    """The path through these corners; empty without any."""
    return "M" + " ".join(f"{x:g},{y:g}" for x, y in corners) if corners else ""


_SHAPES = (
    "m-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0z",  # a circle
    "m-3.3,-3.3h6.6v6.6h-6.6z",  # a square
    "m0,-4.6l4.3,7.6h-8.6z",  # a triangle
    "m0,-5l5,5l-5,5l-5,-5z",  # a diamond
)


def cross(x: float, y: float) -> str:
    """The path of what has learned nothing."""
    return f"M{x - 3:g},{y - 3:g}l6,6m0,-6l-6,6"


def shape(number: int, x: float, y: float) -> str:
    """The path of a circle (0), square, triangle or diamond (3 and more) about x, y."""
    return f"M{x:g},{y:g}{_SHAPES[min(number, len(_SHAPES) - 1)]}"


@dataclass(frozen=True, kw_only=True)
class NamedEntry:
    """An entry with the `id` that all its marks carry, and a name that no other one has."""

    id: str
    name: str
    entry: Entry

    @property
    def title(self) -> str:
        """The same with what it leaves unsaid."""
        unsaid = self.entry.beside_name
        return f"{self.name} ({unsaid})" if unsaid else self.name

    def href(self, cell: Cell) -> str:
        """Leads to the runs of one of its cells."""
        return "#" + group_anchor(self.entry, cell.runs[0].task)


def named_entries(board: Board, anchor: str) -> tuple[NamedEntry, ...]:
    """The entries of a board, whose id in the page is `anchor`."""
    return tuple(
        NamedEntry(id=f"{anchor}-e{number}", name=entry.name, entry=entry)
        for number, entry in enumerate(board.entries)
    )


# Names next to points, placed so that none covers another.

_LETTER, _LINE = 7.2, 13.0
"""About the width of a letter and the height of a line in a chart's units, at the larger size of
the letters, which narrow screens get."""

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
"""Where a label may stand about its point, the best place first. A Pareto front comes from below
and goes on to the right, so the place above on the left is free of it."""

_Box = tuple[float, float, float, float]  # left, top, right, bottom


def shortened(text: str, longest: int = _LONGEST) -> str:
    """The text as a chart shows it: unseen characters spelled out, a long one cut."""
    seen = visible(text)
    return seen if len(seen) <= longest else seen[: longest - 1] + "…"


def place_labels(
    points: Sequence[Text],
    marks: Sequence[Corner],
    lines: Iterable[Sequence[Corner]],
    axes: tuple[Axis, Axis],
) -> list[Text | None]:
    """A label beside each point with its text, in their order; None where there is no room.

    A label covers no other label and none of `marks`, keeps off `lines` where it can, and stays
    between the axes.
    """
    x, y = axes
    taken = [(across - 3, up - 3, across + 3, up + 3) for across, up in marks]
    drawn = [(*place, *place) for line in lines for place in _along(line)]
    found: list[Text | None] = []
    for point in points:
        # The places between the axes that cover no mark and no label, each with how much of the
        # lines it covers. Places grow downwards, so the y axis starts at the larger one.
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
    """Places on a line through corners, nearer to each other than a label is high."""
    for (x, y), (to_x, to_y) in pairwise(line):
        parts = int(max(abs(to_x - x), abs(to_y - y)) / 6) + 1
        for part in range(parts + 1):
            yield x + (to_x - x) * part / parts, y + (to_y - y) * part / parts


def _places(point: Text) -> Iterator[tuple[Text, _Box]]:
    # About the box of the text: y is its baseline, and tails reach 2 below that.
    width = _LETTER * len(point.text)
    for dx, dy, anchor in _SIDES:
        x, y = round(point.x + dx, 1), round(point.y + dy, 1)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        yield replace(point, x=x, y=y, anchor=anchor), (left, y + 2 - _LINE, left + width, y + 2)


def _meet(one: _Box, other: _Box) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]
