"""Tests that the kind of a job does not depend on the name of its recipe file."""

import json
import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from benchharness.leaderboard.boards.board import Board, build_boards
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.report.run import command_of
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.archive import read_archive, write_archive
from benchharness.leaderboard.store.store import open_store
from benchharness.models import find_model
from benchharness.tasks.suites import SUITES, find_task
from tests.helpers.plans import plan_job, plan_jobs
from tests.helpers.results import make_evaluation, make_result

SCORES = {"accuracy": 0.7}


def planned(recipe: Path | None, **overrides: str) -> list[Job]:
    name = None if recipe is None else str(recipe)
    model, task = find_model("tiny"), find_task("glue/rte")
    return plan_jobs(
        [model], [task], "mini", (1,), recipe=name, overrides=overrides, limit=8, precision="fp32"
    ).jobs


def result_of(job: Job) -> Result:
    evaluation = make_evaluation(job, "glue/rte", "dev", scores=SCORES)
    return make_result(job, evaluations=(evaluation,))


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def board_of(folder: Path, jobs: list[Job]) -> Board:
    with open_store(folder / "board.sqlite") as store:
        for job in jobs:
            store.add_result(result_of(job))
        (board,) = build_boards(store.runs(), SUITES["glue"])
    return board


def test_recipe_file_whose_name_contains_sweep_is_not_a_sweep(tmp_path: Path) -> None:
    jobs: list[Job] = []
    for rate in ("1e-3", "3e-3"):
        path = written(tmp_path, "lr sweep.toml", f"[default]\nlearning_rate = {rate}\n")
        jobs += planned(path)
    entries = board_of(tmp_path, jobs).entries
    assert [(entry.recipe, entry.points) for entry in entries] == [("lr sweep", 0)] * 2
    assert len({entry.recipe_label for entry in entries}) == 2


def test_sweep_and_recipe_file_of_the_same_name_are_different_leaderboard_entries(
    tmp_path: Path,
) -> None:
    plain = written(tmp_path, "lr sweep.toml", "[default]\nlearning_rate = 1e-4\n")
    swept = written(tmp_path, "lr.toml", "[default]\nlearning_rate = [1e-3, 3e-3]\n")
    entries = board_of(tmp_path, planned(plain) + planned(swept)).entries
    assert sorted((entry.recipe, entry.points) for entry in entries) == [
        ("lr sweep", 0),
        ("lr sweep", 2),
    ]


def test_trained_run_with_a_recipe_file_named_scored_here_is_ranked(tmp_path: Path) -> None:
    path = written(tmp_path, "scored here.toml", "[default]\nlearning_rate = 2e-3\n")
    (job,) = planned(path)
    board = board_of(tmp_path, [job])
    (entry,) = board.entries
    assert (entry.recipe, entry.competes, entry.kind) == ("scored here", True, "model")
    assert command_of(job).startswith("bench run --model tiny")


def test_reproduction_command_sets_the_settings_of_a_recipe_file_named_paper(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "paper.toml", "[default]\nlearning_rate = 2e-3\n")
    assert "--set learning_rate=0.002" in command_of(planned(path)[0])
    assert "--set" not in command_of(planned(None)[0])


OFF = "[default]\nbest_checkpoint = false\n"


@pytest.mark.parametrize(
    ("recipe", "overrides", "text"),
    [
        ("roberta", {"best_checkpoint": "false"}, None),
        ("roberta", {"best_checkpoint": "false,true", "learning_rate": "1e-5"}, None),
        ("roberta", {}, OFF),
        ("roberta", {"evaluations": "1"}, None),
        ("electra", {"layer_decay": "1", "orders": "given"}, None),
        ("electra", {"features": "last"}, None),
        ("openai-gpt", {"lm_weight": "0"}, OFF),
        ("modernbert", {"decoupled_weight_decay": "0"}, None),
    ],
)
def test_reproduction_command_disables_the_settings_that_its_job_disabled(
    tmp_path: Path, recipe: str, overrides: dict[str, str], text: str | None
) -> None:
    """Include settings of a recipe file and sweep points, whose commands name no recipe."""
    model, task = replace(find_model("tiny"), recipe=recipe), find_task("glue/mrpc")

    def made(recipe: str | None, overrides: dict[str, str]) -> list[Job]:
        plan = plan_jobs([model], [task], "mini", (1,), recipe=recipe, overrides=overrides, limit=8)
        return [job for job in plan.jobs if job.task == task.name]

    own = written(tmp_path, "own.toml", text) if text else None
    jobs = made(str(own) if own else None, overrides)
    assert len(jobs) == 1 + ("," in "".join(overrides.values()))
    for job in jobs:
        words = shlex.split(command_of(Job.from_json(job.to_json())))
        again = dict(b.split("=") for a, b in pairwise(words) if a == "--set")
        named = [b for a, b in pairwise(words) if a == "--recipe"]
        assert [other.key for other in made(*named or [None], again)] == [job.key]


def test_job_that_overrides_settings_without_disabling_any_has_no_disabled_settings() -> None:
    (job,) = planned(None, epochs="2", layer_decay="1")  # BERT's recipe has no layer_decay
    assert job.off == {}


@pytest.mark.parametrize("name", ["x+set.toml", "x sweep.toml", "ensemble.toml", "paper.toml"])
def test_job_keeps_the_name_of_its_recipe_file_when_stored_and_archived(
    tmp_path: Path, name: str
) -> None:
    """Use a file whose settings name their own source, so that only facts identify it."""
    line = '[default]\nlearning_rate = { value = 2e-3, source = "a paper" }\n'
    (job,) = planned(written(tmp_path, name, line))
    result, archive = result_of(job), tmp_path / "all.jsonl.gz"
    assert (job.recipe, job.own_recipe, job.is_sweep) == (name.removesuffix(".toml"), True, False)
    with open_store(tmp_path / "one.sqlite") as store, open_store(tmp_path / "two.sqlite") as other:
        store.add_result(result)
        with archive.open("wb") as file:
            write_archive(file, store.stored_runs())
        other.merge(read_archive(archive))
        assert other.result(job.key) == store.result(job.key) == result
        assert other.runs() == store.runs()


def test_a_start_checkpoint_may_be_named_like_a_task(tmp_path: Path) -> None:
    """A checkpoint named like a task, or like `pretrained`, is still a checkpoint."""
    tiny, task = find_model("tiny"), find_task("glue/rte")
    for name in ("pretrained", "glue/mnli"):
        start = replace(tiny, name=name)
        job = plan_job([tiny], [task], "mini", (1,), limit=8, start_from=start)
        assert (job.model, job.started_from) == (f"tiny from {name}", name)
        assert job.start is not None
        assert (job.start.kind, job.start.model) == ("checkpoint", "tiny")


def test_job_survives_json_serialization_with_its_recipe_label() -> None:
    (job,) = planned(None, learning_rate="2e-3")
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job
    assert job.recipe_label == "paper+set"
