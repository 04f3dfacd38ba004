import numpy as np
import pytest
from scipy import stats

from benchharness.extensions.gate.judge import (
    POWER,
    detectable_drop,
    drop_p_values,
    spread_of_means,
    tolerated_drop,
)

BEFORE = (0.80, 0.83, 0.78, 0.81, 0.82)


def test_one_run_is_tested_as_a_prediction_interval():
    """Against the textbook's formula for one new value, written out."""
    spread = np.std(BEFORE, ddof=1)
    statistic = (np.mean(BEFORE) - 0.75) / (spread * np.sqrt(1 + 1 / 5))
    expected = stats.t.sf(statistic, 4)
    assert drop_p_values(BEFORE, [0.75], 0.001) == pytest.approx(expected, rel=1e-12)


def test_as_many_runs_of_the_same_spread_is_near_students_test():
    """With the baseline's spread on both sides only the degrees of freedom differ: 4, not 8."""
    after = [score - 0.03 for score in BEFORE]
    both = stats.ttest_ind(BEFORE, after, alternative="greater")
    assert drop_p_values(BEFORE, after, 0.001) == pytest.approx(stats.t.sf(both.statistic, 4))


def test_equal_scores_are_no_drop_and_a_rise_is_none_either():
    assert drop_p_values(BEFORE, BEFORE, 0.001) == pytest.approx(0.5)
    assert drop_p_values(BEFORE, [0.9], 0.001) > 0.95


def test_a_spread_of_nothing_is_that_of_one_example():
    flat = (0.5, 0.5, 0.5)
    assert spread_of_means(flat, 1, 0.01) == pytest.approx(0.01 * np.sqrt(4 / 3))
    assert drop_p_values(flat, [0.49], 0.01) > 0.2
    assert drop_p_values(flat, [0.30], 0.01) < 0.01


def test_the_new_runs_own_spread_raises_no_tolerance():
    """One of three runs has collapsed: the mean has fallen, and that counts."""
    collapsed, all_lower = (0.81, 0.82, 0.50), (0.71, 0.71, 0.71)
    low = drop_p_values(BEFORE, collapsed, 0.001)
    assert low == pytest.approx(drop_p_values(BEFORE, all_lower, 0.001))
    assert low < 0.01


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 9])
@pytest.mark.parametrize("runs", [1, 3])
def test_a_drop_just_above_what_is_tolerated_fails(alpha, runs):
    tolerated = tolerated_drop(BEFORE, runs, 0.001, alpha)
    for factor, fails in ((1.001, True), (0.999, False)):
        after = [np.mean(BEFORE) - factor * tolerated] * runs
        assert (drop_p_values(BEFORE, after, 0.001) < alpha) is np.bool_(fails)


def test_the_detectable_drop_is_found_with_its_power():
    """Against a simulation with the baseline's spread as the true one."""
    alpha, runs = 0.01, 3
    spread = np.std(BEFORE, ddof=1)
    drop = detectable_drop(BEFORE, runs, 0.0, alpha)
    draw = np.random.default_rng(0)
    before = draw.normal(0.8, spread, (20_000, 5))
    after = draw.normal(0.8 - drop, spread, (20_000, runs))
    found = (drop_p_values(before, after, 0.0) < alpha).mean()
    assert found == pytest.approx(POWER, abs=0.015)
    assert drop > tolerated_drop(BEFORE, runs, 0.0, alpha)


def test_many_at_once_are_each_alone():
    before = np.array([BEFORE, tuple(reversed(BEFORE))])
    after = np.array([[0.7, 0.8], [0.9, 0.9]])
    each = [drop_p_values(b, a, 0.01) for b, a in zip(before, after, strict=True)]
    assert drop_p_values(before, after, 0.01) == pytest.approx(each)
