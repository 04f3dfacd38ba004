"""Bars by category, where a task's own scorer tells categories apart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType

from leaderboard.boards.cell import Cell, score_names, shown
from leaderboard.report.plots.axis import WIDTH, Axis, Frame, frame_of, linear_axis
from leaderboard.report.plots.labels import shortened
from leaderboard.report.plots.point import NamedEntry
from leaderboard.report.table import group_anchor
from tasks.suites import ScoreRule, find_task

__all__ = [
    "CATEGORIES",
    "Bar",
    "Categories",
    "CategoryLine",
    "categories_of_task",
    "category_names",
]

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

LEFT, RIGHT, TOP, BOTTOM = 150, 46, 6, 42
BAR, HEADING, GAP = 17, 18, 8
"""The heights of a bar with its space, of a category's name and of the space below a category."""

MOST_ENTRIES, MOST_ROWS = 4, 200
"""More bars than this in one category are no picture, and more rows than this no table."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One entry's score in one category: from `start`, which stands for 0, to `end`."""

    entry: str
    number: int
    name: str
    href: str
    note: str
    text: str
    y: float
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class CategoryLine:
    """A category's name above its bars."""

    name: str
    y: float
    bars: tuple[Bar, ...]


@dataclass(frozen=True, kw_only=True)
class Categories:
    """One task's figure; `rows` are entries' texts, category by category of `columns`.

    `left_out` counts those without bars.
    """

    task: str
    title: str
    description: str
    frame: Frame
    zero: float
    height: float
    lines: tuple[CategoryLine, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]
    left_out: int


def category_names(task: str, rule: ScoreRule) -> dict[str, str]:
    """The categories of a task with the names of their scores, by the first headline score."""
    known = {metric.name for metric in find_task(task).details}
    for name in score_names(task, rule):
        found = {label: f"{name}_{end}" for end, label in CATEGORIES.items()}
        if found := {label: score for label, score in found.items() if score in known}:
            return found
    return {}


@dataclass(frozen=True, kw_only=True)
class _Row:
    named: NamedEntry
    cell: Cell
    values: Mapping[str, float]


def categories_of_task(
    named: Sequence[NamedEntry], rule: ScoreRule, task: str
) -> Categories | None:
    """The figure of a task that has categories; None where no run has scores of them."""
    names = category_names(task, rule)
    rows = [row for row in _rows(named, task, names) if row.values] if names else []
    if not rows:
        return None
    labels = [label for label in names if any(label in row.values for row in rows)]
    drawn = rows[:MOST_ENTRIES]
    x = linear_axis([0.0, *(v for row in drawn for v in row.values.values())], LEFT, WIDTH - RIGHT)
    lines = tuple(_lines(labels, drawn, x))
    height = TOP + sum(HEADING + GAP + BAR * len(line.bars) for line in lines) + BOTTOM
    y = Axis(low=0, high=1, start=height - BOTTOM, end=TOP, values=(), text=str)
    name, score = task.rpartition("/")[2], score_names(task, rule)
    measure = next(s for s in score if f"{s}_" in next(iter(names.values())))
    return Categories(
        task=task,
        title=f"{name} by category",
        description=_describe(drawn, labels),
        frame=frame_of(x, y, height=height, x_label=f"{measure} × 100", y_label=""),
        zero=x(0),
        height=BAR - 5,
        lines=lines,
        columns=tuple(labels),
        rows=tuple(_text_row(row, labels) for row in rows[:MOST_ROWS]),
        left_out=len(rows) - len(drawn),
    )


def _rows(named: Sequence[NamedEntry], task: str, names: Mapping[str, str]) -> Iterator[_Row]:
    """The entries in the board's order, with the median over seeds of each category, in percent."""
    for each in named:
        if cell := each.entry.cells.get(task):
            scores = [run.scores.get(task, {}) for run in cell.runs]
            values = {
                label: 100 * median(found)
                for label, name in names.items()
                if (found := [score[name] for score in scores if name in score])
            }
            yield _Row(named=each, cell=cell, values=values)


def _lines(labels: Sequence[str], rows: Sequence[_Row], x: Axis) -> Iterator[CategoryLine]:
    top = float(TOP)
    for label in labels:
        there = [(n, row) for n, row in enumerate(rows) if label in row.values]
        bars = [
            _bar(n, row, label, (top + HEADING + BAR * place, x))
            for place, (n, row) in enumerate(there)
        ]
        yield CategoryLine(name=label, y=top + HEADING - 6, bars=tuple(bars))
        top += HEADING + GAP + BAR * len(bars)


def _bar(number: int, row: _Row, label: str, place: tuple[float, Axis]) -> Bar:
    y, x = place
    entry, value, seeds = row.named.entry, row.values[label], len(row.cell.runs)
    over = "1 seed" if seeds == 1 else f"median of {seeds} seeds"
    return Bar(
        entry=row.named.id,
        number=number,
        name=shortened(row.named.name, 19),
        href="#" + group_anchor(entry, row.cell.runs[0].task),
        note=f"{entry.model} ({entry.recipe_label}), {label}: {value:.1f}, {over}",
        text=shown(value / 100),
        y=y,
        start=x(min(value, 0.0)),
        end=x(max(value, 0.0)),
    )


def _text_row(row: _Row, labels: Sequence[str]) -> tuple[str, str, tuple[str, ...]]:
    texts = (shown(row.values[name] / 100) if name in row.values else "–" for name in labels)
    href = "#" + group_anchor(row.named.entry, row.cell.runs[0].task)
    entry = row.named.entry
    return f"{entry.model} ({entry.recipe_label})", href, tuple(texts)


def _describe(rows: Sequence[_Row], labels: Sequence[str]) -> str:
    said = (
        f"{row.named.entry.model}: "
        + ", ".join(f"{name} {row.values[name]:.1f}" for name in labels if name in row.values)
        for row in rows
    )
    return "; ".join(said) + "."
