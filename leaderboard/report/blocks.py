"""Published and imported rows as the report's tables show them: groups of their own, unranked."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

from leaderboard.published import PublishedCell
from leaderboard.published.block import PublishedBlock, PublishedLine
from leaderboard.report.column import Column
from leaderboard.report.rows import CellView, RowGroup, RowView, basis_of, row_anchor

__all__ = ["block_group"]

NOTES: Mapping[str, str] = MappingProxyType(
    {
        "published": "as printed in papers, model cards and leaderboards; unranked, because "
        "protocols and metrics differ from row to row",
        "imported": "as their sources say, brought by bench import; unranked, because nobody here "
        "has seen the runs or their rows",
    }
)


def block_group(block: PublishedBlock, columns: Sequence[Column], anchor: str) -> RowGroup:
    """The rows of a block, human baselines first, in the columns of a table."""
    return RowGroup(
        anchor=f"{anchor}-{block.origin}-{block.split}",
        kind=block.origin,
        title=f"{block.origin.capitalize()}, {block.split}",
        note=NOTES[block.origin],
        rows=tuple(_row(line, block, columns) for line in block.lines),
    )


def _row(line: PublishedLine, block: PublishedBlock, columns: Sequence[Column]) -> RowView:
    row = line.row
    said = (row.by, "" if row.protocol == "unsaid" else row.protocol, row.parameters, row.date)
    by_task = dict(zip(block.tasks, line.cells, strict=True))
    return RowView(
        anchor=row_anchor(row.table, row.split, row.source, row.place, row.system, *said),
        name=row.system,
        details=", ".join(part for part in said if part),
        score=_cell(line.averages, row.split, ()),
        cells=tuple(_cell(by_task.get(c.task, ()), row.split, c.scores) for c in columns),
        origin=row.source,
        place=row.place,
    )


def _cell(cells: Sequence[PublishedCell], split: str, scores: Sequence[str]) -> CellView:
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
