"""Lines of the report's tables: what any row shows, and the rows of what others have measured."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from types import MappingProxyType
from typing import Literal

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.cell import column_title, score_names
from benchharness.leaderboard.boards.published import (
    PublishedBlock,
    PublishedCell,
    PublishedRow,
)
from benchharness.leaderboard.report.plots.cost import Sizes, count_text, published_size
from benchharness.tasks.suites import find_task

INLINE_ROWS = 200
"""Rows of one kind that stand in the page itself and so need no script; more are packed."""

RowKind = Literal[
    "measured", "scored", "ensemble", "zero-shot", "baseline", "imported", "published"
]
"""Who has made a number, and how: fine-tuned here, predictions of others scored here, averaged
here, asked here without training, learned here without an encoder, brought by `bench db import`, or
printed in a paper."""


@dataclass(frozen=True, kw_only=True)
class CellView:
    """One cell: `order` is its number in percent, for sorting; empty where there is none.

    `basis` says what the number is of ("dev accuracy"): only numbers of one basis are compared. It
    is empty where it is that of the column. `parts` are the numbers that it is the mean of, by
    their own basis, where there are several. `ends` are those of its 95 % interval, or the lowest
    and the highest seed; `seeds` the values of several, in percent. `heat` is what `heated` makes
    of the numbers of what `has_learned` something.
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
    ends: str = ""
    seeds: tuple[str, ...] = ()
    has_learned: bool = True
    heat: int = 0


@dataclass(frozen=True, kw_only=True)
class RowView:
    """One row; `origin` says in a few words what made it, `place` where in a source it stands.

    `href` leads to its runs or to its source. `ranks` are those that a ranked row may as well have,
    empty where they are its rank alone. `family`, `size` (millions of parameters) and `year` are
    what a page is filtered by, empty where they are not known. `card` is the address of the model's
    card on the hub, `cite` its paper.
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
    card: str = ""
    cite: str = ""

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
    return f"row-{digest_of(*names)[:10]}"


def digest_of(*texts: str) -> str:
    """16 hexadecimal digits that are the same for the same texts."""
    joined = "\0".join(texts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(joined).hexdigest()[:16]


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
        split=find_task(task).shown_split,
        extra=task not in board.rule.cells,
    )


# What others have published or measured: rows of the tables, unranked.

_NOTES: Mapping[str, str] = MappingProxyType(
    {
        "published": "as printed in papers, model cards and leaderboards; unranked, because "
        "protocols and metrics differ from row to row",
        "imported": "as their sources say, brought by bench db import; unranked, because nobody "
        "here has seen the runs or their rows",
    }
)


def block_group(
    block: PublishedBlock, columns: Sequence[Column], anchor: str, sizes: Sizes
) -> RowGroup:
    """The rows of a block, human baselines first, in the columns of a table."""
    return RowGroup(
        anchor=f"{anchor}-{block.origin}-{block.split}",
        kind=block.origin,
        title=f"{block.origin.capitalize()}, {block.split}",
        note=_NOTES[block.origin],
        rows=tuple(_published_row(row, block, columns, sizes) for row in block.rows),
    )


def _published_row(
    row: PublishedRow, block: PublishedBlock, columns: Sequence[Column], sizes: Sizes
) -> RowView:
    size, known = published_size(row, sizes)
    said = (row.by, row.said_protocol, row.parameters, row.date)
    return RowView(
        anchor=row_anchor(row.table, row.split, row.source, row.place, row.system, *said),
        name=row.system,
        details=", ".join(part for part in said if part),
        score=_published_cell(row.of(block.suite), row.split, ()),
        cells=tuple(_published_cell(row.of(c.task), row.split, c.scores) for c in columns),
        origin=row.source,
        place=row.place,
        href=source_link(row.source, is_ours=block.origin == "published"),
        family=known.family if known else "",
        size=f"{size / 1e6:.4g}" if size else "",
        year=year_in(f"{row.date} {row.source}"),
    )


def year_in(text: str) -> str:
    """The first year that a text names, empty without one."""
    return next(iter(re.findall(r"\b(?:19|20)\d\d\b", text)), "")


# The forms that the published tables cite in: a paper on arXiv, a site, a repository of GitHub.
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})\b")
_SITE = re.compile(r"((?:[a-z0-9-]+\.)+[a-z]{2,}(?:/[\w.-]+)*)(?:,? (leaderboard)\b)?")
_REPOSITORY = re.compile(r"([A-Za-z][\w-]*/[\w.-]+)(?: |$)")
_ADDRESS = re.compile(r"https?://[\w.-]+(?::\d+)?(?:/[\w./?&=%+#@:~-]*)?")


def source_link(source: str, *, is_ours: bool) -> str:
    """The address of a source, empty where it names none.

    Of a source that a user has brought only an address or a paper's number is taken; the packaged
    tables (`is_ours`) also name sites and repositories.
    """
    if found := _ARXIV.search(source):
        return f"https://arxiv.org/abs/{found[1]}"
    if _ADDRESS.fullmatch(source):
        return source
    if not is_ours:
        return ""
    if found := _SITE.match(source):
        return "https://" + "/".join(filter(None, found.groups()))
    found = _REPOSITORY.match(source)
    return f"https://github.com/{found[1]}" if found else ""


def _published_cell(cells: Sequence[PublishedCell], split: str, scores: Sequence[str]) -> CellView:
    """The numbers as printed, and one number to sort and compare by.

    A source that prints more scores of a task than the column's has the mean of the column's; one
    that prints others has the mean of those, and says which they are.
    """
    if not cells:
        return CellView(text="–")
    known = {cell.scores: cell for cell in cells}
    # A number of which the source says "accuracy or f1" is no number of either.
    wanted = [known[(score,)] for score in scores if (score,) in known]
    counted = wanted if scores and len(wanted) == len(scores) else list(cells)
    return CellView(
        text=" / ".join(cell.printed for cell in cells),
        order=f"{fmean(cell.value for cell in counted):.6g}",
        note=", ".join(f"{' or '.join(cell.scores)} {cell.printed}" for cell in cells),
        basis=basis_of(split, tuple(" or ".join(cell.scores) for cell in counted)),
        parts={basis_of(split, (" or ".join(c.scores),)): c.value for c in cells if len(cells) > 1},
    )
