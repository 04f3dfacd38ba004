import pytest

from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import (
    ChoicePrediction,
    PairPrediction,
    SpanPrediction,
    TagPrediction,
)
from benchharness.tasks.suites import find_task


def tagged(*sentences):
    return [TagPrediction(id=str(n), tags=tuple(tags.split())) for n, tags in enumerate(sentences)]


def pairs(*labels):
    return [PairPrediction(id=str(place), label=label) for place, label in enumerate(labels)]


@pytest.mark.parametrize(
    ("task", "predictions", "flags"),
    [
        ("glue/rte", pairs("yes", "yes"), True),
        ("stsb", pairs(2.5, 2.5), True),
        ("stsb", pairs(2.5, 2.5000002), True),
        ("squad/v1.1", [SpanPrediction(id="0", text=""), SpanPrediction(id="1", text="")], True),
        ("copa", [ChoicePrediction(id="0", option=1), ChoicePrediction(id="1", option=1)], True),
        ("ner", tagged("O O", "O"), True),
        ("glue/rte", [], False),
        ("glue/rte", pairs("yes"), False),
        ("glue/rte", pairs("yes", "no"), False),
        ("stsb", pairs(2.5, 2.501), False),
        (
            "ner",
            tagged("B-PER", "O"),
            False,
        ),
    ],
)
def test_only_constant_predictions_are_flagged(task, predictions, flags):
    found = answer_type(find_task(task)).flags(predictions)
    assert found == (("constant predictions",) if flags else ())
