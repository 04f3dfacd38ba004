"""What the gate promises, on simulated suites: it cries wolf rarely, and sees what it says."""

import numpy as np
import pytest
from scipy.stats import binom, fisher_exact

from benchharness.extensions.gate.judge import collapse_p_value
from tests.extensions.gate.simulated_suites import SUITE, alarming_shares, failing_share, simulate


@pytest.mark.parametrize(("examples", "before"), [(100, 10), (200, 10), (200, 5)])
def test_of_a_thousand_suites_without_a_change_3_to_7_percent_fail(examples, before):
    assert 0.03 <= failing_share(examples=examples, before=before) <= 0.07


def test_a_drop_of_five_points_everywhere_is_seen_and_of_one_seldom():
    shares = [failing_share(suites=300, drop=drop) for drop in (0.0, 0.01, 0.02, 0.05)]
    assert shares == sorted(shares)
    assert shares[-1] > 0.9


def test_another_alpha_is_another_share():
    assert 0.14 <= failing_share(alpha=0.2) <= 0.23


def test_the_simulated_runs_are_what_the_paper_says():
    task = SUITE["sst2"]
    draw = np.random.default_rng(0)
    many = simulate(draw, task, suites=200, examples=2000, runs=(4, 4), drops=(0.0, 0.02))
    assert many[:, :4].mean() == pytest.approx(task.mean, abs=0.005)
    assert many[:, 4:].mean() == pytest.approx(task.mean - 0.02, abs=0.005)
    chance = task.churn / 2 / 2000  # the variance that is left of single examples
    expected = np.hypot(task.spread, np.sqrt(chance))
    assert many[:, :4].std(axis=1, ddof=1).mean() == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("after", [1, 3])
def test_collapsed_runs_fail_a_check_where_they_are_more_and_seldom_else(after):
    """The first of each pair is the rule before: it failed two checks of three."""
    shares = [alarming_shares(after=after, collapsing=rate)[1] for rate in (0.0, 0.05, 0.5)]
    assert 0.03 <= shares[0] <= 0.06
    assert shares[1] < 0.08
    assert shares[2] >= 0.95
    assert after < 3 or alarming_shares(after=after, collapsing=0.05)[0] > 0.6


def test_the_chance_of_collapsed_runs_is_exact():
    assert collapse_p_value(0, 0, 24, 0, 40) == pytest.approx(1)
    runs = np.random.default_rng(1).random((2, 100_000, 24)) < 0.05
    counts = (runs[0] + (runs[0] & runs[1]).astype(int)).sum(-1)
    for least in (1, 3, 5):
        assert collapse_p_value(least, least, 24, 0, 40) == pytest.approx(
            (counts >= least).mean(), abs=0.005
        )
    assert collapse_p_value(5, 5, 24, 0, 0) >= binom.sf(4, 24, 0.05)


def test_a_baseline_whose_runs_collapse_is_compared_by_fishers_test():
    fisher = fisher_exact([[12, 12], [20, 20]], alternative="greater").pvalue
    assert collapse_p_value(12, 18, 24, 20, 40) == pytest.approx(fisher)
    assert collapse_p_value(12, 18, 24, 0, 40) < 1e-6
