"""Tests of the power analysis against published tables and against simulations."""

import numpy as np
import pytest
from scipy import stats

from benchharness.leaderboard.comparing.noise import (
    Noise,
    Sample,
    Spread,
    difference,
    noise_of,
    sample_of_table,
)
from benchharness.leaderboard.comparing.power import MOST_SEEDS, Part, power_of, seeds_needed


def part(value: float, spread: float, units: float = 0.0) -> Part:
    """Make a part of two systems whose seeds have this spread, on examples of this variance."""
    seeds = Spread(variance=spread**2, own=0.0, freedom=8)
    noise = Noise(units=units, unit_freedom=499, seeds=seeds, sides=(5, 5))
    return Part(difference=value, noise=noise)


@pytest.mark.parametrize(
    ("effect", "power", "alpha", "seeds"),
    [
        # Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988, table 2.4.1
        # (two-sided): sample sizes, which may differ by one because Cohen rounds d = .20.
        (0.2, 0.8, 0.05, 394),
        (0.5, 0.8, 0.05, 64),
        (0.8, 0.8, 0.05, 26),
        (1.0, 0.8, 0.05, 17),
        # Rounded results of G*Power and of statsmodels' TTestIndPower().solve_power.
        (0.5, 0.9, 0.05, 86),
        (0.8, 0.9, 0.05, 34),
        (0.5, 0.8, 0.01, 96),
        (0.8, 0.8, 0.01, 39),
    ],
)
def test_required_seed_counts_for_equal_standard_deviations_match_published_power_tables(
    effect: float, power: float, alpha: float, seeds: int
) -> None:
    assert seeds_needed([part(effect * 3.0, 3.0)], alpha, power) == seeds
    assert seeds_needed([part(-effect * 0.02, 0.02)], alpha, power) == seeds


def test_power_for_a_number_of_seeds_matches_statsmodels() -> None:
    # Results of TTestIndPower().power(0.5, nobs1=64, alpha=0.05) and (1.0, nobs1=5, alpha=0.05).
    assert power_of(part(0.5, 1).at(64)) == pytest.approx(0.8014, abs=1e-4)
    assert power_of(part(1.0, 1).at(5)) == pytest.approx(0.2863, abs=1e-4)
    assert power_of(part(0.0, 1).at(5), alpha=0.05) == pytest.approx(0.05)


def test_significance_test_of_seed_scores_alone_equals_the_two_sample_t_test() -> None:
    draw = np.random.default_rng(2)
    one, other = draw.normal(0.3, 1, size=5), draw.normal(size=5)
    ours = difference(sample_of_table(one[None]), sample_of_table(other[None]))
    theirs = stats.ttest_ind(one, other)
    assert ours.p_value == pytest.approx(float(theirs.pvalue))
    found, interval = ours.interval(), theirs.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_significance_test_of_identical_seeds_equals_the_paired_t_test_over_examples() -> None:
    draw = np.random.default_rng(3)
    one, other = draw.normal(0.1, 1, size=(50, 1)), draw.normal(size=(50, 1))
    ours = difference(*(sample_of_table(np.repeat(side, 3, axis=1)) for side in (one, other)))
    assert ours.p_value == pytest.approx(float(stats.ttest_rel(one[:, 0], other[:, 0]).pvalue))


def drawn(draw: np.random.Generator, seeds: int, shift: float = 0.0) -> list[Sample]:
    hard = draw.normal(size=(300, 1))
    return [
        sample_of_table(
            mean
            + hard
            + 0.3 * draw.normal(size=(300, 1))
            + 0.05 * draw.normal(size=seeds)
            + draw.normal(size=(300, seeds))
        )
        for mean in (shift, 0.0)
    ]


def test_planned_power_for_more_seeds_matches_simulated_runs() -> None:
    draw = np.random.default_rng(1)
    found = np.mean([difference(*drawn(draw, 8, 0.15)).p_value < 0.05 for _ in range(400)])
    plans = [Part(difference=0.15, noise=noise_of(*drawn(draw, 4))) for _ in range(100)]
    assert np.mean([power_of(plan.at(8)) for plan in plans]) == pytest.approx(found, abs=0.07)


def test_required_seed_count_is_the_smallest_that_reaches_the_power() -> None:
    for plan in (part(0.01, 0.012), part(0.3, 0.15, 0.002), part(0.004, 0.006, 1e-7)):
        seeds = seeds_needed([plan])
        assert seeds is not None
        assert power_of(plan.at(seeds)) >= 0.8
        assert seeds == 2 or power_of(plan.at(seeds - 1)) < 0.8


def test_required_seed_count_is_at_least_2_and_none_above_10000() -> None:
    assert seeds_needed([part(0.1, 0.0)]) == 2
    assert seeds_needed([part(50.0, 0.1)]) == 2
    assert seeds_needed([part(0.0, 1.0)]) is None
    assert seeds_needed([part(0.01, 1.0)]) is None
    assert seeds_needed([part(0.01, 0.001, units=1e-3)]) is None, "no seeds make up for examples"
    assert MOST_SEEDS == 10_000
