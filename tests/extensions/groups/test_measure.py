"""Tests of gaps between groups: reference values, planted gaps, false alarms, stated power."""

import numpy as np
import pytest
from scipy.stats import norm, t, ttest_ind

from benchharness.extensions.groups.measure import POWER, gap_noise, measure, power_of, rows_needed
from benchharness.extensions.groups.measure import _side as side
from benchharness.leaderboard.comparing import Outcomes
from benchharness.leaderboard.statistics import Interval

SHARE = Interval(low=0.0, high=1.0)
HALVES = {"first": range(400), "second": range(400, 800)}


def outcomes(right):
    return Outcomes(parts=np.asarray(right, dtype=float)[:, :, None])


def drawn(generator, gap, *, seeds=1, own=1.0, shift=0.0, accuracy=0.9):
    """Return a random array `[800, seeds]` of right (True) and wrong answers.

    The expected accuracy is `accuracy` on the first half of the rows, and lower by `gap` on the
    second half. `own` is the share of the noise that differs between seeds, and `shift` the
    standard deviation of a seed's effect on the accuracy of a half, in standard normal units.
    """
    limits = norm.ppf(np.repeat([accuracy, accuracy - gap], 400))[:, None]
    shared = generator.normal(size=(800, 1)) * np.sqrt(1 - own**2)
    noise = shared + own * generator.normal(size=(800, seeds))
    return noise < limits + np.repeat(shift * generator.normal(size=(2, seeds)), 400, axis=0)


def first_of(right, **options):
    (found,) = measure(outcomes(right), {"half": HALVES}, SHARE, **options)
    return found.groups[0]


def simulated(count, gap, seed, **options):
    """Return the share of simulations with a significant gap, and the mean of their powers."""
    generator = np.random.default_rng(seed)
    every = [first_of(drawn(generator, gap, **options), draws=5) for _ in range(count)]
    return np.mean([each.differs for each in every]), np.mean([each.power for each in every])


def test_p_value_of_a_gap_of_one_seed_equals_scipys_t_test():
    right = drawn(np.random.default_rng(3), 0.05)[:, 0].astype(float)
    found = first_of(right[:, None])
    theirs = ttest_ind(right[:400], right[400:], equal_var=False)
    assert found.gap == pytest.approx(right[:400].mean() - right[400:].mean())
    # If the pooled variance of all rows is larger, it is used.
    pooled = np.sqrt(right.var(ddof=1) * (2 / 400))
    assert found.p_value >= theirs.pvalue
    assert found.p_value == pytest.approx(2 * t.sf(abs(found.gap) / pooled, theirs.df), rel=1e-3)
    assert found.gap_interval.has(0) != found.differs


def test_planted_gap_is_found_with_about_the_stated_power():
    share, stated = simulated(600, 0.05, 11)
    assert 0.45 < stated < 0.65
    assert abs(share - stated) < 0.03 + 2 * np.sqrt(stated * (1 - stated) / 600)


@pytest.mark.soak
@pytest.mark.parametrize("options", [{}, {"seeds": 3, "own": 0.5}, {"seeds": 5, "own": 0.5}])
def test_share_of_found_gaps_is_within_three_points_of_the_stated_power(options):
    share, stated = simulated(6_000, 0.05, 12, **options)
    assert abs(share - stated) < 0.03


@pytest.mark.soak
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accuracy": 0.6},
        {"seeds": 3, "own": 0.5},
        {"seeds": 3, "own": 0.5, "shift": 0.05},
        {"seeds": 5, "own": 0.5, "shift": 0.1},
    ],
)
def test_false_alarms_are_at_most_five_per_cent(options):
    share, _ = simulated(6_000, 0.0, 13, **options)
    assert share < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 6_000)


def test_family_wise_error_rate_of_many_groups_is_at_most_five_per_cent():
    generator, alarms = np.random.default_rng(14), 0
    groups = {f"group {n}": range(100 * n, 100 * n + 100) for n in range(8)}
    for _ in range(80):
        (found,) = measure(outcomes(drawn(generator, 0.0)), {"g": groups}, SHARE, draws=5)
        alarms += any(each.differs for each in found.groups)
    assert alarms <= 9  # at a rate of 5 %, more than 9 have a probability of 1 %


def test_two_groups_of_a_grouping_count_as_one_comparison_in_holms_correction():
    first, second = measure(outcomes(drawn(np.random.default_rng(5), 0.05)), {"h": HALVES}, SHARE)[
        0
    ].groups
    assert first.p_value == second.p_value < 0.05 or first.p_value == second.p_value
    assert first.gap == -second.gap
    (third, _), *_ = (
        each.groups
        for each in measure(
            outcomes(drawn(np.random.default_rng(5), 0.05)), {"h": HALVES, "same": HALVES}, SHARE
        )
    )
    assert third.p_value == first.p_value


def test_number_of_needed_rows_agrees_with_the_formula_for_two_shares():
    noise = gap_noise(
        *(side(outcomes(drawn(np.random.default_rng(6), 0.05)), rows) for rows in HALVES.values())
    )
    needed = rows_needed(noise, 400, 0.05, 0.05)
    # The formula for two shares with equal group sizes (Fleiss, 1981, without correction).
    exact = (1.96 + 0.8416) ** 2 * (0.9 * 0.1 + 0.85 * 0.15) / 0.05**2
    assert needed == pytest.approx(exact, rel=0.15)
    assert rows_needed(noise, 400, 0.10, 0.05) == pytest.approx(needed / 4, rel=0.05)
    assert power_of(noise, 0.05, 0.05) < POWER < power_of(noise, 0.08, 0.05)


def test_no_number_of_rows_suffices_if_seeds_differ_too_much():
    right = drawn(np.random.default_rng(7), 0.0, seeds=3, shift=1.0)
    found = first_of(right)
    assert found.needed is None
    assert found.power < 0.2


def test_intervals_of_the_worst_group_and_the_largest_gap_have_95_per_cent_coverage():
    generator, groups = (
        np.random.default_rng(8),
        {f"g{n}": range(80 * n, 80 * n + 80) for n in range(10)},
    )
    inside, plain, gaps = 0, 0, 0
    for _ in range(40):
        (found,) = measure(outcomes(drawn(generator, 0.0)), {"g": groups}, SHARE, draws=200)
        worst = next(each for each in found.groups if each.name == found.worst.names[0])
        inside += found.worst.interval.has(0.9)
        plain += worst.interval.has(0.9)
        gaps += found.gap.interval.has(0.0)
        assert found.gap.value == pytest.approx(
            max(g.score for g in found.groups) - found.worst.value
        )
    assert inside >= 34  # of 40; at a coverage of 95 %, fewer have a probability of 1 %
    assert gaps >= 34
    assert plain < inside


def test_ratio_score_of_a_group_is_computed_from_the_rows_of_the_group():
    generator = np.random.default_rng(9)
    parts = generator.integers(0, 3, size=(60, 2, 2)) + 1.0

    def score(means):
        return means[..., 0] / means[..., 1]

    (found,) = measure(
        Outcomes(parts=parts, score=score),
        {"g": {"a": range(20), "b": range(20, 60)}},
        Interval(low=0, high=3),
    )
    own = parts[:20].sum(axis=0)
    assert found.groups[0].score == pytest.approx((own[:, 0] / own[:, 1]).mean())
