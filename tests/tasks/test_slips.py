"""Slips of metrics and of data handling in other harnesses, each as a test named after it.

Each test holds what the slip would have got wrong, so that it fails if we make the same one.
"""

import math

import pytest

from benchharness.tasks import find_task, parse_data
from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    PairExample,
    PairPrediction,
    SpanExample,
    SpanPrediction,
)
from benchharness.tasks.metrics import (
    SQUAD_V2,
    SQUAD_V2_DETAILS,
    accuracy,
    answer_option_f1,
    binary_f1,
    choice_accuracy,
    gender_parity,
    of_group,
    pearson,
    question_exact_match,
    question_f1,
)
from benchharness.tasks.read import read, subset
from benchharness.tasks.suites import GLUE_9
from benchharness.tasks.task import score

MINI = parse_data("mini")


def pairs(rows, group=None):
    """Predictions and examples of (predicted, gold) labels."""
    predictions = [PairPrediction(id=str(i), label=guess) for i, (guess, _) in enumerate(rows)]
    examples = [
        PairExample(id=str(i), text_a="x", label=gold, group=group)
        for i, (_, gold) in enumerate(rows)
    ]
    return predictions, examples


def spans(rows):
    """Predictions and examples of (text, no-answer score, gold answers)."""
    predictions = [
        SpanPrediction(id=str(i), text=text, no_answer_score=na)
        for i, (text, na, _) in enumerate(rows)
    ]
    examples = [
        SpanExample(id=str(i), question="?", context="", answers=tuple((a, 0) for a in golds))
        for i, (_, _, golds) in enumerate(rows)
    ]
    return predictions, examples


SQUAD = {metric.name: metric for metric in SQUAD_V2 + SQUAD_V2_DETAILS}


def test_lm_eval_multirc_gold_is_not_the_wrong_way_round():
    """A model that calls every answer right must profit from right answers, not wrong ones."""
    mostly_right = pairs([("True", "True")] * 9 + [("True", "False")], group="q")
    assert answer_option_f1("True").compute(*mostly_right) == pytest.approx(18 / 19)
    assert accuracy.compute(*mostly_right) == 0.9


def test_lm_eval_multirc_is_more_than_accuracy():
    """Calling every answer wrong is often accurate, and finds nothing."""
    built = pairs([("False", "False")] * 9 + [("False", "True")], group="q")
    assert accuracy.compute(*built) == 0.9
    assert answer_option_f1("True").compute(*built) == 0.0
    assert question_exact_match.compute(*built) == 0.0


def test_lighteval_stsb_does_not_give_every_model_full_marks():
    assert pearson.compute(*pairs([(5.0, 0.0), (3.0, 1.0), (0.0, 5.0)])) < -0.9


def test_lighteval_squad_v2_keeps_the_unanswerable_questions():
    rows = [("x", -1.0, ["x"]), ("x", -1.0, []), ("x", -1.0, [])]
    assert SQUAD["em"].compute(*spans(rows)) == pytest.approx(1 / 3)
    assert SQUAD["em_hasans"].compute(*spans(rows)) == 1.0
    assert SQUAD["em_noans"].compute(*spans(rows)) == 0.0


def test_lighteval_squad_v2_has_f1_beside_exact_match():
    rows = [("Denver Broncos", -1.0, ["Broncos"])]
    assert SQUAD["em"].compute(*spans(rows)) == 0.0
    assert SQUAD["f1"].compute(*spans(rows)) == pytest.approx(2 / 3)


def test_lm_eval_lighteval_inspect_evals_race_is_not_high_only():
    predictions = [ChoicePrediction(id=str(i), option=0) for i in range(4)]
    examples = [
        ChoiceExample(
            id=str(i), context="", question="", options=("x", "y"), gold=(gold,), group=level
        )
        for i, (gold, level) in enumerate(
            [(0, "middle"), (0, "middle"), (0, "middle"), (1, "high")]
        )
    ]
    assert choice_accuracy.compute(predictions, examples) == 0.75
    assert of_group(choice_accuracy, "middle").compute(predictions, examples) == 1.0
    assert of_group(choice_accuracy, "high").compute(predictions, examples) == 0.0


def test_hf_run_qa_no_answer_scores_reach_the_threshold_sweep():
    """With every score 0.0 the best F1 is the plain one and its threshold is 0."""
    rows = [("x", 1.0, ["x"]), ("x", 2.0, ["x"]), ("x", 3.0, [])]
    assert SQUAD["f1"].compute(*spans(rows)) == pytest.approx(1 / 3)
    assert SQUAD["f1_best"].compute(*spans(rows)) == 1.0
    assert SQUAD["f1_best_threshold"].compute(*spans(rows)) == 2.0


def test_hf_evaluate_super_glue_f1m_is_not_averaged_over_both_classes():
    """A question with one wrong option named: precision 1/2 and recall 1; macro F1 is 1/3."""
    built = pairs([("True", "True"), ("True", "False")], group="q")
    assert question_f1("True").compute(*built) == pytest.approx(2 / 3)


def test_hf_evaluate_super_glue_axg_has_parity_beside_accuracy():
    built = pairs([("entailment", "entailment"), ("entailment", "not_entailment")], group="pair")
    assert gender_parity.compute(*built) == 1.0
    assert accuracy.compute(*built) == 0.5


def test_hf_evaluate_glue_has_ax():
    task = find_task("glue/ax")
    assert [metric.name for metric in task.metrics] == ["mcc"]
    examples = read(task, "test", MINI).examples
    predictions = [PairPrediction(id=e.id, label=e.label) for e in examples]
    assert set(score(task, "test", predictions, examples).values()) == {1.0}


def test_hf_run_glue_limits_are_not_the_first_rows():
    """A file sorted by label must not become one class."""
    _, rows = pairs([("x", label) for label in ["no"] * 50 + ["yes"] * 50])
    taken = subset(rows, 10)
    assert [e.label for e in taken].count("yes") == 5
    assert taken != rows[:10]


def test_electra_f1_counts_gold_from_gold():
    """With gold counted from predictions, recall would be precision, and F1 that too."""
    built = pairs([("yes", "yes"), ("no", "yes"), ("no", "yes"), ("no", "no")])
    assert binary_f1("yes").compute(*built) == pytest.approx(0.5)  # precision 1, recall 1/3


def test_jiant_v1_average_leaves_out_tasks_that_do_not_count():
    full = {task: dict.fromkeys(cells, 80.0) for task, cells in GLUE_9.cells.items()}
    assert GLUE_9.score(full | {"glue/ax": {"mcc": 10.0}, "glue/other": {}}) == 80.0


def test_jiant_v1_average_does_not_count_a_missing_task_as_zero():
    full = {task: dict.fromkeys(cells, 80.0) for task, cells in GLUE_9.cells.items()}
    assert GLUE_9.score({**full, "glue/wnli": {}}) is None


@pytest.mark.parametrize("name", ["glue/rte", "glue/qnli", "glue/mnli", "glue/wnli", "glue/ax"])
def test_flair_labels_are_read_from_their_own_column(name):
    """No example may end up with a label that is none of its task's classes."""
    task = find_task(name)
    split = "test" if name == "glue/ax" else "dev"
    labels = {e.label for e in read(task, split, MINI).examples}
    assert labels == set(task.labels)


def test_flair_mrpc_dev_is_the_same_rows_every_time():
    first, second = (read(find_task("glue/mrpc"), "dev", MINI) for _ in range(2))
    assert first == second
    train = {(e.text_a, e.text_b) for e in read(find_task("glue/mrpc"), "train", MINI).examples}
    assert not train & {(e.text_a, e.text_b) for e in first.examples}


@pytest.mark.parametrize("label", [math.nan, None])
def test_a_constant_or_diverged_regression_is_never_nan(label):
    """STS-B's slip in many harnesses: NaN goes into the average, or is shown as a score."""
    assert pearson.compute(*pairs([(2.0, 1.0), (2.0, 3.0)])) == 0.0
    with pytest.raises(BenchError, match="needs a finite number"):
        pearson.compute(*pairs([(label, 1.0), (2.0, 3.0)]))
