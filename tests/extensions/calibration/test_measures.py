"""Tests of the measures against scikit-learn, torchmetrics, plain loops, and known values."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from benchharness.extensions.calibration.measures import (
    BINS,
    accuracies,
    accuracy_at,
    brier_scores,
    calibration_error,
    confidence_at,
    equal_mass,
    equal_width,
    error_if_calibrated,
    log_losses,
    per_unit,
    ranked,
    risk_area,
    squared_error,
    squared_error_parts,
)
from tests.helpers.soak import in_part

each_number = pytest.mark.parametrize("sets", in_part((50, 1_000), (50,)))
"""Numbers of random data sets; the second one only in the soak run."""

CLOSE = {"rel": 0, "abs": 1e-12}


def drawn(seed):
    """Return random probabilities, gold classes and right answers; some confidences are equal."""
    draw = np.random.default_rng(seed)
    rows, classes = int(draw.integers(2, 60)), int(draw.integers(2, 6))
    logits = draw.normal(0, 2, (rows, classes))
    if seed % 3 == 0:
        logits = np.round(logits)
    if seed % 10 == 0:
        logits[:] = logits[0]
    chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    gold = draw.integers(0, classes, rows)
    return chances, gold, (chances.argmax(-1) == gold).astype(float)


@each_number
def test_brier_score_and_likelihood_equal_scikit_learn_on_random_data(sets):
    for seed in range(sets):
        chances, gold, _ = drawn(seed)
        labels = range(chances.shape[1])
        # brier_score_loss takes binary labels as probabilities of the second class.
        is_pair = chances.shape[1] == 2
        given = (gold, chances[:, 1]) if is_pair else (gold, chances)
        theirs = brier_score_loss(*given, labels=[*labels], scale_by_half=False)
        assert brier_scores(chances, gold).mean() == pytest.approx(theirs, **CLOSE)
        own = chances[np.arange(len(gold)), gold]
        theirs = log_loss(gold, chances, labels=[*labels])
        assert log_losses(own).mean() == pytest.approx(theirs, **CLOSE)


def test_likelihood_of_an_impossible_answer_is_finite_as_in_scikit_learn():
    theirs = log_loss([0, 1], [[0.0, 1.0], [0.0, 1.0]])
    assert log_losses(np.array([0.0, 1.0])).mean() == pytest.approx(theirs, abs=1e-9)


def plain_risk_area(confidence, right):
    """Return the AURC by a plain loop; the order of rows with equal confidence is averaged over."""
    total, rates = 0.0, []
    for number in range(len(right)):
        rank = sorted(confidence, reverse=True)[number]
        tied = [r for c, r in zip(confidence, right, strict=True) if c == rank]
        total += 1 - sum(tied) / len(tied)
        rates.append(total / (number + 1))
    return sum(rates) / len(rates)


@each_number
def test_area_under_the_risk_coverage_curve_equals_a_plain_loop_on_random_data(sets):
    for seed in range(sets):
        chances, _, right = drawn(seed)
        confidence = chances.max(-1)
        area, _ = risk_area(ranked(confidence, right))
        assert area == pytest.approx(plain_risk_area(confidence, right), **CLOSE)


def plain_error(confidence, right, bins):
    total = 0.0
    for number in {*bins}:
        inside = [i for i, each in enumerate(bins) if each == number]
        mean = sum(confidence[i] for i in inside) / len(inside)
        total += len(inside) * abs(sum(right[i] for i in inside) / len(inside) - mean)
    return total / len(right)


@each_number
def test_calibration_error_with_bins_of_equal_width_equals_a_plain_loop_on_random_data(sets):
    for seed in range(sets):
        chances, _, right = drawn(seed)
        confidence = chances.max(-1)
        plain = [max(n for n in range(BINS) if n / BINS <= each) for each in confidence]
        error = calibration_error(confidence, right, equal_width(confidence))
        assert error == pytest.approx(plain_error(confidence, right, plain), **CLOSE)


@pytest.mark.soak  # importing torchmetrics takes ten seconds
def test_calibration_error_with_bins_of_equal_width_equals_torchmetrics():
    functional = pytest.importorskip("torchmetrics.functional.classification")
    import torch

    for seed in range(100):
        chances, gold, right = drawn(seed)
        confidence = chances.max(-1)
        theirs = functional.multiclass_calibration_error(
            torch.from_numpy(chances),
            torch.from_numpy(gold),
            num_classes=chances.shape[1],
            n_bins=BINS,
        )
        error = calibration_error(confidence, right, equal_width(confidence))
        assert error == pytest.approx(float(theirs), abs=1e-5)


def test_bins_of_equal_mass_are_equally_large_and_do_not_depend_on_the_order():
    draw = np.random.default_rng(0)
    confidence = draw.uniform(size=1_500)
    bins = equal_mass(confidence)
    assert np.bincount(bins).tolist() == [100] * BINS
    for number in range(BINS - 1):
        assert confidence[bins == number].max() < confidence[bins == number + 1].min()
    order = draw.permutation(1_500)
    assert (equal_mass(confidence[order]) == bins[order]).all()
    assert equal_mass(np.full(200, 0.5)).max() == 0
    assert equal_mass(draw.uniform(size=45)).max() + 1 == 4
    assert equal_mass(np.array([0.3])).tolist() == [0]


def simulated(draw, rows, temperature):
    """Return random confidences, right answers and true probabilities of a model.

    With temperature 1, the model is calibrated.
    """
    logits = draw.exponential(1.5, rows)
    truth = 1 / (1 + np.exp(-logits))
    confidence = 1 / (1 + np.exp(-logits * temperature))
    return confidence, (draw.uniform(size=rows) < truth).astype(float), truth


@pytest.mark.parametrize(
    ("temperature", "rounds"),
    in_part(
        [(1.0, 400), (2.5, 400), (1.0, 10_000), (1.5, 10_000), (2.5, 10_000)],
        [(1.0, 400), (2.5, 400)],
    ),
)
def test_corrected_squared_error_has_less_than_a_tenth_of_the_bias_of_the_plain_one(
    temperature, rounds
):
    draw, rows = np.random.default_rng(3), 600
    confidence, _, truth = simulated(draw, 500_000, temperature)
    known = float(((confidence - truth) ** 2).mean())
    plain, corrected = [], []
    for _ in range(rounds):
        confidence, right, _ = simulated(draw, rows, temperature)
        bins = equal_mass(confidence)
        gaps = np.bincount(bins, right - confidence) / np.bincount(bins)
        plain.append(float((gaps**2 * np.bincount(bins)).sum() / rows))
        parts = squared_error_parts(confidence, right, bins, np.arange(rows), rows)
        corrected.append(float(squared_error(parts.mean(axis=0), rows)))
    bias = np.mean(plain) - known
    assert bias > 0.003
    assert abs(np.mean(corrected) - known) < bias / 10


def test_expected_error_of_a_calibrated_model_equals_the_mean_of_simulations():
    draw = np.random.default_rng(4)
    errors, expected = [], []
    for _ in range(1_000):
        confidence, right, _ = simulated(draw, 600, 1.0)
        bins = equal_mass(confidence)
        errors.append(calibration_error(confidence, right, bins))
        expected.append(error_if_calibrated(confidence, bins))
    assert np.mean(expected) == pytest.approx(np.mean(errors), rel=0.03)
    assert np.mean(errors) > 0.03


def test_corrected_squared_error_is_unchanged_if_rows_are_repeated_within_units():
    """Repeat each row within its unit, which must not change the result."""
    draw = np.random.default_rng(5)
    confidence, right, _ = simulated(draw, 60, 1.0)
    bins, unit = equal_mass(confidence), np.arange(60)
    once = squared_error(squared_error_parts(confidence, right, bins, unit, 60).mean(axis=0), 60)
    twice = [np.repeat(each, 2) for each in (confidence, right, bins, unit)]
    repeated = squared_error(squared_error_parts(*twice, 60).mean(axis=0), 60)
    assert repeated == pytest.approx(float(once), abs=1e-12)


def test_influences_on_the_area_agree_with_leaving_out_one_row():
    draw = np.random.default_rng(6)
    confidence, right, _ = simulated(draw, 400, 1.0)
    area, influence = risk_area(ranked(confidence, right))
    moved = []
    for row in range(400):
        kept = np.arange(400) != row
        without, _ = risk_area(ranked(confidence[kept], right[kept]))
        moved.append(399 * (area - without))
    table = per_unit(area, influence, np.arange(400), 400)
    assert table.mean() == pytest.approx(area, abs=1e-12)
    assert np.corrcoef(table, moved)[0, 1] > 0.999
    assert table.std() == pytest.approx(np.std(moved), rel=0.02)


def test_area_of_equal_confidences_equals_the_error_rate_with_binomial_variance():
    right = np.array([1.0] * 30 + [0.0] * 10)
    area, influence = risk_area(ranked(np.full(40, 0.7), right))
    assert area == pytest.approx(0.25)
    assert per_unit(area, influence, np.arange(40), 40).var() == pytest.approx(0.25 * 0.75)


def test_accuracy_at_a_coverage_is_computed_from_the_most_confident_rows():
    confidence = np.array([0.9, 0.6, 0.8, 0.7, 0.7])
    right = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    rows = ranked(confidence, right)
    assert accuracies(rows).tolist() == pytest.approx([1, 1, 2.5 / 3, 0.75, 0.6])
    assert accuracy_at(rows, 0.4)[0] == 1
    assert accuracy_at(rows, 0.6)[0] == pytest.approx(2.5 / 3)
    assert accuracy_at(rows, 1.0)[0] == pytest.approx(0.6)
    assert [confidence_at(rows, c) for c in (0.2, 0.4, 0.6, 0.8, 1.0)] == [0.9, 0.8, 0.7, 0.7, 0.6]


def test_variance_of_the_accuracy_at_a_coverage_agrees_with_repeated_samples():
    draw = np.random.default_rng(7)
    found, variances = [], []
    for _ in range(1_000):
        confidence, right, _ = simulated(draw, 300, 1.0)
        accuracy, influence = accuracy_at(ranked(confidence, right), 0.5)
        found.append(accuracy)
        variances.append(per_unit(accuracy, influence, np.arange(300), 300).var(ddof=1) / 300)
    assert np.mean(variances) == pytest.approx(np.var(found), rel=0.1)
