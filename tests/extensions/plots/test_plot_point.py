from dataclasses import replace

import pytest

from benchharness.extensions.plots.chart import named_entries
from benchharness.extensions.plots.tradeoff import (
    Point,
    measured_points,
    published_points,
)
from benchharness.leaderboard.report.sizes import ModelSize
from benchharness.leaderboard.result import Result
from tests.helpers.boards import TASKS, board_of, plotted, suite_of
from tests.helpers.plots import facts_by_key

SIZES = {"minilm": ModelSize(parameters=22e6, backbone=10e6)}


def points_of(runs: list[Result], task: str | None = "glue/rte") -> list[Point]:
    board = board_of(runs)
    named = named_entries(board, "board-1")
    return measured_points(named, board.rule, task, facts_by_key(runs), SIZES)


def test_plotted_point_is_the_median_with_the_range_over_seeds() -> None:
    (point,) = points_of([plotted(seed=seed, score=0.5 + seed / 10) for seed in range(3)])
    assert (point.low, point.score, point.high) == pytest.approx((50.0, 60.0, 70.0))


def test_plotted_costs_are_medians_over_seeds() -> None:
    runs = [plotted(seed=s, tokens=1000 * (s + 1), seconds=10.0 * (s + 1)) for s in range(3)]
    (point,) = points_of(runs)
    assert point.costs == {
        "parameters": 22e6,
        "training-flops": 6 * 10e6 * 2000,
        "training-time": 20.0,
    }


def test_suite_cost_is_the_sum_of_training_costs_over_tasks() -> None:
    (point,) = points_of(suite_of("minilm", 0.5), None)
    assert point.score == pytest.approx(50.0)
    assert point.costs["training-time"] == 60.0 * len(TASKS)
    assert point.costs["training-flops"] == 6 * 10e6 * 1000 * len(TASKS)
    assert point.costs["parameters"] == 22e6


def test_model_without_every_task_has_no_suite_score() -> None:
    assert points_of(suite_of("minilm", 0.5)[:5], None) == []


def test_training_times_on_different_machines_are_not_combined() -> None:
    there = {"device": "NVIDIA H200"}
    (point,) = points_of([plotted(seed=0), plotted(seed=1, machine=there)])
    assert "training-time" not in point.costs
    assert point.machine == ""
    runs = suite_of("minilm", 0.5)
    (point,) = points_of([*runs[1:], plotted(task=TASKS[0], score=0.5, machine=there)], None)
    assert "training-time" not in point.costs
    assert "training-flops" in point.costs


def test_entry_with_a_seed_of_unknown_cost_is_not_plotted() -> None:
    runs = [plotted(seed=0), plotted(seed=1)]
    board = board_of(runs)
    named = named_entries(board, "board-1")
    facts = facts_by_key(runs[:1])
    assert measured_points(named, board.rule, "glue/rte", facts, SIZES) == []


def test_training_flops_of_an_unknown_model_use_its_total_parameter_count() -> None:
    (point,) = points_of([plotted("mine", parameters=5_000_000)])
    assert point.costs["training-flops"] == 6 * 5e6 * 1000


def test_baselines_and_ensembles_are_not_plotted() -> None:
    runs = [
        plotted(),
        plotted("majority", kind="baseline", weights="baseline:majority"),
        plotted("all", kind="ensemble", weights="ensemble:x"),
    ]
    assert [point.name for point in points_of(runs)] == ["minilm"]


def test_entries_of_one_model_are_named_by_recipe_and_precision() -> None:
    runs = [
        plotted("tiny"),
        plotted("minilm", recipe="paper"),
        plotted("minilm", recipe="fast", settings={"epochs": 1}),
        plotted("minilm", recipe="fast", settings={"epochs": 1}, precision="bf16"),
    ]
    named = named_entries(board_of(runs), "board-1")
    assert sorted(each.id for each in named) == [f"board-1-e{n}" for n in range(4)]
    assert sorted(each.name for each in named) == [
        "minilm",
        "minilm, fast, bf16",
        "minilm, fast, fp32",
        "tiny",
    ]


def test_published_points_are_dev_scores_of_single_models() -> None:
    board = board_of([plotted(data="hub")])
    points = published_points(board, "board-1", "glue/rte", SIZES)
    systems = {point.name for point in points}
    assert {"MiniLM-L6-H384", "RoBERTa-large", "ELECTRA-Small"} <= systems
    assert "GLUE Human Baselines" not in systems
    assert not any("ensemble" in point.details for point in points)
    (minilm,) = (point for point in points if point.name == "MiniLM-L6-H384")
    assert minilm.costs == {"parameters": 22e6}


def test_published_score_that_lacks_a_metric_of_the_leaderboard_is_not_plotted() -> None:
    board = board_of([plotted(task="glue/mrpc", data="hub")])
    both = published_points(board, "board-1", "glue/mrpc", SIZES)
    # Its source prints only the accuracy.
    assert "MiniLM-L6-H384" not in {point.name for point in both}


def test_published_points_are_omitted_for_synthetic_or_limited_data() -> None:
    assert published_points(board_of([plotted()]), "board-1", "glue/rte", SIZES) == []
    whole = board_of([plotted(data="hub")])
    cut = replace(whole, limit=100)
    assert published_points(cut, "board-1", "glue/rte", SIZES) == []
