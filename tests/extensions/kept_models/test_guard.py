"""The verdict on a variant: published p-values, exact error rates, and errors."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from benchharness.errors import BenchError
from benchharness.extensions.kept_models.equivalence import (
    ALPHA,
    default_margin,
    exact_p,
    judge,
    judge_counts,
    score_statistic,
)
from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.suites import find_task


@pytest.mark.parametrize(("counts", "published"), [((21, 7, 1), 0.0353), ((161, 16, 6), 0.0342)])
def test_equivalence_p_values_equal_published_ones(
    counts: tuple[int, int, int], published: float
) -> None:
    """Bentur et al. 2009 and Cavo et al. 2012 in Fagerland, Lydersen and Laake, BMC Medical
    Research Methodology 13:91 (2013).

    The test is the exact unconditional one, two-sided.
    """
    assert 2 * exact_p(*counts, 0.0, (0, 501)) == pytest.approx(published, abs=5e-5)


@pytest.mark.parametrize("counts", [(872, 12, 10), (300, 0, 0), (44, 1, 0), (50, 0, 3), (9, 9, 0)])
@pytest.mark.parametrize("loss", [-0.1, 0.01, 0.2])
def test_equivalence_statistic_uses_the_maximum_likelihood_estimate(
    counts: tuple[int, int, int], loss: float
) -> None:
    """The nuisance parameter is found by scipy."""
    rows, lost, gained = counts

    def unlikely(share: float) -> float:
        cells = (share + loss, share, 1 - 2 * share - loss)
        times = (lost, gained, rows - lost - gained)
        return -sum(n * math.log(max(p, 1e-300)) for n, p in zip(times, cells, strict=True))

    bounds = (max(0.0, -loss), (1 - loss) / 2)
    share = minimize_scalar(unlikely, bounds=bounds, options={"xatol": 1e-13}).x
    expected = (lost - gained - rows * loss) / math.sqrt(rows * (2 * share + loss - loss**2))
    found = score_statistic(np.array(lost), np.array(gained), rows, loss)
    assert found == pytest.approx(expected, rel=2e-3)


CHURNS = (0.01, 0.025, 0.05)


@cache
def fewest(rows: int, loss: float, changed: int) -> int:
    """Return the fewest lost of `changed` rows that show a loss above `loss`."""
    # Start with the number from an asymptotic test, then search upwards or downwards.
    guess = (changed + rows * loss + 1.645 * math.sqrt(changed)) / 2
    lost = min(changed + 1, max(0, round(guess)))

    def shows(number: int) -> bool:
        return exact_p(rows, number, changed - number, loss) <= ALPHA

    while lost and shows(lost - 1):
        lost -= 1
    while lost <= changed and not shows(lost):
        lost += 1
    return lost


def chance(rows: int, shown: float, loss: float, churn: float) -> float:
    """Return the percentage of cases in which a loss above `shown` is found.

    The variant has the true loss `loss`. Numbers of changed rows with a probability under 1e-4 are
    left out.
    """
    first, last = binom.ppf([5e-5, 1 - 5e-5], rows, churn).astype(int)
    return 100 * sum(
        binom.pmf(changed, rows, churn)
        * binom.sf(fewest(rows, shown, changed) - 1, changed, (1 + loss / churn) / 2)
        for changed in range(first, last + 1)
    )


@pytest.mark.parametrize(
    "rows", [300, 872, *(pytest.param(n, marks=pytest.mark.soak) for n in (3_000, 10_000))]
)
def test_equivalence_test_has_error_rates_of_at_most_5_percent(rows: int) -> None:
    """No loss is called worse, and a loss of the margin not worse, in at most 5 % of cases."""
    margin = default_margin(rows)
    for churn in CHURNS:
        assert 4 <= chance(rows, 0.0, 0.0, churn) <= 5
        if churn >= margin:
            assert 3 <= chance(rows, -margin, -margin, churn) <= 5
    assert chance(rows, -margin, 0.0, 0.025) > {300: 60, 872: 95, 3_000: 95, 10_000: 99}[rows]


def test_equivalence_test_detects_half_a_point_on_ten_thousand_rows() -> None:
    assert chance(10_000, 0.0, 0.005, 0.025) >= 90


def test_equivalence_verdicts_match_the_exact_test() -> None:
    for rows, lost, gained in [(872, 12, 10), (10_000, 150, 100), (300, 4, 2), (3_000, 20, 20)]:
        verdict, margin = judge_counts(rows, lost, gained), default_margin(rows)
        is_worse = lost >= fewest(rows, 0.0, lost + gained)
        is_within = gained >= fewest(rows, -margin, lost + gained)
        expected = "worse" if is_worse else "not worse" if is_within else "cannot be told"
        assert verdict.told == expected
        assert (verdict.interval.low > 0, verdict.is_within) == (is_worse, is_within)
        assert (verdict.lost, verdict.gained, verdict.rows) == (lost, gained, rows)


def test_power_and_needed_rows_match_the_exact_test() -> None:
    verdict = judge_counts(872, 22, 14)
    assert verdict.told == "cannot be told"
    assert 100 * verdict.power == pytest.approx(chance(872, 0.0, 0.02, 37 / 874), abs=3)
    assert verdict.needed is not None
    shown = ((0.0, 8 / 872), (-0.02, -8 / 872))
    assert 76 < sum(chance(verdict.needed, *each, 37 / 874) for each in shown) < 86


def test_verdict_is_inconclusive_on_one_row_and_not_worse_on_300_equal_predictions() -> None:
    for lost, gained in [(0, 0), (1, 0), (0, 1)]:
        alone = judge_counts(1, lost, gained)
        assert alone.told == "cannot be told"
        assert alone.needed is None or alone.needed > 100
    same = judge_counts(300, 0, 0)
    # If the true loss were above the upper end, at least one of 300 rows would have changed in 95 %
    # of cases.
    assert same.told == "not worse"
    assert same.interval.high == pytest.approx(1 - 0.0499 ** (1 / 300), abs=2e-5)
    assert judge_counts(100, 0, 0).told == "cannot be told"
    assert judge_counts(100, 0, 0).needed == pytest.approx(250, abs=20)


@pytest.mark.parametrize("margin", [math.nan, 0.0, -0.01, 1.0, math.inf])
def test_invalid_equivalence_margin_is_an_error(margin: float) -> None:
    with pytest.raises(BenchError, match="expected one between 0 and 100"):
        judge_counts(100, 1, 1, margin)


def test_equivalence_test_of_impossible_counts_is_an_error() -> None:
    with pytest.raises(BenchError, match="no rows"):
        judge_counts(0, 0, 0)
    with pytest.raises(BenchError, match="counts are impossible"):
        judge_counts(10, 6, 6)


# Scores other than accuracy.


def split_of(task: str, gold: list, one: list, other: list) -> PredictedSplit:
    examples = tuple(
        PairExample(id=str(n), text_a="a", text_b="b", label=label) for n, label in enumerate(gold)
    )
    sides = [
        (tuple(PairPrediction(id=str(n), label=label) for n, label in enumerate(labels)),)
        for labels in (one, other)
    ]
    return PredictedSplit(
        task=find_task(task), split="validation", examples=examples, one=sides[0], other=sides[1]
    )


def test_correlation_loss_is_tested_by_the_bootstrap() -> None:
    draws = np.random.default_rng(3)
    gold = draws.uniform(0, 5, 400)
    good = np.clip(gold + draws.normal(0, 0.8, 400), 0, 5)
    same = np.clip(good + draws.normal(0, 0.05, 400), 0, 5)
    bad = np.clip(gold + draws.normal(0, 1.2, 400), 0, 5)
    names = ("pearson", "spearman")
    found = judge(
        [split_of("glue/stsb", *(list(map(float, v)) for v in (gold, good, same)))], names
    )
    assert (found.told, found.lost, found.p_value) == ("not worse", None, None)
    assert found.interval.low < found.loss < found.interval.high
    assert found.power > 0.99
    worse = judge([split_of("glue/stsb", *(list(map(float, v)) for v in (gold, good, bad)))], names)
    assert worse.told == "worse"


def test_f1_verdict_on_equal_predictions_is_not_worse_or_with_few_rows_inconclusive() -> None:
    draws = np.random.default_rng(5)
    gold = draws.choice(["equivalent", "not_equivalent"], 408)
    one = np.where(draws.random(408) < 0.85, gold, "equivalent")
    names = ("f1", "accuracy")
    same = judge([split_of("glue/mrpc", *(v.tolist() for v in (gold, one, one)))], names)
    assert same.told == "not worse"
    assert 0.005 < same.interval.high < 0.02
    few = judge([split_of("glue/mrpc", *(v.tolist()[:9] for v in (gold, one, one)))], names)
    assert few.told == "cannot be told"
    assert few.needed is not None
    assert few.needed > 200
    flipped = one.copy()
    flipped[:12] = np.where(one[:12] == "equivalent", "not_equivalent", "equivalent")
    found = judge([split_of("glue/mrpc", *(v.tolist() for v in (gold, one, flipped)))], names)
    assert found.lost is not None
    assert found.gained is not None
    assert found.lost + found.gained == 12
    assert found.needed is None or found.needed > 408


def test_equivalence_test_of_nan_predictions_is_an_error() -> None:
    gold = [float(n % 5) for n in range(40)]
    broken = [math.nan, *gold[1:]]
    with pytest.raises(BenchError, match="label nan, but a correlation needs a finite number"):
        judge([split_of("glue/stsb", gold, gold, broken)], ("pearson", "spearman"))
