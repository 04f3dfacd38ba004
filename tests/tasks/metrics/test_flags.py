import pytest

from benchharness.tasks.examples import (
    ChoicePrediction,
    PairPrediction,
    SpanPrediction,
    TagPrediction,
)
from benchharness.tasks.metrics import prediction_flags


@pytest.mark.parametrize(
    "predictions",
    [
        [PairPrediction(id="0", label="yes"), PairPrediction(id="1", label="yes")],
        [PairPrediction(id="0", label=2.5), PairPrediction(id="1", label=2.5)],
        [PairPrediction(id="0", label=2.5), PairPrediction(id="1", label=2.5000002)],
        [SpanPrediction(id="0", text=""), SpanPrediction(id="1", text="")],
        [ChoicePrediction(id="0", option=1), ChoicePrediction(id="1", option=1)],
        [TagPrediction(id="0", tags=("O", "O")), TagPrediction(id="1", tags=("O",))],
    ],
)
def test_a_collapsed_run_is_flagged(predictions):
    assert prediction_flags(predictions) == ("constant predictions",)


@pytest.mark.parametrize(
    "predictions",
    [
        [],
        [PairPrediction(id="0", label="yes")],
        [PairPrediction(id="0", label="yes"), PairPrediction(id="1", label="no")],
        [PairPrediction(id="0", label=2.5), PairPrediction(id="1", label=2.501)],
        [TagPrediction(id="0", tags=("B-PER",)), TagPrediction(id="1", tags=("O",))],
    ],
)
def test_other_runs_are_not(predictions):
    assert prediction_flags(predictions) == ()
