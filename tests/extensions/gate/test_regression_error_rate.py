"""Error rates of the regression check on simulated suites: false alarms and power."""

import numpy as np
import pytest
from scipy.stats import binom, fisher_exact

from benchharness.extensions.gate.judge import collapse_p_value
from tests.extensions.gate.simulated_suites import SUITE, alarming_shares, failing_share, simulate


@pytest.mark.parametrize(("examples", "before"), [(100, 10), (200, 10), (200, 5)])
def test_false_alarm_rate_of_the_check_is_3_to_7_percent(examples, before):
    assert 0.03 <= failing_share(examples=examples, before=before) <= 0.07


def test_power_of_the_check_rises_with_the_drop_to_over_90_percent():
    shares = [failing_share(suites=300, drop=drop) for drop in (0.0, 0.01, 0.02, 0.05)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.9


def test_false_alarm_rate_of_the_check_is_close_to_alpha():
    assert 0.14 <= failing_share(alpha=0.2) <= 0.23


def test_simulated_runs_have_the_given_mean_and_spread():
    task = SUITE["sst2"]
    draw = np.random.default_rng(0)
    many = simulate(draw, task, suites=200, examples=2000, runs=(4, 4), drops=(0.0, 0.02))
    assert many[:, :4].mean() == pytest.approx(task.mean, abs=0.005)
    assert many[:, 4:].mean() == pytest.approx(task.mean - 0.02, abs=0.005)
    chance = task.churn / 2 / 2000  # the variance that is left of single examples
    expected = np.hypot(task.spread, np.sqrt(chance))
    assert many[:, :4].std(axis=1, ddof=1).mean() == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("after", [1, 3])
def test_check_fails_for_collapsed_runs_only_if_their_share_rises(after):
    """The old rule, first in each pair, failed two of three checks."""
    shares = [alarming_shares(after=after, collapsing=rate)[1] for rate in (0.0, 0.05, 0.5)]
    assert 0.03 <= shares[0] <= 0.06
    assert shares[1] < 0.08
    assert shares[2] >= 0.95
    assert after < 3 or alarming_shares(after=after, collapsing=0.05)[0] > 0.6


def test_p_value_of_collapsed_runs_is_exact():
    assert collapse_p_value(0, 0, 24, 0, 40) == pytest.approx(1)
    runs = np.random.default_rng(1).random((2, 100_000, 24)) < 0.05
    counts = (runs[0] + (runs[0] & runs[1]).astype(int)).sum(-1)
    for least in (1, 3, 5):
        assert collapse_p_value(least, least, 24, 0, 40) == pytest.approx(
            (counts >= least).mean(), abs=0.005
        )
    assert collapse_p_value(5, 5, 24, 0, 0) >= binom.sf(4, 24, 0.05)


def test_collapse_rates_are_compared_by_fishers_exact_test():
    fisher = fisher_exact([[12, 12], [20, 20]], alternative="greater").pvalue
    assert collapse_p_value(12, 18, 24, 20, 40) == pytest.approx(fisher)
    assert collapse_p_value(12, 18, 24, 0, 40) < 1e-6
