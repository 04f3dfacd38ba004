import json
import os
from pathlib import Path
from random import Random

import pytest

from benchharness.errors import BenchError
from benchharness.tasks.examples import SpanExample, SpanPrediction
from benchharness.tasks.metrics.squad import (
    SQUAD_V1,
    SQUAD_V2,
    SQUAD_V2_DETAILS,
    normalise,
)
from tests.helpers.scripts import official_v1, official_v2
from tests.helpers.squad_oracle import evaluate_v1, evaluate_v2, examples_of, random_set

METRICS = {m.name: m for m in SQUAD_V2 + SQUAD_V2_DETAILS}


def test_threshold_search_is_omitted_without_no_answer_scores():
    for seed in range(200):
        data, answers, _ = random_set(Random(seed), every_has_answer=False)
        found = official_v2(*examples_of(data, answers, dict.fromkeys(answers, 0.0)))
        assert found == evaluate_v2(data, answers, None, 1.0), seed


def test_squad_metrics_equal_the_official_scores_divided_by_100():
    for seed in range(100):
        built = examples_of(*random_set(Random(seed), every_has_answer=False))
        official = official_v2(*built, sweep_order=[p.id for p in built[0]])
        pairs = {"em": "exact", "f1": "f1", "em_best": "best_exact", "f1_best": "best_f1"}
        pairs |= {"em_hasans": "HasAns_exact", "f1_noans": "NoAns_f1"}
        for name, key in pairs.items():
            value = METRICS[name].compute(*built)
            expected = official.get(key)
            assert value == (None if expected is None else pytest.approx(expected / 100)), name
        threshold = METRICS["f1_best_threshold"].compute(*built)
        assert threshold == official["best_f1_thresh"]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat, sat!", "cat sat"),
        ("a theory of an atom", "theory of atom"),
        ("U.S.", "us"),
        ("l'an", "lan"),  # punctuation is removed first
        ("the-end", "theend"),
        ("«The» End", "« » end"),  # only ASCII punctuation is dropped
        ("A", ""),
        ("\u00a0x\u2003y\n", "x y"),
    ],
)
def test_squad_answers_are_normalised_as_in_the_official_script(text, normal):
    assert normalise(text) == normal


def build(rows, title=None):
    """Make predictions and examples from (text, no-answer score, gold answers)."""
    predictions = [
        SpanPrediction(id=str(i), text=text, no_answer_score=na)
        for i, (text, na, _) in enumerate(rows)
    ]
    examples = [
        SpanExample(
            id=str(i),
            question="?",
            context="",
            answers=tuple((gold, 0) for gold in golds),
            title=f"article {i % 10}" if title is None else title,
        )
        for i, (_, _, golds) in enumerate(rows)
    ]
    return predictions, examples


def test_squad_v1_scores_of_a_worked_example_are_correct():
    """Check answers with several gold answers: the best match counts."""
    rows = [
        ("Denver Broncos beat", 0.0, ["the Denver Broncos", "Broncos"]),  # P 2/3, R 1
        ("Santa Clara", 0.0, ["Santa Clara, California"]),  # P 1, R 2/3
        ("in 2015", 0.0, ["2016"]),
        ("The gold", 0.0, ["gold", "golden"]),
    ]
    em, f1 = (metric.compute(*build(rows)) for metric in SQUAD_V1)
    assert em == 0.25
    assert f1 == pytest.approx((0.8 + 0.8 + 0 + 1) / 4)


def test_two_empty_normalised_answers_have_f1_1_in_squad_v2_but_0_in_v1():
    rows = [("the", 0.0, ["a"])]
    assert official_v1(*build(rows)) == {"exact_match": 100.0, "f1": 0.0}
    assert official_v2(*build(rows))["f1"] == 100.0


def test_prediction_is_no_answer_only_above_the_threshold():
    rows = [("right", 0.0, ["right"]), ("wrong", 1e-9, [])]
    assert METRICS["em"].compute(*build(rows)) == 1.0


def test_cross_fitted_threshold_overfits_less_than_the_best_one():
    """Use random no-answer scores: the best threshold still overfits."""
    random = Random(5)
    rows = [("x", random.random(), random.choice([["x"], []])) for _ in range(300)]
    values = {name: metric.compute(*build(rows)) for name, metric in METRICS.items()}
    assert values["f1_best"] > 0.5
    assert values["f1_cross"] < values["f1_best"]


def test_cross_fitting_finds_a_threshold_common_to_all_articles():
    rows = [("x", na, ["x"] if na < 7 else []) for na in (float(i % 13) for i in range(130))]
    values = {name: metric.compute(*build(rows)) for name, metric in METRICS.items()}
    assert values["f1_cross"] == values["f1_best"] == 1.0
    assert values["f1_best_threshold"] == 6.0
    assert values["f1"] < 0.6  # F1 at the fixed threshold 0


def test_cross_fitted_threshold_of_an_article_excludes_that_article():
    """Use two articles with opposite thresholds: each gets the other's, which is wrong for it."""
    low = [("x", -5.0, ["x"]), ("x", -4.0, [])]
    high = [("x", 5.0, ["x"]), ("x", 6.0, [])]
    predictions, examples = build(low + high)
    examples = [
        SpanExample(id=e.id, question="?", context="", answers=e.answers, title="ab"[i // 2])
        for i, e in enumerate(examples)
    ]
    # Article "a" gets the threshold 5.0, so both of its questions are answered; "b" gets -5.0, so
    # none is answered. One of two is right in each case.
    assert METRICS["em_cross"].compute(predictions, examples) == 0.5
    assert METRICS["em_best"].compute(predictions, examples) == 0.75


def test_cross_fitted_threshold_can_leave_every_question_unanswered():
    """Answer nothing.

    The script's 0.0 for "nothing is better" would answer every question below it.
    """
    rows = [("x", -1.0, []) for _ in range(10)]
    assert METRICS["em_cross"].compute(*build(rows)) == 1.0
    assert METRICS["em_best_threshold"].compute(*build(rows)) == 0.0


def test_cross_fitted_score_of_a_single_article_is_none():
    assert METRICS["f1_cross"].compute(*build([("x", 0.0, ["x"])] * 4, title="one")) is None


def test_scoring_unanswerable_questions_as_squad_v1_is_an_error():
    with pytest.raises(BenchError, match="score these questions as SQuAD 2"):
        official_v1(*build([("x", 0.0, [])]))


@pytest.mark.skipif("BENCH_TEST_DATA" not in os.environ, reason="BENCH_TEST_DATA is not set")
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_squad_scores_on_the_official_dev_set_match_the_script(version):
    path = Path(os.environ["BENCH_TEST_DATA"]) / "squad" / f"dev-{version}.json"
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    data = [
        {"id": q["id"], "answers": [a["text"] for a in q["answers"]], "context": p["context"]}
        for article in articles
        for p in article["paragraphs"]
        for q in p["qas"]
    ]
    random = Random(1)
    answers = {q["id"]: _stretch(random, q) for q in data}
    no_answer = {name: random.gauss(0, 3) for name in random.sample(list(answers), len(answers))}
    built = examples_of(data, answers, no_answer)
    if version == "v1.1":
        assert official_v1(*built) == evaluate_v1(data, answers)
    else:
        found = official_v2(*built, sweep_order=list(no_answer))
        assert found == evaluate_v2(data, answers, no_answer, 0.0)
        assert found["total"] == found["HasAns_total"] + found["NoAns_total"] == 11873


def _stretch(random: Random, question) -> str:
    """Draw a gold answer, or a span of the context."""
    if question["answers"] and random.random() < 0.6:
        return random.choice(question["answers"])
    words = question["context"].split(" ")
    start = random.randrange(len(words))
    return " ".join(words[start : start + random.randint(0, 5)])
