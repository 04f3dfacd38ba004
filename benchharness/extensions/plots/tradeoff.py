"""Plots of scores against costs with Pareto fronts."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Literal

from benchharness.extensions.plots import chart
from benchharness.extensions.plots.cost import (
    QUANTITIES,
    Facts,
    Quantity,
    size_of_run,
)
from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, marked, score_names
from benchharness.leaderboard.boards.published import PublishedRow, published
from benchharness.leaderboard.boards.reproduction import LIKE_OURS
from benchharness.leaderboard.report.sizes import Sizes, published_size
from benchharness.leaderboard.text import counted
from benchharness.tasks.suite import ScoreRule, complete_mean


@dataclass(frozen=True, kw_only=True)
class Point:
    """Point of a plot of scores against costs: the score of a model with all its costs.

    Attributes:
        kind: "measured" or "published".
        entry: Id of the leaderboard entry; empty for a published score.
        name: Name of the model.
        details: Further description: recipe and precision, or the source of a published score.
        score: Score in percent.
        low: Lowest score of a seed, in percent.
        high: Highest score of a seed, in percent.
        costs: Known costs, keyed by `Quantity.name`.
        machine: Kind of machine that trained the model; empty if it is unknown, or if there were
            several.
        href: Link to the runs or to the published scores.
        flags: Warnings about the score.
        has_learned: False if the runs have learned nothing. Such a point is never on a Pareto
            front.
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
        """Score as tables show it, followed by "!" if there are warnings."""
        return marked(f"{self.score:.1f}", self.flags)

    @property
    def label(self) -> str:
        """Name of the model as plots show it, followed by "!" if there are warnings."""
        return marked(chart.shortened(self.name), self.flags)


def measured_points(
    named: Sequence[chart.NamedEntry], rule: ScoreRule, task: str | None, facts: Facts, sizes: Sizes
) -> list[Point]:
    """Return a point per leaderboard entry that has the score, and whose runs have known costs.

    Entries that are not single trained models, such as baselines and ensembles, are left out.

    Args:
        named: Entries of the leaderboard with the ids of their marks.
        rule: Rule of the suite's score.
        task: Task of the score; None for the suite's score.
        facts: Costs of runs, keyed by the runs' keys.
        sizes: Known sizes of models, keyed by lower-case name.
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
            # Use the cost of a task only if it is known for all seeds.
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
    """Return a point per published dev score of a single model.

    Human scores, ensembles and the best of several runs are left out. The list is empty if the
    leaderboard's data are synthetic or incomplete, because its scores cannot be compared with
    published scores.

    Args:
        board: Leaderboard of the suite.
        anchor: Id of the leaderboard's table, for links.
        task: Task of the scores; None for the suite's score.
        sizes: Known sizes of models, keyed by lower-case name.
    """
    if not board.is_whole:
        return []
    # Use the same score as the leaderboard. It may be a mean of several metrics; if one of these is
    # not printed, the published row is left out.
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
    size, _ = published_size(row, sizes)  # sources do not print other costs
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


# Figures.

MOST_MARKS = 200
"""Maximum number of points in a figure. More would make the page slow and would not be readable."""

CROSSES = "A cross is a model whose runs collapsed (learned nothing); it is never on a front."

_ACROSS = (48, chart.WIDTH - 14)

_SHAPES = {"measured": 0, "published": 3}
"""Shapes of points (see `chart.shape`), keyed by kind: circles for measured, and diamonds for
published scores. Each kind has its own Pareto front, because the two are not ranked together."""


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the points on the Pareto front, lowest cost first.

    A point is on the front if no other point is at least as good in both cost and score, and better
    in one of them. So equal points are either all on the front, or none of them is.

    Args:
        points: Pairs (cost, score).
    """
    found: list[int] = []
    best, cost = -math.inf, -math.inf
    # Sort by cost and, for equal costs, best score first. Then a point is on the front if its score
    # is higher than all scores before it, or if it equals the last point on the front.
    for place in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1])):
        x, y = points[place]
        if y > best:
            best, cost = y, x
        elif (x, y) != (cost, best):
            continue
        found.append(place)
    return found


def tradeoffs(points: Sequence[Point], score: str, timed: str = "") -> tuple[chart.Figure, ...]:
    """Plot scores against costs; return a figure per kind of cost.

    A kind of cost is left out if all known costs are equal, or if only models that have learned
    nothing have a known cost. Training times are plotted only for the kind of machine on which most
    models were trained.

    Args:
        points: Points to plot.
        score: Name of the score, e.g. "GLUE-9" or "RTE".
        timed: Machine on which prediction was timed; empty if it was not timed.
    """
    figures = []
    for quantity in QUANTITIES:
        known = [point for point in points if quantity.name in point.costs]
        machine = timed if quantity.machine == "timed" else ""
        if quantity.machine == "trained" and known:
            ((machine, _),) = Counter(point.machine for point in known).most_common(1)
            known = [point for point in known if point.machine == machine]
        # Points with equal costs would be on one vertical line. Without a model that has learned
        # something, there is no front.
        are_different = len({quantity.text(point.costs[quantity.name]) for point in known}) > 1
        if are_different and any(point.has_learned for point in known):
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
    # If there are too many points, prefer those on fronts. Draw measured points last, i.e. on top.
    ranked = sorted(range(len(points)), key=lambda n: (n not in best, -points[n].score))
    drawn = sorted(ranked[:MOST_MARKS], key=lambda n: (points[n].kind == "measured", n))
    # Place the labels of measured points first, while there is room for them.
    named = [n for n in drawn if n in best][::-1]
    texts = [chart.Text(x=places[n][0], y=places[n][1], text=points[n].label) for n in named]
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
        said.append(f"Pareto front, {kind}: {'; '.join(names) or 'no model has learned'}")
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
                text=f"{kind} (filled if on the Pareto front)",
            )
            for kind in fronts
        ),
        paths=tuple(
            chart.Path(kind=f"front {k}", d=chart.polyline(line)) for k, line in lines.items()
        ),
        marks=tuple(marks),
    )


def _notes(points: Sequence[Point], unknown: int) -> Iterator[str]:
    """Yield notes about points that are drawn as crosses, and about points that are not drawn."""
    if not all(point.has_learned for point in points):
        yield CROSSES
    if unknown:
        yield f"Left out because they have no comparable cost: {counted(unknown, 'row')}."
    if (rest := len(points) - MOST_MARKS) > 0:
        yield f"Only {MOST_MARKS} points are drawn; the leaderboard's table has {rest:,} more."


def _stairs(places: Sequence[chart.Corner]) -> list[chart.Corner]:
    """Return the corners of a step line through the points on a front.

    From each point, the line goes horizontally to the cost of the next point, and then up to it.
    """
    corners = list(places[:1])
    for (_, before), (x, y) in pairwise(places):
        corners += [(x, before), (x, y)]
    return corners


def _fronts(points: Sequence[Point], costs: Sequence[float]) -> dict[str, list[int]]:
    """Return the indices of the points on the Pareto front of each kind, cheapest first."""
    fronts = {}
    for kind in _SHAPES:
        if alike := [number for number, point in enumerate(points) if point.kind == kind]:
            able = [n for n in alike if points[n].has_learned]
            on_front = pareto_front([(costs[n], points[n].score) for n in able])
            fronts[kind] = [able[place] for place in on_front]
    return fronts


def _mark(point: Point, place: chart.Corner, y: chart.Axis, cost: str) -> chart.Mark:
    """Create the symbol of a point, with a label that appears on hover or if it is selected."""
    left, top = place
    seeds, span = "", {}
    if point.low < point.high:
        seeds = f" (seeds from {point.low:.1f} to {point.high:.1f})"
        span = {"range": chart.polyline([(left, y(point.low)), (left, y(point.high))])}
    # The label is on the side with more room.
    dx, anchor = (9, "start") if left < sum(_ACROSS) / 2 else (-9, "end")
    at = round(left + dx, 1)
    drawn = chart.shape(_SHAPES[point.kind], left, top)
    mark = {"shape": drawn} if point.has_learned else {"crosses": chart.cross(left, top)}
    said = f"score {point.text}{seeds}"
    return chart.Mark(
        kind=point.kind,
        x=left,
        y=top,
        note=", ".join((f"{point.name} ({point.details})", cost, said, point.kind, *point.flags)),
        paths={**span, **mark},
        texts=(chart.Text(x=at, y=top + 4, text=point.label, anchor=anchor, kind="label hover"),),
        entry=point.entry,
        href=point.href,
    )


def cost_table(points: Sequence[Point]) -> chart.Table:
    """Create a table of the points that have a cost, with all their costs.

    Measured points come first, then published ones. Each of these two kinds is sorted by score,
    best first, and limited to 200 points (`MOST_MARKS`).
    """
    ranked = sorted((point for point in points if point.costs), key=lambda point: -point.score)
    # Leave out the column with prediction times if no model was timed.
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
