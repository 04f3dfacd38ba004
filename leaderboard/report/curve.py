"""Learning curves as geometry: where the lines, dots, ticks and labels of a small chart stand."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leaderboard.result import CurvePoint

__all__ = ["HEIGHT", "WIDTH", "Line", "Panel", "Tick", "curve_panels"]

WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 36
"""The margins in which ticks and axis labels stand, in the chart's own units."""

LINES = 4
"""More scores than this in one chart cannot be told apart; the table has them all."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A tick at `place` along its axis, with its text."""

    place: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """One named line, in `pieces` where a value is not finite; `last` is its last value."""

    name: str
    pieces: tuple[str, ...]
    dots: tuple[Point, ...]
    last: str


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart over the steps of training: lines, and the ticks of both axes."""

    title: str
    y_label: str
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM
    width: float = WIDTH
    height: float = HEIGHT


def curve_panels(curve: Sequence[CurvePoint]) -> tuple[Panel, ...]:
    """A chart of the training loss and one of the dev scores (times 100), where there are points.

    Values that are not finite leave a gap.
    """
    loss: list[Point] = [(point.step, point.loss) for point in curve]
    names = dict.fromkeys(name for point in curve for name in point.scores)
    scores: dict[str, list[Point]] = {
        name: [(p.step, p.scores[name] * 100) for p in curve if name in p.scores]
        for name in list(names)[:LINES]
    }
    charts = [
        _panel("training loss", "loss", {"loss": loss}),
        _panel("dev score", "score", scores),
    ]
    return tuple(chart for chart in charts if chart is not None)


def _panel(title: str, y_label: str, series: dict[str, list[Point]]) -> Panel | None:
    finite = [(x, y) for line in series.values() for x, y in line if math.isfinite(y)]
    if not finite:
        return None
    x_ticks = _nice_ticks([0, *(x for x, _ in finite)], smallest=1)
    y_ticks = _nice_ticks([y for _, y in finite])
    x_scale = _Scale(x_ticks, LEFT, WIDTH - RIGHT)
    y_scale = _Scale(y_ticks, HEIGHT - BOTTOM, TOP)
    return Panel(
        title=title,
        y_label=y_label,
        lines=tuple(_line(name, points, x_scale, y_scale) for name, points in series.items()),
        x_ticks=x_scale.ticks(),
        y_ticks=y_scale.ticks(),
    )


def _line(name: str, points: Iterable[Point], x_scale: "_Scale", y_scale: "_Scale") -> Line:
    pieces: list[list[Point]] = [[]]
    last = ""
    for x, y in points:
        if math.isfinite(y):
            pieces[-1].append((x_scale(x), y_scale(y)))
            last = f"{y:.3g}"
        else:
            pieces.append([])
    return Line(
        name=name,
        pieces=tuple(" ".join(f"{x:g},{y:g}" for x, y in piece) for piece in pieces if piece),
        dots=tuple(dot for piece in pieces for dot in piece),
        last=last,
    )


class _Scale:
    """From values between the first and the last tick to places between `start` and `end`."""

    def __init__(self, ticks: Sequence[float], start: float, end: float) -> None:
        self.values = ticks
        self.start = start
        self.per_unit = (end - start) / (ticks[-1] - ticks[0])

    def __call__(self, value: float) -> float:
        return round(self.start + (value - self.values[0]) * self.per_unit, 1)

    def ticks(self) -> tuple[Tick, ...]:
        return tuple(Tick(place=self(value), text=_tick_text(value)) for value in self.values)


def _nice_ticks(values: Sequence[float], smallest: float = 0.0) -> list[float]:
    """Two to six round numbers that enclose the values; steps are 1, 2 or 5 times a power of 10."""
    low, high = min(values), max(values)
    span = high - low
    # A difference that six digits do not show is none: such a line is flat.
    if span <= abs(high) * 1e-4:
        span = abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * f for f in (1, 2, 5, 10) if span / (power * f) <= 4)
    step = max(step, smallest)
    first, last = math.floor(low / step), math.ceil(high / step)
    last += first == last
    return [round(number * step, 12) for number in range(first, last + 1)]


def _tick_text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
