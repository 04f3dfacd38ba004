"""Rows of the tables in the report, and the rows for published and imported scores."""

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
from benchharness.leaderboard.report.sizes import Sizes, count_text, published_size
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import score_title

INLINE_ROWS = 200
"""Maximum number of rows of the same kind (see `RowGroup`) that are plain HTML in a table. All
other rows are compressed, and a script unpacks them.
"""

RowKind = Literal[
    "measured", "scored", "ensemble", "zero-shot", "baseline", "imported", "published"
]
"""Origin of a row's scores: "measured" is a model fine-tuned here, "scored" are predictions of
other programs scored here, "ensemble" combines stored predictions, "zero-shot" was evaluated here
without training, "baseline" is a model without an encoder, "imported" are scores from `bench db
import`, and "published" are scores from papers, model cards and leaderboards."""


@dataclass(frozen=True, kw_only=True)
class CellView:
    """Cell of a table.

    Attributes:
        text: Text of the cell.
        spread: Standard deviation over seeds, times 100; may be empty.
        order: Score in percent as text, by which rows are sorted; empty if there is no score.
        href: Link to the runs; may be empty.
        note: Details that are shown when the mouse is over the cell.
        flags: Warnings about the score, joined by "; "; may be empty.
        best: True if the score is the best in its column.
        basis: Split and metrics of the score, e.g. "dev accuracy"; empty if it equals the basis of
            the column. Only scores with the same basis are compared.
        parts: If the score is the mean of several scores, these scores in percent, keyed by their
            basis; else empty.
        ends: Ends of the 95 % interval or, without one, the lowest and highest score of a seed, as
            text ("61.2–64.8"); may be empty.
        seeds: Scores of the seeds in percent; empty for one seed.
        has_learned: False if the runs have learned nothing. Such a cell has no background colour.
        heat: Level of the background colour, from 0 (none) to 5 (best); see `table.heated`.
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
    """Row of a table: a leaderboard entry, or published or imported scores of a system.

    Attributes:
        anchor: Id of the row in the page.
        name: Name of the entry or system.
        details: Further description, such as the recipe and the number of seeds.
        score: Cell with the suite's score.
        cells: One cell per task.
        origin: Where the scores come from: the number of runs, e.g. "3 runs", or the publication.
        rank: Rank; empty for a row without a rank.
        ranks: Possible ranks given the noise, e.g. "2 to 4"; empty if only one rank is possible.
        ranks_note: Note that lists the entries from which the entry does not differ significantly.
        failed: Number of failed runs, e.g. "2 failed"; empty if there are none.
        href: Link to the runs or to the publication; may be empty.
        place: Table or section in the publication; empty for a leaderboard entry.
        family: Architecture of the model, for filters; empty if unknown.
        size: Number of parameters in millions, for filters; empty if unknown.
        year: Year of the newest run or of the publication, for filters; empty if unknown.
        card: Address of the model card on the Hub; may be empty.
        cite: Paper of the model; may be empty.
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
        """Text in which the page searches for the words that a reader has entered as a filter."""
        return f"{self.name} {self.details} {self.failed} {self.origin} {self.family}"

    @property
    def orders(self) -> tuple[str, ...]:
        """Values by which rows are sorted, one per column: rank, name, size and the scores."""
        numbers = (cell.order for cell in (self.score, *self.cells))
        return (self.rank, self.name, self.size, *numbers)

    @property
    def shown_size(self) -> str:
        """Number of parameters as text, e.g. "110M"; a dash if it is unknown."""
        return count_text(float(self.size) * 1e6) if self.size else "–"


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """Rows of a table that have the same origin and split, and are sorted among themselves.

    Attributes:
        anchor: Id of the group in the page.
        kind: Origin of the scores.
        title: Title of the group.
        note: Explanation of the group, for readers.
        rows: Rows of the group.
    """

    anchor: str
    kind: RowKind
    title: str
    note: str
    rows: tuple[RowView, ...]

    @property
    def inline(self) -> tuple[RowView, ...]:
        """Rows that are plain HTML in the page, and need no script."""
        return self.rows[:INLINE_ROWS]

    @property
    def rest(self) -> tuple[RowView, ...]:
        """Rows that are compressed in the page."""
        return self.rows[INLINE_ROWS:]


def row_anchor(*names: str) -> str:
    """Return the id of a row in the page.

    Args:
        names: Texts that identify the row, such as the model and the recipe. Equal texts always
            give the same id.
    """
    return f"row-{digest_of(*names)[:10]}"


def digest_of(*texts: str) -> str:
    """Return a digest of the texts (16 hex digits)."""
    joined = "\0".join(texts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(joined).hexdigest()[:16]


def basis_of(split: str, scores: tuple[str, ...]) -> str:
    """Return the split and the sorted names of a score's metrics, e.g. "dev accuracy and f1".

    Two scores may be compared only if these texts are equal for both.
    """
    return f"{split} {' and '.join(sorted(scores))}"


def percent(value: float) -> str:
    """Return a score in percent as text, with six significant digits."""
    return f"{100 * value:.6g}"


@dataclass(frozen=True, kw_only=True)
class Column:
    """Column of a table for one task.

    Attributes:
        task: Name of the task.
        name: Title of the column.
        scores: Names of the scores whose mean is the value of a cell.
        split: Split on which these scores are measured.
        extra: True if the task does not count in the suite's score.
    """

    task: str
    name: str
    scores: tuple[str, ...]
    split: str
    extra: bool

    @property
    def basis(self) -> str:
        """Split and metrics of the column, e.g. "dev accuracy"."""
        return basis_of(self.split, self.scores)

    @property
    def metrics(self) -> str:
        """Names of the scores, joined by "and"."""
        return " and ".join(score_title(find_task(self.task), score) for score in self.scores)


def build_column(board: Board, task: str) -> Column:
    """Create the column for a task; tasks with only published or imported scores have one too."""
    return Column(
        task=task,
        name=column_title(task, board.rule),
        scores=score_names(task, board.rule),
        split=find_task(task).shown_split,
        extra=task not in board.rule.cells,
    )


# Rows for published and imported scores, which have no rank.

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
    """Create the group of rows for a block of published or imported scores.

    Args:
        block: Published or imported scores.
        columns: Columns of the table.
        anchor: Id of the table.
        sizes: Known sizes of models, keyed by lower-case name.
    """
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
    """Return the first year in a text; empty if there is none."""
    return next(iter(re.findall(r"\b(?:19|20)\d\d\b", text)), "")


# Patterns of sources: an arXiv paper, a website, a GitHub repository, and a web address.
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})\b")
_SITE = re.compile(r"((?:[a-z0-9-]+\.)+[a-z]{2,}(?:/[\w.-]+)*)(?:,? (leaderboard)\b)?")
_REPOSITORY = re.compile(r"([A-Za-z][\w-]*/[\w.-]+)(?: |$)")
_ADDRESS = re.compile(r"https?://[\w.-]+(?::\d+)?(?:/[\w./?&=%+#@:~-]*)?")


def source_link(source: str, *, is_ours: bool) -> str:
    """Return the web address of a publication; empty if none is recognized.

    Args:
        source: Description of the publication. A web address and an arXiv number are always
            recognized.
        is_ours: Recognize the names of websites and GitHub repositories too. Use this only for the
            packaged tables, because in other texts such a name may mean something else.
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
    """Create the cell for published scores of a task or suite.

    The text contains the numbers as printed. The number for sorting and comparing is the mean of
    the column's scores or, if the source does not print all of these, of all printed scores.
    """
    if not cells:
        return CellView(text="–")
    known = {cell.scores: cell for cell in cells}
    # A score that is named "accuracy or f1" counts neither as accuracy nor as F1.
    wanted = [known[(score,)] for score in scores if (score,) in known]
    counted = wanted if scores and len(wanted) == len(scores) else list(cells)
    return CellView(
        text=" / ".join(cell.printed for cell in cells),
        order=f"{fmean(cell.value for cell in counted):.6g}",
        note=", ".join(f"{' or '.join(cell.scores)} {cell.printed}" for cell in cells),
        basis=basis_of(split, tuple(" or ".join(cell.scores) for cell in counted)),
        parts={basis_of(split, (" or ".join(c.scores),)): c.value for c in cells if len(cells) > 1},
    )
