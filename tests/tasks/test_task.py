"""Names and values of the scores of a task's splits."""

from dataclasses import replace

import numpy as np
import pytest

from benchharness.errors import BenchError
from benchharness.tasks.examples import PairExample, PairPrediction
from benchharness.tasks.sources import Split
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Metric, PairTask, score, total

PREDICTIONS = [PairPrediction(id="0", label="entailment")]
EXAMPLES = [PairExample(id="0", text_a="a", text_b="b", label="entailment")]


def with_splits(*names: str) -> PairTask:
    """Return RTE with other splits."""
    task = find_task("glue/rte")
    assert isinstance(task, PairTask)
    splits = {name: Split(hub=name, files=()) for name in names}
    return replace(task, source=replace(task.source, splits=splits))


@pytest.mark.parametrize(
    ("split", "name"),
    [
        ("dev", "accuracy"),
        ("dev_mm", "accuracy_mm"),
        ("test", "accuracy_test"),
        ("test_mm", "accuracy_test_mm"),
    ],
)
def test_score_names_of_different_splits_have_different_suffixes(split: str, name: str) -> None:
    task = with_splits("train", "dev", "dev_mm", "test", "test_mm")
    assert score(task, split, PREDICTIONS, EXAMPLES) == {name: 1.0}


def test_float_sum_does_not_depend_on_the_python_version() -> None:
    assert total([0.1] * 10) == 0.9999999999999999
    assert total([]) == 0.0


def test_score_names_have_no_suffix_if_a_task_has_only_test_rows() -> None:
    assert score(with_splits("test"), "test", PREDICTIONS, EXAMPLES) == {"accuracy": 1.0}


def scored(value: object) -> object:
    metric = Metric[PairPrediction, PairExample](name="mine", compute=lambda *_: value)  # type: ignore[arg-type, return-value]
    return score(replace(with_splits("dev"), metrics=(metric,)), "dev", PREDICTIONS, EXAMPLES)


@pytest.mark.parametrize("value", [np.float32(0.5), np.array(0.5), 0.5])
def test_scores_are_converted_to_python_floats(value: object) -> None:
    assert repr(scored(value)) == "{'mine': 0.5}"


@pytest.mark.parametrize("value", [float("nan"), np.inf, "high", 52, -0.1])
def test_metric_value_that_is_not_finite_or_out_of_bounds_is_an_error(value: object) -> None:
    with pytest.raises(BenchError, match="the metric mine returned"):
        scored(value)
