"""Names beside points, placed so that none covers another. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leaderboard.visible import visible

__all__ = ["Box", "Label", "place_labels", "shortened"]

LETTER, LINE = 7.2, 13.0
"""About the width of a letter and the height of a line in a chart's units, at the larger size of
the letters, which narrow screens get."""

GAP = 8.0
LONGEST = 26


@dataclass(frozen=True, kw_only=True)
class Label:
    """A text at a place; `anchor` is SVG's text-anchor."""

    x: float
    y: float
    anchor: str
    text: str


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
    points: Sequence[tuple[float, float, str]], marks: Sequence[tuple[float, float]], frame: Box
) -> list[Label | None]:
    """A label for each (x, y, text), in their order; None where there is no room.

    A label covers no other label, keeps off `marks` where it can, and stays in the frame.
    """
    taken: list[Box] = []
    dots = [Box(left=x - 4, top=y - 4, right=x + 4, bottom=y + 4) for x, y in marks]
    found: list[Label | None] = []
    for x, y, text in points:
        free = [
            (sum(box.meets(dot) for dot in dots), label, box)
            for label, box in _places(x, y, text)
            if frame.holds(box) and not any(box.meets(other) for other in taken)
        ]
        covered, label, box = min(free, key=lambda place: place[0], default=(99, None, None))
        if label is None or box is None or covered > 1:
            found.append(None)
            continue
        taken.append(box)
        found.append(label)
    return found


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
    ):
        left = x + dx - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        bottom = y + dy + 2
        label = Label(x=round(x + dx, 1), y=round(y + dy, 1), anchor=anchor, text=text)
        yield label, Box(left=left, top=bottom - LINE, right=left + width, bottom=bottom)
