"""Plots with one row per entry: scores seed by seed, and bars for the categories of a task."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from benchharness.extensions.plots import chart
from benchharness.leaderboard.boards.cell import Cell, marked, score_bounds, score_names, shown
from benchharness.leaderboard.statistics import Interval, useful_interval
from benchharness.leaderboard.text import counted
from benchharness.tasks.suite import ScoreRule
from benchharness.tasks.suites import find_task, title_of

MOST_ROWS = 200
"""Maximum number of leaderboard entries in a figure. More rows would not be readable."""

_STEP = 20  # height of a row


def spread_of_task(named: Sequence[chart.NamedEntry], task: str) -> chart.Figure | None:
    """Plot the scores of leaderboard entries on a task seed by seed, with one row per entry.

    A row shows the score of each seed, the median and, for three or more seeds, the median's 95 %
    interval. At most 200 entries are shown, best median first. Returns None if no entry has two
    seeds, because the table already has the score of a single seed.
    """
    found = [(each, each.entry.cells[task]) for each in named if task in each.entry.cells]
    if max((len(cell.values) for _, cell in found), default=0) < 2:
        return None
    found.sort(key=lambda pair: -pair[1].median)
    drawn, left_out = found[:MOST_ROWS], len(found) - MOST_ROWS
    name = title_of(task)
    x = chart.score_axis(
        [100 * v for _, cell in drawn for v in cell.values], name, (176, chart.WIDTH - 22)
    )
    y = chart.Axis(label="", low=0, high=len(drawn), start=8, end=8 + _STEP * len(drawn))
    rows = [_spread_row(each, cell, x, y(n + 0.5)) for n, (each, cell) in enumerate(drawn)]
    best, cell = drawn[0]
    return chart.Figure(
        title=f"{name}, seed by seed",
        x=x,
        y=y,
        description=f"{counted(len(drawn), 'row')}, best median first: "
        f"{best.entry.model} {cell.text}. The table below contains the scores of all seeds.",
        note=f"Only the best {MOST_ROWS} rows are drawn; the leaderboard's table has "
        f"{left_out:,} more." * (left_out > 0),
        marks=tuple(mark for mark, _ in rows),
        table=chart.Table(
            columns=("model", "median", "95 % interval", "every seed"),
            words=("every seed",),
            rows=tuple(row for _, row in rows),
        ),
    )


def _spread_row(
    named: chart.NamedEntry, cell: Cell, x: chart.Axis, y: float
) -> tuple[chart.Mark, chart.TableRow]:
    places = [(x(100 * v), run) for v, run in zip(cell.values, cell.runs, strict=True)]
    # Dots are lines of length 0 with round caps, because this needs the least SVG code.
    dots = [f"M{at:g},{y:g}h0" for at, run in places if not run.has_collapsed(cell.task)]
    crosses = [chart.cross(at, y) for at, run in places if run.has_collapsed(cell.task)]
    middle = x(100 * cell.median)
    interval, line = _interval(cell), ""
    if interval is not None:  # an end of the line has a cap if it is within the axis
        ends = sorted((interval.low, interval.high))
        low, high = (x(min(max(end, x.low), x.high)) for end in ends)
        caps = (f"M{x(end):g},{y - 3:g}v6" for end in ends if x.low <= end <= x.high)
        line = f"M{low:g},{y:g}H{high:g}{''.join(caps)}"
    paths = {
        "interval": line,
        "median": f"M{middle:g},{y - 7:g}v14" if len(cell.values) > 1 else "",
        "dots": "".join(dots),
        "crosses": "".join(crosses),
    }
    between = f"{interval.low:.1f} to {interval.high:.1f}" if interval else ""
    runs = zip(cell.runs, cell.values, strict=True)
    seeds = ", ".join(f"{shown(value)} (seed {run.seed})" for run, value in runs)
    score, href, name = cell.text, named.href(cell), chart.shortened(named.name, 22)
    said = f"median {score}" + (f" (95 % interval from {between})" if between else "")
    mark = chart.Mark(
        kind="row",
        x=middle,
        y=y,
        note="; ".join((f"{named.title}: {said}: {seeds}", *cell.notes)),
        paths={kind: d for kind, d in paths.items() if d},
        texts=(chart.Text(x=x.start - 8, y=y + 3.5, text=name, anchor="end", kind="row-name"),),
        entry=named.id,
        href=href,
    )
    return mark, chart.TableRow(name=named.title, href=href, cells=(score, between or "–", seeds))


def _interval(cell: Cell) -> Interval | None:
    """Return the 95 % interval of the median over seeds, in percent; None for one or two seeds."""
    interval = useful_interval(cell.values)
    if interval is None:
        return None
    task = find_task(cell.task)
    bounds = score_bounds(task, [metric.name for metric in task.metrics], cell.values)
    found = interval.within(bounds)
    return Interval(low=100 * found.low, high=100 * found.high)


# Bars by category, for tasks whose scorer reports categories.

_TOP, _BAR, _HEADING, _GAP = 6.0, 17, 18, 8
"""Position of the first category, and three heights: a bar with its margin, the name of a category,
and the space below a category."""

_MOST_BARS = 4  # maximum number of bars per category

_Row = tuple[chart.NamedEntry, Cell, Mapping[str, float]]
"""(leaderboard entry, its cell, median over seeds in percent for each category)."""


def categories_of_task(
    named: Sequence[chart.NamedEntry], rule: ScoreRule, task: str
) -> chart.Figure | None:
    """Plot the scores of leaderboard entries for each category of a task's examples, as bars.

    Only the first four entries have bars; the table below the figure contains up to 200 entries.

    Args:
        named: Entries of the leaderboard with their ids.
        rule: Rule of the suite, which specifies the scores that count.
        task: Name of the task.

    Returns:
        The figure, or None if no run has scores for categories.
    """
    names = category_names(task, rule)
    rows = [row for row in _category_rows(named, task, names) if row[2]]
    if not rows:
        return None
    labels = [label for label in names if any(label in values for _, _, values in rows)]
    drawn, left_out = rows[:_MOST_BARS], len(rows) - _MOST_BARS
    first = next(iter(names.values()))
    measure = next(name for name in score_names(task, rule) if f"{name}_" in first)
    every = [value for _, _, values in drawn for value in values.values()]
    x = chart.linear_axis([0.0, *every], f"{measure} × 100", (150, chart.WIDTH - 46))
    tops = [_TOP]
    for label in labels:
        bars = sum(label in values for _, _, values in drawn)
        tops.append(tops[-1] + _HEADING + _BAR * bars + _GAP)
    placed = list(zip(labels, tops, strict=False))  # the last of `tops` is the end of the figure
    spans = tuple((top + _HEADING - 2, end - _GAP + 2) for top, end in pairwise(tops))
    return chart.Figure(
        title=f"{title_of(task)} by category",
        x=x,
        y=chart.Axis(label="", low=0, high=1, start=_TOP, end=tops[-1]),
        description=f"Scores by {', '.join(labels)}. The table below contains all numbers.",
        note=f"Only the first {_MOST_BARS} entries have bars; the table has the other {left_out}."
        * (left_out > 0),
        spans=spans,
        paths=(chart.Path(kind="zero", d="".join(f"M{x(0):g},{a:g}V{b:g}" for a, b in spans)),),
        marks=tuple(mark for label, top in placed for mark in _bars(label, top, drawn, x)),
        texts=tuple(
            chart.Text(x=4, y=top + _HEADING - 6, text=label, kind="category")
            for label, top in placed
        ),
        table=chart.Table(
            columns=("model", *labels),
            rows=tuple(
                chart.TableRow(
                    name=each.title,
                    href=each.href(cell),
                    cells=tuple(
                        marked(shown(values[n] / 100), cell.notes) if n in values else "–"
                        for n in labels
                    ),
                )
                for each, cell, values in rows[:MOST_ROWS]
            ),
        ),
    )


def category_names(task: str, rule: ScoreRule) -> dict[str, str]:
    """Return the names of the scores for each category of a task's examples, keyed by category.

    If the task's value is a mean of several scores, the first score with categories is used. Empty
    if the task has no categories.
    """
    known = {metric.name for metric in find_task(task).details}
    for name in score_names(task, rule):
        found = {label: f"{name}_{end}" for end, label in find_task(task).categories.items()}
        if found := {label: score for label, score in found.items() if score in known}:
            return found
    return {}


def _category_rows(
    named: Sequence[chart.NamedEntry], task: str, names: Mapping[str, str]
) -> Iterator[_Row]:
    """Yield the leaderboard entries with a result on the task, with their scores per category.

    `names` is a mapping from the names of categories to the names of their scores.
    """
    for each in named:
        if cell := each.entry.cells.get(task):
            scores = [run.scores.get(task, {}) for run in cell.runs]
            values = {
                label: 100 * median(found)
                for label, name in names.items()
                if (found := [score[name] for score in scores if name in score])
            }
            yield each, cell, values


def _bars(label: str, top: float, rows: Sequence[_Row], x: chart.Axis) -> Iterator[chart.Mark]:
    y = top + _HEADING
    for number, (named, cell, values) in enumerate(rows):
        if label not in values:
            continue
        value, seeds = values[label], len(cell.runs)
        start, end = x(min(value, 0.0)), x(max(value, 0.0))
        over = "1 seed" if seeds == 1 else f"median of {seeds} seeds"
        name = chart.shortened(named.name, 19)
        yield chart.Mark(
            kind=f"bar s{number}",
            x=x(value),
            y=y,
            note="; ".join((f"{named.title}, {label}: {value:.1f}, {over}", *cell.notes)),
            paths={"rect": f"M{start:g},{y:g}H{end:g}v{_BAR - 5}H{start:g}z"},
            texts=(
                chart.Text(x=x.start - 8, y=y + 10, text=name, anchor="end", kind="row-name"),
                chart.Text(
                    x=end + 5, y=y + 10, text=marked(shown(value / 100), cell.notes), kind="value"
                ),
            ),
            entry=named.id,
            href=named.href(cell),
        )
        y += _BAR
