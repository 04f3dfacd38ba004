"""Number of seeds that would show a significant difference between two entries.

All functions are pure.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev

import numpy as np
import scipy  # its submodules are loaded on first use

from benchharness.leaderboard.boards.board import Board
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.comparing import Known, Outcomes
from benchharness.leaderboard.comparing.noise import (
    Estimate,
    Noise,
    average,
    noise_of,
    sample_of,
    sample_of_table,
)

MOST_SEEDS = 10_000
"""Largest number of seeds that is reported; a larger number is not a practical plan."""

SCORE = "score"
"""Name of the row for the suite's score, the mean of its tasks."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Values of two systems over their seeds, and the seeds needed to detect their difference.

    `needed` is the number of seeds per system. `difference` is the first mean minus the second, and
    `p_value` is the uncorrected p-value of the test of `bench compare` (noise.py). `reason`
    explains why no number of seeds is known, and `unread` why the examples' variance is unknown.
    `flags` are warnings about the first system's values, and about the second's.
    """

    task: str
    values: tuple[tuple[float, ...], tuple[float, ...]]
    difference: float
    spreads: tuple[float, float] | None
    p_value: float | None
    needed: int | None
    reason: str
    unread: str = ""
    flags: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


@dataclass(frozen=True, kw_only=True)
class Part:
    """Difference of two systems on a task, and its noise."""

    difference: float
    noise: Noise

    def at(self, count: int) -> Estimate:
        """Return the estimate that `count` seeds of each system would give."""
        return self.noise.with_seeds(count).estimate(self.difference)


def compare_seeds(
    board: Board,
    entries: Sequence[Entry],
    known: Mapping[str, Sequence[Known | None]],
    *,
    alpha: float = 0.05,
    power: float = 0.8,
) -> list[Comparison]:
    """Return a comparison of two entries for each task of `known`, and for the suite's score.

    The score's comparison comes last, and only if `known` contains all tasks of the rule.

    Args:
        board: Board of the entries.
        entries: The two entries.
        known: Outcomes of both entries, keyed by the tasks that both have.
        alpha: Significance level.
        power: Chance to detect the difference that the number of seeds must reach.
    """
    one, other = entries
    once = next((each.name for each in entries if each.kind in ("baseline", "ensemble")), "")
    parts, found = {}, []
    for task, outcomes in known.items():
        values = (one.cells[task].values, other.cells[task].values)
        parts[task] = _part(values, outcomes)
        unread = next((each for each in outcomes if isinstance(each, str)), "")
        each = _comparison(task, values, [parts[task]], (alpha, power), once)
        flags = (one.cells[task].notes, other.cells[task].notes)
        found.append(replace(each, unread=unread, flags=flags))
    if set(board.rule.cells) <= set(known) and one.seed_scores and other.seed_scores:
        whole = [parts[task] for task in board.rule.cells]
        scores = (one.seed_scores, other.seed_scores)
        each = _comparison(SCORE, scores, whole, (alpha, power), once)
        found.append(replace(each, flags=(one.score_notes, other.score_notes)))
    return found


def _part(values: Sequence[Sequence[float]], known: Sequence[Known | None]) -> Part:
    samples = [sample_of(each) for each in known if isinstance(each, Outcomes)]
    # Use units only if both systems have the same number of them, else the scores alone.
    if len(samples) < 2 or len(samples[0].table) != len(samples[1].table):
        samples = [sample_of_table(np.array([own])) for own in values]
    one, other = samples
    return Part(
        difference=float(one.scores.mean() - other.scores.mean()), noise=noise_of(one, other)
    )


def _comparison(
    task: str,
    values: tuple[tuple[float, ...], tuple[float, ...]],
    parts: Sequence[Part],
    chances: tuple[float, float],
    once: str,
) -> Comparison:
    """Return the comparison; `once` names an entry that is made once and has no seeds, if any."""
    one, other = values
    now = average([part.noise.estimate(part.difference) for part in parts])
    several = min(len(one), len(other)) > 1
    difference = now.value
    needed = seeds_needed(parts, *chances) if several and difference else None
    return Comparison(
        task=task,
        values=values,
        difference=difference,
        spreads=(stdev(one), stdev(other)) if several else None,
        p_value=now.p_value if several and now.variance else None,
        needed=needed,
        reason="" if needed else _reason(several, difference, parts, once),
    )


def _reason(several: bool, difference: float, parts: Sequence[Part], once: str) -> str:
    if not several and once:
        return f"{once} is run once, so no seeds can be added"
    if not several:
        return "one seed shows no spread: run at least 2 seeds of each"
    if not difference:
        return "the means are equal"
    if any(part.noise.units for part in parts):
        return "no number of seeds suffices: more examples are needed"
    return f"more than {MOST_SEEDS:,}"


def power_of(estimate: Estimate, alpha: float = 0.05) -> float:
    """Return the chance that the test detects a true difference of this value and variance.

    The test statistic is assumed to have a noncentral t distribution (Cohen, Statistical Power
    Analysis, 1988, chapter 2).
    """
    if estimate.variance == 0:
        return float(estimate.value != 0)
    freedom = min(estimate.freedom, 1e9)
    shift = abs(estimate.value) / math.sqrt(estimate.variance)
    critical = scipy.stats.t.ppf(1 - alpha / 2, freedom)
    # Both tails count; the wrong tail is likely only for tiny differences.
    power = float(
        scipy.stats.nct.sf(critical, freedom, shift)
        + scipy.stats.nct.cdf(-critical, freedom, shift)
    )
    # Far out in the tail scipy returns NaN; the normal approximation is as good there.
    return power if math.isfinite(power) else float(scipy.stats.norm.cdf(shift - critical))


def seeds_needed(parts: Sequence[Part], alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Return the smallest number of seeds per system, 2 or more, that reaches the power.

    Return None if it is more than MOST_SEEDS.
    """

    def suffices(count: int) -> bool:
        return power_of(average([part.at(count) for part in parts]), alpha) >= power

    if not suffices(MOST_SEEDS):
        return None
    # Invariant of the search: `high` suffices and `low` does not, since one seed shows no spread.
    low, high = 1, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
