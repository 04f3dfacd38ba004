import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import pearsonr, rankdata, spearmanr

from benchharness.errors import BenchError
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.metrics import pearson, spearman

numbers = st.floats(min_value=0.0, max_value=5.0).map(lambda x: round(x, 3))
columns = st.lists(st.tuples(numbers, numbers), min_size=3, max_size=50)


def build(pairs):
    predictions = [PairPrediction(id=str(i), label=guess) for i, (guess, _) in enumerate(pairs)]
    examples = [PairExample(id=str(i), text_a="x", label=g) for i, (_, g) in enumerate(pairs)]
    return predictions, examples


@given(columns)
def test_pearson_and_spearman_match_scipy(pairs):
    guess, gold = map(list, zip(*pairs, strict=True))
    assume(len(set(guess)) > 1 and len(set(gold)) > 1)
    expected = pearsonr(guess, gold).statistic, spearmanr(guess, gold).statistic
    assume(all(math.isfinite(value) for value in expected))
    found = pearson.compute(*build(pairs)), spearman.compute(*build(pairs))
    assert found == pytest.approx(expected, abs=1e-12)


def test_pearson_matches_its_formula():
    pairs = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.5)]
    guess, gold = zip(*pairs, strict=True)
    mean_guess, mean_gold = sum(guess) / 4, sum(gold) / 4
    products = sum((a - mean_guess) * (b - mean_gold) for a, b in pairs)
    squares = sum((a - mean_guess) ** 2 for a in guess) * sum((b - mean_gold) ** 2 for b in gold)
    assert pearson.compute(*build(pairs)) == pytest.approx(products / math.sqrt(squares))


def test_spearman_is_pearson_of_ranks_with_ties_at_their_mean_rank():
    pairs = [(1.0, 0.0), (1.0, 1.0), (3.0, 1.0), (9.0, 5.0)]
    guess, gold = zip(*pairs, strict=True)
    ranks = list(zip(map(float, rankdata(guess)), map(float, rankdata(gold)), strict=True))
    assert spearman.compute(*build(pairs)) == pytest.approx(pearson.compute(*build(ranks)))


@pytest.mark.parametrize("metric", [pearson, spearman])
@pytest.mark.parametrize("value", [math.nan, math.inf, None, "2.5"])
def test_correlation_of_non_finite_predictions_is_an_error(metric, value):
    with pytest.raises(BenchError, match="example 1 has "):
        metric.compute(*build([(1.0, 2.0), (value, 1.0)]))


def test_correlation_is_computed_in_float64():
    """Keep float64: evaluate's glue/stsb goes through float32 and gives 0.8660253882 here."""
    pairs = [(0.0, 0.0), (1.0, 2.0), (2.0, 2.0)]
    assert pearson.compute(*build(pairs)) == pytest.approx(math.sqrt(3) / 2, abs=1e-12)
