"""Tests of `bench show eval-yaml`."""

import re

import pytest
import yaml

from benchharness.extensions.hub_results.benchmarks import datasets_of, find_dataset, to_eval_yaml
from benchharness.tasks.suites import TASKS

DATASETS = ("nyu-mll/glue", "aps/super_glue", "rajpurkar/squad", "rajpurkar/squad_v2", "ehovy/race")


@pytest.mark.parametrize("name", datasets_of([*TASKS]))
def test_eval_yaml_has_the_fields_that_the_hub_requires(name):
    """Check the specification in https://huggingface.co/docs/hub/eval-results."""
    data = yaml.safe_load(to_eval_yaml(name))
    assert list(data) == ["name", "description", "evaluation_framework", "tasks"]
    assert all(isinstance(data[field], str) and data[field] for field in list(data)[:3])
    assert re.fullmatch("[a-z0-9-]+", data["evaluation_framework"])
    ids = [task["id"] for task in data["tasks"]]
    assert len(set(ids)) == len(ids) > 0
    known = {
        (place.config or task.source.config, place.hub)
        for task in TASKS.values()
        if task.source.hub == name
        for place in map(task.source.split, (*task.dev_splits, *task.test_splits))
    }
    for task in data["tasks"]:
        assert list(task) == ["id", "config", "split"]
        assert (task["config"], task["split"]) in known
        assert f"{task['id']}: " in data["description"]


@pytest.mark.parametrize("name", DATASETS)
def test_eval_yaml_has_every_task_of_its_benchmark(bench, name):
    ended = bench("show", "eval-yaml", name)
    assert (ended.code, ended.err) == (0, "")
    data = yaml.safe_load(ended.out)
    expected = {task.source.config for task in TASKS.values() if task.source.hub == name}
    ids = {task["id"] for task in data["tasks"]}
    assert ids == expected | ({"mnli_mm"} if name == "nyu-mll/glue" else set())


def test_eval_yaml_of_race_is_as_documented(bench):
    assert bench("show", "eval-yaml", "race").out == (
        "name: RACE\n"
        "description: 'Fine-tuned text encoders on RACE. Values are in percent, medians over\n"
        "  seeds. Metrics: all: accuracy.'\n"
        "evaluation_framework: benchharness\n"
        "tasks:\n"
        "- id: all\n"
        "  config: all\n"
        "  split: validation\n"
    )


def test_data_set_is_found_by_the_name_of_a_suite_or_task():
    assert find_dataset("glue") == find_dataset("mnli") == "nyu-mll/glue"
    assert find_dataset("squad/v2.0") == "rajpurkar/squad_v2"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("squad", "squad has 2 data sets on the hub, each with its own eval.yaml: name one of"),
        ("needle", "the rows of needle are not on the hub, so it cannot be a benchmark"),
        ("gleu", "no suite, task or data set is called 'gleu'. Did you mean 'glue'?"),
        ("nobody/nothing", "`bench show suites` and `bench show tasks` list the existing names"),
        ("rte", "rte"),
    ],
)
def test_name_without_exactly_one_data_set_is_an_error(bench, name, sentence):
    ended = bench("show", "eval-yaml", name)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
