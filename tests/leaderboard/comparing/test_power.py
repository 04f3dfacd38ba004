"""Against published power tables, and against the test itself on drawn samples."""

import math
import random

import pytest

from benchharness.leaderboard.comparing.power import (
    MOST_SEEDS,
    seeds_needed,
    welch_p_value,
    welch_power,
)


@pytest.mark.parametrize(
    ("effect", "power", "alpha", "seeds"),
    [
        # Cohen, Statistical Power Analysis for the Behavioral Sciences, 1988, table 2.4.1 (two
        # sides): n of each sample, within one of his rounding of d = .20.
        (0.2, 0.8, 0.05, 394),
        (0.5, 0.8, 0.05, 64),
        (0.8, 0.8, 0.05, 26),
        (1.0, 0.8, 0.05, 17),
        # G*Power and statsmodels' TTestIndPower().solve_power, rounded up.
        (0.5, 0.9, 0.05, 86),
        (0.8, 0.9, 0.05, 34),
        (0.5, 0.8, 0.01, 96),
        (0.8, 0.8, 0.01, 39),
    ],
)
def test_equal_spreads_give_the_tables_of_students_test(
    effect: float, power: float, alpha: float, seeds: int
) -> None:
    assert seeds_needed(effect * 3.0, (3.0, 3.0), alpha, power) == seeds
    assert seeds_needed(-effect * 0.02, (0.02, 0.02), alpha, power) == seeds


def test_power_of_given_seeds() -> None:
    # TTestIndPower().power(0.5, nobs1=64, alpha=0.05) and (1.0, nobs1=5, alpha=0.05).
    assert welch_power(64, 0.5, (1, 1)) == pytest.approx(0.8014, abs=1e-4)
    assert welch_power(5, 1.0, (1, 1)) == pytest.approx(0.2863, abs=1e-4)


def test_without_a_difference_the_power_is_alpha() -> None:
    assert welch_power(5, 0.0, (1, 2), alpha=0.05) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("seeds", "difference", "spreads"), [(5, 2.0, (0.2, 1.5)), (8, 1.5, (2, 1))]
)
def test_unequal_spreads_have_the_power_that_drawn_samples_show(
    seeds: int, difference: float, spreads: tuple[float, float]
) -> None:
    draw = random.Random(1)

    def sample(mean: float, spread: float) -> tuple[float, ...]:
        return tuple(draw.gauss(mean, spread) for _ in range(seeds))

    found = 0
    for _ in range(500):
        p_value = welch_p_value(sample(difference, spreads[0]), sample(0, spreads[1]))
        found += p_value is not None and p_value < 0.05
    assert welch_power(seeds, difference, spreads) == pytest.approx(found / 500, abs=0.06)


def test_the_number_is_the_smallest_that_reaches_the_power() -> None:
    for difference, spreads in ((0.01, (0.02, 0.005)), (0.3, (0.1, 0.2)), (0.004, (0.001, 0.01))):
        seeds = seeds_needed(difference, spreads)
        assert seeds is not None
        assert welch_power(seeds, difference, spreads) >= 0.8
        assert seeds == 2 or welch_power(seeds - 1, difference, spreads) < 0.8


def test_the_ends() -> None:
    assert seeds_needed(0.1, (0.0, 0.0)) == 2
    assert seeds_needed(50.0, (0.1, 0.1)) == 2
    assert seeds_needed(0.1, (0.0, 0.001)) == 2
    assert seeds_needed(0.0, (1.0, 1.0)) is None
    assert seeds_needed(0.01, (1.0, 1.0)) is None
    assert welch_power(MOST_SEEDS, 1e6, (1.0, 1.0)) == pytest.approx(1.0)


def test_p_value_of_a_worked_example() -> None:
    # By hand: t = -2 / sqrt(1/3 + 4/3) = -1.549 with 2.94 degrees of freedom.
    assert welch_p_value((1.0, 2.0, 3.0), (2.0, 4.0, 6.0)) == pytest.approx(0.2214, abs=1e-3)
    assert welch_p_value((1.0,), (2.0, 3.0)) is None
    assert welch_p_value((1.0, 1.0), (2.0, 2.0)) is None


@pytest.mark.filterwarnings("error")
def test_a_system_whose_seeds_are_all_equal_has_a_p_value_without_a_warning() -> None:
    # One spread alone leaves n - 1 = 2 degrees of freedom, whose t has a closed form.
    one, other = (0.5, 0.5, 0.5), (0.7, 0.75, 0.8)
    t = 0.25 / (0.05 / math.sqrt(3))
    expected = 1 - t / math.sqrt(t**2 + 2)
    assert welch_p_value(one, other) == pytest.approx(expected, rel=1e-9)
    assert welch_p_value(other, one) == pytest.approx(expected, rel=1e-9)
