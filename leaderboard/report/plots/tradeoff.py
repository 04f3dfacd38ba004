"""Scores against what they cost: points, the Pareto front, and the names of those on it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leaderboard.report.plots.axis import WIDTH, Axis, Frame, frame_of, linear_axis, log_axis
from leaderboard.report.plots.labels import Box, Label, place_labels, shortened
from leaderboard.report.plots.point import QUANTITIES, Point, Quantity

__all__ = ["Tradeoff", "pareto_front", "score_label", "tradeoffs"]

# The Pareto front: what nothing else beats in both cost and score. Pure.


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


HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 330, 48, 14, 14, 46
MOST_MARKS = 200
"""More marks with names and links than this make a page slow, and no reader finds one by eye."""

KINDS = ("published", "measured")
"""In the order they are drawn, ours on top."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One point as drawn. `label` is the name that is always there, `hover` the one that comes."""

    kind: str
    entry: str
    href: str
    note: str
    x: float
    y: float
    low: float
    high: float
    on_front: bool
    label: Label | None
    hover: Label


@dataclass(frozen=True, kw_only=True)
class Front:
    """The best score so far at each cost: the points, cheapest first, and the corners of steps."""

    kind: str
    points: tuple[Point, ...]
    corners: tuple[tuple[float, float], ...]

    @property
    def line(self) -> str:
        """The corners as SVG's polyline takes them."""
        return " ".join(f"{x:g},{y:g}" for x, y in self.corners)


@dataclass(frozen=True, kw_only=True)
class Tradeoff:
    """One figure. `note` says how the cost is counted, `left_out` how many have no such cost.

    Of very many points the best have marks with names and links, and those on the fronts; the
    others are dots of one path, `rest`, and counted.
    """

    quantity: str
    choice: str
    title: str
    description: str
    note: str
    frame: Frame
    fronts: tuple[Front, ...]
    marks: tuple[Mark, ...]
    rest: str
    rest_count: int
    left_out: int


def tradeoffs(points: Sequence[Point], score: str) -> tuple[Tradeoff, ...]:
    """A figure for each quantity that a point has; of times one for each kind of machine.

    `score` names what is scored: "GLUE-9", "rte".
    """
    return tuple(_tradeoffs(points, score))


def _tradeoffs(points: Sequence[Point], score: str) -> Iterator[Tradeoff]:
    for quantity in QUANTITIES:
        known = [point for point in points if quantity.name in point.costs]
        if quantity.name != "training-time":
            if known:
                yield _figure(known, quantity, quantity.title, score, len(points) - len(known))
            continue
        machines = dict.fromkeys(point.machine for point in known)
        for machine in sorted(machines, key=lambda m: -sum(p.machine == m for p in known)):
            group = [point for point in known if point.machine == machine]
            choice = f"{quantity.title} ({shortened(machine, 40)})" if machine else quantity.title
            yield _figure(group, quantity, choice, score, len(points) - len(group))


def _figure(
    points: Sequence[Point], quantity: Quantity, choice: str, score: str, left_out: int
) -> Tradeoff:
    x = log_axis(
        [point.costs[quantity.name] for point in points],
        LEFT,
        WIDTH - RIGHT,
        steps=quantity.steps,
        text=quantity.text,
    )
    heights = [value for point in points for value in (point.low, point.high)]
    y = linear_axis(heights, HEIGHT - BOTTOM, TOP)
    fronts = tuple(_front(points, kind, quantity, x, y) for kind in KINDS[::-1])
    marked, rest = _divided(points, fronts)
    return Tradeoff(
        quantity=quantity.name,
        choice=choice,
        title=f"{score} against {choice}",
        description=_describe(points, fronts, quantity),
        note=quantity.note,
        frame=frame_of(x, y, height=HEIGHT, x_label=quantity.axis, y_label=score_label(score, y)),
        fronts=fronts,
        marks=tuple(_marks(marked, fronts, quantity, x, y)),
        rest=_dots(rest, quantity, x, y),
        rest_count=len(rest),
        left_out=left_out,
    )


def score_label(score: str, axis: Axis) -> str:
    """What stands beside an axis of scores, which says where it starts if that is not 0."""
    return f"{score} × 100" + (f", axis from {axis.text(axis.low)}" if axis.low else "")


def _front(points: Sequence[Point], kind: str, quantity: Quantity, x: Axis, y: Axis) -> Front:
    """The front of one kind: measured and published scores are not ranked together."""
    alike = [point for point in points if point.kind == kind]
    pairs = [(point.costs[quantity.name], point.score) for point in alike]
    best = [alike[place] for place in pareto_front(pairs)]
    corners: list[tuple[float, float]] = []
    for point in best:
        across, up = x(point.costs[quantity.name]), y(point.score)
        if corners:
            corners.append((across, corners[-1][1]))
        corners.append((across, up))
    return Front(kind=kind, points=tuple(best), corners=tuple(corners))


def _divided(points: Sequence[Point], fronts: Sequence[Front]) -> tuple[list[Point], list[Point]]:
    """The points that get a mark, in the order they are drawn, and the others."""
    on_front = {id(point) for front in fronts for point in front.points}
    ranked = sorted(points, key=lambda point: (id(point) not in on_front, -point.score))
    chosen = {id(point) for point in ranked[:MOST_MARKS]}
    marked = [point for kind in KINDS for point in points if point.kind == kind]
    return [point for point in marked if id(point) in chosen], ranked[MOST_MARKS:]


def _dots(points: Sequence[Point], quantity: Quantity, x: Axis, y: Axis) -> str:
    """Lines of no length, which round caps make dots; those of one place are one."""
    places = ((x(point.costs[quantity.name]), y(point.score)) for point in points)
    grid = dict.fromkeys((round(across / 2) * 2, round(up / 2) * 2) for across, up in places)
    return "".join(f"M{across},{up}h0" for across, up in grid)


def _marks(
    points: Sequence[Point], fronts: Sequence[Front], quantity: Quantity, x: Axis, y: Axis
) -> Iterator[Mark]:
    places = [(x(point.costs[quantity.name]), y(point.score)) for point in points]
    on_front = {id(point) for front in fronts for point in front.points}
    # Ours get their labels before published rows take the room.
    named = [i for i, point in enumerate(points) if id(point) in on_front][::-1]
    frame = Box(left=x.start, top=y.end, right=x.end, bottom=y.start)
    labels = place_labels(
        [(*places[i], shortened(points[i].name)) for i in named],
        places,
        frame,
        lines=[front.corners for front in fronts],
    )
    by_place = dict(zip(named, labels, strict=True))
    for i, (point, (across, up)) in enumerate(zip(points, places, strict=True)):
        yield Mark(
            kind=point.kind,
            entry=point.entry,
            href=point.href,
            note=_note(point, quantity),
            x=across,
            y=up,
            low=y(point.low),
            high=y(point.high),
            on_front=i in by_place,
            label=by_place.get(i),
            hover=_hover(point, across, up, (x.start + x.end) / 2),
        )


def _hover(point: Point, x: float, y: float, middle: float) -> Label:
    """The name that comes while the mark is pointed at or chosen; there is room on one side."""
    right = x < middle
    return Label(
        x=round(x + (9 if right else -9), 1),
        y=y + 4,
        anchor="start" if right else "end",
        text=shortened(point.name),
    )


def _note(point: Point, quantity: Quantity) -> str:
    parts = [f"{point.name} ({point.details})", f"{quantity.title} {_cost(point, quantity)}"]
    score = f"score {point.score:.1f}"
    if point.low < point.high:
        score += f" (seeds from {point.low:.1f} to {point.high:.1f})"
    return ", ".join((*parts, score, point.kind))


def _cost(point: Point, quantity: Quantity) -> str:
    return quantity.text(point.costs[quantity.name])


def _describe(points: Sequence[Point], fronts: Sequence[Front], quantity: Quantity) -> str:
    """The figure in words: how many points, and the names on each front, cheapest first."""
    counts = [(sum(p.kind == front.kind for p in points), front.kind) for front in fronts]
    said = " and ".join(f"{count} {kind}" for count, kind in counts if count)
    fronts_said = [
        f"Front of the {front.kind}: "
        + "; ".join(f"{p.name} {p.score:.1f} at {_cost(p, quantity)}" for p in front.points)
        for front in fronts
        if front.points
    ]
    return ". ".join((f"{said} point{'' if len(points) == 1 else 's'}", *fronts_said)) + "."
