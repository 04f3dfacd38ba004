"""Power analysis: number of seeds needed to detect the difference between two entries.

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
"""Maximum number of seeds that is reported as needed. More seeds are not practical."""

SCORE = "score"
"""Value of `Comparison.task` for the suite's score, the mean over its tasks."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Number of seeds needed to detect the difference between two systems on a task.

    Attributes:
        task: Name of the task, or `SCORE`.
        values: Scores of each system over its seeds.
        difference: Mean of the first system minus mean of the second.
        spreads: Standard deviation of each system over seeds; None if a system has one seed.
        p_value: P-value of a t test of the difference, not corrected for the number of tasks; None
            if it is unknown.
        needed: Number of seeds per system that are needed; None if it is unknown or above 10,000.
        reason: Reason why `needed` is None; empty if `needed` is a number.
        unread: Reason why the variance due to examples is unknown; empty if it is known.
        flags: Warnings about the first system's scores, and about the second system's scores.
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
    """Difference between two systems on one task, with its noise.

    Attributes:
        difference: Mean score of the first system over seeds, minus that of the second.
        noise: Variance components of the difference.
    """

    difference: float
    noise: Noise

    def at(self, count: int) -> Estimate:
        """Return the difference with the variance that is expected for `count` seeds per system."""
        return self.noise.with_seeds(count).estimate(self.difference)


def compare_seeds(
    board: Board,
    entries: Sequence[Entry],
    known: Mapping[str, Sequence[Known | None]],
    *,
    alpha: float = 0.05,
    power: float = 0.8,
) -> list[Comparison]:
    """Compute how many seeds are needed to detect the difference of two entries on each task.

    Returns one comparison per task in `known`. The comparison of the suite's score comes last, if
    `known` contains all tasks that count in the score, and each entry has a seed with all of them.

    Args:
        board: Leaderboard that contains the entries.
        entries: Two entries to compare.
        known: Outcomes of the first and the second entry, keyed by task, for the tasks that both
            have. If the outcomes of an entry are unknown, the reason (a string) or None.
        alpha: Significance level.
        power: Required probability to detect the difference.
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
    # Use the values of single units (examples) only if both systems have the same number of units,
    # else only the scores.
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
    """Create a comparison.

    `parts` contains the differences on the task, or on all tasks of the suite. `chances` are alpha
    and power. `once` is the name of an entry without seeds (a baseline or an ensemble); may be
    empty.
    """
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
        return f"{once} has a single run without a seed, so no seeds can be added"
    if not several:
        return "the variance over seeds is unknown: run at least 2 seeds of each"
    if not difference:
        return "the means are equal"
    if any(part.noise.units for part in parts):
        return "no number of seeds suffices: more examples are needed"
    return f"more than {MOST_SEEDS:,} seeds"


def power_of(estimate: Estimate, alpha: float = 0.05) -> float:
    """Return the power of the test: its probability to detect the estimated difference.

    The test statistic is assumed to have a noncentral t distribution (Cohen, Statistical Power
    Analysis, 1988, chapter 2).

    Args:
        estimate: Difference of two systems with its variance. If the variance is 0, the power is 1
            for any difference other than 0.
        alpha: Significance level of the test.
    """
    if estimate.variance == 0:
        return float(estimate.value != 0)
    freedom = min(estimate.freedom, 1e9)
    shift = abs(estimate.value) / math.sqrt(estimate.variance)
    critical = scipy.stats.t.ppf(1 - alpha / 2, freedom)
    # The test is two-sided, but the other tail matters only if the difference is tiny.
    power = float(
        scipy.stats.nct.sf(critical, freedom, shift)
        + scipy.stats.nct.cdf(-critical, freedom, shift)
    )
    # Far in the tail scipy returns NaN; there a normal approximation is accurate enough.
    return power if math.isfinite(power) else float(scipy.stats.norm.cdf(shift - critical))


def seeds_needed(parts: Sequence[Part], alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Return the smallest number of seeds per system for which the test reaches the power.

    The number is at least 2. Returns None if more than 10,000 (`MOST_SEEDS`) are needed.

    Args:
        parts: Differences on one task, or on each task of a suite whose mean is tested.
        alpha: Significance level of the test.
        power: Required probability to detect the difference.
    """

    def suffices(count: int) -> bool:
        return power_of(average([part.at(count) for part in parts]), alpha) >= power

    if not suffices(MOST_SEEDS):
        return None
    # Binary search: `high` seeds always suffice and `low` never do (one seed has no variance).
    low, high = 1, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
