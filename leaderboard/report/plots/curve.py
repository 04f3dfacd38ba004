"""Learning curves as geometry: where the lines, dots, ticks and labels of a small chart stand."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from leaderboard.report.plots.axis import Axis, Tick, linear_axis
from leaderboard.result import CurvePoint

__all__ = ["HEIGHT", "WIDTH", "Line", "Panel", "curve_panels", "seed_panels"]

WIDTH, HEIGHT = 340, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 36
"""The margins in which ticks and axis labels stand, in the chart's own units."""

LINES = 4
"""More scores than this in one chart cannot be told apart; the table has them all."""

SCORES = 2
"""The scores that seeds are compared by; a task's headline has no more."""

Point = tuple[float, float]


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
    x_label: str = "step"
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
        _panel("dev score", "score × 100", scores),
    ]
    return tuple(chart for chart in charts if chart is not None)


def seed_panels(curves: Mapping[str, Sequence[CurvePoint]]) -> tuple[Panel, ...]:
    """The same charts with a line for each of several runs, by their names ("seed 0").

    Of several scores each has a chart, the first two.
    """
    names = dict.fromkeys(
        name for curve in curves.values() for point in curve for name in point.scores
    )
    loss: dict[str, list[Point]] = {
        run: [(point.step, point.loss) for point in curve] for run, curve in curves.items()
    }
    charts = [_panel("training loss of every seed", "loss", loss)]
    for name in list(names)[:SCORES]:
        scores: dict[str, list[Point]] = {
            run: [(p.step, p.scores[name] * 100) for p in curve if name in p.scores]
            for run, curve in curves.items()
        }
        charts.append(_panel(f"dev {name} of every seed", f"{name} × 100", scores))
    return tuple(chart for chart in charts if chart is not None)


def _panel(title: str, y_label: str, series: dict[str, list[Point]]) -> Panel | None:
    finite = [(x, y) for line in series.values() for x, y in line if math.isfinite(y)]
    if not finite:
        return None
    x = linear_axis([0, *(x for x, _ in finite)], LEFT, WIDTH - RIGHT, smallest=1)
    y = linear_axis([y for _, y in finite], HEIGHT - BOTTOM, TOP)
    return Panel(
        title=title,
        y_label=y_label,
        lines=tuple(_line(name, points, x, y) for name, points in series.items()),
        x_ticks=x.ticks,
        y_ticks=y.ticks,
    )


def _line(name: str, points: Iterable[Point], x_axis: Axis, y_axis: Axis) -> Line:
    pieces: list[list[Point]] = [[]]
    last = ""
    for x, y in points:
        if math.isfinite(y):
            pieces[-1].append((x_axis(x), y_axis(y)))
            last = f"{y:.3g}"
        else:
            pieces.append([])
    return Line(
        name=name,
        pieces=tuple(" ".join(f"{x:g},{y:g}" for x, y in piece) for piece in pieces if piece),
        dots=tuple(dot for piece in pieces for dot in piece),
        last=last,
    )
