"""What others have published or measured: rows of the tables, unranked, and numbers beside ours."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from statistics import fmean
from types import MappingProxyType

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.boards.published import (
    PublishedBlock,
    PublishedCell,
    PublishedLine,
    PublishedRow,
)
from benchharness.leaderboard.boards.reproduction import Reproduction, reproductions
from benchharness.leaderboard.boards.systems import find_system
from benchharness.leaderboard.report.plots.cost import ModelSize, Sizes, known_size
from benchharness.leaderboard.report.rows import (
    CellView,
    Column,
    RowGroup,
    RowView,
    basis_of,
    row_anchor,
)

_NOTES: Mapping[str, str] = MappingProxyType(
    {
        "published": "as printed in papers, model cards and leaderboards; unranked, because "
        "protocols and metrics differ from row to row",
        "imported": "as their sources say, brought by bench import; unranked, because nobody here "
        "has seen the runs or their rows",
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
        rows=tuple(_published_row(line, block, columns, sizes) for line in block.lines),
    )


def _published_row(
    line: PublishedLine, block: PublishedBlock, columns: Sequence[Column], sizes: Sizes
) -> RowView:
    row = line.row
    known = _known(row, sizes)
    said = (row.by, "" if row.protocol == "unsaid" else row.protocol, row.parameters, row.date)
    by_task = dict(zip(block.tasks, line.cells, strict=True))
    return RowView(
        anchor=row_anchor(row.table, row.split, row.source, row.place, row.system, *said),
        name=row.system,
        details=", ".join(part for part in said if part),
        score=_published_cell(line.averages, row.split, ()),
        cells=tuple(_published_cell(by_task.get(c.task, ()), row.split, c.scores) for c in columns),
        origin=row.source,
        place=row.place,
        href=source_link(row.source, is_ours=block.origin == "published"),
        family=known.family if known else "",
        size=_millions(row.parameters) or (f"{known.parameters / 1e6:.4g}" if known else ""),
        year=next(iter(re.findall(r"\b(?:19|20)\d\d\b", f"{row.date} {row.source}")), ""),
    )


def _known(row: PublishedRow, sizes: Sizes) -> ModelSize | None:
    system = find_system(row.system, row.table)
    return known_size(system.model, sizes) if system is not None else None


def _millions(text: str) -> str:
    """A printed number of parameters, "110M" or "1.5B", in millions."""
    found = re.fullmatch(r"([\d.]+)([MB])", text)
    return "" if found is None else f"{float(found[1]) * (1000 if found[2] == 'B' else 1):.4g}"


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
    wanted = [known[(score,)] for score in scores if (score,) in known]
    counted = wanted if scores and len(wanted) == len(scores) else list(cells)
    return CellView(
        text=" / ".join(cell.printed for cell in cells),
        order=f"{fmean(cell.value for cell in counted):.6g}",
        note=", ".join(f"{' or '.join(cell.scores)} {cell.printed}" for cell in cells),
        basis=basis_of(split, tuple(" or ".join(cell.scores) for cell in counted)),
        parts={basis_of(split, (" or ".join(c.scores),)): c.value for c in cells if len(cells) > 1},
    )


# Published numbers next to ours.

_MOST = 50
"""Entries below a board; a page has the comparisons of any other beside its runs."""


def reproduced_entries(board: Board) -> tuple[tuple[Entry, Sequence[Reproduction]], ...]:
    """The entries of which something is published, in the order of the board; the first _MOST."""
    found = ((entry, reproductions(board, entry)) for entry in board.entries)
    return tuple(islice(((entry, ours) for entry, ours in found if ours), _MOST))
