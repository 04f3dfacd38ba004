"""Rows of the report's tables: the fields of any row, and rows of published and imported scores."""

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
"""Number of rows of one kind that are plain HTML and need no script; further rows are packed."""

RowKind = Literal[
    "measured", "scored", "ensemble", "zero-shot", "baseline", "imported", "published"
]
"""Origin of a row's numbers: fine-tuned here, third-party predictions scored here, averaged here,
evaluated here without training, trained here without an encoder, imported with `bench db
import`, or printed in a paper."""


@dataclass(frozen=True, kw_only=True)
class CellView:
    """Cell of a table; `order` is its number in percent, for sorting, or empty.

    `basis` is the split and the metrics of the number ("dev accuracy"): only numbers with the same
    basis are compared. It is empty if it equals the basis of the column. If the number is a mean of
    several numbers, `parts` has these, keyed by their own basis. `ends` are the ends of the 95 %
    interval, or the lowest and the highest seed; `seeds` are the values of several seeds, in
    percent. `heat` is the level that `heated` has set; a cell whose runs have not learned anything
    (`has_learned`) has none.
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
    """Row of a table; `origin` describes in a few words where its numbers come from.

    `href` leads to the row's runs or to its source, and `place` is the table or section of the
    source. `ranks` are the ranks that a ranked row may have, empty if they are its own rank only.
    `family`, `size` (millions of parameters) and `year` are used by filters, and are empty if
    unknown. `card` is the address of the model card on the hub, `cite` is the paper of the model.
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
        """Text that a filter searches."""
        return f"{self.name} {self.details} {self.failed} {self.origin} {self.family}"

    @property
    def orders(self) -> tuple[str, ...]:
        """Values that each column is sorted by, from left to right."""
        numbers = (cell.order for cell in (self.score, *self.cells))
        return (self.rank, self.name, self.size, *numbers)

    @property
    def shown_size(self) -> str:
        """Number of parameters, formatted like "110M"."""
        return count_text(float(self.size) * 1e6) if self.size else "–"


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """Rows of one kind and split, which are sorted separately from other groups."""

    anchor: str
    kind: RowKind
    title: str
    note: str
    rows: tuple[RowView, ...]

    @property
    def inline(self) -> tuple[RowView, ...]:
        """Rows that are plain HTML in the page."""
        return self.rows[:INLINE_ROWS]

    @property
    def rest(self) -> tuple[RowView, ...]:
        """Rows that are packed."""
        return self.rows[INLINE_ROWS:]


def row_anchor(*names: str) -> str:
    """Return a row's id, which depends only on the names, so that links to it stay valid."""
    return f"row-{digest_of(*names)[:10]}"


def digest_of(*texts: str) -> str:
    """Return 16 hexadecimal digits that depend only on the texts."""
    joined = "\0".join(texts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(joined).hexdigest()[:16]


def basis_of(split: str, scores: tuple[str, ...]) -> str:
    """Return the basis of a number, whatever the order of its scores: "dev accuracy and f1"."""
    return f"{split} {' and '.join(sorted(scores))}"


def percent(value: float) -> str:
    """Return a score in percent, with six significant digits."""
    return f"{100 * value:.6g}"


@dataclass(frozen=True, kw_only=True)
class Column:
    """Column of a task; its values are the mean of `scores` on a split."""

    task: str
    name: str
    scores: tuple[str, ...]
    split: str
    extra: bool

    @property
    def basis(self) -> str:
        """Split and metrics of the column: "dev accuracy"."""
        return basis_of(self.split, self.scores)

    @property
    def metrics(self) -> str:
        """Names of the scores, joined by "and"."""
        return " and ".join(self.scores)


def build_column(board: Board, task: str) -> Column:
    """Return the column of a task, even if only published rows have the task."""
    return Column(
        task=task,
        name=column_title(task, board.rule),
        scores=score_names(task, board.rule),
        split=find_task(task).shown_split,
        extra=task not in board.rule.cells,
    )


# Published and imported scores: rows of the tables, unranked.

_NOTES: Mapping[str, str] = MappingProxyType(
    {
        "published": "as printed in papers, model cards and leaderboards; unranked, because "
        "protocols and metrics differ between rows",
        "imported": "imported with bench db import; unranked, because benchharness has neither "
        "their runs nor their data",
    }
)


def block_group(
    block: PublishedBlock, columns: Sequence[Column], anchor: str, sizes: Sizes
) -> RowGroup:
    """Return the rows of a block, human baselines first, in the columns of a table."""
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
    """Return the first year in a text, empty if there is none."""
    return next(iter(re.findall(r"\b(?:19|20)\d\d\b", text)), "")


# Forms of citations in the published tables: an arXiv paper, a website, a GitHub repository.
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})\b")
_SITE = re.compile(r"((?:[a-z0-9-]+\.)+[a-z]{2,}(?:/[\w.-]+)*)(?:,? (leaderboard)\b)?")
_REPOSITORY = re.compile(r"([A-Za-z][\w-]*/[\w.-]+)(?: |$)")
_ADDRESS = re.compile(r"https?://[\w.-]+(?::\d+)?(?:/[\w./?&=%+#@:~-]*)?")


def source_link(source: str, *, is_ours: bool) -> str:
    """Return the address of a source, empty if it contains none.

    For imported scores, only an address or an arXiv number is recognised. The packaged tables
    (`is_ours`) also name websites and repositories.
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
    """Return the numbers as printed, and one number to sort and compare by.

    If a source prints all scores of the column, the number is their mean. Otherwise it is the mean
    of the scores that the source prints, and `basis` names them.
    """
    if not cells:
        return CellView(text="–")
    known = {cell.scores: cell for cell in cells}
    # A number described as "accuracy or f1" counts as neither.
    wanted = [known[(score,)] for score in scores if (score,) in known]
    counted = wanted if scores and len(wanted) == len(scores) else list(cells)
    return CellView(
        text=" / ".join(cell.printed for cell in cells),
        order=f"{fmean(cell.value for cell in counted):.6g}",
        note=", ".join(f"{' or '.join(cell.scores)} {cell.printed}" for cell in cells),
        basis=basis_of(split, tuple(" or ".join(cell.scores) for cell in counted)),
        parts={basis_of(split, (" or ".join(c.scores),)): c.value for c in cells if len(cells) > 1},
    )
