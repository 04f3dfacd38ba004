"""Tests of the bootstrap of a system's score and of its median over seeds, against scipy's."""

import numpy as np
import pytest
from scipy import stats

from benchharness.leaderboard.comparing import Outcomes, f1_of_counts, first_part
from benchharness.leaderboard.comparing.noise import resampled_scores
from benchharness.leaderboard.statistics import median_error, median_interval

QUANTILES = [0.025, 0.975]


def of_plain(outcomes: np.ndarray) -> Outcomes:
    """Make outcomes of a score that is a mean, [units] or [units, seeds]."""
    return Outcomes(parts=outcomes.reshape(len(outcomes), -1, 1).astype(float), score=first_part)


def redrawn(*systems: Outcomes, draws: int = 5_000, seed: int = 0) -> list[np.ndarray]:
    return resampled_scores(systems, np.random.default_rng(seed), draws=draws)


@pytest.mark.parametrize("share", [0.6, 0.93])
def test_bootstrap_interval_of_an_accuracy_matches_scipy(share: float) -> None:
    right = np.random.default_rng(1).random(300) < share
    theirs = stats.bootstrap(
        (right.astype(float),),
        np.mean,
        n_resamples=5_000,
        method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval
    (ours,) = redrawn(of_plain(right))
    assert np.quantile(ours[:, 0], QUANTILES) == pytest.approx(list(theirs), abs=0.006)


def test_bootstrap_interval_of_an_f1_matches_scipy() -> None:
    draw = np.random.default_rng(3)
    gold = draw.random(400) < 0.4
    guess = np.where(draw.random(400) < 0.8, gold, ~gold)
    counts = np.stack([guess & gold, guess, gold], axis=1).astype(float)

    def f1(right: np.ndarray, predicted: np.ndarray, wanted: np.ndarray, axis: int) -> np.ndarray:
        return 2 * right.sum(axis) / (predicted.sum(axis) + wanted.sum(axis))

    theirs = stats.bootstrap(
        tuple(counts.T),
        f1,
        paired=True,
        vectorized=True,
        n_resamples=5_000,
        method="percentile",
        rng=np.random.default_rng(4),
    ).confidence_interval
    (ours,) = redrawn(Outcomes(parts=counts[:, None, :], score=f1_of_counts))
    assert np.quantile(ours[:, 0], QUANTILES) == pytest.approx(list(theirs), abs=0.006)


def test_bootstrap_resamples_the_same_examples_for_all_systems() -> None:
    outcomes = np.random.default_rng(5).random((80, 3))
    one, same, shifted = redrawn(of_plain(outcomes), of_plain(outcomes), of_plain(outcomes + 0.25))
    assert np.array_equal(one, same)
    assert shifted == pytest.approx(one + 0.25)


def test_bootstrap_of_a_paired_difference_matches_scipy() -> None:
    draw = np.random.default_rng(6)
    hard = draw.random(250)
    one, other = (hard + draw.random(250) * 0.6 < level for level in (1.0, 0.9))
    theirs = stats.bootstrap(
        (one.astype(float), other.astype(float)),
        lambda a, b, axis: (a - b).mean(axis),
        paired=True,
        n_resamples=5_000,
        method="percentile",
        rng=np.random.default_rng(7),
    ).confidence_interval
    first, second = redrawn(of_plain(one), of_plain(other))
    ends = np.quantile(first[:, 0] - second[:, 0], QUANTILES)
    assert ends == pytest.approx(list(theirs), abs=0.006)


def test_bootstrap_draws_do_not_depend_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = of_plain(np.random.default_rng(8).random((50, 2)))
    (at_once,) = redrawn(outcomes, draws=100)
    monkeypatch.setattr("benchharness.leaderboard.comparing.noise.DRAWS_CHUNK", 50 * 7)
    (in_parts,) = redrawn(outcomes, draws=100)
    assert in_parts == pytest.approx(at_once)


def test_median_interval_of_two_seeds_is_the_t_interval_of_the_mean() -> None:
    values = [0.61, 0.66]
    theirs = stats.t.interval(0.95, 1, loc=np.mean(values), scale=stats.sem(values))
    ours = median_interval(values)
    assert (ours.low, ours.high) == pytest.approx(theirs)


@pytest.mark.parametrize("count", [3, 5, 10])
def test_median_interval_of_more_seeds_has_its_nominal_coverage(count: int) -> None:
    samples = np.random.default_rng(9).normal(size=(4_000, count))
    held = np.mean([median_interval(list(sample)).has(0.0) for sample in samples])
    assert 0.945 <= held <= 0.985


def test_standard_error_of_a_median_is_never_underestimated() -> None:
    for count in (3, 4, 5, 10):
        medians = np.median(np.random.default_rng(10).normal(size=(20_000, count)), axis=1)
        # `median_error` for a standard deviation of 1, times sqrt(n)
        claimed = median_error([0.0, 2**0.5]) / 1.0
        assert claimed == pytest.approx(2**-0.5)
        assert float(medians.std()) <= 1.2534 / count**0.5


def test_standard_error_of_a_single_seed_is_zero() -> None:
    assert median_error([0.7]) == 0.0
    interval = median_interval([0.7])
    assert (interval.low, interval.high) == (0.7, 0.7)
