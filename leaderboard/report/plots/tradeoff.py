"""Scores against what they cost: points, the Pareto front, and the names of those on it."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import Cell, score_names
from benchharness.leaderboard.boards.published import PublishedRow, published
from benchharness.leaderboard.boards.reproduction import LIKE_OURS
from benchharness.leaderboard.boards.systems import find_system, printed_size
from benchharness.leaderboard.report.plots.axis import log_axis, score_axis
from benchharness.leaderboard.report.plots.cost import (
    QUANTITIES,
    Facts,
    Quantity,
    Sizes,
    size_of_run,
    training_flops,
)
from benchharness.leaderboard.report.plots.figure import (
    WIDTH,
    Corner,
    Figure,
    Key,
    Mark,
    NamedEntry,
    Path,
    Table,
    TableRow,
    Text,
    place_labels,
    polyline,
    shape,
    shortened,
)
from benchharness.tasks.suites import ScoreRule, complete_mean


@dataclass(frozen=True, kw_only=True)
class Point:
    """One score, in percent, with what is known of its costs by the names of quantities.

    `entry` is the same for all points of an entry, empty for a published row; `low` and `high` are
    the lowest and highest seed; `machine` is what trained it, empty for several kinds of machine.
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


def measured_points(
    named: Sequence[NamedEntry], rule: ScoreRule, task: str | None, facts: Facts, sizes: Sizes
) -> list[Point]:
    """The models that have the task's score, or the suite's by `rule` where `task` is None.

    Baselines and ensembles are left out: they have no size and no training of their own. So are
    models of whose runs there are no facts.
    """
    tasks = tuple(rule.cells) if task is None else (task,)
    scored = (
        (each, [each.entry.cells[name] for name in tasks])
        for each in named
        if each.entry.is_single and all(name in each.entry.cells for name in tasks)
    )
    return [
        _measured(each, task, cells, facts, sizes)
        for each, cells in scored
        if all(run.key in facts for cell in cells for run in cell.runs)
    ]


def _measured(
    named: NamedEntry, task: str | None, cells: Sequence[Cell], facts: Facts, sizes: Sizes
) -> Point:
    entry = named.entry
    values = entry.seed_scores if task is None else cells[0].values
    score = entry.score if task is None else cells[0].median
    assert score is not None, "an entry with every task has a score"
    runs = [run for cell in cells for run in cell.runs]
    machines = {facts[run.key].machine for run in runs}
    machine = machines.pop() if len(machines) == 1 else ""
    costs = {}
    for name in (quantity.name for quantity in QUANTITIES):
        by_cell = [_cost(name, entry.model, cell, facts, sizes) for cell in cells]
        known = [cost for cost in by_cell if cost is not None]
        if len(known) == len(by_cell) and (machine or name != "training-time"):
            # Sizes are one model's, what training takes adds up.
            costs[name] = median(known) if name == "parameters" else sum(known)
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
    )


def _cost(name: str, model: str, cell: Cell, facts: Facts, sizes: Sizes) -> float | None:
    """The median over a task's seeds; None where one of them has no such cost."""
    runs = [facts[run.key] for run in cell.runs]
    match name:
        case "parameters":
            found: list[float | None] = [run.parameters for run in runs]
        case "training-flops":
            found = [training_flops(size_of_run(model, run, sizes), run) for run in runs]
        case _:
            found = [run.train_seconds or None for run in runs]
    known = [value for value in found if value is not None]
    return median(known) if len(known) == len(found) else None


def published_points(board: Board, anchor: str, task: str | None, sizes: Sizes) -> list[Point]:
    """The published rows with the same score on dev, of single models as ours are.

    None where the board's data are made up or cut: such numbers say nothing of each other.
    """
    if not board.is_whole:
        return []
    return [
        _published(row, score, anchor, sizes)
        for row in published(board.suite)
        if row.split == "dev" and not row.is_human and row.protocol.startswith(LIKE_OURS)
        if (score := _printed(board, row, task)) is not None
    ]


def _printed(board: Board, row: PublishedRow, task: str | None) -> float | None:
    """The very score that the board shows; None where a part of it is not printed."""
    cells = row.of(board.suite if task is None else task)
    names = (board.rule.name,) if task is None else score_names(task, board.rule)
    return complete_mean(
        [next((c.value for c in cells if (c.scores == (name,))), None) for name in names]
    )


def _published(row: PublishedRow, score: float, anchor: str, sizes: Sizes) -> Point:
    said = (row.by, "" if row.protocol == "unsaid" else row.protocol, row.source, row.place)
    # The size that the source prints, else that of the checkpoint; nobody prints the others.
    system = find_system(row.system, row.table)
    known = sizes.get(system.model) if system is not None else None
    size = printed_size(row.parameters) or (known.parameters if known else None)
    return Point(
        kind="published",
        entry="",
        name=row.system,
        details=", ".join(part for part in said if part),
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

_SHAPES = {"measured": 0, "published": 3}
"""Circles are ours, diamonds are published; nobody ranks them together, so each has a front."""


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
    figures = []
    for quantity in QUANTITIES:
        known = [point for point in points if quantity.name in point.costs]
        machine = ""
        if quantity.name == "training-time" and known:
            ((machine, _),) = Counter(point.machine for point in known).most_common(1)
            known = [point for point in known if point.machine == machine]
        if len(known) > 1:
            title = quantity.title + (f" ({shortened(machine, 40)})" if machine else "")
            figures.append(_figure(known, quantity, score, title, len(points) - len(known)))
    return tuple(figures)


def _figure(
    points: Sequence[Point], quantity: Quantity, score: str, title: str, unknown: int
) -> Figure:
    cost = {id(point): point.costs[quantity.name] for point in points}
    across = (48, WIDTH - 14)
    x = log_axis(
        list(cost.values()), quantity.axis, across, steps=quantity.steps, text=quantity.text
    )
    y = score_axis([end for point in points for end in (point.low, point.high)], score, (284, 14))
    place = {id(point): (x(cost[id(point)]), y(point.score)) for point in points}

    # ---- The fronts, and as words which points are on them.
    fronts: dict[str, list[Point]] = {}
    for kind in _SHAPES:
        if alike := [point for point in points if point.kind == kind]:
            on_front = pareto_front([(cost[id(point)], point.score) for point in alike])
            fronts[kind] = [alike[i] for i in on_front]
    best = {id(point) for front in fronts.values() for point in front}
    lines = {kind: _steps([place[id(p)] for p in front]) for kind, front in fronts.items()}
    counts = Counter[str](point.kind for point in points)
    said = [f"{' and '.join(f'{counts[kind]} {kind}' for kind in fronts)} points"]
    for kind, front in fronts.items():
        names = (f"{p.name} {p.score:.1f} at {quantity.text(cost[id(p)])}" for p in front)
        said.append(f"Front of the {kind}: {'; '.join(names)}")

    # ---- The points that are drawn: those on fronts before others, in their order, ours on top.
    ranked = sorted(points, key=lambda point: (id(point) not in best, -point.score))
    chosen = {id(point) for point in ranked[:MOST_MARKS]}
    marked = [point for point in points if id(point) in chosen]
    marked.sort(key=lambda point: point.kind == "measured")
    # Ours get their labels before published rows take the room.
    named = [point for point in marked if id(point) in best][::-1]
    texts = [Text(x=place[id(p)][0], y=place[id(p)][1], text=shortened(p.name)) for p in named]
    dots = [place[id(point)] for point in marked]
    labels = place_labels(texts, dots, lines.values(), (x, y))
    by_point = {id(point): label for point, label in zip(named, labels, strict=True)}
    marks = []
    for point in marked:
        left, top = place[id(point)]
        seeds, span = "", {}
        if point.low < point.high:
            seeds = f" (seeds from {point.low:.1f} to {point.high:.1f})"
            span = {"range": polyline([(left, y(point.low)), (left, y(point.high))])}
        mark = Mark(
            kind=f"{point.kind} on-front" if id(point) in best else point.kind,
            x=left,
            y=top,
            note=f"{point.name} ({point.details}), {quantity.title} "
            f"{quantity.text(cost[id(point)])}, score {point.score:.1f}{seeds}, {point.kind}",
            paths={**span, "shape": shape(_SHAPES[point.kind], left, top)},
            texts=(by_point.get(id(point)) or _hover(point.name, left, top, sum(across) / 2),),
            entry=point.entry,
            href=point.href,
        )
        marks.append(mark)

    notes = [quantity.note]
    if unknown:
        notes.append(f"Of {unknown} more row{'' if unknown == 1 else 's'} it is not known.")
    if rest := len(points) - len(marked):
        notes.append(f"The best {MOST_MARKS} are drawn; {rest:,} more are in the board's table.")
    return Figure(
        title=f"{score} against {title}",
        choice=title,
        x=x,
        y=y,
        description=". ".join(said) + ".",
        note=" ".join(notes),
        keys=tuple(
            Key(
                line=f"front {kind}",
                mark=f"{kind} on-front",
                shape=shape(_SHAPES[kind], 15, 6),
                text=f"{kind}, filled on its Pareto front",
            )
            for kind in fronts
        ),
        paths=tuple(Path(kind=f"front {k}", d=polyline(line)) for k, line in lines.items()),
        marks=tuple(marks),
    )


def _steps(front: Sequence[Corner]) -> list[Corner]:
    """The best score so far at each cost."""
    corners = [*front[:1]]
    for (_, before), (x, y) in pairwise(front):
        corners += [(x, before), (x, y)]
    return corners


def _hover(name: str, x: float, y: float, middle: float) -> Text:
    """The name that comes while the mark is pointed at or chosen; there is room on one side."""
    dx, anchor = (9, "start") if x < middle else (-9, "end")
    return Text(
        x=round(x + dx, 1), y=y + 4, text=shortened(name), anchor=anchor, kind="label hover"
    )


def cost_table(points: Sequence[Point]) -> Table:
    """Points with all their costs, the best first, and MOST_MARKS of each kind."""
    ranked = sorted((point for point in points if point.costs), key=lambda point: -point.score)
    rows = []
    for kind in _SHAPES:
        for point in [point for point in ranked if point.kind == kind][:MOST_MARKS]:
            costs = (
                q.text(point.costs[q.name]) if q.name in point.costs else "–" for q in QUANTITIES
            )
            cells = (point.kind, f"{point.score:.1f}", *costs, point.machine or "–")
            rows.append(
                TableRow(name=point.name, href=point.href, details=point.details, cells=cells)
            )
    titles = (quantity.title for quantity in QUANTITIES)
    return Table(
        columns=("model", "kind", "score × 100", *titles, "trained on"),
        words=("kind", "trained on"),
        rows=tuple(rows),
    )
