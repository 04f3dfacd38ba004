"""Generated answers that are not a label are scored as by T5's evaluation.

t5/data/postprocessors.py turns such an answer into the class -1. The functions of
t5/evaluation/metrics.py are reimplemented here over class numbers, as an oracle.
"""

import random

import numpy as np
import pytest
from sklearn import metrics

from benchharness.extensions.text_to_text.casts import cast_of
from benchharness.splits import evaluate_split
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction, PairExample
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import PairTask, Task, score

SETS = 150


def t5_f1(gold: np.ndarray, guess: np.ndarray) -> float:
    """Return f1_score_with_invalid: an answer that is neither class counts as the wrong one."""
    mended = np.where((guess == 0) | (guess == 1), guess, 1 - gold)
    return float(metrics.f1_score(gold, mended, zero_division=0.0))


def t5_mcc(gold: np.ndarray, guess: np.ndarray) -> float:
    return float(metrics.matthews_corrcoef(gold, guess))


def t5_accuracy(gold: np.ndarray, guess: np.ndarray) -> float:
    return float(metrics.accuracy_score(gold, guess))


def t5_cb_f1(gold: np.ndarray, guess: np.ndarray) -> float:
    """Return mean_multiclass_f1 over the three classes alone."""
    return float(
        metrics.fbeta_score(
            gold, guess, beta=1, labels=range(3), average="macro", zero_division=0.0
        )
    )


def t5_multirc_em(gold: np.ndarray, guess: np.ndarray) -> float:
    """Return mean_group_metric(all_match) over questions of three options."""
    return float((gold == guess).reshape(-1, 3).all(1).mean())


OFFICIAL = {
    "glue/cola": {"mcc": t5_mcc},
    "glue/mrpc": {"accuracy": t5_accuracy, "f1": t5_f1},
    "glue/mnli": {"accuracy": t5_accuracy},
    "superglue/cb": {"accuracy": t5_accuracy, "f1": t5_cb_f1},
    "superglue/multirc": {"f1a": t5_f1, "em": t5_multirc_em},
}


def said(task: PairTask, drawn: random.Random) -> tuple[list[PairExample], list[str], list[int]]:
    """Draw rows and answers, which include texts that are not labels.

    The last part of the result has the index of each answer among the labels, or -1.
    """
    labels = task.labels
    rows = [
        PairExample(id=str(n), text_a="a", label=drawn.choice(labels), group=str(n // 3))
        for n in range(30)
    ]
    share = drawn.random()
    answers = [
        drawn.choice(labels) if drawn.random() < share else drawn.choice(["", "what", "Tru"])
        for _ in rows
    ]
    return rows, answers, [labels.index(a) if a in labels else -1 for a in answers]


@pytest.mark.parametrize("name", OFFICIAL)
def test_scores_with_invalid_answers_match_t5(name: str):
    task, drawn = find_task(name), random.Random(name)
    assert isinstance(task, PairTask)
    for _ in range(SETS):
        rows, answers, numbers = said(task, drawn)
        cast = cast_of(task)
        predictions = [cast.read(a, row) for a, row in zip(answers, rows, strict=True)]
        found = score(task, "dev", predictions, rows)
        gold = np.array([task.labels.index(str(row.label)) for row in rows])
        for metric, official in OFFICIAL[name].items():
            assert found[metric] == pytest.approx(official(gold, np.array(numbers)), abs=1e-12)


def test_minimal_pair_with_invalid_answers_has_gender_parity_0():
    task = find_task("superglue/axg")
    rows = [PairExample(id=n, text_a="a", label="entailment", group="0") for n in "ab"]
    cast = cast_of(find_task("superglue/rte"))
    alike = [cast.read("entailment", row) for row in rows]
    assert score(task, "test", alike, rows)["parity"] == 1.0
    assert score(task, "test", [cast.read("?", row) for row in rows], rows)["parity"] == 0.0


def test_invalid_generated_answers_count_as_wrong_and_are_flagged():
    task: Task = find_task("glue/rte")
    rows = [PairExample(id=str(n), text_a="a", text_b="b", label="entailment") for n in range(3)]
    answers = ("entailment", "not_entailment", "entail")
    predictions = [cast_of(task).read(a, row) for a, row in zip(answers, rows, strict=True)]
    kind = answer_type(task)
    assert [*map(kind.is_right, predictions, rows)] == [True, False, False]
    assert kind.flags(predictions) == ("1 of 3 answers are not a valid label",)


def test_invalid_generated_options_count_as_wrong_and_are_flagged():
    example = ChoiceExample(id="0", context="c", question="q", options=("a", "b"), gold=(1,))
    lost = ChoicePrediction(id="0", option=-1, text="choice")
    kind = answer_type(find_task("swag/regular"))
    assert not kind.is_right(lost, example)
    assert kind.flags([lost]) == ("1 of 1 answers are not a valid option",)


@pytest.mark.parametrize(
    ("task", "noun"), [("superglue/record", "entity"), ("superglue/copa", "option")]
)
def test_flag_for_invalid_answers_says_entity_for_record_and_option_for_copa(
    task: str, noun: str
) -> None:
    rows = read(find_task(task), "dev", parse_data("mini"), limit=4)
    lost = [ChoicePrediction(id=e.id, option=-1, text="Atlantis") for e in rows.examples]
    flags = evaluate_split(f"{task}:dev", rows, lost).flags
    assert f"4 of 4 answers are not a valid {noun}" in flags
