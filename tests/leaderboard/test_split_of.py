import pytest

from leaderboard.result import split_of, stored_name
from tasks.suites import TASKS


@pytest.mark.parametrize(
    ("task", "name", "metric", "split"),
    [
        ("glue/rte", "accuracy", "accuracy", "dev"),
        ("glue/rte", "accuracy_test", "accuracy", "test"),
        ("glue/mnli", "accuracy_mm", "accuracy", "dev_mm"),
        ("glue/mnli", "accuracy_test_mm", "accuracy", "test_mm"),
        ("glue/ax", "mcc_logic", "mcc_logic", "test"),
        ("glue", "GLUE-9", "GLUE-9", "dev"),
        ("glue", "GLUE-9_test", "GLUE-9", "test"),
    ],
)
def test_a_scores_name_says_its_split(task: str, name: str, metric: str, split: str) -> None:
    assert split_of(task, name) == (metric, split)
    assert stored_name(task, metric, split) == name


def test_every_metric_of_every_split_comes_back() -> None:
    for task in TASKS.values():
        for metric in task.metrics + task.details:
            for split in task.dev_splits + task.test_splits:
                name = stored_name(task.name, metric.name, split)
                assert split_of(task.name, name) == (metric.name, split)
