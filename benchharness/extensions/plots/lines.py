"""Line plots: learning curves, and scores over training set sizes, layers or checkpoints."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean
from typing import NamedTuple, TypedDict, Unpack

from benchharness.extensions.plots import chart
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, marked, shown
from benchharness.leaderboard.job import ZERO_SHOT
from benchharness.leaderboard.result import CurvePoint
from benchharness.leaderboard.statistics import Interval
from benchharness.tasks.suites import title_of

# Line plots whose points may have vertical lines, for all plots of scores against a number.

ACROSS, _UP = (48, chart.WIDTH - 20), (232, 16)
"""Positions of the ends of the x and y axes in most plots."""

_STYLES = 4
"""Number of different colours, and of different shapes. They are combined so that 16 lines can be
distinguished."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Point of a line plot.

    Attributes:
        x: Position on the horizontal axis, e.g. a number of training rows.
        y: Score in percent.
        note: Text that is shown on hover.
        ends: Lower and upper end of a vertical line through the point, in percent; None for no
            line.
        entry: Id of the leaderboard entry (see `Mark`); may be empty.
        href: Link that a click follows; may be empty.
        cells: Name and numbers for the point's row in the figure's table.
    """

    x: float
    y: float
    note: str
    ends: tuple[float, float] | None = None
    entry: str = ""
    href: str = ""
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Line:
    """Line of a plot.

    Attributes:
        name: Name of the line in the legend.
        points: Points that are drawn with marks.
        corners: Pairs (x, y) of values on the axes, through which the line goes; empty if the line
            goes through its points.
    """

    name: str
    points: Sequence[Point]
    corners: Sequence[chart.Corner] = ()


class About(TypedDict):
    """Texts of a figure and the table of its numbers, as in `chart.Figure`."""

    title: str
    description: str
    note: str
    table: chart.Table


def line_figure(
    lines: Sequence[Line],
    x: chart.Axis,
    score: str,
    *,
    labels: Iterable[tuple[str, Sequence[chart.Corner]]] = (),
    **about: Unpack[About],
) -> chart.Figure:
    """Create a chart of these lines with a legend.

    Args:
        lines: Lines to draw.
        x: Horizontal axis.
        score: Name of the score on the vertical axis.
        labels: Pairs of a text and several points. The text is placed near the mean of the points,
            or left out if there is no room.
        about: Title, description, note and table of the figure.
    """
    points = [point for line in lines for point in line.points]
    y = chart.score_axis([end for p in points for end in p.ends or (p.y, p.y)], score, _UP)

    def at(corner: chart.Corner) -> chart.Corner:
        # On a logarithmic axis, 0 is shown at the low end.
        return x(max(corner[0], x.low) if x.log else corner[0]), y(corner[1])

    drawn = [[at(c) for c in line.corners or [(p.x, p.y) for p in line.points]] for line in lines]
    wanted = []
    for text, corners in labels:
        across, above = (round(fmean(along), 1) for along in zip(*map(at, corners), strict=True))
        wanted.append(chart.Text(x=across, y=above, text=chart.shortened(text)))
    keys, paths, marks = [], [], []
    for number, line in enumerate(lines):
        # Colours repeat after four lines, but the marks of further lines have other shapes.
        style, kind = number % _STYLES, (number + number // _STYLES) % _STYLES
        key = chart.Key(line=f"line s{style}", mark=f"past s{style}", text=line.name)
        keys.append(replace(key, shape=chart.shape(kind, 15, 6)))
        paths.append(chart.Path(kind=f"line s{style}", d=chart.polyline(drawn[number])))
        for point in line.points:
            left, top = at((point.x, point.y))
            low, high = map(y, point.ends or (0, 0))
            span = {"range": f"M{left:g},{low:g}V{high:g}"} if point.ends else {}
            marks.append(
                chart.Mark(
                    kind=f"past s{style}",
                    x=left,
                    y=top,
                    note=point.note,
                    paths={**span, "shape": chart.shape(kind, left, top)},
                    entry=point.entry,
                    href=point.href,
                )
            )
    texts = chart.place_labels(wanted, [(mark.x, mark.y) for mark in marks], drawn, (x, y))
    return chart.Figure(
        x=x,
        y=y,
        keys=tuple(keys),
        paths=tuple(paths),
        marks=tuple(marks),
        texts=tuple(filter(None, texts)),
        **about,
    )


# Medians over seeds against a number: a layer, a number of training rows, or a checkpoint's step.


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Kind of number against which medians are plotted, such as layers or numbers of rows.

    Attributes:
        axis: Function that creates the axis for given numbers.
        columns: Titles of the columns of the figure's table, without "seeds" and "median". The last
            column contains the ends of the vertical lines.
        by: Name of the number in the figure's description, e.g. "number of training rows".
        note: Explanation of the points and vertical lines, for readers.
    """

    axis: Callable[[Sequence[float]], chart.Axis]
    columns: tuple[str, ...]
    by: str
    note: str


_SHOTS = Kind(
    axis=lambda places: chart.log_axis(
        places, "training rows", ACROSS, steps=[2**n for n in range(30)], text="{:g}".format
    ),
    columns=("model", "training rows", "lowest to highest"),
    by="number of training rows",
    note="Each point is the median score over seeds; each seed draws its own training rows. "
    "Vertical lines span the scores of the seeds.",
)


def line_plot(lines: Sequence[Line], title: str, kind: Kind) -> chart.Figure:
    """Plot medians over seeds against a number.

    Args:
        lines: Lines of the plot, whose points are made by `point_over_seeds`.
        title: Name of the score. It is also the title of the figure.
        kind: Kind of number on the horizontal axis.
    """
    places = [point.x for line in lines for point in line.points]
    return line_figure(
        lines,
        kind.axis(places),
        title,
        title=title,
        description=f"{len(places)} scores by {kind.by}. The table below contains all of them.",
        note=kind.note,
        table=table_of(lines, kind.columns),
    )


class Scored(NamedTuple):
    """Scores over seeds, for a point of a plot.

    Attributes:
        median: Median of the scores.
        values: Score of each seed.
        notes: Warnings about the scores.
    """

    median: float
    values: Sequence[float]
    notes: Sequence[str]

    @classmethod
    def of(cls, cell: Cell) -> "Scored":
        """Return the scores of a leaderboard's cell."""
        return cls(cell.median, cell.values, cell.notes)


def point_over_seeds(
    x: float, names: tuple[str, ...], said: str, scored: Scored, ends: Interval | None
) -> Point:
    """Create the point for a median over seeds.

    Args:
        x: Number against which the median is plotted.
        names: First cells of the point's row in the table.
        said: Beginning of the point's note.
        scored: Scores over seeds.
        ends: Ends of the vertical line through the point, on the scale of `scored`; None for no
            line.
    """
    between = f"{shown(ends.low)} to {shown(ends.high)}" if ends else "–"
    middle = marked(shown(scored.median), scored.notes)
    values = ", ".join(map(shown, scored.values))
    return Point(
        x=x,
        y=100 * scored.median,
        note="; ".join((f"{said}: {middle} ({values})", *scored.notes)),
        ends=(100 * ends.low, 100 * ends.high) if ends else None,
        cells=(*names, str(len(scored.values)), middle, between),
    )


def table_of(
    lines: Iterable[Line], columns: Sequence[str], words: Sequence[str] = ()
) -> chart.Table:
    """Create a table of the points on some lines, with one row per point.

    Args:
        lines: Lines with the points.
        columns: Titles of the columns. The columns "seeds" and "median" are inserted before the
            last one.
        words: Titles of the columns that contain text, without the first and the last column.
    """
    *named, between = columns
    points = (point for line in lines for point in line.points)
    return chart.Table(
        columns=(*named, "seeds", "median", between),
        words=(*words, between),
        rows=tuple(chart.TableRow(name=p.cells[0], cells=p.cells[1:], href=p.href) for p in points),
    )


def shot_figures(named: Sequence[chart.NamedEntry], board: Board) -> tuple[chart.Figure, ...]:
    """Plot scores over the number of training rows in few-shot runs.

    Args:
        named: Entries of the leaderboard with their ids.
        board: Leaderboard with the few-shot runs.

    Returns:
        A figure per task, with a line per model and recipe. Only models with scores for two or more
        numbers of rows are shown. The zero-shot score of the same model counts as 0 rows.
    """
    found = ((title_of(task), _shot_lines(named, task)) for task in board.tasks)
    return tuple(line_plot(lines, title, _SHOTS) for title, lines in found if lines)


def _shot_lines(named: Sequence[chart.NamedEntry], task: str) -> list[Line]:
    """Return a line per model and recipe, whose points are sorted by number of training rows."""
    found: dict[str, dict[int, chart.NamedEntry]] = {}
    untrained: dict[str, chart.NamedEntry] = {}
    for each in named:
        if cell := each.entry.cells.get(task):
            setting = cell.runs[0].settings.get("shots")
            if each.entry.kind == ZERO_SHOT:
                untrained[cell.runs[0].weights] = each
            elif setting is not None:
                found.setdefault(each.entry.name_but_for("shots"), {})[int(setting.value)] = each
    lines = []
    for name, trained in found.items():
        start = untrained.get(next(iter(trained.values())).entry.runs[0].weights)
        points = []
        for shots, each in sorted((trained | ({0: start} if start else {})).items()):
            cell, names = each.entry.cells[task], (name, f"{shots:,}")
            ends = Interval(low=min(cell.values), high=max(cell.values))
            said = f"{name}, {shots} rows"
            point = point_over_seeds(shots, names, said, Scored.of(cell), ends)
            points.append(replace(point, entry=each.id, href=each.href(cell)))
        lines += [Line(name=name, points=points)] if len(points) > 1 else []
    return lines


# Learning curves: small charts of the loss and the dev scores over the steps of training.

_SMALL = 340  # width of a chart

_MOST_LINES, _MOST_SCORES = 4, 2
"""Maximum number of scores in the chart of a run, and number of score charts that compare seeds.
More lines could not be distinguished, and the value of a task is the mean of at most two scores.
The table of the run contains all scores."""

_Steps = list[chart.Corner]


def curve_figures(curve: Sequence[CurvePoint], split: str = "dev") -> tuple[chart.Figure, ...]:
    """Plot a run's training loss and up to four scores (times 100) over the training steps.

    A chart with fewer than two steps is left out. Values that are not finite leave a gap in the
    line.

    Args:
        curve: Points of the learning curve.
        split: Data on which the scores were computed ("dev" or "held-out"), for the title.
    """
    names = _names([curve])[:_MOST_LINES]
    return _charts(
        ("training loss", "loss", {"loss": _values(curve)}),
        (f"{split} score", "score × 100", {name: _values(curve, name) for name in names}),
    )


def seed_figures(
    curves: Mapping[str, Sequence[CurvePoint]], split: str = "dev"
) -> tuple[chart.Figure, ...]:
    """Plot the learning curves of several runs in common charts: the loss, and up to two scores.

    A chart has a line per run. Charts with fewer than two steps are left out, and values that are
    not finite leave a gap in the line.

    Args:
        curves: Points of the learning curves, keyed by the name of the run, e.g. "seed 0".
        split: Data on which the scores were computed ("dev" or "held-out"), for the titles.
    """

    def of_runs(name: str = "") -> Mapping[str, _Steps]:
        return {run: _values(curve, name) for run, curve in curves.items()}

    return _charts(
        ("training loss of every seed", "loss", of_runs()),
        *(
            (f"{split} {name} of every seed", f"{name} × 100", of_runs(name))
            for name in _names(curves.values())[:_MOST_SCORES]
        ),
    )


def _names(curves: Iterable[Sequence[CurvePoint]]) -> list[str]:
    """Return the names of the scores on these curves, in order of appearance."""
    return list(dict.fromkeys(n for curve in curves for point in curve for n in point.scores))


def _values(curve: Sequence[CurvePoint], name: str = "") -> _Steps:
    """Return (step, value) pairs of a score in percent, or of the loss if `name` is empty."""
    if not name:
        return [(point.step, point.loss) for point in curve]
    return [(p.step, p.scores[name] * 100) for p in curve if name in p.scores]


def _charts(*wanted: tuple[str, str, Mapping[str, _Steps]]) -> tuple[chart.Figure, ...]:
    return tuple(filter(None, (_curve_figure(*each) for each in wanted)))


def _curve_figure(title: str, label: str, series: Mapping[str, _Steps]) -> chart.Figure | None:
    finite = {run: [p for p in points if math.isfinite(p[1])] for run, points in series.items()}
    every = [point for points in finite.values() for point in points]
    if len({x for x, _ in every}) < 2:
        return None
    x = chart.linear_axis([0, *(x for x, _ in every)], "step", (44, 328), smallest=1)
    y = chart.linear_axis([y for _, y in every], label, (150, 12))
    # Colours repeat after four lines, but further lines have other dashes.
    styles = [f"line s{number % _STYLES} l{number}" for number in range(len(series))]
    return chart.Figure(
        title=title,
        x=x,
        y=y,
        width=_SMALL,
        keys=tuple(
            chart.Key(line=style, text=f"{name} {points[-1][1]:.3g}" if points else f"{name} ")
            for style, (name, points) in zip(styles, finite.items(), strict=True)
        ),
        paths=tuple(
            path
            for style, line in zip(styles, series.items(), strict=True)
            for path in _curve_paths(style, *line, x, y)
        ),
    )


def _curve_paths(
    style: str, name: str, points: _Steps, x: chart.Axis, y: chart.Axis
) -> Iterator[chart.Path]:
    """Yield the path of a line and the path of its dots, without values that are not finite."""
    pieces = [
        [(x(step), y(value)) for step, value in piece]
        for finite, piece in groupby(points, key=lambda point: math.isfinite(point[1]))
        if finite
    ]
    dots = (f"M{across:g},{up:g}h0" for piece in pieces for across, up in piece)
    yield chart.Path(kind=style, d="".join(map(chart.polyline, pieces)), note=name)
    yield chart.Path(kind=style.replace("line", "dots").rpartition(" ")[0], d="".join(dots))
