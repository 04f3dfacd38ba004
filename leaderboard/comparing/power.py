"""Two entries of a board, task by task: how far apart, and how many seeds would show it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from leaderboard.boards.board import Board
from leaderboard.boards.entry import Entry
from leaderboard.power import MOST_SEEDS, seeds_needed, welch_p_value

__all__ = ["SCORE", "Comparison", "compare"]

SCORE = "score"
"""The row of the suite's score, which is compared over the seeds that have every task."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The values of two systems over their seeds; `needed` seeds of each would tell them apart.

    `difference` is that of the means, first minus second, because a t-test compares means.
    `p_value` is Welch's for the stored values. `reason` says why there is no number of seeds.
    """

    task: str
    values: tuple[tuple[float, ...], tuple[float, ...]]
    difference: float
    spreads: tuple[float, float] | None
    p_value: float | None
    needed: int | None
    reason: str


def compare(
    board: Board,
    entries: Sequence[Entry],
    tasks: Sequence[str],
    *,
    alpha: float = 0.05,
    power: float = 0.8,
) -> list[Comparison]:
    """A comparison of two entries for each of the tasks, which both have.

    The suite's score comes last where both have it and all its tasks are among `tasks`.
    """
    one, other = entries
    samples = {task: (one.cells[task].values, other.cells[task].values) for task in tasks}
    if set(board.rule.cells) <= set(tasks) and one.seed_scores and other.seed_scores:
        samples[SCORE] = (one.seed_scores, other.seed_scores)
    return [_comparison(task, values, alpha, power) for task, values in samples.items()]


def _comparison(
    task: str, values: tuple[tuple[float, ...], tuple[float, ...]], alpha: float, power: float
) -> Comparison:
    one, other = values
    difference = fmean(one) - fmean(other)
    spreads = (stdev(one), stdev(other)) if min(len(one), len(other)) > 1 else None
    needed = seeds_needed(difference, spreads, alpha, power) if spreads and difference else None
    return Comparison(
        task=task,
        values=values,
        difference=difference,
        spreads=spreads,
        p_value=welch_p_value(one, other),
        needed=needed,
        reason="" if needed else _reason(spreads, difference),
    )


def _reason(spreads: tuple[float, float] | None, difference: float) -> str:
    if spreads is None:
        return "one seed shows no spread: run at least 2 of each"
    return f"more than {MOST_SEEDS:,}" if difference else "the means are equal"
