import warnings
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.metrics import (
    accuracy,
    binary_f1,
    by_category,
    macro_f1,
    matthews,
)

LABELS = ("entailment", "neutral", "contradiction")

pairs_of_names = st.lists(
    st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=60
)


def build(
    pairs: list[tuple[str, str]],
) -> tuple[list[PairPrediction], list[PairExample]]:
    """Make predictions and examples from (predicted, gold) names."""
    predictions = [PairPrediction(id=str(i), label=guess) for i, (guess, _) in enumerate(pairs)]
    examples = [PairExample(id=str(i), text_a="x", label=g) for i, (_, g) in enumerate(pairs)]
    return predictions, examples


@given(pairs_of_names)
def test_accuracy_matches_scikit_learn(pairs):
    guess, gold = zip(*pairs, strict=True)
    assert accuracy.compute(*build(pairs)) == pytest.approx(accuracy_score(gold, guess))


@given(pairs_of_names)
def test_binary_f1_matches_scikit_learn(pairs):
    guess, gold = zip(*pairs, strict=True)
    expected = f1_score(gold, guess, labels=["neutral"], average="macro", zero_division=0.0)
    assert binary_f1("neutral").compute(*build(pairs)) == pytest.approx(expected)


@given(pairs_of_names)
def test_macro_f1_is_the_unweighted_mean_of_the_class_f1_scores(pairs):
    expected = sum(_f1(pairs, label) for label in LABELS) / 3
    assert macro_f1(LABELS).compute(*build(pairs)) == pytest.approx(expected)


def _f1(pairs: list[tuple[str, str]], label: str) -> float:
    """Return the F1 of one class from its counts, 0 if it is absent."""
    right = sum(guess == gold == label for guess, gold in pairs)
    either = sum(guess == label for guess, _ in pairs) + sum(gold == label for _, gold in pairs)
    return 2 * right / either if either else 0.0


def test_macro_f1_includes_classes_that_do_not_occur_in_the_examples():
    pairs = [("entailment", "entailment"), ("contradiction", "contradiction")]
    assert macro_f1(LABELS).compute(*build(pairs)) == pytest.approx(2 / 3)


def test_f1_depends_on_which_class_is_positive():
    pairs = [("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "no"), ("no", "no")]
    assert binary_f1("yes").compute(*build(pairs)) == pytest.approx(2 / 3)
    assert binary_f1("no").compute(*build(pairs)) == pytest.approx(6 / 7)


@given(pairs_of_names)
def test_matthews_correlation_matches_scikit_learn(pairs):
    guess, gold = zip(*pairs, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns if there is only one class
        expected = matthews_corrcoef(gold, guess)
    assert matthews.compute(*build(pairs)) == pytest.approx(expected)


def test_matthews_correlation_matches_the_formula_of_the_cola_paper():
    random = Random(3)
    pairs = [(random.choice("ab"), random.choice("aab")) for _ in range(200)]
    tp, fp, fn, tn = (
        pairs.count(cell) for cell in (("a", "a"), ("a", "b"), ("b", "a"), ("b", "b"))
    )
    denominator = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    expected = (tp * tn - fp * fn) / denominator
    assert matthews.compute(*build(pairs)) == pytest.approx(expected)


def test_category_score_uses_only_examples_of_the_category():
    predictions = [PairPrediction(id=str(i), label="yes") for i in range(3)]
    examples = [
        PairExample(id="0", text_a="x", label="yes", categories=("logic",)),
        PairExample(id="1", text_a="x", label="no", categories=("logic", "knowledge")),
        PairExample(id="2", text_a="x", label="no"),
    ]
    logic = by_category(accuracy, "logic")
    assert logic.name == "accuracy_logic"
    assert logic.compute(predictions, examples) == 0.5
    assert by_category(accuracy, "knowledge").compute(predictions, examples) == 0.0


def test_category_without_examples_has_no_score():
    assert by_category(accuracy, "logic").compute(*build([("a", "a")])) is None
