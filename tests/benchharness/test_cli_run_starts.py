"""Tests of `bench run` with jobs that start from other jobs: order, failures and encoders."""

import json
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.kept_folders import Holds, is_whole, new_checkpoint
from benchharness.leaderboard.job import START_FROM, Setting, Start
from benchharness.leaderboard.store.store import open_store
from tests.helpers.fake_worker import make_job, make_result

RUN = ("run", "--model", "tiny", "--suite", "glue", "--data", "mini", "--db", "board.sqlite")
ONE = (*RUN, "--jobs", "1")
MNLI = "glue/mnli"
KEPT = Path("models")


@pytest.fixture(autouse=True)
def no_recipes(monkeypatch):
    """Disable the search for a transformers class, because these jobs have no recipe."""
    monkeypatch.setattr("benchharness.driver.schedule._without_class", lambda *_: iter(()))


def starting_from(start, how="ok", task="glue/rte", seed=1):
    job = make_job(how, task, seed)
    named = {START_FROM: Setting(value=start.task, source="a paper")}
    known = Start(kind="task", name=start.task)
    return replace(job, settings={**job.settings, **named}, start_from=start.key, start=known)


def stored():
    with open_store("board.sqlite", create=False) as store:
        return {row.task: row.status for row in store.runs()}


def attempts(*jobs):
    with open_store("board.sqlite", create=False) as store:
        return [len(store.attempts(job.key)) for job in jobs]


def ended_jobs(ended):
    """Return the tasks of the jobs in the order in which they ended."""
    lines = [line for line in ended.err.splitlines() if line.startswith("[")]
    return [line.partition(" seed ")[0].partition(" tiny ")[2] for line in lines]


def test_job_waits_for_the_job_whose_encoder_it_starts_from_while_other_jobs_run(bench, fake_jobs):
    start = make_job("slow:1", MNLI)
    fake_jobs([starting_from(start), starting_from(start, task="glue/mrpc"), start,
               make_job("ok", "glue/cola")])  # fmt: skip
    ended = bench(*RUN, "--jobs", "2")
    assert ended.code == 0, ended.err
    assert ended_jobs(ended)[:2] == ["CoLA", "MNLI"]
    assert set(stored().values()) == {"finished"}
    assert "MNLI is trained first, as the starting point for RTE, MRPC" in ended.out


def test_jobs_that_start_from_each_other_in_a_chain_run_in_order(bench, fake_jobs):
    first = make_job("ok", MNLI)
    second = starting_from(first, task="swag/regular")
    fake_jobs([starting_from(second, task="superglue/copa"), second, first])
    assert ended_jobs(bench(*ONE)) == ["MNLI", "SWAG", "COPA"]
    assert not any(KEPT.iterdir())


def test_encoder_is_kept_until_all_jobs_that_start_from_it_are_finished(bench, fake_jobs):
    start = make_job("ok", MNLI)
    rte, mrpc = starting_from(start), starting_from(start, "fail-once:tried", "glue/mrpc")
    fake_jobs([start, rte, mrpc])
    assert bench(*ONE).code == 1
    assert is_whole(KEPT / start.key, start.key), "MRPC has still to start from it"
    ended = bench(*ONE)
    assert ended.code == 0
    assert "encoder of MNLI exists already and is the starting point for MRPC." in ended.out
    assert ended_jobs(ended) == ["MRPC"]
    assert not any(KEPT.iterdir())
    assert attempts(start, rte, mrpc) == [1, 1, 2]


def test_encoder_in_use_by_another_process_is_not_deleted(bench, fake_jobs, tmp_path):
    start = make_job("ok", MNLI)
    fake_jobs([start, starting_from(start)])
    theirs = Holds(tmp_path / "locks")
    theirs.share(f"{start.key}.encoder")
    assert bench(*ONE).code == 0
    assert is_whole(KEPT / start.key, start.key)
    theirs.close()
    assert bench(*ONE).code == 0
    assert not any(KEPT.iterdir())
    assert not (tmp_path / "locks").exists()


def test_encoder_is_deleted_after_another_process_ran_the_last_job_from_it(
    bench, fake_jobs, tmp_path
):
    start = make_job("ok", MNLI)
    rte = starting_from(start)
    fake_jobs([start, rte])
    theirs = Holds(tmp_path / "locks")
    assert theirs.take(rte.key)

    def finish_theirs():
        while not (KEPT / start.key).exists():
            time.sleep(0.02)
        with open_store("board.sqlite") as store:
            store.add_result(make_result(rte))
        theirs.close()

    thread = threading.Thread(target=finish_theirs)
    thread.start()
    ended = bench(*ONE)
    thread.join()
    assert (ended.code, ended_jobs(ended)) == (0, ["MNLI"])
    assert not any(KEPT.iterdir())


def test_encoder_is_locked_before_the_first_job_starts(bench, fake_jobs, tmp_path, monkeypatch):
    """Try to delete the encoder from another process between planning and the first job."""
    start = make_job("ok", MNLI)
    fake_jobs([start, starting_from(start)])
    tried, theirs = [], Holds(tmp_path / "locks")

    def try_to_delete(*arguments, **options):
        tried.append(theirs.take(f"{start.key}.encoder"))
        return drive(*arguments, **options)

    from benchharness.driver.drive import drive

    monkeypatch.setattr("benchharness.driver.session.drive", try_to_delete)
    assert bench(*ONE).code == 0
    assert tried == [False]


def test_dry_run_creates_no_lock_files(bench, fake_jobs, tmp_path):
    start = make_job("ok", MNLI)
    fake_jobs([start, starting_from(start)])
    assert bench(*ONE, "--dry-run").code == 0
    assert list(tmp_path.iterdir()) == []


def test_option_keep_models_keeps_models_even_if_later_jobs_start_from_them(bench, fake_jobs):
    start = make_job("ok", MNLI)
    rte = starting_from(start)
    fake_jobs([start, rte])
    said = bench(*ONE, "--keep-models").out
    assert "2 models will be kept in models (about 5.3" in said
    fake_jobs([start, rte, starting_from(start, task="glue/mrpc")])
    ended = bench(*ONE)
    assert ended_jobs(ended) == ["MRPC"]
    assert "kept in" not in ended.out
    assert {path.name for path in KEPT.iterdir()} == {start.key, rte.key}
    assert all(is_whole(KEPT / job.key, job.key) for job in (start, rte))


def test_option_keep_models_keeps_an_encoder_saved_for_unfinished_jobs(bench, fake_jobs):
    start = make_job("ok", MNLI)
    rte = starting_from(start, "fail-once:tried")
    fake_jobs([start, rte])
    assert bench(*ONE).code == 1
    fake_jobs([start])
    assert "nothing to run" in bench(*ONE, "--keep-models").out
    fake_jobs([start, rte])
    assert bench(*ONE).code == 0
    assert [path.name for path in KEPT.iterdir()] == [start.key]


@pytest.mark.parametrize("lose", ["damage", "take_away"])
def test_option_keep_models_trains_a_finished_run_again_if_its_model_is_missing(
    bench, fake_jobs, lose
):
    jobs = [make_job("ok", MNLI), make_job("ok", "glue/rte")]
    fake_jobs(jobs)
    assert bench(*ONE, "--keep-models").code == 0
    globals()[lose](KEPT / jobs[1].key)
    assert "nothing to run" in bench(*ONE).out, "nobody asks for it"
    (planned,) = [j for j in bench_json(bench, *ONE, "--keep-models", "--dry-run") if j["to_run"]]
    assert (planned["key"], planned["model_bytes"]) == (jobs[1].key, 2_680_000)
    ended = bench(*ONE, "--keep-models")
    assert "A stored run is trained again for this purpose; stored results do not" in ended.out
    assert ended_jobs(ended) == ["RTE"]
    assert attempts(*jobs) == [1, 1]
    assert is_whole(KEPT / jobs[1].key, jobs[1].key)


def bench_json(bench, *words):
    return json.loads(bench(*words, "--json").out)["jobs"]


def test_a_forced_run_replaces_a_damaged_kept_model(bench, fake_jobs):
    job = make_job("ok", MNLI)
    fake_jobs([job])
    bench(*ONE, "--keep-models")
    damage(KEPT / job.key)
    assert bench(*ONE, "--force").code == 0
    assert is_whole(KEPT / job.key, job.key)


def test_too_little_disk_space_for_kept_models_is_an_error_before_the_run(
    bench, fake_jobs, monkeypatch
):
    fake_jobs([make_job("ok", MNLI), make_job("ok")])
    free = shutil.disk_usage(".")._replace(free=4_000_000)
    monkeypatch.setattr("benchharness.kept_folders.shutil.disk_usage", lambda _: free)
    ended = bench(*ONE, "--keep-models")
    assert ended.code == 1
    assert "has 4 MB free, and 5.36 MB are needed for 2 models to be kept" in ended.err
    assert not Path("board.sqlite").exists()
    assert not Path("locks").exists()
    assert "2 models will be kept" in bench(*ONE, "--keep-models", "--dry-run").out


def test_a_kept_model_is_shown_and_deleted_with_its_run(bench, fake_jobs, tmp_path):
    jobs = [make_job("ok", MNLI), make_job("ok")]
    fake_jobs(jobs)
    bench(*ONE, "--keep-models")
    db = ("--db", "board.sqlite")
    shown = json.loads(bench("show", jobs[0].key, *db, "--json").out)
    assert shown["kept_model"] == f"models/{jobs[0].key}"
    theirs = Holds(tmp_path / "locks")
    theirs.share(f"{jobs[1].key}.encoder")
    ended = bench("db", "delete", "--model", "tiny", "--yes", *db)
    assert "2 kept models of these runs, permanently" in ended.err
    assert f"the model of run {jobs[1].key[:12]} is in use and was not deleted." in ended.err
    theirs.close()
    assert [path.name for path in KEPT.iterdir()] == [jobs[1].key]
    assert is_whole(KEPT / jobs[1].key, jobs[1].key)


def test_doctor_lists_kept_models_that_are_damaged_or_have_no_run(bench, fake_jobs):
    jobs = [make_job("ok", MNLI), make_job("ok")]
    fake_jobs(jobs)
    bench(*ONE, "--keep-models")
    damage(KEPT / jobs[0].key)
    with open_store("board.sqlite") as store:
        store.delete([jobs[1].key])
    (KEPT / "in-memory-0123456789ab").mkdir()
    said = json.loads(bench("doctor", "--db", "board.sqlite", "--json").out)
    found = [each["found"] for each in said if each["name"] == "models"]
    assert found[0].startswith("2 models in models: ")
    assert found[1].endswith(f"trains them again): {jobs[0].key[:12]}")
    assert found[2].endswith(f"unless a run is in progress): {jobs[1].key[:12]}")


def test_baselines_keep_no_models(bench, fake_jobs):
    fake_jobs([replace(make_job("ok", MNLI), kind="baseline")])
    ended = bench(*ONE, "--keep-models")
    assert ended.code == 0
    assert "kept" not in ended.out
    assert not KEPT.exists()


def test_failed_start_job_fails_only_the_jobs_that_start_from_it(bench, fake_jobs):
    start = make_job("fail-once:tried", MNLI)
    second = starting_from(start, task="swag/regular")
    jobs = [start, second, starting_from(second, task="superglue/copa"), make_job("ok")]
    fake_jobs(jobs)
    ended = bench(*ONE)
    assert ended.code == 1
    assert stored() == {
        MNLI: "failed",
        "swag/regular": "failed",
        "superglue/copa": "failed",
        "glue/cola": "finished",
    }
    reason = f"the job starts from glue/mnli (run {start.key[:12]}), which failed"
    assert f"bench: tiny SWAG seed 1: {reason}" in ended.err
    again = bench(*ONE)
    assert again.code == 0
    assert ended_jobs(again) == ["MNLI", "SWAG", "COPA"]
    assert set(stored().values()) == {"finished"}


def test_unloadable_model_of_a_start_job_skips_the_jobs_that_start_from_it(bench, fake_jobs):
    start = make_job("fail:4", MNLI)
    fake_jobs([start, starting_from(start)])
    assert bench(*ONE).code == 4
    assert stored() == {MNLI: "failed"}


def damage(folder):
    (folder / "model.safetensors").write_text("other")


def take_away(folder):
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


@pytest.mark.parametrize("lose", [damage, take_away])
def test_missing_encoder_is_trained_again_without_storing_a_second_result(bench, fake_jobs, lose):
    start = make_job("ok", MNLI)
    rte = starting_from(start, "fail-once:tried")
    fake_jobs([start, rte])
    bench(*ONE)
    lose(KEPT / start.key)
    plan = bench(*ONE, "--dry-run").out
    assert "MNLI is trained again" in plan
    ended = bench(*ONE)
    assert ended.code == 0, ended.err
    assert ended_jobs(ended) == ["MNLI", "RTE"]
    assert attempts(start, rte) == [1, 2]


def test_start_job_is_not_trained_again_if_no_unfinished_job_needs_it(bench, fake_jobs):
    start = make_job("ok", MNLI)
    fake_jobs([start, starting_from(start)])
    bench(*ONE)
    ended = bench(*ONE)
    assert "2 stored already: there is nothing to run." in ended.out
    assert ended.err == ""


def test_encoder_left_over_from_a_killed_run_is_deleted(bench, fake_jobs):
    start = make_job("ok", MNLI)
    fake_jobs([start, starting_from(start)])
    bench(*ONE)
    with new_checkpoint(KEPT / start.key, start) as draft:
        (draft / "model.safetensors").touch()
    assert bench(*ONE).code == 0
    assert not any(KEPT.iterdir())


def test_option_force_reruns_the_start_job_before_the_jobs_that_start_from_it(bench, fake_jobs):
    start = make_job("ok", MNLI)
    rte, mrpc = starting_from(start), starting_from(start, task="glue/mrpc")
    fake_jobs([start, rte, mrpc])
    bench(*ONE)
    ended = bench(*ONE, "--force")
    assert (ended.code, ended_jobs(ended)[0]) == (0, "MNLI")
    assert attempts(start, rte, mrpc) == [2, 2, 2]


def test_jobs_finished_by_another_process_meanwhile_are_not_run(bench, fake_jobs, monkeypatch):
    start = make_job("die", MNLI)
    rte = starting_from(start, "die")
    fake_jobs([start, rte])

    def finish_theirs(*arguments, **options):
        with open_store("board.sqlite") as store:
            store.add_result(make_result(start))
            store.add_result(make_result(rte))
        return schedule(*arguments, **options)

    from benchharness.driver.schedule import schedule

    monkeypatch.setattr("benchharness.driver.schedule.schedule", finish_theirs)
    ended = bench(*ONE)
    assert ended.code == 0, ended.err
    assert attempts(start, rte) == [1, 1]


def test_start_job_runs_before_longer_jobs_to_shorten_the_whole_run(bench, fake_jobs):
    start = make_job("ok", MNLI)
    rte, cola = starting_from(start), make_job("ok", "glue/cola")
    with open_store("board.sqlite") as store:
        for job, seconds in ((start, 30), (rte, 60), (cola, 80)):
            result = make_result(replace(job, seed=9, start_from=None))
            object.__setattr__(result.cost, "seconds", seconds)
            store.add_result(result)
    fake_jobs([cola, rte, start])
    plan = json.loads(bench(*ONE, "--dry-run", "--json").out)["jobs"]
    assert {job["task"]: job["start_from"] for job in plan}["glue/rte"] == start.key
    text = bench(*RUN, "--jobs", "2", "--dry-run").out
    assert "about 90 s." in text.splitlines()[0] or "about 2 min." in text.splitlines()[0]
    assert [line.partition(" seed")[0].split("tiny ")[1] for line in text.splitlines()[-3:]] == [
        "MNLI",
        "CoLA",
        "RTE",
    ]
    assert f"seed 1 from MNLI (run {start.key[:12]}), ok" in text
