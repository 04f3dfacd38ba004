"""Names beside points, placed so that none covers another. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from leaderboard.text import visible

__all__ = ["Box", "Label", "place_labels", "shortened"]

LETTER, LINE = 7.2, 13.0
"""About the width of a letter and the height of a line in a chart's units, at the larger size of
the letters, which narrow screens get."""

GAP = 8.0
LONGEST = 26

FAR = tuple(
    (dx, dy, anchor)
    for off in (26.0, 42.0)
    for dy in (-off, off + 10)
    for dx, anchor in ((-GAP, "end"), (0.0, "middle"), (GAP, "start"))
)
"""Where a label may stand when there is no room beside its point."""

DENSE = 6.0
"""How far apart a line is looked at; a label is higher."""


@dataclass(frozen=True, kw_only=True)
class Label:
    """A text at a place; `anchor` is SVG's text-anchor.

    One that stands further off has a line to its point, `leader`: from x, y to x, y.
    """

    x: float
    y: float
    anchor: str
    text: str
    leader: tuple[float, float, float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Box:
    """A rectangle that holds a text or a mark."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        """Whether they overlap."""
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)

    def holds(self, other: "Box") -> bool:
        """Whether the other one is inside."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text as a chart shows it: unseen characters spelled out, a long one cut."""
    seen = visible(text)
    return seen if len(seen) <= longest else seen[: longest - 1] + "…"


def place_labels(
    points: Sequence[tuple[float, float, str]],
    marks: Sequence[tuple[float, float]],
    frame: Box,
    lines: Iterable[Sequence[tuple[float, float]]] = (),
) -> list[Label | None]:
    """A label for each (x, y, text), in their order; None where there is no room.

    A label covers no other label and at most one of `marks`, keeps off `lines` (corners) where it
    can, and stays in the frame.
    """
    taken: list[Box] = []
    dots = [Box(left=x - 4, top=y - 4, right=x + 4, bottom=y + 4) for x, y in marks]
    drawn = [_point(x, y) for line in lines for x, y in _along(line)]
    found: list[Label | None] = []
    for x, y, text in points:
        free = [
            ((_covered(box, dots), _covered(box, drawn)), label, box)
            for label, box in _places(x, y, text)
            if frame.holds(box) and not any(box.meets(other) for other in taken)
        ]
        best = min(free, key=lambda place: place[0], default=None)
        if best is None or best[0][0] > 1:
            found.append(None)
            continue
        _, label, box = best
        taken.append(box)
        found.append(label)
    return found


def _covered(box: Box, others: Sequence[Box]) -> int:
    return sum(box.meets(other) for other in others)


def _point(x: float, y: float) -> Box:
    return Box(left=x - 0.5, top=y - 0.5, right=x + 0.5, bottom=y + 0.5)


def _along(line: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Places on a line through corners, a few units apart."""
    for (x, y), (to_x, to_y) in pairwise(line):
        parts = int(max(abs(to_x - x), abs(to_y - y)) / DENSE) + 1
        for part in range(parts + 1):
            share = part / parts
            yield x + share * (to_x - x), y + share * (to_y - y)


def _leader(x: float, y: float, label: Label) -> tuple[float, float, float, float]:
    """From the point to the nearest corner of the text, or to the middle of its edge."""
    edge = label.y + 3 if label.y < y else label.y - 10
    return x, y, label.x, round(edge, 1)


def _places(x: float, y: float, text: str) -> Iterator[tuple[Label, Box]]:
    """Where a label may stand about its point, the best place first.

    A front comes from below and goes on to the right, so the place above on the left is free of it.
    """
    width = LETTER * len(text)
    for dx, dy, anchor in (
        (-GAP, -GAP, "end"),
        (0.0, -GAP - 3, "middle"),
        (GAP, -GAP, "start"),
        (-GAP, 4.0, "end"),
        (GAP, GAP + 8, "start"),
        (0.0, GAP + 11, "middle"),
        (-GAP, GAP + 8, "end"),
        (GAP, 4.0, "start"),
        *FAR,
    ):
        left = x + dx - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        bottom = y + dy + 2
        label = Label(x=round(x + dx, 1), y=round(y + dy, 1), anchor=anchor, text=text)
        if (dx, dy, anchor) in FAR:
            label = replace(label, leader=_leader(x, y, label))
        yield label, Box(left=left, top=bottom - LINE, right=left + width, bottom=bottom)
