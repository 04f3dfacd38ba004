"""Two entries of a board, task by task: how many seeds would tell them apart. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev

import numpy as np
import scipy  # its parts are loaded on first use

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
"""Beyond so many the answer is no plan any more."""

SCORE = "score"
"""The row of the suite's score, the mean of its tasks."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The values of two systems over their seeds; `needed` seeds of each would tell them apart.

    `difference` is that of the means, first minus second, and `p_value` that of the test of
    `bench compare` (noise.py), without its correction. `reason` says why there is no number of
    seeds, and `unread` why the examples' part is unknown. `flags` are what must be known of the
    first's values, and of the second's.
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
    """A task's difference and its noise."""

    difference: float
    noise: Noise

    def at(self, count: int) -> Estimate:
        """With so many seeds of each system."""
        return self.noise.with_seeds(count).estimate(self.difference)


def compare_seeds(
    board: Board,
    entries: Sequence[Entry],
    known: Mapping[str, Sequence[Known | None]],
    *,
    alpha: float = 0.05,
    power: float = 0.8,
) -> list[Comparison]:
    """A comparison of two entries for each of the tasks of `known`, which both have.

    `known` is what is known of their examples. The suite's score comes last where all tasks of its
    rule are there.
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
    # Unit by unit only where both have the same number; else there are the scores alone.
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
    """The numbers of a comparison; `once` names the row that is made once, which has no seeds."""
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
        return f"{once} is made once, and has no seeds to add"
    if not several:
        return "one seed shows no spread: run at least 2 of each"
    if not difference:
        return "the means are equal"
    if any(part.noise.units for part in parts):
        return "no number of seeds: it needs more examples"
    return f"more than {MOST_SEEDS:,}"


def power_of(estimate: Estimate, alpha: float = 0.05) -> float:
    """The chance that the test finds a true difference of this value and variance.

    The statistic is taken for a noncentral t (Cohen, Statistical Power Analysis, 1988, chapter 2).
    """
    if estimate.variance == 0:
        return float(estimate.value != 0)
    freedom = min(estimate.freedom, 1e9)
    shift = abs(estimate.value) / math.sqrt(estimate.variance)
    critical = scipy.stats.t.ppf(1 - alpha / 2, freedom)
    # Beyond the critical value on either side: the wrong one is likely only for tiny differences.
    power = float(
        scipy.stats.nct.sf(critical, freedom, shift)
        + scipy.stats.nct.cdf(-critical, freedom, shift)
    )
    # Far out in the tail scipy gives up; the normal distribution is as good there.
    return power if math.isfinite(power) else float(scipy.stats.norm.cdf(shift - critical))


def seeds_needed(parts: Sequence[Part], alpha: float = 0.05, power: float = 0.8) -> int | None:
    """The fewest seeds of each system, 2 or more, that reach the power; None beyond MOST_SEEDS."""

    def suffices(count: int) -> bool:
        return power_of(average([part.at(count) for part in parts]), alpha) >= power

    if not suffices(MOST_SEEDS):
        return None
    # `high` suffices all the time, `low` never: one seed shows no spread.
    low, high = 1, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
