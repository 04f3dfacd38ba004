import json
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.leaderboard.result import Evaluation, predictions_of, to_row
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import (
    ChoicePrediction,
    PairPrediction,
    Prediction,
    SpanPrediction,
    TagPrediction,
)
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task


@pytest.mark.parametrize(
    ("task", "prediction"),
    [
        ("glue/rte", PairPrediction(id="0", label="entailment", scores=(0.75, 0.25))),
        ("glue/stsb", PairPrediction(id="0", label=2.5)),
        ("squad/v2.0", SpanPrediction(id="q", text="Zo\u00eb", no_answer_score=-1.5)),
        ("race/all", ChoicePrediction(id="high1/0", option=2, scores=(0.1, 0.2, 0.6, 0.1))),
        ("conll2003/ner", TagPrediction(id="0", tags=("O", "B-PER"))),
        ("squad/v2.0", SpanPrediction(id="q", text="x", no_answer_score=1e-17, threshold=1.0)),
        ("squad/v1.1", SpanPrediction(id="q", text="", missing=True)),
        ("superglue/record", ChoicePrediction(id="0", option=-1, text="Atlantis")),
        ("superglue/record", ChoicePrediction(id="0", option=-1)),
    ],
)
def test_stored_predictions_round_trip(task: str, prediction: Prediction) -> None:
    row = json.loads(json.dumps(to_row(prediction)))
    evaluation = Evaluation(
        task=task, split="test", fingerprint="f", scores={}, predictions=(row, row)
    )
    assert predictions_of(evaluation) == (prediction, prediction)


@pytest.mark.parametrize(
    ("prediction", "fields"),
    [
        (SpanPrediction(id="q", text="x"), ["id", "text", "no_answer_score"]),
        (ChoicePrediction(id="0", option=1), ["id", "option", "scores"]),
    ],
)
def test_fields_of_stored_predictions_are_the_same_as_in_earlier_versions(
    prediction: Prediction, fields: list[str]
) -> None:
    """Fix the fields on which the digests of results depend."""
    assert list(to_row(prediction)) == fields


ODD = {
    "glue/rte": [
        {"label": "entailment", "scores": None},
        {"label": "entailment", "scores": [0.5]},
        {"label": "entailment", "scores": [0.5, float("nan")]},
        {"label": "entailment", "scores": [0.5, "0.5"]},
        {"label": ["entailment"]},
        {"label": {"entailment": 1}},
        {"label": "maybe"},
        {"label": "entailment", "text": ["maybe"]},
        {"label": None},
    ],
    "glue/stsb": [
        {"label": 1e308},
        {"label": float("nan")},
        {"label": "2.5"},
        {"label": 2.5, "scores": None},
        {"label": 10**400},
    ],
    "lexglue/ecthr_a": [{"label": "2"}, {"label": ["nonsense"]}],
    "squad/v2.0": [
        {"text": None},
        {"text": "x", "no_answer_score": float("inf")},
        {"text": "x", "classes": None},
        {"text": "x", "facts": ["one"]},
    ],
    "race/all": [
        {"option": 9},
        {"option": "1"},
        {"option": 1, "scores": 0.5},
        {"option": -1, "text": ["x"]},
    ],
    "conll2003/ner": [{"tags": None}, {"tags": "O"}, {"tags": [1, 2]}, {"tags": {"O": 1}}],
    "conll2012/coref": [
        {"clusters": None},
        {"clusters": [[[0, 1000000]]]},
        {"clusters": [[["a", "b"]]]},
        {"clusters": [[1]]},
    ],
    "beir/scifact": [
        {"documents": None, "scores": [1.0]},
        {"documents": ["1"], "scores": []},
        {"documents": [["1"]], "scores": [1.0]},
        {"documents": ["1"], "scores": [float("nan")]},
    ],
}


@pytest.mark.parametrize(
    ("task", "row"), [(task, row) for task, rows in ODD.items() for row in rows], ids=str
)
def test_malformed_prediction_rows_are_an_error(task: str, row: dict[str, Any]) -> None:
    found = find_task(task)
    split = found.dev_splits[0]
    examples = read(found, split, parse_data("mini"), 1).examples[:1]
    evaluation = Evaluation(
        task=task,
        split=split,
        fingerprint="f",
        scores={},
        predictions=({"id": examples[0].id, **row},),
    )
    with pytest.raises(DataError, match="predictions for"):
        predictions_of(evaluation, examples)


@pytest.mark.parametrize("task", ODD)
def test_gold_answers_of_each_task_kind_are_valid_predictions(task: str) -> None:
    found = find_task(task)
    split = found.dev_splits[0]
    examples = read(found, split, parse_data("mini"), 3).examples
    golds = [answer_type(found).golds(example)[0] for example in examples]
    rows = json.loads(json.dumps([to_row(gold) for gold in golds]))
    evaluation = Evaluation(
        task=task, split=split, fingerprint="f", scores={}, predictions=tuple(rows)
    )
    assert len(predictions_of(evaluation, examples)) == len(examples)
