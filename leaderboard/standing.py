"""How sure an entry's numbers are: the intervals of its cells, its score and its rank."""

from collections.abc import Mapping
from dataclasses import dataclass

from leaderboard.comparing import Interval

__all__ = ["LEVEL", "CellStanding", "Standing"]

LEVEL = 0.95
"""Of every interval on a board."""


@dataclass(frozen=True, kw_only=True)
class CellStanding:
    """The 95 % intervals of a median over seeds, in the score's own unit.

    `examples` is for these trained models and other examples like these, None where the examples
    could not be read (`reason` says why); `seeds` for other seeds on these examples, None for one
    run; `both` for either, by as much of it as is known, None where nothing is.
    """

    both: Interval | None = None
    examples: Interval | None = None
    seeds: Interval | None = None
    reason: str = ""

    @property
    def scope(self) -> str:
        """What `both` is over: "examples and seeds"."""
        parts = (("examples", self.examples), ("seeds", self.seeds))
        return " and ".join(name for name, interval in parts if interval is not None)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The intervals of an entry: of each cell by its task, of the suite's score, of the rank.

    `ranks` are the first and the last place that it may well have, None for an entry without rank
    or where nothing is known of a task. `tied` are the labels of the ranked entries that it is not
    told apart from.
    """

    cells: Mapping[str, CellStanding]
    score: CellStanding
    ranks: tuple[int, int] | None = None
    tied: tuple[str, ...] = ()

    @property
    def rank_label(self) -> str:
        """The ranks for a reader: "2-4", "1" where there is one; empty where none are known."""
        if self.ranks is None:
            return ""
        first, last = self.ranks
        return str(first) if first == last else f"{first}-{last}"
