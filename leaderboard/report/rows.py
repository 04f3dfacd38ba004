"""Lines of the report's tables: what any row shows, whoever has measured it."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import column_title, score_names
from benchharness.leaderboard.report.plots.cost import count_text
from benchharness.tasks.suites import find_task

INLINE_ROWS = 200
"""Rows of one kind that stand in the page itself and so need no script; more are packed."""

RowKind = Literal[
    "measured", "scored", "ensemble", "zero-shot", "baseline", "imported", "published"
]
"""Who has made a number, and how: fine-tuned here, predictions of others scored here, averaged
here, asked here without training, learned here without an encoder, brought by `bench import`, or
printed in a paper."""


@dataclass(frozen=True, kw_only=True)
class CellView:
    """One cell: `order` is its number in percent, for sorting; empty where there is none.

    `basis` says what the number is of ("dev accuracy"): only numbers of one basis are compared. It
    is empty where it is that of the column. `parts` are the numbers that it is the mean of, by
    their own basis, where there are several. `ends` are those of what is drawn below the number, in
    percent: its 95 % interval, or the lowest and the highest seed. `heat` and `bar` are what
    `shades.py` makes of them.
    """

    text: str
    spread: str = ""
    order: str = ""
    href: str = ""
    note: str = ""
    flags: str = ""
    best: bool = False
    basis: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    ends: tuple[float, float] | None = None
    heat: int = 0
    bar: tuple[float, float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class RowView:
    """One row; `origin` says in a few words what made it, `place` where in a source it stands.

    `href` leads to its runs or to its source. `ranks` are those that a ranked row may as well have,
    empty where they are its rank alone. `family`, `size` (millions of parameters) and `year` are
    what a page is filtered by, empty where they are not known.
    """

    anchor: str
    name: str
    details: str
    score: CellView
    cells: tuple[CellView, ...]
    origin: str
    rank: str = ""
    ranks: str = ""
    ranks_note: str = ""
    failed: str = ""
    href: str = ""
    place: str = ""
    family: str = ""
    size: str = ""
    year: str = ""

    @property
    def words(self) -> str:
        """What a filter looks in."""
        return f"{self.name} {self.details} {self.failed} {self.origin} {self.family}"

    @property
    def orders(self) -> tuple[str, ...]:
        """What each column is sorted by, from left to right."""
        numbers = (cell.order for cell in (self.score, *self.cells))
        return (self.rank, self.name, self.size, *numbers)

    @property
    def shown_size(self) -> str:
        """The parameters as people write them: "110M"."""
        return count_text(float(self.size) * 1e6) if self.size else "–"


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """Rows of one kind and split, which are sorted among themselves alone."""

    anchor: str
    kind: RowKind
    title: str
    note: str
    rows: tuple[RowView, ...]

    @property
    def inline(self) -> tuple[RowView, ...]:
        """The rows that stand in the page itself."""
        return self.rows[:INLINE_ROWS]

    @property
    def rest(self) -> tuple[RowView, ...]:
        """The rows that are packed."""
        return self.rows[INLINE_ROWS:]


def row_anchor(*names: str) -> str:
    """A row's id: the same for the same names, so that a link to a comparison stays good."""
    text = "\0".join(names).encode("utf-8", "backslashreplace")
    return f"row-{hashlib.sha256(text).hexdigest()[:10]}"


def basis_of(split: str, scores: tuple[str, ...]) -> str:
    """What a number is of, whatever the order of its scores: "dev accuracy and f1"."""
    return f"{split} {' and '.join(sorted(scores))}"


def percent(value: float) -> str:
    """A score in percent, with the digits that tell it from its neighbours and no more."""
    return f"{100 * value:.6g}"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A task's column; its values are the mean of `scores` on a split."""

    task: str
    name: str
    scores: tuple[str, ...]
    split: str
    extra: bool

    @property
    def basis(self) -> str:
        """What its values are of."""
        return basis_of(self.split, self.scores)

    @property
    def metrics(self) -> str:
        """The scores in words."""
        return " and ".join(self.scores)


def build_column(board: Board, task: str) -> Column:
    """The column of a task, also of one that only published rows have."""
    return Column(
        task=task,
        name=column_title(task, board.rule),
        scores=score_names(task, board.rule),
        split="dev" if find_task(task).dev_splits else "test",
        extra=task not in board.rule.cells,
    )


# Heat and bars, behind and below the numbers of a table, column by column.

LEVELS = 5
"""Of heat; a number at the low end of its scale has none."""

_FEWEST = 3
"""Two numbers have no scale."""


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """From `low` (no heat) to `high` (most), and the least and greatest that bars reach."""

    low: float
    high: float
    least: float
    greatest: float

    def heat(self, value: float) -> int:
        share = (value - self.low) / (self.high - self.low)
        return round(LEVELS * min(max(share, 0.0), 1.0))

    def place(self, value: float) -> float:
        """In percent of a cell's width."""
        share = (value - self.least) / (self.greatest - self.least)
        return round(100 * min(max(share, 0.0), 1.0), 1)


def shaded(groups: Sequence[RowGroup]) -> tuple[RowGroup, ...]:
    """The groups with heat and bars in their cells.

    Only numbers of the same scores on the same split share a scale, so that a published test score
    is not seen as better than a dev score. A scale ends as far below the column's median as twice
    the best is above it: one model that has learned nothing takes no contrast from the others.
    Baselines are shaded by the scale of the models, and make it where these are too few.
    """
    rows = [_cells(row) for group in groups for row in group.rows]
    models = [
        _cells(row)
        for group in groups
        if group.kind not in ("baseline", "zero-shot")
        for row in group.rows
    ]
    width = len(rows[0]) if rows else 0
    scales = [
        _scales([row[column] for row in rows]) | _scales([row[column] for row in models])
        for column in range(width)
    ]
    return tuple(
        replace(group, rows=tuple(_shaded_row(row, scales) for row in group.rows))
        for group in groups
    )


def _cells(row: RowView) -> tuple[CellView, ...]:
    return (row.score, *row.cells)


def _scales(cells: Iterable[CellView]) -> dict[str, _Scale]:
    """The scale of each basis of a column that has numbers enough."""
    by_basis: dict[str, list[CellView]] = {}
    for cell in cells:
        if cell.order:
            by_basis.setdefault(cell.basis, []).append(cell)
    return {
        basis: scale
        for basis, found in by_basis.items()
        if len(found) >= _FEWEST and (scale := _scale(found))
    }


def _scale(cells: Sequence[CellView]) -> _Scale | None:
    values = [float(cell.order) for cell in cells]
    high, middle = max(values), median(values)
    low = max(min(values), middle - 2 * (high - middle))
    if high - low < 0.05:  # all look the same
        return None
    ends = [end for cell in cells if cell.ends for end in cell.ends]
    room = 0.25 * (high - low)
    return _Scale(
        low=low,
        high=high,
        least=max(min(ends, default=low), low - room),
        greatest=min(max([high, *ends]), high + room),
    )


def _shaded_row(row: RowView, scales: Sequence[dict[str, _Scale]]) -> RowView:
    cells = [_shaded(c, s) for c, s in zip(_cells(row), scales, strict=True)]
    return replace(row, score=cells[0], cells=tuple(cells[1:]))


def _shaded(cell: CellView, scales: dict[str, _Scale]) -> CellView:
    scale = scales.get(cell.basis) if cell.order else None
    if scale is None:
        return cell
    value = float(cell.order)
    return replace(cell, heat=scale.heat(value), bar=_bar(cell, value, scale))


def _bar(cell: CellView, value: float, scale: _Scale) -> tuple[float, float, float] | None:
    """Where it begins, the number stands, and it ends; None beyond the scale."""
    if cell.ends is None or value < scale.least:
        return None
    low, high = cell.ends
    return scale.place(low), scale.place(value), scale.place(high)
