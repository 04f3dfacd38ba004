"""Tests of `bench curve` and of the plot of a pretraining run in the report."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.leaderboard.job import Setting, Stage
from benchharness.leaderboard.store.archive import read_archive, write_archive
from benchharness.leaderboard.store.store import open_store
from benchharness.stored.report import Wanted, make_report
from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.compared_runs import made

RTE, COLA = "glue/rte", "glue/cola"


def run_of(step, task, seed, wrong, run="small", **fields):
    """Return a run of a checkpoint with a given number of wrong rows."""
    return made(
        f"{run}/step-{step}",
        task,
        seed,
        set(range(wrong)),
        weights=f"sha256:{run}{step}",
        stage=Stage(run=run, step=step, tokens=1000 * step, family="bert"),
        **fields,
    )


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """Store five checkpoints that improve until step 300, with a few rows of noise per seed."""
    path = tmp_path_factory.mktemp("curve") / "board.sqlite"
    with open_store(path) as store:
        store.add_results(
            run_of(step, task, seed, (wrong if task == RTE else 40) + seed)
            for step, wrong in ((100, 80), (200, 50), (300, 20), (400, 20), (1000, 21))
            for seed in range(3)
            for task in (RTE, COLA)
        )
    return path


@pytest.fixture
def stored(board, tmp_path, monkeypatch):
    """Copy the database to the working directory of the test."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(board, tmp_path)


def curves(bench, *words):
    ended = bench("curve", *words, "--db", "board.sqlite", "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_curve_json_has_the_points_and_the_trend_of_each_curve(bench, stored):
    mean, cola, rte = curves(bench, "small")
    assert [each["task"] for each in (mean, cola, rte)] == [None, COLA, RTE]
    assert (rte["run"], rte["suite"], rte["noise"]) == ("small", "glue", "examples and seeds")
    assert [point["step"] for point in rte["points"]] == [100, 200, 300, 400, 1000]
    first = rte["points"][0]
    assert (first["model"], first["tokens"], len(first["seeds"])) == ("small/step-100", 100_000, 3)
    assert first["interval"]["low"] < first["median"] < first["interval"]["high"]
    parts = [(part["trend"], part["from_step"], part["to_step"]) for part in rte["stretches"]]
    assert parts == [("rises", 100, 300), ("is flat", 300, 1000)]
    assert rte["stretches"][0]["p_value"] < 0.05 < rte["stretches"][1]["p_value"]
    assert [100, 300, 1] in rte["told_apart"]
    assert [part["trend"] for part in cola["stretches"]] == ["is flat"]
    assert mean["score"] == "mean of CoLA, RTE"


def test_curve_prints_the_score_of_each_checkpoint_and_the_trend(bench, stored):
    ended = bench("curve", "small", "--task", "glue/rte", "--db", "board.sqlite")
    assert ended.code == 0, ended.err
    assert "GLUE on mini data: small, paper, fp32" in ended.out
    assert re.search(r"1,000 +1,000,000 +\d+\.\d ±\d\.\d +3", ended.out)
    assert re.search(
        r"RTE rises from step 100 to step 300 .* flat from there",
        ended.out,
    )
    assert "Student's t" in ended.out
    assert "CoLA" not in ended.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["smal"], "no pretraining run with stored checkpoints is called 'smal'. Did you mean"),
        (["small", "--data", "hub"], "no two checkpoints of small have results with the same data"),
        (["small", "--task", "mrpc"], "no two checkpoints of small have results on mrpc with the"),
        (["none/step-*"], "no folder matches 'none/step-*': the folder none does not exist."),
    ],
)
def test_curve_with_fewer_than_two_comparable_checkpoints_gives_a_one_sentence_error(
    bench, stored, words, sentence
):
    ended = bench("curve", *words, "--db", "board.sqlite")
    assert ended.code in {2, 4}
    assert ended.err.startswith(f"bench: {sentence}")
    assert ended.err.count("\n") == 1


def test_curve_table_has_an_empty_cell_for_a_checkpoint_without_a_score(bench, stored):
    with open_store("board.sqlite") as store:
        for seed in range(2):
            store.add_result(run_of(2000, RTE, seed, 20))
    ended = bench("curve", "small", "--db", "board.sqlite")
    assert ended.code == 0, ended.err
    # Two seeds give no interval. There is no mean over tasks, because a checkpoint lacks CoLA.
    assert re.search(r"2,000 +2,000,000 +\d\d\.\d +2", ended.out)
    assert "mean" not in ended.out


def test_checkpoints_of_different_families_on_one_curve_are_an_error(bench, stored):
    stage = Stage(run="small", step=2000, family="roberta")
    other = run_of(2000, RTE, 0, 9)
    with open_store("board.sqlite") as store:
        store.add_result(replace(other, job=replace(other.job, stage=stage)))
        make_report(store, Path("page.html"))
    ended = bench("curve", "small", "--db", "board.sqlite")
    assert ended.code == 2
    assert "small has checkpoints of two model families, " in ended.err
    assert ended.err.count("\n") == 1
    assert "GLUE has no plot of checkpoints of one pretraining run" in Path("page.html").read_text()


def test_report_has_a_pretraining_curve_for_each_task_and_the_mean(stored):
    with open_store("board.sqlite") as store:
        make_report(store, Path("page.html"))
    page = Path("page.html").read_text(encoding="utf-8")
    section = page.split('<section class="stages"')[1].split("</section>")[0]
    for title in ("small, mean of CoLA, RTE", "small, CoLA", "small, RTE"):
        assert title in section
    assert "is flat from there to step 1,000" in section
    assert section.count("small/step-1000") >= 3


def test_pretraining_plot_has_all_checkpoints_in_a_report_of_the_best_entries(stored, monkeypatch):
    monkeypatch.setattr("benchharness.stored.report.MOST_RUNS", 8)
    with open_store("board.sqlite") as store:
        make_report(store, Path("page.html"), Wanted(split=True))
    page = Path("page.html").read_text(encoding="utf-8")
    assert "show the best 1 of 5 entries; the table shows all" in page
    assert page.count('<tr id="row-') == 5
    section = page.split('<section class="stages"')[1].split("</section>")[0]
    assert "small/step-100," in section
    assert "rises from step 100 to step 300" in section


def test_a_report_without_pretraining_runs_has_no_plot_of_them(tmp_path):
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(made("small", RTE, 0, {1}))
        make_report(store, tmp_path / "page.html")
    assert 'class="stages"' not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_pretraining_step_of_a_checkpoint_is_stored_archived_and_merged(tmp_path):
    result = run_of(100, RTE, 0, 5)
    plain = replace(result, job=replace(result.job, stage=None, seed=1))
    with open_store(tmp_path / "a.sqlite") as store:
        store.add_result(result)
        store.add_result(plain)
        assert store.result(result.job.key) == result
        assert store.result(plain.job.key) == plain
        with (tmp_path / "runs.zip").open("wb") as file:
            write_archive(file, store.stored_runs())
        stages = {row.seed: row.stage for row in store.runs()}
    assert stages == {0: result.job.stage, 1: None}
    with open_store(tmp_path / "b.sqlite") as store:
        store.merge(read_archive(tmp_path / "runs.zip"))
        assert {row.seed: row.stage for row in store.runs()} == stages
        assert list(store.faults()) == []


def test_pretraining_step_of_a_checkpoint_does_not_change_the_job_key():
    job = run_of(100, RTE, 0, 5).job
    assert replace(job, stage=None).key == job.key
    assert type(job).from_json(json.loads(json.dumps(job.to_json()))) == job


@pytest.mark.slow
@pytest.mark.soak
def test_run_on_a_checkpoint_pattern_resumes_and_gives_a_curve(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for step in (1, 2):
        save_checkpoint(tmp_path / "small" / f"step-{step}", initializer_range=0.1 * step)
    words = ("run", "--data", "mini", "--recipe", "checkpoints", "--limit", "16", "--jobs", "1")
    words += ("--task", "glue/rte", "--no-baselines", "--db", "board.sqlite", "--out", "page.html")
    # The first run names the folder of a single checkpoint; its stored result is used for the curve
    # too.
    assert bench(*words, "--model", "small/step-2", "--seed", "1").code == 0
    ended = bench(*words, "--model", "small/step-*", "--seed", "1", "--seed", "2")
    assert ended.code == 0, ended.err
    assert "4 of 4 jobs are finished, 1 of them" in ended.out
    again = bench(*words, "--model", "small/step-*", "--seed", "1", "--seed", "2")
    assert "4 of 4 jobs are finished, 4 of them" in again.out
    (one,) = curves(bench, "small")
    assert [len(point["seeds"]) for point in one["points"]] == [2, 1]
    (two,) = curves(bench, "small/step-*")
    assert [point["step"] for point in two["points"]] == [1, 2]
    assert 'class="stages"' in Path("page.html").read_text(encoding="utf-8")


def layer_run(features, task, seed, wrong):
    """Return a run of a head on one layer of a frozen encoder."""
    settings = {"features": Setting(value=features, source="--set")}
    return made("small", task, seed, set(range(wrong)), settings=settings, overridden=True)


def test_curve_table_of_frozen_layers_has_one_row_per_layer(bench, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("board.sqlite") as store:
        for features, wrong in (("layer-2", 20), ("embeddings", 60), ("layer-1", 40), ("mix", 9)):
            for seed in range(3):
                store.add_result(layer_run(features, RTE, seed, wrong + seed))
        store.add_result(layer_run("layer-1", COLA, 0, 30))
        store.add_result(layer_run("layer-2", COLA, 0, 20))
    shown = bench("curve", "small", "--db", "board.sqlite")
    assert shown.code == 0, shown.err
    assert "GLUE on mini data: small, fp32" in shown.out
    rows = [line.split() for line in shown.out.splitlines() if line.strip()[:1].isdigit()]
    assert [row[0] for row in rows] == ["0", "1", "2"]
    assert [len(row) for row in rows] == [4, 5, 5], "CoLA has no embeddings, one seed no interval"
    cola, rte = curves(bench, "small")
    assert (rte["model"], rte["task"], cola["task"]) == ("small", RTE, COLA)
    assert [point["layer"] for point in rte["points"]] == [0, 1, 2]
    first = rte["points"][0]
    assert first["interval"]["low"] < first["median"] < first["interval"]["high"]
    assert cola["points"][0]["interval"] is None
    (only,) = curves(bench, "small", "--task", RTE)
    assert only == rte
    ended = bench("curve", "small", "--task", "mrpc", "--db", "board.sqlite")
    assert ended.err.startswith("bench: no two layers of small")
    page = Path("page.html")
    with open_store("board.sqlite") as store:
        make_report(store, page)
    assert 'class="layers"' in page.read_text(encoding="utf-8")
