"""Correctness of single predictions; for SQuAD, the official exact match."""

from random import Random

import pytest

from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    PairExample,
    PairPrediction,
    SpanExample,
    SpanPrediction,
    TagExample,
    TagPrediction,
)
from benchharness.tasks.suites import find_task
from tests.helpers.scripts import official_v1, official_v2
from tests.helpers.squad_oracle import examples_of, random_set

LABEL = PairExample(id="1", text_a="x", label="entailment")
NUMBER = PairExample(id="1", text_a="x", label=2.0)
CHOICE = ChoiceExample(id="1", context="", question="", options=("a", "b"), gold=(1,))
TAGGED = TagExample(id="1", words=("a", "b"), tags=("O", "B-PER"))
ANSWERED = SpanExample(id="1", question="q", context="the cat", answers=(("The cat!", 0),))
UNANSWERED = SpanExample(id="1", question="q", context="c", answers=())
WORDLESS = SpanExample(id="1", question="q", context="the", answers=(("the", 0),))


@pytest.mark.parametrize(
    ("task", "prediction", "example", "right"),
    [
        ("glue/rte", PairPrediction(id="1", label="entailment"), LABEL, True),
        ("glue/rte", PairPrediction(id="1", label="not_entailment"), LABEL, False),
        ("glue/stsb", PairPrediction(id="1", label=2.5), NUMBER, True),
        ("glue/stsb", PairPrediction(id="1", label=1.4), NUMBER, False),
        ("race/all", ChoicePrediction(id="1", option=1), CHOICE, True),
        ("race/all", ChoicePrediction(id="1", option=0), CHOICE, False),
        ("conll2003/ner", TagPrediction(id="1", tags=("O", "B-PER")), TAGGED, True),
        ("conll2003/ner", TagPrediction(id="1", tags=("O", "O")), TAGGED, False),
    ],
)
def test_prediction_correctness_is_judged_per_answer_type(task, prediction, example, right):
    assert answer_type(find_task(task)).is_right(prediction, example) is right


@pytest.mark.parametrize(
    ("task", "text", "no_answer_score", "example", "right"),
    [
        ("squad/v1.1", "cat", 0.0, ANSWERED, True),
        ("squad/v1.1", "cat", 1.0, ANSWERED, True),
        ("squad/v1.1", "dog", 0.0, ANSWERED, False),
        ("squad/v2.0", "cat", 0.0, ANSWERED, True),
        ("squad/v2.0", "cat", 1.0, ANSWERED, False),
        ("squad/v2.0", "dog", -1.0, ANSWERED, False),
        ("squad/v2.0", "cat", 1.0, UNANSWERED, True),
        ("squad/v2.0", "cat", -1.0, UNANSWERED, False),
        ("squad/v2.0", "", -1.0, UNANSWERED, True),
        ("squad/v2.0", "the", -1.0, UNANSWERED, True),
        ("squad/v2.0", "a", 1.0, WORDLESS, False),
        ("squad/v2.0", "a", -1.0, WORDLESS, True),
    ],
)
def test_squad_correctness_depends_on_text_and_no_answer_score(
    task, text, no_answer_score, example, right
):
    prediction = SpanPrediction(id="1", text=text, no_answer_score=no_answer_score)
    assert answer_type(find_task(task)).is_right(prediction, example) is right


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("task", ["squad/v1.1", "squad/v2.0"])
def test_share_of_correct_squad_answers_equals_the_official_exact_match(task, seed):
    is_v1 = task == "squad/v1.1"
    made = random_set(Random(seed), every_has_answer=is_v1)
    predictions, examples = examples_of(*made)
    share = sum(map(answer_type(find_task(task)).is_right, predictions, examples))
    official = (
        official_v1(predictions, examples)["exact_match"]
        if is_v1
        else official_v2(predictions, examples)["exact"]
    )
    assert 100 * share / len(examples) == pytest.approx(official)
