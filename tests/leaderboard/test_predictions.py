import json

import pytest

from benchharness.leaderboard.result import Evaluation, predictions_of, to_row
from benchharness.tasks.examples import (
    ChoicePrediction,
    PairPrediction,
    Prediction,
    SpanPrediction,
    TagPrediction,
)


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
def test_what_was_stored_comes_back_in_its_class(task: str, prediction: Prediction) -> None:
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
def test_a_models_rows_have_the_fields_that_they_always_had(
    prediction: Prediction, fields: list[str]
) -> None:
    """So the digests of results stay what they were."""
    assert list(to_row(prediction)) == fields
