"""Simulate error rates of `bench compare` for numbers of rows and seeds and planted differences.

    python -m benchmarks.compare_seeds --draws 2000

Both systems share the difficulty of each row, a seed shifts all rows of its run, and every run also
flips some rows at random. The output has four tests: "now" is the test of `bench compare`, "known
variance" uses the true variance, "before" required both "rows alone" and an interval that counted
the rows twice, and "rows alone" treats the seeds as fixed.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import expit

from benchharness.leaderboard.comparing import (
    Array,
    Outcomes,
    correlation,
    f1_of_label,
    first_part,
    matthews,
)
from benchharness.leaderboard.comparing.noise import Estimate, difference, sample_of

EASE, HARD, OWN, FLIP = 1.2, 2.0, 0.7, 1.0
"""Parameters of a row's logit: its mean, and the standard deviations of its parts for the row, for
the row and system, and for the row and run."""

SPREAD = math.sqrt(HARD**2 + OWN**2 + FLIP**2)
_chances = expit(np.random.default_rng(0).normal(EASE, SPREAD, 200_000))
POINT = 0.01 / float((_chances * (1 - _chances)).mean())
"""Difference in logits that changes the accuracy by one point."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The numbers of rows and of seeds per side.

    A seed shifts the accuracy of its run; `spread` is the standard deviation in points, per side.
    """

    rows: int
    seeds: tuple[int, int]
    spread: tuple[float, float]
    metric: str = "accuracy"


def draw(case: Case, planted: float, generator: np.random.Generator) -> list[Outcomes]:
    """Draw the outcomes of two systems; the first is better by `planted` points of accuracy."""
    hard = generator.normal(EASE, HARD, size=(case.rows, 1))
    gold = generator.random((case.rows, 1)) < 0.4
    found = []
    for side, (seeds, spread) in enumerate(zip(case.seeds, case.spread, strict=True)):
        shift = generator.normal(0, spread, size=seeds) + (0.0 if side else planted)
        logits = hard + shift * POINT + generator.normal(0, OWN, size=(case.rows, 1))
        logits = logits + generator.normal(0, FLIP, size=(case.rows, seeds))
        right = generator.random(logits.shape) < expit(logits)
        found.append(_outcomes(case.metric, right, gold, logits))
    return found


def _outcomes(metric: str, right: Array, gold: Array, logits: Array) -> Outcomes:
    if metric == "accuracy":
        return Outcomes(parts=right[..., None].astype(float), score=first_part)
    if metric == "pearson":
        truth = np.broadcast_to(gold * 1.0, right.shape)
        guess = truth + np.random.default_rng(right.sum()).normal(size=right.shape) - 0.2 * logits
        moments = (np.ones_like(guess), guess, truth, guess * truth, guess**2, truth**2)
        return Outcomes(parts=np.stack(moments, axis=-1), score=correlation)
    cells = np.eye(4)[2 * gold + np.where(right, gold, ~gold)]
    score = matthews if metric == "mcc" else lambda means: f1_of_label(means, 1)
    return Outcomes(parts=cells, score=score)


def verdict_before(one: Outcomes, other: Outcomes, draws: Array) -> tuple[bool, bool]:
    """Return whether the test with fixed seeds found a difference, and the former verdict."""
    tables = one.parts[..., 0], other.parts[..., 0]
    rows = tables[0].mean(axis=1) - tables[1].mean(axis=1)
    by_rows = float(stats.ttest_1samp(rows, 0.0).pvalue) < 0.05
    paired = tables[0].mean(axis=0) - tables[1].mean(axis=0)
    error = paired.std(ddof=1) / math.sqrt(len(paired))
    noise = draws[0] * rows.std(ddof=1) / math.sqrt(len(rows))
    noise = noise + error * stats.t.ppf(draws[1], len(paired) - 1)
    low, high = np.quantile(rows.mean() + noise, [0.025, 0.975])
    return by_rows, by_rows and not low <= 0 <= high


def simulate(case: Case, planted: float, count: int, *, seed: int = 0) -> list[Estimate]:
    """Return the estimated difference for each of `count` drawn pairs of systems."""
    generator = np.random.default_rng([seed, case.rows, *case.seeds])
    pairs = (draw(case, planted, generator) for _ in range(count))
    return [difference(*map(sample_of, pair)) for pair in pairs]


def false_alarms(cases: Sequence[Case], count: int) -> None:
    """Print for equal systems how often p < .05, and how often the interval contains 0."""
    print("rows seeds spread metric: p < .05, interval contains 0")
    for case in cases:
        found = simulate(case, 0.0, count)
        p_values = np.array([each.p_value for each in found])
        held = np.mean([each.interval().has(0.0) for each in found])
        print(f"{case}: {100 * np.mean(p_values < 0.05):.1f} {100 * held:.1f}", flush=True)


def power(cases: Sequence[Case], count: int) -> None:
    """Print how often each test detects planted differences."""
    print("rows seeds spread, points: now, known variance, before, rows alone")
    generator = np.random.default_rng(1)
    for case in cases:
        spread = np.std([each.value for each in simulate(case, 0.0, count, seed=2)])
        for planted in (0.0, 1.0, 2.0, 3.0):
            now, known, before, rows = [], [], [], []
            for _ in range(count):
                one, other = draw(case, planted, generator)
                found = difference(sample_of(one), sample_of(other))
                draws = np.stack([generator.normal(size=1000), generator.random(1000)])
                by_rows, verdict = verdict_before(one, other, draws)
                now.append(found.p_value < 0.05)
                known.append(abs(found.value) > 1.96 * spread)
                before.append(verdict)
                rows.append(by_rows)
            shares = (100 * np.mean(each) for each in (now, known, before, rows))
            print(f"{case} {planted:g}: " + " ".join(f"{x:.1f}" for x in shares), flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    count = parser.parse_args().draws
    even = [(n, n) for n in (2, 3, 5, 10)]
    power([Case(rows=n, seeds=(5, 5), spread=(s, s)) for n in (277, 1000) for s in (1, 2)], count)
    plain = [
        Case(rows=rows, seeds=seeds, spread=(spread, spread))
        for rows in (277, 500, 1000)
        for seeds in (*even, (3, 5), (2, 10))
        for spread in (1, 2)
    ]
    odd = [Case(rows=500, seeds=(n, n), spread=(0.5, 2)) for n in (3, 5)]
    others = [
        Case(rows=500, seeds=(5, 5), spread=(1, 1), metric=metric)
        for metric in ("f1", "mcc", "pearson")
    ]
    false_alarms([*others, *odd, *plain], count)


if __name__ == "__main__":
    main()
