"""Bars by category, where a task's own scorer tells categories apart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from types import MappingProxyType

from benchharness.leaderboard.boards.cell import Cell, score_names, shown
from benchharness.leaderboard.report.plots.axis import Axis, linear_axis
from benchharness.leaderboard.report.plots.figure import (
    WIDTH,
    Figure,
    Mark,
    Path,
    Table,
    TableRow,
    Text,
    shortened,
)
from benchharness.leaderboard.report.plots.point import NamedEntry
from benchharness.tasks.suites import ScoreRule, find_task, title_of

CATEGORIES: Mapping[str, str] = MappingProxyType(
    {
        "lex_sem": "lexical semantics",
        "pr_ar_str": "predicate-argument structure",
        "logic": "logic",
        "knowledge": "knowledge",
        "hasans": "questions with an answer",
        "noans": "questions without one",
        "middle": "middle school",
        "high": "high school",
    }
)
"""What the scores of categories end with (AX, SQuAD 2.0, RACE), and what a reader calls them."""

_ACROSS, _TOP = (150, WIDTH - 46), 6
_BAR, _HEADING, _GAP = 17, 18, 8
"""The heights of a bar with its space, of a category's name and of the space below a category."""

_MOST_ENTRIES, _MOST_ROWS = 4, 200
"""More bars than this in one category are no picture, and more rows than this no table."""


@dataclass(frozen=True, kw_only=True)
class _Row:
    """An entry with the median over seeds of each category, in percent."""

    named: NamedEntry
    cell: Cell
    values: Mapping[str, float]


def categories_of_task(named: Sequence[NamedEntry], rule: ScoreRule, task: str) -> Figure | None:
    """The figure of a task that has categories; None where no run has scores of them."""
    names = category_names(task, rule)
    rows = [row for row in _rows(named, task, names) if row.values]
    if not rows:
        return None
    labels = [label for label in names if any(label in row.values for row in rows)]
    drawn, left_out = rows[:_MOST_ENTRIES], len(rows) - _MOST_ENTRIES
    values = [value for row in drawn for value in row.values.values()]
    x = linear_axis([0.0, *values], _measure(task, rule, names), _ACROSS)
    tops = _tops(labels, drawn)
    placed = list(zip(labels, tops, strict=False))  # the last top is the end
    figure = Figure(
        title=f"{title_of(task)} by category",
        x=x,
        y=Axis(label="", low=0, high=1, start=_TOP, end=tops[-1]),
        description=f"Scores by {', '.join(labels)}. The table below has every number.",
        note=f"The first {_MOST_ENTRIES} of the board; the table has the other {left_out}."
        * (left_out > 0),
        spans=tuple((top + _HEADING - 2, end - _GAP + 2) for top, end in pairwise(tops)),
        marks=tuple(mark for label, top in placed for mark in _bars(label, top, drawn, x)),
        texts=tuple(
            Text(x=4, y=top + _HEADING - 6, text=label, kind="category") for label, top in placed
        ),
        table=Table(
            columns=("model", *labels),
            rows=tuple(_text_row(row, labels) for row in rows[:_MOST_ROWS]),
        ),
    )
    return replace(figure, paths=(Path(kind="zero", d=figure.upright(x(0))),))


def category_names(task: str, rule: ScoreRule) -> dict[str, str]:
    """The categories of a task with the names of their scores, by the first headline score."""
    known = {metric.name for metric in find_task(task).details}
    for name in score_names(task, rule):
        found = {label: f"{name}_{end}" for end, label in CATEGORIES.items()}
        if found := {label: score for label, score in found.items() if score in known}:
            return found
    return {}


def _measure(task: str, rule: ScoreRule, names: Mapping[str, str]) -> str:
    first = next(iter(names.values()))
    return next(f"{name} × 100" for name in score_names(task, rule) if f"{name}_" in first)


def _rows(named: Sequence[NamedEntry], task: str, names: Mapping[str, str]) -> Iterator[_Row]:
    """The entries in the board's order."""
    for each in named:
        if cell := each.entry.cells.get(task):
            scores = [run.scores.get(task, {}) for run in cell.runs]
            values = {
                label: 100 * median(found)
                for label, name in names.items()
                if (found := [score[name] for score in scores if name in score])
            }
            yield _Row(named=each, cell=cell, values=values)


def _tops(labels: Sequence[str], rows: Sequence[_Row]) -> list[float]:
    """Where each category begins, and where the last one ends."""
    tops = [float(_TOP)]
    for label in labels:
        bars = sum(label in row.values for row in rows)
        tops.append(tops[-1] + _HEADING + _BAR * bars + _GAP)
    return tops


def _bars(label: str, top: float, rows: Sequence[_Row], x: Axis) -> Iterator[Mark]:
    y = top + _HEADING
    for number, row in enumerate(rows):
        if label in row.values:
            value, seeds = row.values[label], len(row.cell.runs)
            start, end = x(min(value, 0.0)), x(max(value, 0.0))
            over = "1 seed" if seeds == 1 else f"median of {seeds} seeds"
            name = shortened(row.named.name, 19)
            yield Mark(
                kind=f"bar s{number}",
                x=x(value),
                y=y,
                note=f"{row.named.title}, {label}: {value:.1f}, {over}",
                paths={"rect": f"M{start:g},{y:g}H{end:g}v{_BAR - 5}H{start:g}z"},
                texts=(
                    Text(x=x.start - 8, y=y + 10, text=name, anchor="end", kind="row-name"),
                    Text(x=end + 5, y=y + 10, text=shown(value / 100), kind="value"),
                ),
                entry=row.named.id,
                href=row.named.href(row.cell),
            )
            y += _BAR


def _text_row(row: _Row, labels: Sequence[str]) -> TableRow:
    cells = (shown(row.values[name] / 100) if name in row.values else "–" for name in labels)
    return TableRow(name=row.named.title, href=row.named.href(row.cell), cells=tuple(cells))
