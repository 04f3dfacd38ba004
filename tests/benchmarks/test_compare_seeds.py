"""Tests of the paired comparison of seeds on a small run of benchmarks/compare_seeds.py."""

import numpy as np
import pytest

from benchmarks.compare_seeds import Case, simulate


@pytest.mark.soak
@pytest.mark.parametrize(
    ("rows", "seeds", "spread", "metric"),
    [
        (1000, (5, 5), 1.0, "accuracy"),
        (277, (5, 5), 2.0, "accuracy"),
        (277, (3, 3), 1.0, "accuracy"),
        (500, (2, 2), 2.0, "accuracy"),
        (500, (3, 5), 1.0, "accuracy"),
        (500, (5, 5), 1.0, "f1"),
        (500, (5, 5), 1.0, "mcc"),
        (500, (5, 5), 1.0, "pearson"),
    ],
)
def test_seed_comparison_of_equal_systems_has_the_nominal_error_rate(
    rows, seeds, spread, metric
) -> None:
    """Simulate 600 pairs: 95 % of such runs lie between 3.3 and 6.8 % if the true rate is 5 %."""
    case = Case(rows=rows, seeds=seeds, spread=(spread, spread), metric=metric)
    found = simulate(case, 0.0, 600)
    alarms = np.array([each.p_value < 0.05 for each in found])
    assert 0.02 <= alarms.mean() <= 0.08
    assert [each.interval().has(0.0) for each in found] == list(~alarms)


@pytest.mark.parametrize("planted", [1.0, 2.0, 3.0])
def test_seed_comparison_has_nearly_the_power_of_a_known_variance_test(planted) -> None:
    case = Case(rows=1000, seeds=(5, 5), spread=(1.0, 1.0))
    spread = np.std([each.value for each in simulate(case, 0.0, 300, seed=2)])
    found = simulate(case, planted, 300)
    known = np.mean([abs(each.value) > 1.96 * spread for each in found])
    assert np.mean([each.p_value < 0.05 for each in found]) >= known - 0.1
