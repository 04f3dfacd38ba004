"""Tests of statistics against statsmodels itself, where it is installed."""

import numpy as np
import pytest

from benchharness.leaderboard.comparing.contrast import mcnemar_exact
from benchharness.leaderboard.comparing.noise import noise_of, sample_of_table
from benchharness.leaderboard.statistics import holm

# Warnings of a third-party library must not fail these tests.
pytestmark = pytest.mark.filterwarnings("default")


def test_holm_correction_matches_statsmodels_on_random_p_values() -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    draw = np.random.default_rng(1)
    for count in (1, 2, 8, 20):
        p_values = draw.random(count) ** 3
        theirs = multitest.multipletests(p_values, method="holm")[1]
        assert holm(list(p_values)) == pytest.approx(list(theirs))


def test_mcnemar_test_matches_statsmodels_on_random_tables() -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    draw = np.random.default_rng(2)
    for _ in range(50):
        only_one, only_other = (int(n) for n in draw.integers(1, 60, size=2))
        table = [[100, only_one], [only_other, 30]]
        exact = tables.mcnemar(table, exact=True).pvalue
        assert mcnemar_exact(only_one, only_other) == pytest.approx(exact)


def test_interval_of_a_mean_over_examples_matches_statsmodels() -> None:
    weightstats = pytest.importorskip("statsmodels.stats.weightstats")
    outcomes = np.random.default_rng(3).normal(0.7, 0.3, size=60)
    low, high = weightstats.DescrStatsW(outcomes).tconfint_mean()
    ours = noise_of(sample_of_table(outcomes[:, None])).estimate(outcomes.mean()).interval()
    assert (ours.low, ours.high) == pytest.approx((low, high))
