"""Tests that compare the power of a sample with the share of findings in a simulation."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from benchharness.extensions.reproduce.seeds import ScoreTest, check_scores
from benchharness.extensions.share.sample import pooled, power_of

ROWS = 1_000
DEVIATION = 0.008  # standard deviation of a score over seeds


def scored(others: "np.ndarray", stored: float, found: float) -> ScoreTest:
    """Return the test of a run's score; `others` are the scores of its other seeds."""
    known = len(others) > 1
    return ScoreTest(
        name="a",
        stored=stored,
        found=found,
        limit=0.0,
        deviation=float(np.std(others, ddof=1)) if known else math.sqrt(0.8 * 0.2 / ROWS),
        seeds=len(others),
        rows=ROWS,
        power=0.0,
        detectable=0.0,
    )


CASES = [
    pytest.param(10, 4, 800),
    *(pytest.param(*case, 6_000, marks=pytest.mark.soak)
      for case in ((4, 4), (10, 4), (20, 3), (8, 0))),
]  # fmt: skip


@pytest.mark.parametrize(("runs", "seeds", "trials"), CASES)
def test_share_of_findings_in_a_simulation_equals_the_stated_power(runs, seeds, trials):
    """Compare scores with and without an added point with the scores of other seeds."""
    random = np.random.default_rng(runs)
    deviation = DEVIATION if seeds else math.sqrt(0.8 * 0.2 / ROWS)
    caught, honest, stated = 0, 0, []
    for trial in range(trials):
        draws = random.normal(0.8, deviation, (runs, seeds))
        stored, found = random.normal(0.8, deviation, (2, runs))
        for planted in (0.0, 0.01):
            tests = [scored(*each) for each in zip(draws, stored + planted, found, strict=True)]
            mean, limit = pooled([vars(test) for test in tests])
            caught += planted > 0 and abs(mean) > limit
            honest += planted == 0 and abs(mean) > limit
        if trial < 100:
            # The power is computed before the draw, from the scores in the archive.
            stated.append(power_of(tests, 50, runs).every)
    print(  # noqa: T201  (shown with -s)
        f"{runs} runs, {seeds} seeds: power {np.mean(stated):.3f} stated, {caught / trials:.3f} "
          f"met; level 0.05 stated, {honest / trials:.3f} met")  # fmt: skip
    spread = 3 * math.sqrt(0.25 / trials)
    assert caught / trials == pytest.approx(np.mean(stated), abs=spread + 0.03)
    assert honest / trials < 0.05 + spread


def test_power_for_known_deviations_agrees_with_the_normal_distribution():
    test = check_scores({"a": (0.8, 0.8)}, {"a": []}, {"a": ROWS}, {"a": 1.0})[0]
    shift = 0.01 * math.sqrt(9 / (2 * 0.8 * 0.2 / ROWS))
    normal = NormalDist()
    expected = normal.cdf(shift - 1.959964) + normal.cdf(-shift - 1.959964)
    found = power_of([test] * 9, 100, 9)
    assert found.every == pytest.approx(expected, abs=1e-5)
    assert found.one == pytest.approx(0.09 * test.power)
    assert "a sample of 9 of 100 runs would find this" in found.sentence
    more, fewer = (power_of([test] * 9, 100, found.needed - n).every for n in (0, 1))
    assert fewer < 0.8 <= more


def test_power_of_an_empty_sample_is_0():
    assert power_of([], 0, 0).every == 0.0
