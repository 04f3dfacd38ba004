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


def test_p_value_of_one_run_equals_the_prediction_interval_formula():
    spread = np.std(BEFORE, ddof=1)
    statistic = (np.mean(BEFORE) - 0.75) / (spread * np.sqrt(1 + 1 / 5))
    expected = stats.t.sf(statistic, 4)
    assert drop_p_values(BEFORE, [0.75], 0.001) == pytest.approx(expected, rel=1e-12)


def test_p_value_with_equal_spreads_equals_students_t_with_4_degrees():
    """Only the degrees of freedom differ from Student's test: 4 instead of 8."""
    after = [score - 0.03 for score in BEFORE]
    both = stats.ttest_ind(BEFORE, after, alternative="greater")
    assert drop_p_values(BEFORE, after, 0.001) == pytest.approx(stats.t.sf(both.statistic, 4))


def test_p_value_of_an_equal_or_higher_score_is_at_least_one_half():
    assert drop_p_values(BEFORE, BEFORE, 0.001) == pytest.approx(0.5)
    assert drop_p_values(BEFORE, [0.9], 0.001) > 0.95


def test_zero_spread_over_seeds_is_replaced_by_the_effect_of_one_example():
    flat = (0.5, 0.5, 0.5)
    assert spread_of_means(flat, 1, 0.01) == pytest.approx(0.01 * np.sqrt(4 / 3))
    assert drop_p_values(flat, [0.49], 0.01) > 0.2
    assert drop_p_values(flat, [0.30], 0.01) < 0.01


def test_tolerated_drop_does_not_depend_on_the_spread_of_new_runs():
    """One of three runs has collapsed, and the lower mean counts."""
    collapsed, all_lower = (0.81, 0.82, 0.50), (0.71, 0.71, 0.71)
    low = drop_p_values(BEFORE, collapsed, 0.001)
    assert low == pytest.approx(drop_p_values(BEFORE, all_lower, 0.001))
    assert low < 0.01


@pytest.mark.parametrize("alpha", [0.05, 0.05 / 9])
@pytest.mark.parametrize("runs", [1, 3])
def test_check_fails_just_above_the_tolerated_drop(alpha, runs):
    tolerated = tolerated_drop(BEFORE, runs, 0.001, alpha)
    for factor, fails in ((1.001, True), (0.999, False)):
        after = [np.mean(BEFORE) - factor * tolerated] * runs
        assert (drop_p_values(BEFORE, after, 0.001) < alpha) is np.bool_(fails)


def test_detectable_drop_is_found_with_the_stated_power():
    """The power is simulated with the baseline's spread as the true one."""
    alpha, runs = 0.01, 3
    spread = np.std(BEFORE, ddof=1)
    drop = detectable_drop(BEFORE, runs, 0.0, alpha)
    draw = np.random.default_rng(0)
    before = draw.normal(0.8, spread, (20_000, 5))
    after = draw.normal(0.8 - drop, spread, (20_000, runs))
    found = (drop_p_values(before, after, 0.0) < alpha).mean()
    assert found == pytest.approx(POWER, abs=0.015)
    assert drop > tolerated_drop(BEFORE, runs, 0.0, alpha)


def test_p_values_of_a_batch_equal_single_p_values():
    before = np.array([BEFORE, tuple(reversed(BEFORE))])
    after = np.array([[0.7, 0.8], [0.9, 0.9]])
    each = [drop_p_values(b, a, 0.01) for b, a in zip(before, after, strict=True)]
    assert drop_p_values(before, after, 0.01) == pytest.approx(each)
