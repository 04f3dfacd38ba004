"""Scores against what they cost: points, the Pareto front, and the names of those on it."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Literal

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, marked, score_names
from benchharness.leaderboard.boards.published import PublishedRow, published
from benchharness.leaderboard.boards.reproduction import LIKE_OURS
from benchharness.leaderboard.report import plots as chart
from benchharness.leaderboard.report.plots.cost import (
    QUANTITIES,
    Facts,
    Quantity,
    Sizes,
    published_size,
    size_of_run,
)
from benchharness.leaderboard.text import counted
from benchharness.tasks.suites import ScoreRule, complete_mean


@dataclass(frozen=True, kw_only=True)
class Point:
    """One score, in percent, with what is known of its costs by the names of quantities.

    `entry` is the same for all points of an entry, empty for a published row; `low` and `high` are
    the lowest and highest seed; `machine` is what trained it, empty for several kinds of machine.
    `flags` are what must be known of the score; one that `has_learned` nothing is on no front.
    """

    kind: Literal["measured", "published"]
    entry: str
    name: str
    details: str
    score: float
    low: float
    high: float
    costs: Mapping[str, float]
    machine: str
    href: str
    flags: tuple[str, ...] = ()
    has_learned: bool = True

    @property
    def text(self) -> str:
        """The score as tables show it."""
        return marked(f"{self.score:.1f}", self.flags)


def measured_points(
    named: Sequence[chart.NamedEntry], rule: ScoreRule, task: str | None, facts: Facts, sizes: Sizes
) -> list[Point]:
    """The models that have the task's score, or the suite's by `rule` where `task` is None.

    Baselines and ensembles are left out: they have no size and no training of their own. So are
    models of whose runs there are no facts.
    """
    tasks = tuple(rule.cells) if task is None else (task,)
    points = []
    for each in (each for each in named if each.entry.is_single):
        cells = [each.entry.cells[name] for name in tasks if name in each.entry.cells]
        runs = [run.key for cell in cells for run in cell.runs]
        if len(cells) == len(tasks) and all(key in facts for key in runs):
            points.append(_measured(each, task, cells, facts, sizes))
    return points


def _measured(
    named: chart.NamedEntry, task: str | None, cells: Sequence[Cell], facts: Facts, sizes: Sizes
) -> Point:
    entry = named.entry
    values = entry.seed_scores if task is None else cells[0].values
    score = entry.score if task is None else cells[0].median
    assert score is not None, "an entry with every task has a score"
    machines = {facts[run.key].machine for cell in cells for run in cell.runs}
    machine = machines.pop() if len(machines) == 1 else ""
    costs = {}
    for quantity in QUANTITIES:
        known = []
        for cell in cells:
            runs = [facts[run.key] for run in cell.runs]
            found = [quantity.of(run, size_of_run(entry.model, run, sizes)) for run in runs]
            # A task has a cost where all of its seeds have one.
            known += [median(filter(None, found))] if all(found) else []
        if len(known) == len(cells) and (machine or quantity.machine != "trained"):
            costs[quantity.name] = sum(known) if quantity.adds_up else median(known)
    return Point(
        kind="measured",
        entry=named.id,
        name=named.name,
        details=", ".join(filter(None, (entry.beside_name, entry.precision))),
        score=100 * score,
        low=100 * min((*values, score)),
        high=100 * max((*values, score)),
        costs=costs,
        machine=machine,
        href=named.href(cells[0]),
        flags=cells[0].notes if task else entry.score_notes,
        has_learned=any(cell.has_learned for cell in cells),
    )


def published_points(board: Board, anchor: str, task: str | None, sizes: Sizes) -> list[Point]:
    """The published rows with the same score on dev, of single models as ours are.

    None where the board's data are made up or cut: such numbers say nothing of each other.
    """
    if not board.is_whole:
        return []
    # The very score that the board shows; None where a part of it is not printed.
    names = (board.rule.name,) if task is None else score_names(task, board.rule)
    points = []
    for row in published(board.suite):
        if row.split != "dev" or row.is_human or not row.protocol.startswith(LIKE_OURS):
            continue
        printed = {cell.scores: cell.value for cell in reversed(row.of(task or board.suite))}
        score = complete_mean([printed.get((name,)) for name in names])
        if score is not None:
            points.append(_published(row, score, anchor, sizes))
    return points


def _published(row: PublishedRow, score: float, anchor: str, sizes: Sizes) -> Point:
    size, _ = published_size(row, sizes)  # nobody prints the other costs
    return Point(
        kind="published",
        entry="",
        name=row.system,
        details=", ".join(filter(None, (row.by, row.said_protocol, row.source, row.place))),
        score=score,
        low=score,
        high=score,
        costs={} if size is None else {"parameters": size},
        machine="",
        href=f"#{anchor}-published-dev",
    )


# The figures.

MOST_MARKS = 200
"""More marks with names and links than this make a page slow, and no reader finds one by eye."""

CROSSES = "A cross is a model whose runs collapsed; it is on no front."

_ACROSS = (48, chart.WIDTH - 14)

_SHAPES = {"measured": 0, "published": 3}
"""Circles are ours, diamonds are published; nobody ranks them together, so each has a front."""


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """The places of the (cost, score) points on the front, cheapest first.

    A point is on it where no other costs at most as much and scores at least as high, and is
    better in one of them. Equal points are on it together.
    """
    found: list[int] = []
    best, cost = -math.inf, -math.inf
    # The cheapest first, of equal cost the best: a point is on the front if it is better than all
    # before it, or equal to the last that was.
    for place in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        x, y = points[place]
        if y > best:
            best, cost = y, x
        elif (x, y) != (cost, best):
            continue
        found.append(place)
    return found


def tradeoffs(points: Sequence[Point], score: str, timed: str = "") -> tuple[chart.Figure, ...]:
    """A figure for each quantity that a point has; `score` names what is scored: "GLUE-9", "rte".

    Times are those on one kind of machine: of training the one that trained most of the points, of
    prediction the one that all were `timed` on. Where all cost the same there is no
    plot.
    """
    figures = []
    for quantity in QUANTITIES:
        known = [point for point in points if quantity.name in point.costs]
        machine = timed if quantity.machine == "timed" else ""
        if quantity.machine == "trained" and known:
            ((machine, _),) = Counter(point.machine for point in known).most_common(1)
            known = [point for point in known if point.machine == machine]
        # Costs that all look the same would be one line of points, upright.
        if len({quantity.text(point.costs[quantity.name]) for point in known}) > 1:
            title = quantity.title + (f" ({chart.shortened(machine, 40)})" if machine else "")
            figures.append(_figure(known, quantity, score, title, len(points) - len(known)))
    return tuple(figures)


def _figure(
    points: Sequence[Point], quantity: Quantity, score: str, title: str, unknown: int
) -> chart.Figure:
    costs = [point.costs[quantity.name] for point in points]
    x = chart.log_axis(costs, quantity.axis, _ACROSS, steps=quantity.steps, text=quantity.text)
    y = chart.score_axis(
        [end for point in points for end in (point.low, point.high)], score, (284, 14)
    )
    places = [(x(cost), y(point.score)) for cost, point in zip(costs, points, strict=True)]
    fronts = _fronts(points, costs)
    best = {number for front in fronts.values() for number in front}
    lines = {kind: _stairs([places[n] for n in front]) for kind, front in fronts.items()}
    # Drawn are the points on fronts before others, in their order, ours on top.
    ranked = sorted(range(len(points)), key=lambda n: (n not in best, -points[n].score))
    drawn = sorted(ranked[:MOST_MARKS], key=lambda n: (points[n].kind == "measured", n))
    # Ours get their labels before published rows take the room.
    named = [n for n in drawn if n in best][::-1]
    texts = [
        chart.Text(x=places[n][0], y=places[n][1], text=chart.shortened(points[n].name))
        for n in named
    ]
    found = chart.place_labels(texts, [places[n] for n in drawn], lines.values(), (x, y))
    labels = dict(zip(named, found, strict=True))
    marks = []
    for n in drawn:
        mark = _mark(points[n], places[n], y, f"{quantity.title} {quantity.text(costs[n])}")
        kind = f"{mark.kind} on-front" if n in best else mark.kind
        marks.append(replace(mark, kind=kind, texts=(labels.get(n) or mark.texts[0],)))
    counts = Counter[str](point.kind for point in points)
    said = [f"{' and '.join(f'{counts[kind]} {kind}' for kind in fronts)} points"]
    for kind, front in fronts.items():
        on_it = ((points[n], quantity.text(costs[n])) for n in front)
        names = (f"{point.name} {point.text} at {cost}" for point, cost in on_it)
        said.append(f"Front of the {kind}: {'; '.join(names) or 'none has learned'}")
    return chart.Figure(
        title=f"{score} against {title}",
        choice=title,
        x=x,
        y=y,
        description=". ".join(said) + ".",
        note=" ".join((quantity.note, *_notes(points, unknown))),
        keys=tuple(
            chart.Key(
                line=f"front {kind}",
                mark=f"{kind} on-front",
                shape=chart.shape(_SHAPES[kind], 15, 6),
                text=f"{kind}, filled on its Pareto front",
            )
            for kind in fronts
        ),
        paths=tuple(
            chart.Path(kind=f"front {k}", d=chart.polyline(line)) for k, line in lines.items()
        ),
        marks=tuple(marks),
    )


def _notes(points: Sequence[Point], unknown: int) -> Iterator[str]:
    """The sentences below a figure on points that are crosses, not known, or not drawn."""
    if not all(point.has_learned for point in points):
        yield CROSSES
    if unknown:
        yield f"Of {counted(unknown, 'more row')} it is not known."
    if (rest := len(points) - MOST_MARKS) > 0:
        yield f"The best {MOST_MARKS} are drawn; {rest:,} more are in the board's table."


def _stairs(places: Sequence[chart.Corner]) -> list[chart.Corner]:
    """The best score so far at each cost: at the old score to the next cost, then up."""
    corners = list(places[:1])
    for (_, before), (x, y) in pairwise(places):
        corners += [(x, before), (x, y)]
    return corners


def _fronts(points: Sequence[Point], costs: Sequence[float]) -> dict[str, list[int]]:
    """The numbers of the points on each kind's front, the cheapest first."""
    fronts = {}
    for kind in _SHAPES:
        if alike := [number for number, point in enumerate(points) if point.kind == kind]:
            able = [n for n in alike if points[n].has_learned]
            on_front = pareto_front([(costs[n], points[n].score) for n in able])
            fronts[kind] = [able[place] for place in on_front]
    return fronts


def _mark(point: Point, place: chart.Corner, y: chart.Axis, cost: str) -> chart.Mark:
    """The point, with a name that comes while it is pointed at or chosen."""
    left, top = place
    seeds, span = "", {}
    if point.low < point.high:
        seeds = f" (seeds from {point.low:.1f} to {point.high:.1f})"
        span = {"range": chart.polyline([(left, y(point.low)), (left, y(point.high))])}
    dx, anchor = (9, "start") if left < sum(_ACROSS) / 2 else (-9, "end")  # there is room
    name, at = chart.shortened(point.name), round(left + dx, 1)
    drawn = chart.shape(_SHAPES[point.kind], left, top)
    mark = {"shape": drawn} if point.has_learned else {"crosses": chart.cross(left, top)}
    said = f"score {point.text}{seeds}"
    return chart.Mark(
        kind=point.kind,
        x=left,
        y=top,
        note=", ".join((f"{point.name} ({point.details})", cost, said, point.kind, *point.flags)),
        paths={**span, **mark},
        texts=(chart.Text(x=at, y=top + 4, text=name, anchor=anchor, kind="label hover"),),
        entry=point.entry,
        href=point.href,
    )


def cost_table(points: Sequence[Point]) -> chart.Table:
    """Points with all their costs, the best first, and MOST_MARKS of each kind."""
    ranked = sorted((point for point in points if point.costs), key=lambda point: -point.score)
    # Most boards have nothing that was timed.
    found = [
        q for q in QUANTITIES if q.machine != "timed" or any(q.name in p.costs for p in points)
    ]
    rows = []
    for kind in _SHAPES:
        for point in [point for point in ranked if point.kind == kind][:MOST_MARKS]:
            costs = (q.text(point.costs[q.name]) if q.name in point.costs else "–" for q in found)
            cells = (point.kind, point.text, *costs, point.machine or "–")
            rows.append(
                chart.TableRow(name=point.name, href=point.href, details=point.details, cells=cells)
            )
    return chart.Table(
        columns=("model", "kind", "score × 100", *(q.title for q in found), "trained on"),
        words=("kind", "trained on"),
        rows=tuple(rows),
    )
