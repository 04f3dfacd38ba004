"""Scores against what they cost: points, the Pareto front, and the names of those on it."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from benchharness.leaderboard.report.plots.axis import Axis, log_axis, score_axis
from benchharness.leaderboard.report.plots.cost import QUANTITIES, Quantity
from benchharness.leaderboard.report.plots.figure import (
    WIDTH,
    Corner,
    Figure,
    Key,
    Mark,
    Path,
    Table,
    TableRow,
    Text,
    place_labels,
    polyline,
    shape,
    shortened,
)
from benchharness.leaderboard.report.plots.point import Point

_ACROSS, _UP = (48, WIDTH - 14), (284, 14)
"""Where the axes lie."""

MOST_MARKS = 200
"""More marks with names and links than this make a page slow, and no reader finds one by eye."""

_SHAPES = {"measured": 0, "published": 3}
"""Circles are ours, diamonds are published."""


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """The places of the (cost, score) points on the front, cheapest first.

    A point is on it where no other costs at most as much and scores at least as high, and is
    better in one of them. Equal points are on it together.
    """
    found: list[int] = []
    best, cost = -math.inf, -math.inf
    for place in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        x, y = points[place]
        if y > best:
            best, cost = y, x
        elif (x, y) != (cost, best):
            continue
        found.append(place)
    return found


def tradeoffs(points: Sequence[Point], score: str) -> tuple[Figure, ...]:
    """A figure for each quantity that a point has; `score` names what is scored: "GLUE-9", "rte".

    Times are those on one kind of machine, the one that trained most of the points. A single point
    is no plot.
    """
    known = ((quantity, _with_cost(points, quantity)) for quantity in QUANTITIES)
    return tuple(
        _figure(found, quantity, score, len(points)) for quantity, found in known if len(found) > 1
    )


def _with_cost(points: Sequence[Point], quantity: Quantity) -> list[Point]:
    known = [point for point in points if quantity.name in point.costs]
    if quantity.name != "training-time" or not known:
        return known
    ((machine, _),) = Counter(point.machine for point in known).most_common(1)
    return [point for point in known if point.machine == machine]


@dataclass(frozen=True, kw_only=True)
class _Plane:
    """The axes of one figure, which know where a point stands."""

    quantity: Quantity
    x: Axis
    y: Axis

    def cost(self, point: Point) -> float:
        return point.costs[self.quantity.name]

    def place(self, point: Point) -> tuple[float, float]:
        return self.x(self.cost(point)), self.y(point.score)


def _figure(points: Sequence[Point], quantity: Quantity, score: str, known: int) -> Figure:
    costs = [point.costs[quantity.name] for point in points]
    scores = [value for point in points for value in (point.low, point.high)]
    plane = _Plane(
        quantity=quantity,
        x=log_axis(costs, quantity.axis, _ACROSS, steps=quantity.steps, text=quantity.text),
        y=score_axis(scores, score, _UP),
    )
    fronts = {kind: front for kind in _SHAPES if (front := _front(points, kind, plane))}
    lines = {kind: _steps(front, plane) for kind, front in fronts.items()}
    best = {id(point) for front in fronts.values() for point in front}
    # The points that are drawn, those on fronts before others, in their order: ours on top.
    ranked = sorted(points, key=lambda point: (id(point) not in best, -point.score))
    chosen = {id(point) for point in ranked[:MOST_MARKS]}
    drawn = [point for point in points if id(point) in chosen]
    marked = sorted(drawn, key=lambda point: point.kind == "measured")
    machine = quantity.name == "training-time" and points[0].machine
    choice = f"{quantity.title} ({shortened(machine, 40)})" if machine else quantity.title
    return Figure(
        title=f"{score} against {choice}",
        choice=choice,
        x=plane.x,
        y=plane.y,
        description=_describe(points, fronts, plane),
        note=" ".join(_notes(quantity, known - len(points), len(points) - len(marked))),
        keys=tuple(map(_key, fronts)),
        paths=tuple(Path(kind=f"front {k}", d=polyline(line)) for k, line in lines.items()),
        marks=tuple(_marks(marked, best, lines.values(), plane)),
    )


_Fronts = Mapping[str, Sequence[Point]]
"""By kind: measured and published scores are not ranked together."""


def _front(points: Sequence[Point], kind: str, plane: _Plane) -> list[Point]:
    alike = [point for point in points if point.kind == kind]
    return [alike[i] for i in pareto_front([(plane.cost(p), p.score) for p in alike])]


def _key(kind: str) -> Key:
    mark = f"{kind} on-front"
    text = f"{kind}, filled on its Pareto front"
    return Key(line=f"front {kind}", mark=mark, shape=shape(_SHAPES[kind], 15, 6), text=text)


def _steps(front: Sequence[Point], plane: _Plane) -> list[Corner]:
    """The best score so far at each cost."""
    corners: list[Corner] = []
    for x, y in map(plane.place, front):
        corners += [(x, corners[-1][1]), (x, y)] if corners else [(x, y)]
    return corners


def _marks(
    points: Sequence[Point], best: Set[int], lines: Iterable[Sequence[Corner]], plane: _Plane
) -> Iterator[Mark]:
    """Marks with their names; `best` are the ids of the points on fronts."""
    # Ours get their labels before published rows take the room.
    named = [point for point in points if id(point) in best][::-1]
    texts = [_text(point, plane) for point in named]
    labels = place_labels(texts, list(map(plane.place, points)), lines, (plane.x, plane.y))
    by_point = {id(point): label for point, label in zip(named, labels, strict=True)}
    for point in points:
        label = by_point.get(id(point)) or _hover(point, plane)
        x, y = plane.place(point)
        seeds = polyline([(x, plane.y(point.low)), (x, plane.y(point.high))])
        drawn = {"range": seeds} if point.low < point.high else {}
        cost = f"{plane.quantity.title} {plane.quantity.text(plane.cost(point))}"
        score = f"score {point.score:.1f}"
        if point.low < point.high:
            score += f" (seeds from {point.low:.1f} to {point.high:.1f})"
        yield Mark(
            kind=f"{point.kind} on-front" if id(point) in best else point.kind,
            x=x,
            y=y,
            note=f"{point.name} ({point.details}), {cost}, {score}, {point.kind}",
            paths={**drawn, "shape": shape(_SHAPES[point.kind], x, y)},
            texts=(label,),
            entry=point.entry,
            href=point.href,
        )


def _text(point: Point, plane: _Plane) -> Text:
    x, y = plane.place(point)
    return Text(x=x, y=y, text=shortened(point.name))


def _hover(point: Point, plane: _Plane) -> Text:
    """The name that comes while the mark is pointed at or chosen; there is room on one side."""
    x, y = plane.place(point)
    right = x < sum(_ACROSS) / 2
    return Text(
        x=round(x + (9 if right else -9), 1),
        y=y + 4,
        text=shortened(point.name),
        anchor="start" if right else "end",
        kind="label hover",
    )


def _notes(quantity: Quantity, unknown: int, rest: int) -> Iterator[str]:
    yield quantity.note
    if unknown:
        yield f"Of {unknown} more row{'' if unknown == 1 else 's'} it is not known."
    if rest:
        yield f"The best {MOST_MARKS} are drawn; {rest:,} more are in the board's table."


def _describe(points: Sequence[Point], fronts: _Fronts, plane: _Plane) -> str:
    """The figure in words: how many points, and the names on each front, cheapest first."""
    counts = Counter[str](point.kind for point in points)
    said = " and ".join(f"{counts[kind]} {kind}" for kind in fronts)
    named = (
        f"Front of the {kind}: "
        + "; ".join(
            f"{p.name} {p.score:.1f} at {plane.quantity.text(plane.cost(p))}" for p in front
        )
        for kind, front in fronts.items()
    )
    return ". ".join((f"{said} point{'' if len(points) == 1 else 's'}", *named)) + "."


def cost_table(points: Sequence[Point]) -> Table:
    """Points with all their costs, the best first and only so many of each kind."""
    known = [point for point in points if point.costs]
    rows = []
    for kind in _SHAPES:
        alike = [point for point in known if point.kind == kind]
        rows += [_point_row(p) for p in sorted(alike, key=lambda point: -point.score)[:MOST_MARKS]]
    titles = (quantity.title for quantity in QUANTITIES)
    return Table(
        columns=("model", "kind", "score × 100", *titles, "trained on"),
        words=("kind", "trained on"),
        rows=tuple(rows),
    )


def _point_row(point: Point) -> TableRow:
    costs = (q.text(point.costs[q.name]) if q.name in point.costs else "–" for q in QUANTITIES)
    return TableRow(
        name=point.name,
        href=point.href,
        details=point.details,
        cells=(point.kind, f"{point.score:.1f}", *costs, point.machine or "–"),
    )
