"""k-shot runs: the score of a task against the number of rows that were trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, shown
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.job import ZERO_SHOT
from benchharness.leaderboard.report.plots.axis import Axis, log_axis, score_axis, with_zero
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
from benchharness.tasks.suites import title_of

_ROUND = tuple(2**power for power in range(30))


@dataclass(frozen=True, kw_only=True)
class _Shots:
    """The score of one entry, which was trained on so many rows; 0 for none."""

    shots: int
    named: NamedEntry
    cell: Cell


_Curves = Mapping[str, list[_Shots]]
"""The points of each model and recipe, by rising number of rows."""


def shot_figures(named: Sequence[NamedEntry], board: Board) -> tuple[Figure, ...]:
    """A figure for each task with k-shot runs of one model and two or more numbers of rows.

    What a language model scores without training stands at 0.
    """
    figures = (_figure(task, _curves(named, task)) for task in board.tasks)
    return tuple(figure for figure in figures if figure is not None)


def _curves(named: Sequence[NamedEntry], task: str) -> _Curves:
    found: dict[str, list[_Shots]] = {}
    untrained: dict[str, _Shots] = {}
    for each in named:
        cell = each.entry.cells.get(task)
        if cell is None:
            continue
        setting = cell.runs[0].settings.get("shots")
        if each.entry.kind == ZERO_SHOT:
            untrained[_weights(each.entry)] = _Shots(shots=0, named=each, cell=cell)
        elif setting is not None:
            point = _Shots(shots=int(setting.value), named=each, cell=cell)
            found.setdefault(_without_shots(each.entry), []).append(point)
    for points in found.values():
        if start := untrained.get(_weights(points[0].named.entry)):
            points.append(start)
        points.sort(key=lambda point: point.shots)
    return {name: points for name, points in found.items() if len(points) > 1}


def _weights(entry: Entry) -> str:
    return entry.runs[0].weights


def _without_shots(entry: Entry) -> str:
    """The entry's name but for its number of rows."""
    words = [word.shown for word in entry.words[entry.unsaid :] if not _says_shots(word.typed)]
    return ", ".join((entry.model, *words, entry.precision))


def _says_shots(typed: str) -> bool:
    return typed.startswith("shots=")


def _figure(task: str, curves: _Curves) -> Figure | None:
    if not curves:
        return None
    points = [point for points in curves.values() for point in points]
    x = _rows_axis([point.shots for point in points])
    y = score_axis([100 * v for point in points for v in point.cell.values], title_of(task), UP)
    figure = Figure(
        title=title_of(task),
        x=x,
        y=y,
        description=f"{len(points)} scores by the number of training rows, in the table below.",
        note="Points are medians over seeds, which draw other rows each; lines through them reach "
        "from the lowest to the highest seed.",
        table=Table(
            columns=("model", "training rows", "seeds", "median", "lowest", "highest"),
            rows=tuple(_row(name, point) for name, points in curves.items() for point in points),
        ),
    )
    return with_lines(figure, (_line(name, points, x, y) for name, points in curves.items()))


def _rows_axis(numbers: Sequence[int]) -> Axis:
    """Logarithmic; where there is a 0, it has a place before all others."""
    above = [float(number) for number in numbers if number]
    axis = log_axis(above, "training rows", ACROSS, steps=_ROUND, text="{:g}".format)
    return axis if len(above) == len(numbers) else with_zero(axis)


def _at(point: _Shots, x: Axis, y: Axis) -> Corner:
    return x(max(point.shots, x.low)), y(100 * point.cell.median)


def _line(name: str, points: Sequence[_Shots], x: Axis, y: Axis) -> Line:
    return Line(
        name=name,
        corners=[_at(point, x, y) for point in points],
        points=[_point(name, point, x, y) for point in points],
    )


def _point(name: str, point: _Shots, x: Axis, y: Axis) -> Point:
    across, up = _at(point, x, y)
    low, high = (y(100 * end) for end in _ends(point.cell))
    seeds = ", ".join(map(shown, point.cell.values))
    return Point(
        x=across,
        y=up,
        note=f"{name}, {point.shots} rows: {shown(point.cell.median)} ({seeds})",
        span=(low, high),
        entry=point.named.id,
        href=point.named.href(point.cell),
    )


def _ends(cell: Cell) -> tuple[float, float]:
    return min(cell.values), max(cell.values)


def _row(name: str, point: _Shots) -> TableRow:
    low, high = _ends(point.cell)
    return TableRow(
        name=name,
        cells=(
            f"{point.shots:,}",
            str(len(point.cell.values)),
            *map(shown, (point.cell.median, low, high)),
        ),
        href=point.named.href(point.cell),
    )
