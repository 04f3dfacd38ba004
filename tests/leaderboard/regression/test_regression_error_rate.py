"""What the gate promises, on simulated suites: it cries wolf rarely, and sees what it says."""

import numpy as np
import pytest

from tests.helpers.simulated_suites import SUITE, failing_share, simulate


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
