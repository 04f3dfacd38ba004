"""Tests of McNemar, Holm and the permutation test against statsmodels and scipy."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchharness.leaderboard.comparing import Outcomes, Pairs
from benchharness.leaderboard.comparing.contrast import mcnemar_exact, permutation_p_value
from benchharness.leaderboard.statistics import holm
from tests.helpers.pairs import pairs_of


@pytest.mark.parametrize(
    ("only_one", "only_other", "exact"),
    [
        # Results of contingency_tables.mcnemar(exact=True) in statsmodels 0.15.0.
        (1, 0, 1.0),
        (3, 10, 0.09228515625),
        (12, 30, 0.007915897334896727),
        (121, 59, 4.4344492637551645e-06),
        (86, 150, 3.7159361395713866e-05),
    ],
)
def test_mcnemar_test_matches_statsmodels(only_one: int, only_other: int, exact: float) -> None:
    assert mcnemar_exact(only_one, only_other) == pytest.approx(exact, rel=1e-9)
    assert mcnemar_exact(only_other, only_one) == pytest.approx(exact, rel=1e-9)


def test_mcnemar_test_of_balanced_flips_has_p_value_1() -> None:
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(7, 7) == 1.0


@pytest.mark.parametrize(
    ("p_values", "corrected"),
    [
        # Results of multitest.multipletests(method="holm") in statsmodels 0.15.0.
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.02, 0.02, 0.02], [0.06, 0.06, 0.06]),
        ([0.9, 0.0001, 0.3, 0.04, 0.04, 0.011], [0.9, 0.0006, 0.6, 0.16, 0.16, 0.055]),
        ([], []),
    ],
)
def test_holm_correction_matches_statsmodels(p_values: list[float], corrected: list[float]) -> None:
    assert holm(p_values) == pytest.approx(corrected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=50)
def test_holm_correction_never_lowers_p_values_and_keeps_their_order(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(p <= c <= 1 for p, c in zip(p_values, corrected, strict=True))
    by_p = [c for _, c in sorted(zip(p_values, corrected, strict=True))]
    assert by_p == sorted(by_p)
    assert min(corrected) <= len(p_values) * min(p_values) + 1e-12


def drawn(units: int, seeds: int = 1, shift: float = 0.0, seed: int = 3) -> tuple:
    """Draw real-valued outcomes of two systems that agree on which examples are hard."""
    draw = np.random.default_rng(seed)
    hard = draw.normal(size=(units, 1))
    one = hard + draw.normal(size=(units, seeds)) + shift
    return one, hard + draw.normal(size=(units, seeds))


def mean_difference(one: np.ndarray, other: np.ndarray, axis: int) -> np.ndarray:
    return np.mean(one - other, axis=axis)


@pytest.mark.parametrize(("units", "seeds"), [(7, 1), (10, 1), (9, 3)])
def test_exact_permutation_test_of_few_examples_matches_scipy(units: int, seeds: int) -> None:
    one, other = drawn(units, seeds, shift=0.7)
    samples = (one.mean(axis=1), other.mean(axis=1))
    theirs = stats.permutation_test(
        samples, mean_difference, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    assert permutation_p_value(pairs_of(one, other)) == pytest.approx(float(theirs.pvalue))


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.25])
def test_sampled_permutation_test_of_many_examples_matches_scipy(shift: float) -> None:
    one, other = drawn(200, shift=shift)
    theirs = stats.permutation_test(
        (one[:, 0], other[:, 0]),
        mean_difference,
        permutation_type="samples",
        n_resamples=9999,
        vectorized=True,
        rng=np.random.default_rng(1),
    )
    ours = permutation_p_value(pairs_of(one, other), draws=9999)
    assert ours == pytest.approx(float(theirs.pvalue), abs=0.015)


@pytest.mark.parametrize(("only_one", "only_other"), [(3, 8), (2, 7), (60, 40), (15, 15)])
def test_permutation_test_of_binary_outcomes_equals_mcnemars_exact_test(
    only_one: int, only_other: int
) -> None:
    both = [(1, 0)] * only_one + [(0, 1)] * only_other + [(1, 1)] * 50
    one, other = zip(*both, strict=True)
    p_value = permutation_p_value(pairs_of(one, other))
    assert p_value == pytest.approx(mcnemar_exact(only_one, only_other), abs=0.01)


def f1(means: np.ndarray) -> np.ndarray:
    right, predicted, gold = (means[..., part] for part in range(3))
    return 2 * right / np.maximum(predicted + gold, 1e-9)


def test_f1_is_recomputed_for_each_permutation() -> None:
    draw = np.random.default_rng(5)
    gold = draw.integers(0, 2, size=9)
    guesses = [np.where(draw.random(9) < chance, gold, 1 - gold) for chance in (0.9, 0.5)]

    def counts(guess: np.ndarray) -> np.ndarray:
        return np.stack([guess * gold, guess, gold], axis=1)[:, None, :].astype(float)

    one, other = map(counts, guesses)
    pairs = Pairs(*(Outcomes(parts=parts, score=f1) for parts in (one, other)))
    extreme = 0
    for swap in product([False, True], repeat=9):
        kept = np.array(swap)[:, None, None]
        first, second = np.where(kept, other, one), np.where(kept, one, other)
        difference = (f1(first.mean(axis=0)) - f1(second.mean(axis=0))).mean()
        extreme += abs(difference) >= abs(pairs.difference) - 1e-12
    assert permutation_p_value(pairs) == pytest.approx(extreme / 2**9)


def test_permutation_test_is_reproducible_and_gives_equal_systems_p_value_1() -> None:
    one, other = drawn(60, 3, shift=0.3)
    assert permutation_p_value(pairs_of(one, one)) == 1.0
    found = permutation_p_value(pairs_of(one, other), draws=500)
    assert found == permutation_p_value(pairs_of(one, other), draws=500)
    assert found == pytest.approx(permutation_p_value(pairs_of(other, one), draws=500), abs=0.05)
    assert permutation_p_value(pairs_of(one + 5, other), draws=500) == 1 / 501


def test_permutation_test_has_its_nominal_error_rate() -> None:
    found = sum(
        permutation_p_value(pairs_of(*drawn(80, 2, seed=seed)), draws=300) <= 0.1
        for seed in range(300)
    )
    assert 0.06 <= found / 300 <= 0.14
