"""What every chart is made of: a figure with its axes, lines, marks, texts and table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.report.plots.axis import Axis
from benchharness.leaderboard.report.table import group_anchor
from benchharness.leaderboard.text import visible

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
    width = _LETTER * len(point.text)
    for dx, dy, anchor in _SIDES:
        x, y = round(point.x + dx, 1), round(point.y + dy, 1)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        yield replace(point, x=x, y=y, anchor=anchor), (left, y + 2 - _LINE, left + width, y + 2)


def _meet(one: _Box, other: _Box) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]
