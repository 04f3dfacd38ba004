"""Published rows as the report shows them: blocks under a board, lines beside an entry's runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leaderboard.board import Board
from leaderboard.entry import Entry
from leaderboard.imports.block import imported_blocks
from leaderboard.published import PublishedCell
from leaderboard.published.block import PublishedLine, published_blocks
from leaderboard.reproduction import Reproduction, reproductions

__all__ = [
    "ReferenceCell",
    "ReferenceLine",
    "ReferenceView",
    "ReproductionView",
    "reference_views",
    "reproduction_views",
]

ABOUT = {
    "published": "rows from papers, model cards and leaderboards",
    "imported": "rows that others have measured, brought by bench import",
}
NOTES = {
    "published": "As printed, human baselines first, unranked: protocols and metrics differ from "
    "row to row.",
    "imported": "As their sources say, unranked: nobody here has seen the runs or their rows.",
}


@dataclass(frozen=True, kw_only=True)
class ReferenceCell:
    """The numbers of one task as printed, and which scores they are."""

    text: str
    note: str


@dataclass(frozen=True, kw_only=True)
class ReferenceLine:
    """One published row; `place` says where in the source it stands."""

    system: str
    details: str
    source: str
    place: str
    score: ReferenceCell
    cells: tuple[ReferenceCell, ...]


@dataclass(frozen=True, kw_only=True)
class ReferenceView:
    """The published rows of one split, unranked; `about` and `note` say where they are from."""

    anchor: str
    title: str
    about: str
    note: str
    columns: tuple[str, ...]
    lines: tuple[ReferenceLine, ...]


@dataclass(frozen=True, kw_only=True)
class ReproductionView:
    """One published number beside ours, as text; `ours` and `difference` are empty without ours."""

    score: str
    ours: str
    theirs: str
    difference: str
    verdict: str
    source: str


def reference_views(board: Board, anchor: str) -> tuple[ReferenceView, ...]:
    """The blocks under a board; `anchor` is the board's own."""
    return tuple(
        ReferenceView(
            anchor=f"{anchor}-{block.origin}-{block.split}",
            title=f"{block.origin.capitalize()} ({block.split})",
            about=ABOUT[block.origin],
            note=NOTES[block.origin],
            columns=tuple(task.rpartition("/")[2] for task in block.tasks),
            lines=tuple(map(_line, block.lines)),
        )
        for block in (*imported_blocks(board), *published_blocks(board))
    )


def _line(line: PublishedLine) -> ReferenceLine:
    row = line.row
    said = (row.by, "" if row.protocol == "unsaid" else row.protocol, row.parameters, row.date)
    return ReferenceLine(
        system=row.system,
        details=", ".join(part for part in said if part),
        source=row.source,
        place=row.place,
        score=_cell(line.averages),
        cells=tuple(map(_cell, line.cells)),
    )


def _cell(cells: Sequence[PublishedCell]) -> ReferenceCell:
    return ReferenceCell(
        text=" / ".join(cell.printed for cell in cells) or "–",
        note=", ".join(f"{' or '.join(cell.scores)} {cell.printed}" for cell in cells),
    )


def reproduction_views(board: Board, entry: Entry) -> Mapping[str, tuple[ReproductionView, ...]]:
    """The comparisons of an entry with what is published of its model, by task."""
    views: dict[str, tuple[ReproductionView, ...]] = {}
    for found in reproductions(board, entry):
        views[found.task] = (*views.get(found.task, ()), _reproduction(found))
    return views


def _reproduction(found: Reproduction) -> ReproductionView:
    noise = "" if found.noise is None else f" (±{found.noise:.1f})"
    reason = f": {found.reason}" if found.reason else ""
    return ReproductionView(
        score=" or ".join(found.theirs.scores),
        ours="" if found.ours is None else f"{found.ours:.1f}",
        theirs=found.theirs.printed,
        difference="" if found.difference is None else f"{found.difference:+.1f}",
        verdict=found.verdict + noise + reason,
        source=f"{found.row.system}, {found.row.source}: {found.row.place}",
    )
