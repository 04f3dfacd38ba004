"""Published numbers as the report shows them: beside an entry's own runs, and below its board."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leaderboard.boards.board import Board
from leaderboard.boards.entry import Entry
from leaderboard.boards.reproduction import Reproduction, reproductions

__all__ = ["ReproducedEntry", "ReproductionView", "reproduced_entries", "reproduction_views"]

MOST = 50
"""Entries below a board; a page has the comparisons of any other beside its runs."""


@dataclass(frozen=True, kw_only=True)
class ReproductionView:
    """One published number beside ours, as text; `ours` and `difference` are empty without ours.

    `verdict` is "within noise", "below", "above" or "not comparable" with its `reason`; `noise` is
    how far theirs may lie by chance.
    """

    task: str
    score: str
    ours: str
    theirs: str
    difference: str
    verdict: str
    noise: str
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True)
class ReproducedEntry:
    """An entry and all of its comparisons."""

    model: str
    recipe: str
    views: tuple[ReproductionView, ...]


def reproduced_entries(board: Board) -> tuple[ReproducedEntry, ...]:
    """The entries of which something is published, in the order of the board; the first MOST."""
    found: list[ReproducedEntry] = []
    for entry in board.entries:
        if len(found) < MOST and (views := _views(reproductions(board, entry))):
            found.append(ReproducedEntry(model=entry.model, recipe=entry.recipe_label, views=views))
    return tuple(found)


def _views(found: Sequence[Reproduction]) -> tuple[ReproductionView, ...]:
    return tuple(map(_reproduction, found))


def reproduction_views(board: Board, entry: Entry) -> Mapping[str, tuple[ReproductionView, ...]]:
    """The comparisons of an entry with what is published of its model, by task."""
    views: dict[str, tuple[ReproductionView, ...]] = {}
    for found in reproductions(board, entry):
        views[found.task] = (*views.get(found.task, ()), _reproduction(found))
    return views


def _reproduction(found: Reproduction) -> ReproductionView:
    return ReproductionView(
        task=found.task,
        score=" or ".join(found.theirs.scores),
        ours="" if found.ours is None else f"{found.ours:.1f}",
        theirs=found.theirs.printed,
        difference="" if found.difference is None else f"{found.difference:+.1f}",
        verdict=found.verdict,
        noise="" if found.noise is None else f"±{found.noise:.1f}",
        reason=found.reason,
        source=f"{found.row.system}, {found.row.source}: {found.row.place}",
    )
