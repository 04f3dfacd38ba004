"""A pretraining run: the score of each of its checkpoints against its step or its tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from benchharness.leaderboard.boards.cell import shown
from benchharness.leaderboard.comparing.stages import StageCurve, StagePoint
from benchharness.leaderboard.report.plots.axis import (
    Axis,
    linear_axis,
    log_axis,
    score_axis,
    with_zero,
)
from benchharness.leaderboard.report.plots.cost import count_text
from benchharness.leaderboard.report.plots.figure import (
    ACROSS,
    UP,
    Corner,
    Figure,
    Line,
    Point,
    Table,
    TableRow,
    Text,
    place_labels,
    with_lines,
)

_STEPS = tuple(10.0**power * factor for power in range(16) for factor in (1, 2, 5))

_SPREAD = 5.0
"""A logarithmic axis is for checkpoints whose last step is so many times the middle one's."""


def stage_figures(curves: Iterable[StageCurve]) -> tuple[Figure, ...]:
    """A figure for each pretraining run and score, with a line for each recipe and precision."""
    groups: dict[tuple[str, str], list[StageCurve]] = {}
    for curve in curves:
        groups.setdefault((curve.run, curve.task or curve.title), []).append(curve)
    return tuple(map(_figure, groups.values()))


def _figure(curves: Sequence[StageCurve]) -> Figure:
    points = [point for curve in curves for point in curve.points]
    in_tokens = all(point.stage.tokens is not None for point in points)
    x = _place_axis([_place(point, in_tokens) for point in points], in_tokens)
    y = score_axis([100 * end for point in points for end in _ends(point)], curves[0].title, UP)
    figure = Figure(
        title=f"{curves[0].run}, {curves[0].title}",
        x=x,
        y=y,
        description=f"{len(points)} scores of checkpoints. The table below has every one.",
        note=_note(curves),
        texts=tuple(_labels(curves, x, y, in_tokens)),
        table=Table(
            columns=("checkpoint", "step", "tokens", "recipe", "seeds", "median", "95 % interval"),
            words=("recipe", "95 % interval"),
            rows=tuple(_row(curve, point) for curve in curves for point in curve.points),
        ),
    )
    return with_lines(figure, (_line(curve, x, y, in_tokens) for curve in curves))


def _name(curve: StageCurve) -> str:
    return f"{curve.recipe}, {curve.precision}"


def _note(curves: Sequence[StageCurve]) -> str:
    """What each line does, and how that is known."""
    said = " ".join(f"{_name(curve)}: {curve.summary}." for curve in curves)
    scopes = sorted({curve.scope for curve in curves if curve.scope})
    if not scopes:
        return said
    return (
        f"{said} Lines through points are 95 % intervals of the median over seeds. A stretch rises "
        f"or falls where checkpoints differ beyond the noise of {' or '.join(scopes)}: Student's "
        "t, by Holm over all pairs of checkpoints, at 5 %."
    )


def _place(point: StagePoint, in_tokens: bool) -> float:
    return float((point.stage.tokens if in_tokens else point.stage.step) or 0)


def _ends(point: StagePoint) -> tuple[float, float]:
    """The lowest and the highest that is drawn of a point."""
    if point.interval is None:
        return point.median, point.median
    return point.interval.low, point.interval.high


def _place_axis(places: Sequence[float], in_tokens: bool) -> Axis:
    """Linear, or logarithmic where checkpoints crowd at the beginning; then 0 has a place too."""
    label = "tokens of pretraining" if in_tokens else "steps of pretraining"
    above = sorted(place for place in places if place > 0)
    middle = above[len(above) // 2] if above else 0.0
    if not above or above[-1] < _SPREAD * middle:
        axis = linear_axis([0.0, *places], label, ACROSS, smallest=1)
        return replace(axis, text=count_text)
    axis = log_axis(above, f"{label} (logarithmic)", ACROSS, steps=_STEPS, text=count_text)
    return axis if len(above) == len(places) else with_zero(axis)


def _across(x: Axis, place: float) -> float:
    return x(max(place, x.low) if x.log else place)


def _at(point: StagePoint, x: Axis, y: Axis, in_tokens: bool) -> Corner:
    return _across(x, _place(point, in_tokens)), y(100 * point.median)


def _line(curve: StageCurve, x: Axis, y: Axis, in_tokens: bool) -> Line:
    return Line(
        name=_name(curve),
        corners=[_at(point, x, y, in_tokens) for point in curve.points],
        points=[_point(curve, point, x, y, in_tokens) for point in curve.points],
    )


def _point(curve: StageCurve, point: StagePoint, x: Axis, y: Axis, in_tokens: bool) -> Point:
    across, up = _at(point, x, y, in_tokens)
    low, high = (y(100 * end) for end in _ends(point))
    seeds = ", ".join(map(shown, point.values))
    return Point(
        x=across,
        y=up,
        note=f"{point.model}, {_name(curve)}: {shown(point.median)} ({seeds})",
        span=None if point.interval is None else (low, high),
    )


def _labels(curves: Sequence[StageCurve], x: Axis, y: Axis, in_tokens: bool) -> Iterator[Text]:
    """What each stretch does, about its middle."""
    points, marks, lines = [], [], []
    for curve in curves:
        places = [_at(point, x, y, in_tokens) for point in curve.points]
        lines.append(places)
        marks += places
        for part in curve.stretches:
            inside = places[part.first : part.last + 1]
            across, up = fmean(a for a, _ in inside), fmean(u for _, u in inside)
            points.append(Text(x=round(across, 1), y=round(up, 1), text=part.trend))
    yield from filter(None, place_labels(points, marks, lines, (x, y)))


def _row(curve: StageCurve, point: StagePoint) -> TableRow:
    tokens = "–" if point.stage.tokens is None else f"{point.stage.tokens:,}"
    between = point.interval
    return TableRow(
        name=point.model,
        cells=(
            f"{point.stage.step:,}",
            tokens,
            _name(curve),
            str(len(point.values)),
            shown(point.median),
            f"{shown(between.low)} to {shown(between.high)}" if between else "–",
        ),
    )
