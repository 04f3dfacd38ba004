"""Score names consist of metric and split, and both are recovered from the name."""

import pytest

from benchharness.leaderboard.result import Measure, measures_of, rule_name, score_name
from benchharness.tasks.suites import TASKS


@pytest.mark.parametrize(
    ("task", "measure", "name"),
    [
        ("glue/rte", Measure("dev", "accuracy"), "accuracy"),
        ("glue/rte", Measure("test", "accuracy"), "accuracy_test"),
        ("glue/mnli", Measure("dev_mm", "accuracy"), "accuracy_mm"),
        ("glue/mnli", Measure("test_mm", "accuracy"), "accuracy_test_mm"),
        ("glue/ax", Measure("test", "mcc_logic"), "mcc_logic"),
        ("glue", Measure("dev", "GLUE-9"), "GLUE-9"),
        ("glue", Measure("test", "GLUE-9"), "GLUE-9_test"),
    ],
)
def test_score_name_is_made_of_metric_and_split(task: str, measure: Measure, name: str) -> None:
    assert score_name(task, measure) == name


def test_suite_rules_use_the_same_score_name_for_dev_and_test_splits() -> None:
    assert rule_name(Measure("dev_mm", "accuracy")) == "accuracy_mm"
    assert rule_name(Measure("test_mm", "accuracy")) == "accuracy_mm"


def test_score_name_determines_the_split_and_metric() -> None:
    for task in TASKS.values():
        measures = measures_of(task.name)
        splits = task.dev_splits + task.test_splits
        assert len(measures) == len(splits) * len(task.metrics + task.details)
        assert all(score_name(task.name, each) == name for name, each in measures.items())
