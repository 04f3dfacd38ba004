"""Tests of sweeps: settings with several values, which give one recipe per value."""

from pathlib import Path

import pytest

from benchharness.errors import BenchError
from benchharness.models import MODELS
from benchharness.recipes import ResolvedRecipe, resolve_recipe, resolve_sweep
from benchharness.tasks.suites import find_task
from tests.helpers.plans import plan_job, plan_jobs

BERT = MODELS["bert-base-uncased"]
TINY = MODELS["tiny"]
RATES = {"learning_rate": "2e-5,3e-5, 5e-5"}


def values(points: tuple[ResolvedRecipe, ...], name: str) -> list[object]:
    return [point.settings[name].value for point in points]


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "grid.toml"
    path.write_text(text)
    return str(path)


def test_values_separated_by_commas_are_sweep_points() -> None:
    points = resolve_sweep(BERT, "glue/rte", None, RATES)
    assert values(points, "learning_rate") == [2e-5, 3e-5, 5e-5]
    assert values(points, "epochs") == [3.0, 3.0, 3.0]
    assert {point.label for point in points} == {"paper+set sweep"}
    rate = points[1].settings["learning_rate"]
    assert (rate.source, rate.one_of) == ("--set", ("2e-5", "3e-5", "5e-5"))


def test_sweep_over_several_settings_has_every_combination() -> None:
    points = resolve_sweep(BERT, "glue/rte", None, {**RATES, "batch_size": "16,32"})
    found = [*zip(values(points, "learning_rate"), values(points, "batch_size"), strict=True)]
    assert found == [(rate, batch) for rate in (2e-5, 3e-5, 5e-5) for batch in (16, 32)]


def test_list_of_values_in_a_recipe_file_is_a_sweep(tmp_path: Path) -> None:
    text = '[default]\nlearning_rate = { value = [2e-5, 3e-5, 5e-5], source = "A.3" }\n'
    points = resolve_sweep(BERT, "glue/rte", write(tmp_path, text), {})
    assert values(points, "learning_rate") == [2e-5, 3e-5, 5e-5]
    assert points[0].label == "grid sweep"
    rate = points[0].settings["learning_rate"]
    assert (rate.source, rate.one_of) == ("A.3", ("2e-05", "3e-05", "5e-05"))


def test_sweep_for_one_task_in_a_recipe_file_does_not_apply_to_others(tmp_path: Path) -> None:
    path = write(tmp_path, "[glue.rte]\nepochs = [3, 10]\n")
    assert values(resolve_sweep(BERT, "glue/rte", path, {}), "epochs") == [3.0, 10.0]
    (only,) = resolve_sweep(BERT, "glue/cola", path, {})
    assert (only.label, only.settings["epochs"].value) == ("grid", 3.0)


def test_option_set_replaces_the_sweep_of_a_recipe_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[default]\nepochs = [3, 10]\n")
    (only,) = resolve_sweep(BERT, "glue/rte", path, {"epochs": "2"})
    assert (only.label, only.settings["epochs"].value) == ("grid+set", 2.0)


def test_repeated_values_are_a_single_sweep_point() -> None:
    (only,) = resolve_sweep(BERT, "glue/rte", None, {"epochs": "3,3.0"})
    assert not only.is_sweep
    (only,) = resolve_sweep(BERT, "glue/rte", None, {"stride": "64,128"})
    assert "stride" not in only.settings


def test_every_invalid_value_of_a_sweep_is_reported_once() -> None:
    with pytest.raises(BenchError) as caught:
        resolve_sweep(BERT, "glue/rte", None, {**RATES, "epochs": "0,3,", "batch_size": "8"})
    first, second = str(caught.value).splitlines()
    assert first.startswith("epochs is '0' (--set)")
    assert second.startswith("epochs is '' (--set)")


def test_sweep_is_an_error_where_a_single_recipe_is_required() -> None:
    with pytest.raises(BenchError, match="has 3 combinations of values for glue/rte"):
        resolve_recipe(BERT, "glue/rte", None, RATES)


def test_every_sweep_point_is_planned_with_every_seed() -> None:
    tasks = [find_task("glue/rte"), find_task("glue/cola")]
    jobs = plan_jobs([TINY], tasks, "mini", (1, 2), overrides={"epochs": "1,2,4"}).jobs
    assert len(jobs) == 2 * 3 * 2 == len({job.key for job in jobs})
    assert [(j.task, j.settings["epochs"].value, j.seed) for j in jobs[:3]] == [
        ("glue/rte", 1.0, 1),
        ("glue/rte", 1.0, 2),
        ("glue/rte", 2.0, 1),
    ]
    alone = plan_job([TINY], tasks[:1], "mini", (1,), overrides={"epochs": "2"})
    assert alone.key in {job.key for job in jobs}


def test_start_job_of_a_sweep_point_has_the_same_settings() -> None:
    jobs = plan_jobs(
        [TINY], "glue/rte", "mini", (1,), overrides={"epochs": "1,2"}, start_from="glue/mnli"
    ).jobs
    by_key = {job.key: job for job in jobs}
    assert len(by_key) == 4
    for job in jobs:
        if job.task == "glue/rte":
            assert job.start_from is not None
            start = by_key[job.start_from]
            assert start.settings["epochs"].value == job.settings["epochs"].value


def test_multiple_such_as_x2_is_relative_to_the_value_of_the_recipe() -> None:
    points = resolve_sweep(BERT, "glue/rte", None, {"learning_rate": "x1,x2, x0.5, 1e-4"})
    assert values(points, "learning_rate") == [5e-5, 1e-4, 2.5e-5]
    (own,) = resolve_sweep(BERT, "glue/rte", None, {"learning_rate": "x1"})
    (paper,) = resolve_sweep(BERT, "glue/rte", None, {})
    assert own.settings["learning_rate"].value == paper.settings["learning_rate"].value


@pytest.mark.parametrize("name", ["schedule", "lora_rank"])
def test_multiple_of_a_setting_that_is_not_a_real_number_is_an_error(name: str) -> None:
    with pytest.raises(BenchError, match=f"{name}=x2 is a multiple"):
        resolve_sweep(BERT, "glue/rte", None, {name: "x2"})
