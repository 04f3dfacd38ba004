import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchharness.baselines import run_baseline
from benchharness.baselines.learners import learn_bag_of_words, learn_majority
from benchharness.errors import DataError
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result
from benchharness.models import BASELINES
from benchharness.recipes.resolve import baseline_settings
from benchharness.tasks.answers.spans import split_sentences
from benchharness.tasks.examples import ChoiceExample, PairExample, SpanExample, TagExample
from benchharness.tasks.suites import find_task
from tests.helpers.plans import plan_jobs

VALUES = {
    name: s.value for name, s in baseline_settings("bag-of-words", find_task("glue/rte")).items()
}


def make_jobs(*tasks: str, **options: Any) -> list[Job]:
    found = [find_task(name) for name in tasks]
    return list(plan_jobs(BASELINES, found, "mini", [1, 2], **options).jobs)


def scores_of(result: Result) -> dict[str, float]:
    return {name: value for e in result.evaluations for name, value in e.scores.items()}


def run(task: str, **options: Any) -> tuple[Result, Result]:
    majority, bag = make_jobs(task, **options)
    return run_baseline(majority), run_baseline(bag)


def pairs(*rows: tuple[str, str, Any]) -> list[PairExample]:
    return [
        PairExample(id=str(i), text_a=a, text_b=b or None, label=label)
        for i, (a, b, label) in enumerate(rows)
    ]


# Jobs of baselines.


def test_baseline_is_planned_as_one_job_per_task_for_all_seeds():
    jobs = make_jobs("glue/cola", "glue/mnli", "glue/ax", limit=16)
    assert [(job.model, job.task) for job in jobs] == [
        ("majority", "glue/cola"),
        ("majority", "glue/mnli"),
        ("bag-of-words", "glue/cola"),
        ("bag-of-words", "glue/mnli"),
    ]
    assert {(job.seed, job.recipe, job.precision) for job in jobs} == {(0, "baseline", "fp64")}
    assert len({job.key for job in jobs}) == 4
    assert ("glue/ax", "test") in jobs[1].predicted_splits
    assert jobs[0].weights == "baseline:majority@1"
    assert {job.kind for job in jobs} == {"baseline"}


def test_requested_baseline_is_planned_alone_only_without_the_other_baselines():
    (task,) = [find_task("glue/cola")]
    majority = [model for model in BASELINES if model.name == "majority"]
    both = plan_jobs(majority, [task], "mini", baselines=True, limit=16).jobs
    assert [job.model for job in both] == ["majority", "bag-of-words"]
    alone = plan_jobs(majority, [task], "mini", baselines=False, limit=16).jobs
    assert [job.model for job in alone] == ["majority"]


def test_each_setting_of_a_baseline_has_a_source():
    for name in ("glue/rte", "squad/v2.0", "race/all", "conll2003/ner"):
        task = find_task(name)
        assert all(setting.source for setting in baseline_settings("bag-of-words", task).values())
        assert baseline_settings("majority", task) == {}


# The majority baseline.


def test_majority_predicts_the_most_frequent_label_with_its_frequency():
    task = find_task("glue/rte")
    train = pairs(("a", "b", "not_entailment"), ("c", "d", "entailment"), ("e", "f", "entailment"))
    (found,) = learn_majority(task, train, {})(train[:1])
    assert found.label == "entailment"
    assert found.scores == pytest.approx((2 / 3, 1 / 3))


def test_majority_predicts_the_mean_for_regression():
    train = pairs(("a", "b", 1.0), ("c", "d", 4.0))
    assert learn_majority(find_task("stsb"), train, {})(train)[1].label == 2.5


def test_majority_predicts_the_most_frequent_position_of_the_right_option():
    def choice(*gold: int, options: int = 3) -> ChoiceExample:
        return ChoiceExample(
            id="x", context="c", question="", options=("o",) * options, gold=gold or None
        )

    predict = learn_majority(find_task("swag/regular"), [choice(2), choice(2), choice(1)], {})
    three, two = predict([choice(), choice(options=2)])
    assert (three.option, two.option) == (2, 1)
    assert three.scores == pytest.approx((1 / 6, 2 / 6, 3 / 6))


def test_majority_predicts_no_answer_if_the_task_has_unanswerable_questions():
    question = SpanExample(id="q", question="Who?", context="It rained. Ann left.")
    (one,) = learn_majority(find_task("squad/v1.1"), [question], {})([question])
    (two,) = learn_majority(find_task("squad/v2.0"), [question], {})([question])
    assert one.text == two.text == "It rained."
    assert one.no_answer_score < 0 < two.no_answer_score


def test_majority_predicts_the_most_frequent_tag():
    train = [TagExample(id="1", words=("Ann", "left", "."), tags=("B-PER", "O", "O"))]
    (found,) = learn_majority(find_task("ner"), train, {})(train)
    assert found.tags == ("O", "O", "O")


# The bag-of-words baseline.


def test_bag_of_words_separates_labels_by_their_words():
    task = find_task("sst2")
    train = pairs(("a good film", "", "positive"), ("a bad film", "", "negative")) * 9
    predict = learn_bag_of_words(task, train, VALUES)
    found = predict(pairs(("so good", "", None), ("so bad", "", None)))
    assert [p.label for p in found] == ["positive", "negative"]
    assert all(sum(p.scores) == pytest.approx(1) for p in found)
    assert found[0].scores == pytest.approx(found[1].scores[::-1])


def test_bag_of_words_uses_the_word_overlap_of_two_texts():
    words = [f"word{number}" for number in range(40)]
    train = pairs(
        *((w, w, "entailment") for w in words[:30]),
        *((w, v, "not_entailment") for w, v in pairwise(words[:31])),
    )
    predict = learn_bag_of_words(find_task("glue/rte"), train, VALUES)
    found = predict(pairs((words[3], words[3], None), (words[3], words[9], None)))
    assert [p.label for p in found] == ["entailment", "not_entailment"]


def test_bag_of_words_gives_an_unseen_label_probability_0():
    train = pairs(("yes", "it is", "entailment"), ("no", "it is not", "contradiction")) * 3
    (found,) = learn_bag_of_words(find_task("mnli"), train, VALUES)(train[:1])
    assert found.label == "entailment"
    assert found.scores[find_task("mnli").labels.index("neutral")] == 0


def test_bag_of_words_trained_on_a_single_label_predicts_this_label():
    train = pairs(("a film", "", "positive"), ("a play", "", "positive"))
    (found,) = learn_bag_of_words(find_task("sst2"), train, VALUES)(train[:1])
    assert found.label == "positive"


def test_bag_of_words_chooses_the_option_that_shares_words_with_the_context():
    def choice(word: str, other: str, gold: int) -> ChoiceExample:
        options = (word, other) if gold == 0 else (other, word)
        return ChoiceExample(
            id=word, context=f"see {word}", question="", options=options, gold=(gold,)
        )

    words = [f"word{number}" for number in range(20)]
    train = [choice(w, v, i % 2) for i, (w, v) in enumerate(pairwise(words))]
    predict = learn_bag_of_words(find_task("copa"), train, VALUES)
    found = predict([choice("word4", "word9", 1), choice("word9", "word4", 0)])
    assert [p.option for p in found] == [1, 0]
    assert all(sum(p.scores) == pytest.approx(1) for p in found)


def test_bag_of_words_answers_with_the_sentence_most_like_the_question():
    context = "Ann went home. Bob painted the old bridge! Nobody saw it."
    question = SpanExample(id="q", question="Who painted the bridge?", context=context)
    (found,) = learn_bag_of_words(find_task("squad/v1.1"), [question], VALUES)([question])
    assert found.text == "Bob painted the old bridge!"
    assert -1 <= found.no_answer_score < 0


def test_text_without_a_full_stop_is_a_single_sentence():
    assert split_sentences("no stop") == ["no stop"]
    assert split_sentences("One. Two? Three") == ["One.", "Two?", "Three"]
    assert split_sentences(" ") == [" "]


def test_bag_of_words_predicts_the_most_frequent_tag_of_each_word():
    train = [TagExample(id="1", words=("Ann", "left", "."), tags=("B-PER", "O", "O"))]
    unseen = [TagExample(id="2", words=("Bob", "and", "Ann"))]
    (found,) = learn_bag_of_words(find_task("ner"), train, {})(unseen)
    assert found.tags == ("O", "O", "B-PER")


# Complete jobs on mini data.


def test_a_baseline_result_has_evaluations_provenance_and_cost():
    majority, bag = run("glue/mrpc", test=True)
    for result in (majority, bag):
        assert [e.split for e in result.evaluations] == ["dev", "test"]
        assert result.evaluations[1].scores == {}
        assert result.provenance["data"]["glue/mrpc:train"]["rows"] > 100
        assert result.cost.steps == result.cost.parameters == 0
        assert Result.from_json(json.loads(json.dumps(result.to_json(), allow_nan=False))) == result
        assert len(result.evaluations[0].flags) == 0
    assert scores_of(majority)["accuracy"] < scores_of(bag)["accuracy"]


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("glue/stsb", "pearson"),
        ("superglue/copa", "accuracy"),
        ("superglue/record", "f1"),
        ("squad/v1.1", "f1"),
        ("squad/v2.0", "f1"),
        ("conll2003/ner", "f1"),
        ("superglue/rte", "accuracy"),
    ],
)
def test_majority_and_bag_of_words_baselines_run_for_every_head_type(task: str, name: str):
    majority, bag = (scores_of(result) for result in run(task, limit=200))
    assert 0 <= majority[name] < 1
    assert 0 <= bag[name] < 1
    if task in ("glue/stsb", "squad/v1.1", "conll2003/ner"):
        assert bag[name] > majority[name]


def test_a_baseline_is_deterministic():
    first, second = run_baseline(make_jobs("glue/cola")[1]), run_baseline(make_jobs("glue/cola")[1])
    assert first.evaluations == second.evaluations


def test_baseline_raises_an_error_if_data_changed_since_planning():
    job = make_jobs("glue/cola", limit=16)[0]
    changed = replace(job, fingerprints={**job.fingerprints, "glue/cola:dev": "0" * 64})
    with pytest.raises(DataError, match="has changed since this run was planned"):
        run_baseline(changed)


def test_bag_of_words_trains_on_at_most_max_examples():
    rows = pairs(*((f"w{i % 7}", "", ("positive", "negative")[i % 2]) for i in range(100)))
    predict = learn_bag_of_words(find_task("sst2"), rows, {**VALUES, "max_examples": 10})
    assert np.isclose(sum(predict(rows)[0].scores), 1)
