"""Published numbers as the report shows them beside an entry's own runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from leaderboard.board import Board
from leaderboard.entry import Entry
from leaderboard.reproduction import Reproduction, reproductions

__all__ = ["ReproductionView", "reproduction_views"]


@dataclass(frozen=True, kw_only=True)
class ReproductionView:
    """One published number beside ours, as text; `ours` and `difference` are empty without ours."""

    score: str
    ours: str
    theirs: str
    difference: str
    verdict: str
    source: str


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
