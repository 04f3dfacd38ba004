"""Lines through points with the span of each: what several plots against one number share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchharness.leaderboard.report.plots.figure import (
    WIDTH,
    Corner,
    Figure,
    Key,
    Mark,
    Path,
    polyline,
    shape,
)

ACROSS, UP = (48, WIDTH - 20), (232, 16)
"""Where the axes of most lie."""

_STYLES = 4
"""Shapes, and colours, that can be told apart. Colours come again with another shape, so that 16
lines differ."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point at x, y of the drawing, and the heights that an upright line through it spans.

    `note`, `entry` and `href` are as a Mark's.
    """

    x: float
    y: float
    note: str
    span: tuple[float, float] | None = None
    entry: str = ""
    href: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line through corners, which may be others than its points."""

    name: str
    corners: Sequence[Corner]
    points: Sequence[Point]


def with_lines(figure: Figure, lines: Iterable[Line]) -> Figure:
    """The figure with these lines, their points and a legend."""
    styled = [
        (place % _STYLES, (place + place // _STYLES) % _STYLES, line)
        for place, line in enumerate(lines)
    ]
    return replace(
        figure,
        keys=tuple(
            Key(line=f"line s{n}", mark=f"past s{n}", shape=shape(kind, 15, 6), text=line.name)
            for n, kind, line in styled
        ),
        paths=tuple(Path(kind=f"line s{n}", d=polyline(line.corners)) for n, _, line in styled),
        marks=tuple(_mark(n, kind, point) for n, kind, line in styled for point in line.points),
    )


def _mark(style: int, kind: int, point: Point) -> Mark:
    paths = {"shape": shape(kind, point.x, point.y)}
    if point.span is not None:
        low, high = point.span
        paths = {"range": f"M{point.x:g},{low:g}V{high:g}", **paths}
    return Mark(
        kind=f"past s{style}",
        x=point.x,
        y=point.y,
        note=point.note,
        paths=paths,
        entry=point.entry,
        href=point.href,
    )
