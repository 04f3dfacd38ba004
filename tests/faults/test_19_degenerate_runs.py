"""Tests of fault 19: constant predictions and undefined correlations score 0, never NaN."""

import json
import math

import pytest

from benchharness.errors import StoreError
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import to_text
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.metrics import matthews, pearson, spearman
from benchharness.tasks.suites import find_task
from tests.helpers.results import make_evaluation, make_job, make_result


def build(pairs):
    """Build predictions and examples from (predicted, gold) pairs."""
    predictions = [PairPrediction(id=str(i), label=guess) for i, (guess, _) in enumerate(pairs)]
    examples = [PairExample(id=str(i), text_a="x", label=g) for i, (_, g) in enumerate(pairs)]
    return predictions, examples


def test_19_matthews_of_constant_predictions_is_zero_with_a_flag() -> None:
    predictions, examples = build([("yes", "yes"), ("yes", "no"), ("yes", "yes")])
    assert matthews.compute(predictions, examples) == 0.0
    assert answer_type(find_task("glue/rte")).flags(predictions) == ("constant predictions",)


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_19_correlation_of_constant_predictions_is_zero(metric):
    assert metric.compute(*build([(2.5, 1.0), (2.5, 2.0), (2.5, 3.0)])) == 0.0


@pytest.mark.parametrize("metric", [pearson, spearman])
def test_19_correlation_of_nearly_constant_predictions_is_finite(metric):
    assert math.isfinite(metric.compute(*build([(2.5, 1.0), (math.nextafter(2.5, 3), 2.0)])))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_19_nan_or_infinite_score_cannot_be_stored(tmp_path, value: float) -> None:
    job = make_job()
    evaluation = make_evaluation(job, job.task, "dev", scores={"accuracy": value})
    with open_store(tmp_path / "x.sqlite") as store:
        with pytest.raises(StoreError, match="cannot be stored"):
            store.add_result(make_result(job, evaluations=(evaluation,)))
        assert store.runs() == []
    with pytest.raises(StoreError, match="cannot be stored"):
        to_text({"value": value})


def test_19_constant_predictions_are_flagged_except_for_the_majority_baseline(
    bench,
) -> None:
    """The majority baseline is constant, so CoLA and STS-B have no defined coefficient."""
    words = ("--task", "glue/cola", "--task", "glue/stsb", "--data", "mini", "--limit", "60")
    ended = bench("run", "--model", "majority", *words, "--db", "x.sqlite", "--out", "x.html")
    assert ended.code == 0, ended.err
    (board,) = json.loads(bench("leaderboard", "--db", "x.sqlite", "--json").out)
    (entry,) = (entry for entry in board["entries"] if entry["model"] == "majority")
    assert {cell["median"] for cell in entry["tasks"].values()} == {0.0}
    assert "NaN" not in json.dumps(board)
    runs = json.loads(bench("show", "runs", "--db", "x.sqlite", "--json").out)
    flags = {(run["model"], run["task"]): run["flags"] for run in runs}
    assert flags.pop(("bag-of-words", "glue/cola")) == {"glue/cola": ["constant predictions"]}
    # Constant predictions of the majority baseline are not flagged.
    assert list(flags.values()) == [{}] * 3
