"""Tests of the estimated gain from selecting the best, against simulations in which it is known."""

from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from benchharness.leaderboard.statistics import pooled_deviation, selection_gain

POINTS, SEEDS, REPETITIONS = 8, 5, 400

TRUE = {
    "alike": [0.0] * 8,
    "a flat top": [-0.1 * (x - 3.4) ** 2 for x in range(8)],
    "a peak": [-0.4 * (x - 3.4) ** 2 for x in range(8)],
    "a steep peak": [-2 * (x - 3.4) ** 2 for x in range(8)],
    "rates that collapse": [-6, -2.5, -0.8, -0.2, 0, -0.4, -12, -15],
    "two that never learn": [0, 0, 0, 0, 0, 0, -20, -20],
}
"""True score of each point, in units of the standard deviation over seeds."""


def said_and_true(true: Sequence[float], *, collapsing: float) -> tuple[float, float]:
    """Return the mean estimate and the mean true gain over many simulated sweeps."""
    draw = np.random.default_rng(7)
    said, known = [], []
    for _ in range(REPETITIONS):
        seeds = np.asarray(true)[:, None] + draw.normal(0, 1, (POINTS, SEEDS))
        seeds -= 15 * (draw.random((POINTS, SEEDS)) < collapsing)
        medians = [median(values) for values in seeds.tolist()]
        best = int(np.argmax(medians))
        others = [values for place, values in enumerate(seeds.tolist()) if place != best]
        gain = selection_gain(seeds[best].tolist(), others)
        assert gain is not None
        said.append(gain)
        known.append(medians[best] - true[best])
    return fmean(said), fmean(known)


def soak_but(kept: Sequence[str], shapes: Iterable[str]) -> list[Any]:
    """Mark all shapes but the kept ones as soak tests: simulations take seconds."""
    soak = pytest.mark.soak
    return [pytest.param(name, marks=() if name in kept else soak) for name in shapes]


@pytest.mark.parametrize("collapsing", [0.0, 0.05])
@pytest.mark.parametrize("shape", soak_but(("alike", "a steep peak", "rates that collapse"), TRUE))
def test_estimated_selection_gain_is_close_to_the_true_gain(shape: str, collapsing: float) -> None:
    said, true = said_and_true(TRUE[shape], collapsing=collapsing)
    assert abs(said - true) < 0.3


EXAMPLES = 150

ROOTS = {
    "alike": [0.0] * 8,
    "a peak": [-0.1 * (x - 3.4) ** 2 for x in range(8)],
    "two that never learn": [0, 0, 0, 0, 0, 0, -2, -2],
}
"""True accuracy of each point, as a probit."""


@pytest.mark.parametrize("shared", [pytest.param(0.0, marks=pytest.mark.soak), 0.9])
@pytest.mark.parametrize("shape", soak_but(("alike", "a peak"), ROOTS))
def test_estimated_selection_gain_covers_the_sampling_of_examples(
    shape: str, shared: float
) -> None:
    """Simulate answers that depend on point, example, both together, and the chance of a seed.

    `shared` is the part of the chance that all seeds of a point have in common on an example.
    """
    draw = np.random.default_rng(11)
    roots = np.asarray(ROOTS[shape])
    said, known = [], []
    for _ in range(150):
        example = draw.normal(0, 1, (1, 1, EXAMPLES))
        of_point = draw.normal(0, 1, (POINTS, 1, EXAMPLES)) * shared**0.5
        of_seed = draw.normal(0, 1, (POINTS, SEEDS, EXAMPLES)) * (1 - shared) ** 0.5
        run = draw.normal(0, 0.05, (POINTS, SEEDS, 1))
        right = roots[:, None, None] + run + example + of_point + of_seed > 0
        table = 100.0 * right
        scores = table.mean(axis=2)
        medians = np.median(scores, axis=1)
        best = int(medians.argmax())
        order = [best, *(place for place in range(POINTS) if place != best)]
        times = draw.multinomial(EXAMPLES, [1 / EXAMPLES] * EXAMPLES, size=200) / EXAMPLES
        redrawn = [times @ table[place].T for place in order]
        values = [scores[place].tolist() for place in order]
        gain = selection_gain(values[0], values[1:], redrawn)
        assert gain is not None
        said.append(gain)
        # Noise that all settings share does not affect the choice, so it is not a selection gain.
        expected = 100 * norm.cdf(roots / (2 + 0.05**2) ** 0.5)
        known.append((medians - expected)[best] - (medians - expected).mean())
    # In points; the standard error of a median is 2.5 to 4 points.
    assert abs(fmean(said) - fmean(known)) < 0.4


def test_selection_gain_is_unknown_with_one_seed_per_candidate() -> None:
    assert selection_gain([0.7], [[0.6], [0.5]]) is None
    assert pooled_deviation([[0.7], [0.5]]) == (0.0, 0)


def test_selection_gain_can_be_estimated_if_one_candidate_has_two_seeds() -> None:
    said = selection_gain([0.8, 0.5], [[0.6]])
    assert said is not None
    assert said > 0
    assert pooled_deviation([[0.8, 0.5], [0.6]]) == pytest.approx((0.3 / 2**0.5, 1))


def test_pooled_deviation_weights_groups_by_degrees_of_freedom() -> None:
    groups = [[1.0, 2.0, 4.0], [0.0, 0.5], [7.0]]
    expected = ((2 * np.var(groups[0], ddof=1) + np.var(groups[1], ddof=1)) / 3) ** 0.5
    assert pooled_deviation(groups) == (pytest.approx(expected), 3)


def test_variance_over_examples_increases_the_estimated_selection_gain() -> None:
    one, other = [0.8, 0.5, 0.7], [0.6, 0.7, 0.65]
    draws = [np.random.default_rng(n).normal(size=(200, 1)).repeat(3, axis=1) for n in range(2)]
    gains = [
        selection_gain(one, [other], [part * scores for scores in draws]) or 0.0
        for part in (0.0, 0.05, 0.1)
    ]
    assert selection_gain(one, [other]) == gains[0] < gains[1] < gains[2]


def test_selection_gain_of_identical_seeds_is_0() -> None:
    assert selection_gain([0.7, 0.7], [[0.6, 0.6]]) == 0.0


def test_selection_gain_of_a_clear_winner_is_0() -> None:
    assert selection_gain([0.9, 0.901, 0.902], [[0.1, 0.101, 0.102]]) == 0.0


COLLAPSING = {
    "most runs collapse": ([0.8] * 8, 3),
    "most settings never learn": ([1.0] * 6 + [0.0] * 2, 2),
    "half of the settings never learn": ([1.0] * 5 + [0.0] * 3, 3),
    "one setting learns with half of its seeds": ([1.0, 1.0, 1.0, 0.5], 2),
}
"""Probability of each setting that a run collapses, and the number of seeds."""


@pytest.mark.parametrize("shape", COLLAPSING)
def test_estimated_selection_gain_is_not_0_if_most_runs_collapse(shape: str) -> None:
    """Collapsed runs score 50; others score about 69, in steps of 1.6, with deviation 2."""
    chances, seeds = COLLAPSING[shape]
    draw = np.random.default_rng(3)

    def scores(count: int) -> Any:
        learned = 50 + 18.8 + draw.normal(0, 2, (count, len(chances), seeds))
        has_collapsed = draw.random(learned.shape) < np.array(chances)[:, None]
        return np.where(has_collapsed, 50.0, (learned / 1.6).round() * 1.6)

    true = np.median(scores(4000), axis=2).mean(axis=0)
    said, known = [], []
    for sweep in scores(150):
        medians = np.median(sweep, axis=1)
        best = int(medians.argmax())
        others = [values for place, values in enumerate(sweep.tolist()) if place != best]
        said.append(selection_gain(sweep[best].tolist(), others) or 0.0)
        known.append(medians[best] - true[best])
    assert fmean(said) == pytest.approx(fmean(known), abs=1.5)


def test_selection_gain_of_a_lucky_seed_among_collapsed_settings_is_not_0() -> None:
    """Regression test: three collapsed settings of four made the estimate 0."""
    gain = selection_gain([68.8, 50.0], [[50.0, 50.0]] * 3)
    assert gain is not None
    assert 4 < gain < 9.4
