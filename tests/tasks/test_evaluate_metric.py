import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.tasks.errors import BenchError
from benchharness.tasks.evaluate_metric import _metric_class, as_evaluate
from benchharness.tasks.metrics import (
    SQUAD_V1,
    SQUAD_V2,
    SQUAD_V2_DETAILS,
    answer_option_f1,
    choice_accuracy,
    entity_f1,
    of_group,
    option_f1,
    question_exact_match,
)
from benchharness.tasks.sources import Source
from benchharness.tasks.task import ChoiceTask, PairTask, SpanTask, TagTask, Task

SOURCE = Source(hub="", config="", revision="", splits={})


def convert(row):
    raise AssertionError("a metric converts no rows")


MULTIRC = PairTask(
    name="test/multirc",
    source=SOURCE,
    convert=convert,
    labels=("False", "True"),
    metrics=(answer_option_f1("True"), question_exact_match),
)
SQUAD_1 = SpanTask(name="test/v1", source=SOURCE, convert=convert, metrics=SQUAD_V1)
SQUAD_2 = SpanTask(
    name="test/v2",
    source=SOURCE,
    convert=convert,
    metrics=SQUAD_V2,
    details=SQUAD_V2_DETAILS,
    no_answer=True,
)
CHOICE = ChoiceTask(
    name="test/choice",
    source=SOURCE,
    convert=convert,
    metrics=(choice_accuracy, option_f1, of_group(choice_accuracy, "high")),
)
NER = TagTask(name="test/ner", source=SOURCE, convert=convert, metrics=(entity_f1,))


@pytest.fixture
def metric(tmp_path: Path):
    """Makes a metric of a task's name or of a task in a folder of its own."""

    def build(task: str | Task):
        if isinstance(task, str):
            return as_evaluate(task, cache_dir=str(tmp_path))
        return _metric_class()(task, cache_dir=str(tmp_path))

    return build


def test_it_combines_with_evaluate_and_names_the_task_of_equal_scores(metric):
    import evaluate

    both = evaluate.combine([metric("glue/rte"), metric("glue/qnli")])
    yes, no = "entailment", "not_entailment"
    found = both.compute(predictions=[yes, no, no, no], references=[yes, no, yes, no])
    assert found == {"glue_rte_accuracy": 0.75, "glue_qnli_accuracy": 0.75}


def test_it_combines_different_metrics_batch_by_batch(metric):
    import evaluate

    both = evaluate.combine([metric("glue/cola"), metric("glue/cola")])
    for guess, gold in [("acceptable", "acceptable"), ("unacceptable", "unacceptable")]:
        both.add_batch(predictions=[guess], references=[gold])
    assert set(both.compute().values()) == {1.0}


def test_scores_are_those_of_the_task_in_float64(metric):
    found = metric("glue/stsb").compute(predictions=[0.0, 1.0, 2.0], references=[0.0, 2.0, 2.0])
    assert found["pearson"] == pytest.approx(3**0.5 / 2, abs=1e-12)
    assert found.keys() == {"pearson", "spearman"}


def test_categories_are_scored_too(metric):
    found = metric("glue/ax").compute(
        predictions=["entailment", "neutral", "neutral"],
        references=["entailment", "neutral", "contradiction"],
        categories=[["logic"], ["logic"], []],
    )
    assert found["mcc_logic"] == 1.0
    assert 0 < found["mcc"] < 1
    assert "mcc_knowledge" not in found


def test_groups_are_scored_together(metric):
    found = metric(MULTIRC).compute(
        predictions=["True", "False", "True"],
        references=["True", "False", "False"],
        groups=["q1", "q1", "q2"],
    )
    assert found == {"f1a": pytest.approx(2 / 3), "em": 0.5}


def test_spans_take_squads_references(metric):
    found = metric(SQUAD_1).compute(
        predictions=[{"id": "7", "prediction_text": "the Broncos!"}],
        references=[{"id": "7", "answers": {"text": ["Denver Broncos"], "answer_start": [3]}}],
    )
    assert found == {"em": 0.0, "f1": pytest.approx(2 / 3)}


def test_unanswerable_questions_are_scored(metric):
    found = metric(SQUAD_2).compute(
        predictions=[
            {"id": "1", "prediction_text": "x", "no_answer_score": 2.0},
            {"id": "2", "prediction_text": "x", "no_answer_score": 1.0},
        ],
        references=[
            {"id": "1", "answers": {"text": [], "answer_start": []}},
            {"id": "2", "answers": {"text": ["x"], "answer_start": [0]}},
        ],
    )
    assert (found["f1"], found["f1_noans"], found["f1_best"]) == (0.5, 1.0, 1.0)
    assert found["f1_best_threshold"] == 1.0
    assert "f1_cross" not in found  # one article


def test_choices_are_scored_with_their_texts(metric):
    found = metric(CHOICE).compute(
        predictions=[0, 1],
        references=[{"options": ["New York", "York"], "gold": [1]}] * 2,
        groups=["middle", "high"],
    )
    assert found == {"accuracy": 0.5, "f1": pytest.approx((2 / 3 + 1) / 2), "accuracy_high": 1.0}


def test_tags_are_scored_by_sentence(metric):
    found = metric(NER).compute(
        predictions=[["B-PER", "I-PER"], ["O"]], references=[["B-PER", "I-PER"], ["B-LOC"]]
    )
    assert found == {"f1": pytest.approx(2 / 3)}


@pytest.mark.parametrize("wrong", [0.6, 2, -1])
def test_what_is_no_option_is_refused_instead_of_cut_to_an_integer(metric, wrong):
    with pytest.raises(BenchError, match="expected an index from 0 to 1"):
        metric(CHOICE).compute(
            predictions=[wrong], references=[{"options": ["x", "y"], "gold": [0]}]
        )


def test_integers_are_refused_where_classes_have_names(metric):
    with pytest.raises(ValueError, match="don't match the expected format"):
        metric("glue/rte").compute(predictions=[1], references=[1])


def test_a_class_of_another_task_is_refused(metric):
    with pytest.raises(BenchError, match="'neutral'; expected one of"):
        metric("glue/rte").compute(predictions=["neutral"], references=["entailment"])


def test_predictions_of_other_questions_are_refused(metric):
    with pytest.raises(BenchError, match="are not for its 1 examples"):
        metric(SQUAD_1).compute(
            predictions=[{"id": "8", "prediction_text": "x"}],
            references=[{"id": "7", "answers": {"text": ["x"], "answer_start": [0]}}],
        )


def test_too_few_groups_are_refused(metric):
    with pytest.raises(BenchError, match="there are 1 groups, expected 2"):
        metric(MULTIRC).compute(
            predictions=["True", "True"], references=["True", "True"], groups=["q1"]
        )


def test_an_unknown_task_is_named():
    with pytest.raises(BenchError, match="no task is called 'glue/colla'"):
        as_evaluate("glue/colla")


def test_importing_the_adapter_does_not_import_evaluate():
    code = "import sys, tasks.evaluate_metric; assert not {'evaluate', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
