"""Lines of the report's tables: what any row shows, whoever has measured it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    `heatmap.py` makes of them.
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
