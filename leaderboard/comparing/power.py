"""Two entries of a board, task by task: how far apart, and how many seeds would show it. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import scipy  # its parts are loaded on first use

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry

MOST_SEEDS = 10_000
"""Beyond so many the answer is no plan any more."""

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


def welch_power(
    seeds: int, difference: float, spreads: tuple[float, float], alpha: float = 0.05
) -> float:
    """The chance that the test finds a true difference of the means, with `seeds` runs of each.

    `spreads` are the standard deviations over seeds of both systems. The statistic is taken for a
    noncentral t with the degrees of freedom of Welch and Satterthwaite; where the spreads are equal
    this is the power of Student's test (Cohen, Statistical Power Analysis, 1988, chapter 2).
    """
    variances = [spread**2 for spread in spreads]
    if sum(variances) == 0:
        return float(difference != 0)
    freedom = (seeds - 1) * sum(variances) ** 2 / sum(v**2 for v in variances)
    shift = abs(difference) * math.sqrt(seeds / sum(variances))
    critical = scipy.stats.t.ppf(1 - alpha / 2, freedom)
    power = float(
        scipy.stats.nct.sf(critical, freedom, shift)
        + scipy.stats.nct.cdf(-critical, freedom, shift)
    )
    # Far out in the tail scipy gives up; the normal distribution is as good there.
    return power if math.isfinite(power) else float(scipy.stats.norm.cdf(shift - critical))


def seeds_needed(
    difference: float, spreads: tuple[float, float], alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """The fewest seeds of each system, 2 or more, that reach the power; None beyond MOST_SEEDS."""
    if welch_power(MOST_SEEDS, difference, spreads, alpha) < power:
        return None
    low, high = 1, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        if welch_power(middle, difference, spreads, alpha) >= power:
            high = middle
        else:
            low = middle
    return high


def welch_p_value(one: tuple[float, ...], other: tuple[float, ...]) -> float | None:
    """The p-value of the values themselves; None where it is undefined: one value, no spread.

    From means and spreads that are summed exactly: scipy's own sums warn of lost digits where the
    values of one system are equal.
    """
    if min(len(one), len(other)) < 2 or len(set(one)) == len(set(other)) == 1:
        return None
    moments = (moment for values in (one, other) for moment in _moments(values))
    return float(scipy.stats.ttest_ind_from_stats(*moments, equal_var=False).pvalue)


def _moments(values: Sequence[float]) -> tuple[float, float, int]:
    return fmean(values), stdev(values), len(values)
