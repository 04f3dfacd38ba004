import pytest

from benchharness.extensions.ensemble.average import average
from benchharness.tasks.examples import (
    ChoicePrediction,
    PairPrediction,
    SpanPrediction,
    TagPrediction,
)
from benchharness.tasks.suites import find_task

RTE, STSB, SWAG = find_task("glue/rte"), find_task("stsb"), find_task("swag/regular")
SQUAD, NER = find_task("squad/v2.0"), find_task("ner")


def label(name, *scores):
    return PairPrediction(id="a", label=name, scores=scores)


def span(text, no_answer_score=-5.0):
    return SpanPrediction(id="q", text=text, no_answer_score=no_answer_score)


def one(task, *predictions):
    (found,) = average(task, [[prediction] for prediction in predictions])
    return found


def test_label_probabilities_are_averaged():
    # Two of three members predict not_entailment, but the third is much more certain.
    found = one(
        RTE,
        label("not_entailment", 0.4, 0.6),
        label("not_entailment", 0.45, 0.55),
        label("entailment", 0.95, 0.05),
    )
    assert found.label == "entailment"
    assert found.scores == pytest.approx((0.6, 0.4))


def test_averaging_treats_predictions_without_probabilities_as_certain():
    found = one(RTE, label("not_entailment"), label("entailment", 0.9, 0.1))
    assert found.scores == pytest.approx((0.45, 0.55))
    tied = one(RTE, label("not_entailment"), label("entailment"))
    assert tied.label == RTE.labels[0]


def test_regression_predictions_are_averaged():
    found = one(STSB, PairPrediction(id="a", label=2.0), PairPrediction(id="a", label=3.5))
    assert found == PairPrediction(id="a", label=2.75)


def test_option_probabilities_are_averaged():
    found = one(
        SWAG,
        ChoicePrediction(id="a", option=0, scores=(0.5, 0.3, 0.2, 0.0)),
        ChoicePrediction(id="a", option=2, scores=(0.0, 0.3, 0.7, 0.0)),
    )
    assert found.option == 2
    assert found.scores == pytest.approx((0.25, 0.3, 0.45, 0.0))
    sure = one(SWAG, ChoicePrediction(id="a", option=1), ChoicePrediction(id="a", option=1))
    assert (sure.option, sure.scores) == (1, (0.0, 1.0))


def test_averaging_weights_span_answers_by_their_margin_over_no_answer():
    assert one(SQUAD, span("Ann"), span("Bob"), span("Bob")).text == "Bob"
    # An answer has little weight if its member prefers "no answer".
    assert one(SQUAD, span("Ann", -6.0), span("Bob", 3.0), span("Bob", 3.0)).text == "Ann"
    assert one(SQUAD, span("Ann"), span("Bob")).text == "Ann"


def test_averaging_pools_answers_that_are_equal_after_normalisation():
    found = one(SQUAD, span("Ann"), span("the bridge"), span("bridge."))
    assert found.text == "the bridge"


def test_averaged_no_answer_score_is_the_exact_mean_for_large_logits():
    found = one(SQUAD, span("x", -3000.0), span("x", 1000.0))
    assert found == span("x", -1000.0)


def test_averaged_tags_are_majority_votes_with_ties_to_the_first_member():
    rows = [("B-PER", "O", "O"), ("B-PER", "B-LOC", "B-LOC"), ("O", "B-ORG", "B-LOC")]
    found = one(NER, *(TagPrediction(id="s", tags=tags) for tags in rows))
    assert found.tags == ("B-PER", "O", "B-LOC")


def test_averaging_keeps_the_example_order_and_requires_equal_lengths():
    members = [[PairPrediction(id=str(i), label=float(i + m)) for i in range(3)] for m in (0, 2)]
    assert average(STSB, members) == tuple(
        PairPrediction(id=str(i), label=i + 1.0) for i in range(3)
    )
    with pytest.raises(ValueError, match="zip"):
        average(STSB, [members[0], members[1][:2]])


# Predictions from files.


def test_averaging_applies_the_no_answer_threshold_of_each_member():
    """Scores of 0.6 at thresholds 0.5 and 1.0: the second prefers its answer by more."""
    found = one(
        SQUAD,
        SpanPrediction(id="q", text="Rome", no_answer_score=0.6, threshold=0.5),
        SpanPrediction(id="q", text="Oslo", no_answer_score=0.6, threshold=1.0),
    )
    assert (found.text, found.threshold) == ("Oslo", 0.0)
    assert found.no_answer_score == pytest.approx((0.1 - 0.4) / 2)


def test_averaging_ignores_missing_answers():
    missing = SpanPrediction(id="q", text="", missing=True)
    assert one(SQUAD, missing, span("Rome")).text == "Rome"
    assert one(SQUAD, missing, missing).missing


def test_averaging_ignores_answers_that_are_not_an_option():
    task = find_task("superglue/record")
    free = ChoicePrediction(id="0", option=-1, text="Atlantis")
    assert one(task, free, ChoicePrediction(id="0", option=1)).option == 1
    assert one(task, free, free) == free
