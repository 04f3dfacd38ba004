"""What a sweep costs, reckoned by hand for one job."""

import json

import pytest

from benchharness.estimate import PEAK_TFLOPS, SIZES, UTILISATION, sweep_cost
from benchharness.models import find_model
from tasks.suites import TASKS, find_suites, find_task

RTE = find_task("glue/rte")


def test_a_job_costs_its_operations():
    cost = sweep_cost(find_model("bert"), [RTE], 1, overrides={"epochs": "3"})
    operations = 85.1e6 * 70 * (6 * 2490 * 3 + 2 * 277)
    assert cost.jobs == 1
    assert cost.gpu_hours == pytest.approx(operations / (PEAK_TFLOPS * 1e12 * UTILISATION) / 3600)
    assert cost.longest_hours == cost.gpu_hours
    assert cost.download_bytes == 440e6
    assert (cost.encoder_bytes, cost.state_bytes) == (0, 24 * 110e6)


def test_seeds_and_speed_scale_it():
    model = find_model("bert")
    one, five = (sweep_cost(model, [RTE], seeds) for seeds in (1, 5))
    assert five.jobs == 5
    assert five.gpu_hours == pytest.approx(5 * one.gpu_hours)
    assert five.longest_hours == one.longest_hours
    fast = sweep_cost(model, [RTE], 1, peak_tflops=2 * PEAK_TFLOPS, utilisation=UTILISATION / 2)
    assert fast.gpu_hours == pytest.approx(one.gpu_hours)


def test_what_a_recipe_trains_first_counts_once():
    glue = [TASKS[name] for suite in find_suites("glue") for name in suite.tasks]
    cost = sweep_cost(find_model("deberta-base"), [RTE], 2)
    assert cost.jobs == 4
    assert cost.encoder_bytes == 2 * 4 * 140e6
    whole = sweep_cost(find_model("deberta-base"), glue, 2)
    assert whole.jobs == 2 * len({task.trained_on or task.name for task in glue})


def test_every_size_is_of_a_task():
    assert set(SIZES) <= set(TASKS)


def test_tasks_without_a_size_are_named():
    cost = sweep_cost(find_model("bert"), [find_task("superglue/record"), RTE], 1)
    assert cost.unknown == ("superglue/record",)
    assert cost.gpu_hours > 0


def test_the_command_shows_a_line_for_each_model(bench):
    words = ("plan", "--model", "bert", "--model", "roberta-large", "--suite", "glue")
    ended = bench(*words, "--seeds", "3")
    assert ended.code == 0, ended.err
    lines = [line.strip() for line in ended.out.splitlines()]
    assert any(line.startswith("model") and "GPU hours" in line for line in lines)
    assert sum(line.startswith(("bert-base-uncased", "roberta-large")) for line in lines) == 2
    assert "on one GPU of 312 TFLOP/s at 30%, 3 seeds" in ended.out
    first, _ = json.loads(bench(*words, "--json").out)
    assert first["model"] == "bert-base-uncased"
    assert first["jobs"] == 45


def test_without_systems_or_a_model_there_is_nothing_to_plan(bench):
    ended = bench("plan")
    assert ended.code == 2
    assert "name two systems to compare, or a --model" in ended.err
