"""Tests of intervals against scipy's, and of their coverage in simulations."""

import numpy as np
import pytest
from scipy import stats

from benchharness.leaderboard.comparing import Outcomes, Pairs
from benchharness.leaderboard.comparing.contrast import bootstrap_interval
from benchharness.leaderboard.comparing.noise import difference, noise_of, sample_of_table
from benchharness.leaderboard.statistics import Interval
from tests.helpers.pairs import pairs_of


def mean_interval(outcomes: np.ndarray, level: float = 0.95) -> Interval:
    """Return the interval of the mean of [examples] or [examples, seeds]."""
    table = outcomes.reshape(len(outcomes), -1)
    return noise_of(sample_of_table(table)).estimate(float(table.mean())).interval(level)


def layout(examples: int, seeds: int, spreads: tuple[float, float, float], seed: int) -> np.ndarray:
    """Draw outcomes around 0 with these spreads of examples, of seeds and of the rest."""
    draw = np.random.default_rng(seed)
    by_example, by_seed, rest = spreads
    return (
        draw.normal(0, by_example, size=(examples, 1))
        + draw.normal(0, by_seed, size=(1, seeds))
        + draw.normal(0, rest, size=(examples, seeds))
    )


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_interval_of_one_seed_is_the_t_interval_over_examples(level: float) -> None:
    outcomes = np.random.default_rng(2).normal(0.7, 0.3, size=40)
    theirs = stats.ttest_1samp(outcomes, 0.0).confidence_interval(level)
    ours = mean_interval(outcomes, level=level)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_interval_of_one_example_is_the_t_interval_over_seeds() -> None:
    outcomes = np.array([[0.5, 0.7, 0.6, 0.9]])
    theirs = stats.ttest_1samp(outcomes[0], 0.0).confidence_interval(0.95)
    ours = mean_interval(outcomes)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_interval_of_identical_seeds_equals_that_of_a_single_seed() -> None:
    outcomes = np.random.default_rng(2).normal(size=(30, 1))
    alone, five = mean_interval(outcomes), mean_interval(np.repeat(outcomes, 5, axis=1))
    assert (five.low, five.high) == pytest.approx((alone.low, alone.high))


def test_interval_of_constant_outcomes_has_zero_width() -> None:
    assert mean_interval(np.full((8, 3), 0.25)) == Interval(low=0.25, high=0.25)
    assert Interval(low=0.25, high=0.25).has(0.25)
    assert not Interval(low=0.25, high=0.5).has(0.51)


@pytest.mark.parametrize(
    "spreads", [(1.0, 0.0, 1.0), (1.0, 0.1, 1.0), (0.2, 0.5, 0.2), (0.0, 0.0, 1.0)]
)
def test_interval_of_a_mean_has_its_nominal_coverage(spreads: tuple[float, float, float]) -> None:
    held = [mean_interval(layout(60, 5, spreads, seed)).has(0.0) for seed in range(600)]
    assert 0.92 <= np.mean(held) <= 0.99


@pytest.mark.parametrize("binary", [False, True])
def test_bootstrap_with_one_seed_matches_scipy(binary: bool) -> None:
    draw = np.random.default_rng(4)
    one, other = draw.random(150), draw.random(150) * 0.9
    if binary:
        one, other = (one < 0.8).astype(float), (other < 0.6).astype(float)

    def statistic(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
        return np.mean(one - other, axis=axis)

    theirs = stats.bootstrap(
        (one, other),
        statistic,
        paired=True,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    ours = bootstrap_interval(pairs_of(one, other), draws=20_000)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_bootstrap_of_a_correlation_matches_scipy() -> None:
    draw = np.random.default_rng(6)
    gold = draw.normal(size=300)
    one, other = gold + draw.normal(size=300), gold + 2 * draw.normal(size=300)

    def moments(guess: np.ndarray) -> np.ndarray:
        columns = [guess, gold, guess * gold, guess**2, gold**2]
        return np.stack(columns, axis=1)[:, None, :]

    def pearson(means: np.ndarray) -> np.ndarray:
        x, y, xy, xx, yy = (means[..., part] for part in range(5))
        return (xy - x * y) / np.sqrt((xx - x**2) * (yy - y**2))

    pairs = Pairs(*(Outcomes(parts=moments(side), score=pearson) for side in (one, other)))
    assert pairs.difference == pytest.approx(
        stats.pearsonr(one, gold).statistic - stats.pearsonr(other, gold).statistic
    )

    def statistic(index: np.ndarray) -> float:
        first, second, truth = one[index], other[index], gold[index]
        return np.corrcoef(first, truth)[0, 1] - np.corrcoef(second, truth)[0, 1]

    theirs = stats.bootstrap(
        (np.arange(300),),
        statistic,
        vectorized=False,
        method="percentile",
        n_resamples=3000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    ours = bootstrap_interval(pairs)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_p_value_of_a_difference_has_its_nominal_error_rate_and_agrees_with_the_interval() -> None:
    held = []
    for seed in range(300):
        one, other = (layout(80, 5, (0.5, 0.3, 1.0), 1000 * side + seed) for side in (0, 1))
        found = difference(sample_of_table(one), sample_of_table(other))
        assert found.interval().has(0.0) == (found.p_value >= 0.05)
        held.append(found.interval().has(0.0))
    assert 0.92 <= np.mean(held) <= 0.98


def test_interval_of_a_difference_narrows_with_more_seeds() -> None:
    one, other = layout(100, 5, (1.0, 0.2, 0.5), 1), layout(100, 5, (1.0, 0.2, 0.5), 2)

    def width(seeds: int) -> float:
        found = difference(*(sample_of_table(side[:, :seeds]) for side in (one, other))).interval()
        return found.high - found.low

    assert width(5) < width(3)
    assert difference(sample_of_table(one), sample_of_table(one)).interval().has(0.0)
    assert bootstrap_interval(pairs_of(one, one)) == Interval(low=0.0, high=0.0)
