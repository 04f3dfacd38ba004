"""Learning curves: small charts of the loss and the dev scores over the steps of training."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from benchharness.leaderboard.report.plots.axis import Axis, linear_axis
from benchharness.leaderboard.report.plots.figure import Figure, Key, Path, polyline
from benchharness.leaderboard.result import CurvePoint

_WIDTH, _ACROSS, _UP = 340, (44, 328), (150, 12)

_LINES = 4
"""More scores than this in one chart cannot be told apart; the table has them all."""

_SCORES = 2
"""The scores that seeds are compared by; a task's headline has no more."""

_Points = list[tuple[float, float]]


def curve_figures(curve: Sequence[CurvePoint], split: str = "dev") -> tuple[Figure, ...]:
    """A chart of the training loss and one of the dev scores (times 100), where there are points.

    Values that are not finite leave a gap.
    """
    scores = {name: _scores(curve, name) for name in _names([curve])[:_LINES]}
    charts = [
        _figure("training loss", "loss", {"loss": _losses(curve)}),
        _figure(f"{split} score", "score × 100", scores),
    ]
    return tuple(chart for chart in charts if chart is not None)


def seed_figures(
    curves: Mapping[str, Sequence[CurvePoint]], split: str = "dev"
) -> tuple[Figure, ...]:
    """The same charts with a line for each of several runs, by their names ("seed 0").

    Of several scores each has a chart, the first two.
    """
    losses = {run: _losses(curve) for run, curve in curves.items()}
    charts = [_figure("training loss of every seed", "loss", losses)]
    for name in _names(curves.values())[:_SCORES]:
        scores = {run: _scores(curve, name) for run, curve in curves.items()}
        charts.append(_figure(f"{split} {name} of every seed", f"{name} × 100", scores))
    return tuple(chart for chart in charts if chart is not None)


def _names(curves: Iterable[Sequence[CurvePoint]]) -> list[str]:
    """The scores of the curves, as they come."""
    return list(dict.fromkeys(n for curve in curves for point in curve for n in point.scores))


def _losses(curve: Sequence[CurvePoint]) -> _Points:
    return [(point.step, point.loss) for point in curve]


def _scores(curve: Sequence[CurvePoint], name: str) -> _Points:
    return [(p.step, p.scores[name] * 100) for p in curve if name in p.scores]


def _figure(title: str, label: str, series: Mapping[str, _Points]) -> Figure | None:
    finite = [(x, y) for points in series.values() for x, y in points if math.isfinite(y)]
    if len({x for x, _ in finite}) < 2:
        return None
    x = linear_axis([0, *(x for x, _ in finite)], "step", _ACROSS, smallest=1)
    y = linear_axis([y for _, y in finite], label, _UP)
    lines = list(enumerate(series.items()))
    return Figure(
        title=title,
        x=x,
        y=y,
        width=_WIDTH,
        keys=tuple(_key(number, *line) for number, line in lines),
        paths=tuple(path for number, line in lines for path in _paths(number, *line, x, y)),
    )


def _key(number: int, name: str, points: _Points) -> Key:
    """A line's name and its last value."""
    last = next((f"{y:.3g}" for _, y in reversed(points) if math.isfinite(y)), "")
    return Key(line=_style(number), text=f"{name} {last}")


def _style(number: int) -> str:
    """The classes of a line: colours come again, with other dashes."""
    return f"line s{number % 4} l{number}"


def _paths(number: int, name: str, points: _Points, x: Axis, y: Axis) -> Iterator[Path]:
    pieces: list[_Points] = [[]]
    for step, value in points:
        if math.isfinite(value):
            pieces[-1].append((x(step), y(value)))
        else:
            pieces.append([])
    dots = (f"M{across:g},{up:g}h0" for piece in pieces for across, up in piece)
    yield Path(kind=_style(number), d="".join(map(polyline, pieces)), note=name)
    yield Path(kind=f"dots s{number % 4}", d="".join(dots))
