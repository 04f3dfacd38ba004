"""The layers of frozen encoders: the score of a task against the layer that the head reads."""

from collections.abc import Sequence

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import shown
from benchharness.leaderboard.comparing.layers import LayerCurve, LayerPoint, layer_curves
from benchharness.leaderboard.report.plots.axis import Axis, linear_axis, score_axis
from benchharness.leaderboard.report.plots.figure import (
    ACROSS,
    UP,
    Corner,
    Figure,
    Line,
    Point,
    Table,
    TableRow,
    with_lines,
)
from benchharness.leaderboard.report.plots.point import NamedEntry


def layer_figures(named: Sequence[NamedEntry], board: Board) -> tuple[Figure, ...]:
    """A figure for each task of which a model has two layers or more, with a line a model."""
    by_task: dict[str, list[LayerCurve]] = {}
    for curve in layer_curves(board):
        by_task.setdefault(curve.task, []).append(curve)
    by_entry = {id(each.entry): each for each in named}
    return tuple(_figure(curves, by_entry) for curves in by_task.values())


def _figure(curves: Sequence[LayerCurve], named: dict[int, NamedEntry]) -> Figure:
    points = [point for curve in curves for point in curve.points]
    layers = [0.0, *(float(point.layer) for point in points)]
    x = linear_axis(layers, "layer, 0 for the embeddings", ACROSS, smallest=1)
    ends = [100 * end for point in points for end in _ends(point)]
    y = score_axis(ends, curves[0].title, UP)
    figure = Figure(
        title=curves[0].title,
        x=x,
        y=y,
        description=f"{len(points)} scores by the layer that is read, in the table below.",
        note="Points are medians over seeds of a head on that layer of the frozen encoder; lines "
        "through them are 95 % intervals of the median, from three seeds on.",
        table=Table(
            columns=("model", "layer", "seeds", "median", "95 % interval"),
            words=("95 % interval",),
            rows=tuple(
                _row(curve, point, named[id(point.entry)])
                for curve in curves
                for point in curve.points
            ),
        ),
    )
    return with_lines(figure, (_line(curve, x, y, named) for curve in curves))


def _ends(point: LayerPoint) -> tuple[float, float]:
    """The lowest and the highest that is drawn of a point."""
    between = point.interval
    middle = point.cell.median
    return (middle, middle) if between is None else (between.low, between.high)


def _line(curve: LayerCurve, x: Axis, y: Axis, named: dict[int, NamedEntry]) -> Line:
    return Line(
        name=curve.name,
        corners=[_at(point, x, y) for point in curve.points],
        points=[_point(curve, p, x, y, named[id(p.entry)]) for p in curve.points],
    )


def _at(point: LayerPoint, x: Axis, y: Axis) -> Corner:
    return x(point.layer), y(100 * point.cell.median)


def _point(curve: LayerCurve, point: LayerPoint, x: Axis, y: Axis, named: NamedEntry) -> Point:
    across, up = _at(point, x, y)
    low, high = (y(100 * end) for end in _ends(point))
    seeds = ", ".join(map(shown, point.cell.values))
    return Point(
        x=across,
        y=up,
        note=f"{curve.name}, layer {point.layer}: {shown(point.cell.median)} ({seeds})",
        span=None if point.interval is None else (low, high),
        entry=named.id,
        href=named.href(point.cell),
    )


def _row(curve: LayerCurve, point: LayerPoint, named: NamedEntry) -> TableRow:
    between = point.interval
    return TableRow(
        name=curve.name,
        cells=(
            str(point.layer),
            str(len(point.cell.values)),
            shown(point.cell.median),
            f"{shown(between.low)} to {shown(between.high)}" if between else "–",
        ),
        href=named.href(point.cell),
    )
