import subprocess
import sys

import pytest

from benchharness.errors import BenchError
from benchharness.extensions.efficiency.tasks import TASKS as EFFICIENCY_TASKS
from benchharness.extensions.minimal_pairs.tasks import PAIR_TASKS
from benchharness.tasks.suites import (
    COLLECTIONS,
    SUITES,
    TASKS,
    find_suite,
    find_suites,
    find_task,
    select_tasks,
)
from benchharness.tasks.task import suffix_of


def test_tasks_and_suites_are_registered_under_their_names() -> None:
    assert all(name == task.name for name, task in TASKS.items())
    assert all(name == suite.name for name, suite in SUITES.items())


def test_every_task_belongs_to_a_suite_and_every_suite_task_exists() -> None:
    assert {name for suite in SUITES.values() for name in suite.tasks} == set(TASKS)


def test_tasks_without_training_rows_name_a_training_task_or_are_zero_shot() -> None:
    trainers = {task.trained_on for task in TASKS.values() if task.trained_on}
    assert all("train" in TASKS[name].source.splits for name in trainers)
    alone = [task for task in TASKS.values() if task.trained_on is None]
    assert all(task.dev_splits for task in alone)
    untrained = {task.name for task in alone if not task.has_train}
    kin = {"blimp/blimp", "text/pseudo-perplexity"}
    kin |= {task.name for task in (*PAIR_TASKS, *EFFICIENCY_TASKS)}
    assert {name for name in untrained if not name.startswith("beir/")} == kin


@pytest.mark.parametrize("name", ["glue/cola", "cola", "CoLA", "GLUE/CoLA"])
def test_task_can_be_selected_by_its_full_or_short_name(name: str) -> None:
    assert find_task(name) is TASKS["glue/cola"]


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("glue/sts-b", "glue/stsb"), ("STS_B", "glue/stsb"), ("GLUE/SST-2", "glue/sst2"),
        ("squad v2.0", "squad/v2.0"), ("ax b", "superglue/axb"),
    ],
)  # fmt: skip
def test_task_names_are_matched_in_any_case_and_punctuation(name: str, task: str) -> None:
    assert find_task(name) is TASKS[task]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("glue/colla", r"no task is called 'glue/colla'\. Did you mean 'glue/cola'\?"),
        ("mnlli", r"no task is called 'mnlli'\. Did you mean 'mnli'\?"),
        ("rte2", r"'rte2'\. Did you mean 'glue/rte' or 'superglue/rte'\?"),
        ("xyzzy", r"no task is called 'xyzzy'\. `bench show tasks` shows them\."),
    ],
)
def test_unknown_task_is_an_error_with_suggestions(name: str, advice: str) -> None:
    with pytest.raises(BenchError, match=advice) as caught:
        find_task(name)
    assert caught.value.exit_code == 2


def test_short_task_name_in_two_suites_is_an_error() -> None:
    with pytest.raises(BenchError, match="use glue/rte or superglue/rte"):
        find_task("rte")


def test_ambiguous_task_name_selects_the_task_if_only_one_passes_the_filter() -> None:
    assert find_task("rte", lambda task: task.suite == "superglue").name == "superglue/rte"
    (found,) = select_tasks([], ["RTE"], fits=lambda task: task.suite == "glue")
    assert found.name == "glue/rte"
    for fits in (lambda task: True, lambda task: False):
        with pytest.raises(
            BenchError, match=r"several suites have a task 'rte': use glue/rte or superglue"
        ):
            find_task("rte", fits)
    assert find_task("cola", lambda task: False).name == "glue/cola"


def test_suite_can_be_selected_by_its_name() -> None:
    assert find_suite("glue") is find_suite("GLUE") is SUITES["glue"]


def test_unknown_suite_is_an_error_with_suggestions() -> None:
    with pytest.raises(BenchError, match=r"no suite is called 'gleu'\. Did you mean 'glue'\?"):
        find_suite("gleu")


def test_suite_collection_expands_to_its_suites() -> None:
    others = {"blimp", "beir", "retrieval", "pairs", "text", "xtreme", "efficiency", "lexglue"}
    others |= {"needle"}
    trained = tuple(suite for suite in SUITES.values() if suite.name not in others)
    assert find_suites("seeds") == find_suites("SEEDS") == trained
    assert find_suites("GLUE") == (SUITES["glue"],)


def test_suite_collections_contain_only_suites_and_share_no_name_with_a_suite() -> None:
    assert not set(COLLECTIONS) & set(SUITES)
    assert all(set(members) <= set(SUITES) for members in COLLECTIONS.values())


def test_suite_collection_is_suggested_for_a_similar_name() -> None:
    with pytest.raises(BenchError, match="Did you mean 'seeds'"):
        find_suites("seed")


def test_score_rules_use_tasks_and_metrics_of_their_suite() -> None:
    for suite in SUITES.values():
        for name, cells in suite.rule.cells.items():
            assert name in suite.tasks
            endings = {suffix_of(split) for split in TASKS[name].source.splits}
            known = {m.name + ending for m in TASKS[name].metrics for ending in endings}
            assert {*cells} <= known


def test_importing_tasks_imports_no_heavy_libraries() -> None:
    heavy = {"datasets", "huggingface_hub", "numpy", "scipy", "sklearn", "torch", "ssl"}
    code = f"import sys, benchharness.tasks; print({heavy} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
