"""The verdict on a variant: published intervals, simulated error rates, and what is refused.

Simulations draw 20,000 sets of answers with a fixed seed. A share of 5 % then has a standard error
of 0.15 points; a limit leaves two of them.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from benchharness.leaderboard.comparing import PredictedSplit
from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.suites import find_task
from benchharness.trained.guard import (
    REACH,
    Told,
    default_margin,
    judge,
    judge_counts,
    mid_p,
    score_interval,
    score_statistic,
)

DRAWS = 20_000
ERROR = 100 * math.sqrt(0.05 * 0.95 / DRAWS)
"""Of a simulated share of 5 %, in points."""


def test_published_interval_and_p_value() -> None:
    """Cavo et al. 2012 in Fagerland, Lydersen and Laake, Statistical Analysis of Contingency Tables
    (2017), chapter 8: Tango's 95 % interval -0.1240 to -0.0054, McNemar's mid-P 0.034690."""
    found = score_interval(161, 16, 6, reach=1.959964)
    assert (found.low, found.high) == pytest.approx((0.0054, 0.1240), abs=5e-5)
    assert 2 * mid_p(np.array(16), np.array(6)) == pytest.approx(0.034690, abs=5e-7)


@pytest.mark.parametrize("counts", [(872, 12, 10), (300, 0, 0), (44, 1, 0), (50, 0, 3), (9, 9, 0)])
def test_limits_are_those_of_a_likelihood_that_is_maximised(counts: tuple[int, int, int]) -> None:
    """At each limit the score test, with its nuisance found by scipy, is 1.645 errors away."""
    rows, lost, gained = counts
    for limit in (found := score_interval(*counts)).low, found.high:
        if abs(limit) == 1:
            continue

        def unlikely(share: float, loss: float = limit) -> float:
            cells = (share + loss, share, 1 - 2 * share - loss)
            times = (lost, gained, rows - lost - gained)
            return -sum(n * math.log(max(p, 1e-300)) for n, p in zip(times, cells, strict=True))

        bounds = (max(0.0, -limit), (1 - limit) / 2)
        share = minimize_scalar(unlikely, bounds=bounds, options={"xatol": 1e-13}).x
        variance = rows * (2 * share + limit - limit**2)
        distance = abs(lost - gained - rows * limit) / math.sqrt(variance)
        assert distance == pytest.approx(1.6449, abs=2e-3)


def told(rows: int, loss: float, churn: float, margin: float | None = None) -> dict[Told, float]:
    """The share of each verdict, in percent, of a variant with this true loss."""
    shares = [(churn + loss) / 2, (churn - loss) / 2, 1 - churn]
    lost, gained, _ = np.random.default_rng(1).multinomial(rows, shares, size=DRAWS).T
    margin = default_margin(rows) if margin is None else margin
    worse = mid_p(lost, gained) < 0.05
    passed = ~worse & (score_statistic(lost, gained, rows, margin) < -REACH)
    return {
        "worse": 100 * worse.mean(),
        "not worse": 100 * passed.mean(),
        "cannot be told": 100 * (~worse & ~passed).mean(),
    }


def test_half_a_point_is_found_on_ten_thousand_rows() -> None:
    assert told(10_000, 0.005, 0.025)["worse"] >= 90


def test_no_loss_alarms_in_one_case_of_twenty() -> None:
    for rows in (1_000, 3_000, 10_000):
        assert 4 <= told(rows, 0.0, 0.025)["worse"] <= 6 + ERROR


@pytest.mark.parametrize("rows", [300, 872, 3_000, 10_000])
def test_a_loss_of_the_margin_passes_in_one_case_of_twenty(rows: int) -> None:
    margin = default_margin(rows)
    assert told(rows, margin, 0.025)["not worse"] <= 5 + 2 * ERROR
    # Not for want of power: without a loss it passes, the more so the more rows there are.
    assert told(rows, 0.0, 0.025)["not worse"] > {300: 50, 872: 90, 3_000: 90, 10_000: 90}[rows]


def test_shown_verdicts_are_those_that_are_simulated() -> None:
    """`judge_counts` decides as the arrays of `told` above."""
    for rows, lost, gained in [(872, 12, 10), (10_000, 150, 100), (300, 4, 2), (3_000, 20, 20)]:
        verdict = judge_counts(rows, lost, gained)
        worse = mid_p(np.array(lost), np.array(gained)) < 0.05
        high = score_interval(rows, lost, gained).high
        expected = "worse" if worse else "cannot be told"
        if not worse and high < default_margin(rows):
            expected = "not worse"
        assert verdict.told == expected
        assert (verdict.lost, verdict.gained, verdict.rows) == (lost, gained, rows)


def test_power_and_rows_that_would_do_are_those_of_a_simulation() -> None:
    verdict = judge_counts(872, 22, 14)
    assert verdict.told == "cannot be told"
    churn = 37 / 874
    assert 100 * verdict.power == pytest.approx(told(872, 0.02, churn)["worse"], abs=3)
    assert verdict.needed is not None
    again = told(verdict.needed, 8 / 872, churn, margin=0.02)
    assert 76 < again["worse"] + again["not worse"] < 86


def test_one_row_and_equal_rows() -> None:
    for lost, gained in [(0, 0), (1, 0), (0, 1)]:
        alone = judge_counts(1, lost, gained)
        assert alone.told == "cannot be told"
        assert alone.needed is None or alone.needed > 100
    same = judge_counts(300, 0, 0)
    # No row of 300 has changed: z^2 / (n + z^2) may still be lost.
    assert same.told == "not worse"
    assert same.interval.high == pytest.approx(1.6449**2 / (300 + 1.6449**2), abs=1e-5)
    assert judge_counts(100, 0, 0).told == "cannot be told"
    assert judge_counts(100, 0, 0).needed == pytest.approx(250, abs=20)


@pytest.mark.parametrize("margin", [math.nan, 0.0, -0.01, 1.0, math.inf])
def test_margins_that_are_none(margin: float) -> None:
    with pytest.raises(BenchError, match="a margin is more than 0 points"):
        judge_counts(100, 1, 1, margin)


def test_counts_that_cannot_be() -> None:
    with pytest.raises(BenchError, match="no rows"):
        judge_counts(0, 0, 0)
    with pytest.raises(BenchError, match="cannot have changed"):
        judge_counts(10, 6, 6)


# Scores that are no accuracy.


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


def test_a_correlation_is_judged_by_the_bootstrap() -> None:
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


def test_f1_and_its_equal_and_few_rows() -> None:
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


def test_a_number_that_is_none_is_refused() -> None:
    gold = [float(n % 5) for n in range(40)]
    broken = [math.nan, *gold[1:]]
    with pytest.raises(BenchError, match="nan where a correlation needs a finite number"):
        judge([split_of("glue/stsb", gold, gold, broken)], ("pearson", "spearman"))
