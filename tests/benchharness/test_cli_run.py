import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.engines.fork_server import ForkServer
from benchharness.leaderboard.store.store import open_store
from benchharness.models import BASELINES
from benchharness.tasks.sources.files import mini_folder
from tests.helpers.fake_worker import make_job, make_result
from tests.helpers.plans import plan_jobs

RUN = (
    "run",
    "--model",
    "tiny",
    "--suite",
    "glue",
    "--data",
    "mini",
    "--db",
    "board.sqlite",
    "--jobs",
    "1",
)
COLA, RTE = "glue/cola", "glue/rte"


def stored():
    with open_store("board.sqlite", create=False) as store:
        return {(row.task, row.seed): row.status for row in store.runs()}


def attempts(job):
    with open_store("board.sqlite", create=False) as store:
        return len(store.attempts(job.key))


def test_bench_run_stores_results_prints_the_leaderboard_and_writes_a_report(bench, fake_jobs):
    fake_jobs([make_job(seed=1), make_job(seed=2)])
    ended = bench(*RUN)
    assert ended.code == 0
    assert stored() == {(COLA, 1): "finished", (COLA, 2): "finished"}
    assert ended.out.startswith("2 jobs (1 model x 1 task x 2 seeds, data: mini)")
    assert "GLUE on mini data" in ended.out
    assert "50.0" in ended.out
    assert "2 of 2 jobs are finished." in ended.out
    assert ended.out.splitlines()[-1].startswith("report: board.html")
    assert "<html" in Path("board.html").read_text()
    assert "[2/2] tiny CoLA seed" in ended.err


def test_bench_run_names_the_data_folder_as_bench_leaderboard_does(bench, fake_jobs, tmp_path):
    place = str(tmp_path / "rows")
    fake_jobs([replace(make_job(), data=place)])
    title = f"GLUE on files in {place}\n"
    assert title in bench(*RUN).out
    assert title in bench("leaderboard", "--db", "board.sqlite").out
    assert place not in Path("board.html").read_text()


def test_repeated_run_computes_only_missing_jobs(bench, fake_jobs):
    first, second = make_job(seed=1), make_job(seed=2)
    fake_jobs([first])
    bench(*RUN)
    fake_jobs([first, second])
    ended = bench(*RUN)
    assert "1 stored already, 1 to run" in ended.out
    assert "2 of 2 jobs are finished, 1 of them" in ended.out
    assert (attempts(first), attempts(second)) == (1, 1)
    again = bench(*RUN)
    assert "2 stored already: there is nothing to run." in again.out
    assert again.code == 0
    assert again.err == ""


def test_fork_server_is_prepared_only_if_there_are_jobs_to_run(bench, fake_jobs, monkeypatch):
    asked = []
    monkeypatch.setattr(ForkServer, "prepare", lambda *words: asked.append(words[-1]))
    fake_jobs([make_job(seed=seed) for seed in (1, 2)])
    command = (*RUN[:3], *RUN[5:], "--task", "cola", "--seeds")
    bench(*command, "1", "--dry-run")
    assert asked == []
    bench(*command, "1")
    assert len(asked) == 1
    assert "benchharness.worker.job" in asked[0]
    bench(*command, "2")
    assert len(asked) == 1
    bench(*command, "3")
    assert len(asked) == 2
    bench(*command, "1", "--force")
    assert len(asked) == 3


REPORT = Path("board.html")


def moment():
    """Return when the report was last written, and set its time to the past."""
    found = REPORT.stat().st_mtime_ns
    os.utime(REPORT, ns=(1, 1))
    return found


def test_run_warns_that_the_same_weights_are_stored_under_another_name(bench, fake_jobs):
    first, second = make_job(seed=1), make_job(seed=2)
    fake_jobs([first])
    assert "weights" not in bench(*RUN).err
    fake_jobs([replace(first, model="mine"), replace(second, model="mine")])
    said = "mine has the same weights as tiny; stored runs are shown as tiny."
    assert bench(*RUN).err.count(said) == 1


def test_an_unchanged_report_is_not_written_again(bench, fake_jobs):
    fake_jobs([make_job(seed=1)])
    bench(*RUN)
    assert moment() > 1
    ended = bench(*RUN)
    assert "report: board.html. " in ended.out
    assert moment() == 1, "left"
    with open_store("board.sqlite") as store:
        store.add_result(make_result(make_job(seed=7)))
    bench(*RUN)
    assert moment() > 1, "something was stored"
    with open_store("other.sqlite") as store:
        store.add_result(make_result(make_job(seed=1)))
    bench(*RUN[:-4], "--db", "other.sqlite", "--jobs", "1")
    assert moment() == 1, "another store has a page of its own"
    assert Path("other.html").exists()
    bench("report", "--db", "board.sqlite", "--suite", "glue")
    assert moment() > 1, "asked for"
    bench(*RUN)
    assert moment() > 1, "of one suite alone"
    REPORT.unlink()
    bench(*RUN)
    assert moment() > 1, "gone"


def test_run_keeps_the_report_of_another_database(bench, fake_jobs):
    fake_jobs([make_job(seed=1)])
    bench(*RUN)
    before = REPORT.read_bytes()
    ended = bench(*RUN[:-4], "--db", "board.db", "--jobs", "1")
    (own,) = Path().glob("board-*.html")
    assert f"report: {own}. " in ended.out
    assert "bench: board.html is the report of another database and is kept" in ended.err
    assert REPORT.read_bytes() == before


def test_option_force_runs_a_job_again_and_keeps_the_old_attempt(bench, fake_jobs):
    job = make_job()
    fake_jobs([job])
    bench(*RUN)
    assert "1 to run" in bench(*RUN, "--force").out
    assert attempts(job) == 2
    assert stored() == {(COLA, 1): "finished"}


def test_a_failed_job_is_stored_and_other_jobs_are_run(bench, fake_jobs):
    fake_jobs([make_job("die", RTE), make_job("ok"), make_job("fail", seed=2)])
    ended = bench(*RUN)
    assert ended.code == 1
    assert stored() == {(RTE, 1): "killed", (COLA, 1): "finished", (COLA, 2): "failed"}
    assert "1 of 3 jobs are finished, 2 failed." in ended.out
    runs = "`bench show runs --db board.sqlite`"
    assert f"{runs} shows the failures." in ended.out
    complaints = [line for line in ended.err.splitlines() if line.startswith("bench: ")]
    assert len(complaints) == 2
    assert complaints[0].startswith("bench: tiny RTE seed 1: ")


def test_repeated_run_retries_a_failed_job(bench, fake_jobs):
    job = make_job("die")
    fake_jobs([job])
    assert bench(*RUN).code == 1
    assert bench(*RUN).code == 1
    assert attempts(job) == 2


def test_jobs_with_the_same_error_are_reported_on_one_line(bench, fake_jobs):
    fake_jobs([make_job("die", seed=1), make_job("die", seed=2)])
    complaints = [line for line in bench(*RUN).err.splitlines() if line.startswith("bench: ")]
    assert len(complaints) == 1
    assert "tiny CoLA seed 1, tiny CoLA seed 2: " in complaints[0]


def test_after_an_unloadable_model_only_the_other_jobs_of_this_model_are_skipped(bench, fake_jobs):
    broken = [make_job("fail:4", seed=seed, model="broken") for seed in (1, 2, 3)]
    fake_jobs([*broken, make_job("ok")])
    ended = bench(*RUN)
    assert ended.code == 4
    with open_store("board.sqlite") as store:
        rows = [(row.model, row.seed, row.status) for row in store.runs()]
    assert sorted(rows) == [("broken", 1, "failed"), ("tiny", 1, "finished")]
    assert ended.err.count("broken is no checkpoint.") == 1
    assert ended.err.endswith("bench: broken is no checkpoint.\n")


def test_exit_code_is_1_for_an_unloadable_model_and_another_failure(bench, fake_jobs):
    fake_jobs([make_job("fail:4", model="broken"), make_job("die")])
    assert bench(*RUN).code == 1


def test_dry_run_prints_the_plan_and_writes_nothing(bench, fake_jobs, tmp_path):
    job = make_job()
    fake_jobs([job, make_job(seed=2)])
    ended = bench(*RUN, "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    first, *lines = ended.out.splitlines()
    assert first.startswith("2 jobs (1 model x 1 task x 2 seeds, data: mini)")
    assert lines[0].strip().startswith(f"{job.key[:12]}  tiny CoLA seed 1, ok, fp32: ")
    assert list(tmp_path.iterdir()) == []


def test_dry_run_as_json_has_the_jobs_to_run_and_their_estimates(bench, fake_jobs):
    fake_jobs([make_job(seed=1)])
    bench(*RUN)
    fake_jobs([make_job(seed=1), make_job(seed=2)])
    plan = json.loads(bench(*RUN, "--dry-run", "--json").out)
    assert [(job["seed"], job["to_run"]) for job in plan["jobs"]] == [(1, False), (2, True)]
    assert plan["jobs"][0]["about_seconds"] is None
    # The estimate is the time of the stored run, two seconds.
    assert plan["jobs"][1]["about_seconds"] == 2.0


def test_option_test_changes_the_job_key(bench):
    command = (*RUN, "--task", "cola", "--limit", "8", "--seeds", "1", "--no-baselines")
    command = (*command, "--dry-run", "--json")
    (without,) = json.loads(bench(*command).out)["jobs"]
    ended = bench(*command, "--test")
    (tested,) = json.loads(ended.out)["jobs"]
    assert ended.err == ""
    assert without["key"] != tested["key"]


def test_run_with_option_test_lists_the_tasks_that_have_no_test_split(bench, fake_jobs):
    fake_jobs([make_job("ok", COLA)])
    ended = bench(*RUN, "--task", "cola", "--dry-run", "--test")
    assert ended.err == "bench: these tasks have no test split in mini: CoLA.\n"


def test_jobs_with_the_longest_estimate_start_first(bench, fake_jobs):
    short, long = make_job("ok", COLA), make_job("ok", RTE)
    with open_store("board.sqlite") as store:
        for job, seconds in ((make_job("ok", COLA, seed=9), 1), (make_job("ok", RTE, seed=9), 99)):
            result = make_result(job)
            object.__setattr__(result.cost, "seconds", seconds)
            store.add_result(result)
    fake_jobs([short, long])
    ended = bench(*RUN)
    assert ended.err.splitlines()[0].startswith("[1/2] tiny RTE")
    assert "about 2 min." in ended.out.splitlines()[0]


def test_run_json_is_the_only_output_on_stdout(bench, fake_jobs):
    fake_jobs([make_job("ok"), make_job("die", RTE)])
    ended = bench(*RUN, "--json", "--out", "page.html")
    summary = json.loads(ended.out)
    (failed,) = summary.pop("failed")
    assert summary == {
        "exit_code": 1,
        "jobs": 2,
        "stored_before": 0,
        "finished": 1,
        "missing": 1,
        "report": "page.html",
        "advice": [],
    }
    assert (failed["task"], failed["seed"], failed["status"]) == (RTE, 1, "killed")
    assert ended.code == 1
    assert "2 to run" in ended.err


def test_a_job_finished_by_another_process_meanwhile_is_not_run(bench, fake_jobs, monkeypatch):
    mine, theirs = make_job("ok", seed=1), make_job("die", seed=2)
    fake_jobs([mine, theirs])

    def finish_theirs(*arguments, **options):
        with open_store("board.sqlite") as store:
            store.add_result(make_result(theirs))
        return schedule(*arguments, **options)

    from benchharness.driver.schedule import schedule

    monkeypatch.setattr("benchharness.driver.schedule.schedule", finish_theirs)
    ended = bench(*RUN)
    assert ended.code == 0
    assert (attempts(mine), attempts(theirs)) == (1, 1)
    assert "2 of 2 jobs are finished" in ended.out


def test_a_failure_is_not_stored_if_another_process_finished_the_job(bench, fake_jobs, monkeypatch):
    job = make_job("fail")
    fake_jobs([job])
    answers = iter([set(), {job.key}, {job.key}])
    monkeypatch.setattr(
        "benchharness.leaderboard.store.store.Store.finished_keys", lambda self, keys: next(answers)
    )
    bench(*RUN)
    with open_store("board.sqlite") as store:
        assert store.runs() == []


def test_a_report_that_cannot_be_written_does_not_lose_results(
    bench, fake_jobs, tmp_path, monkeypatch
):
    """Delete the output folder during the run. Before a run, an invalid path is an error."""
    fake_jobs([make_job()])
    (tmp_path / "file").touch()
    assert "No job was started" in bench(*RUN, "--out", "file/page.html").err
    monkeypatch.setattr("benchharness.cli.run.check_place", lambda path: None)
    ended = bench(*RUN, "--out", "file/page.html")
    assert ended.code == 2
    assert "page.html could not be written" in ended.err
    assert stored() == {(COLA, 1): "finished"}


def test_invalid_database_file_exits_with_5_before_any_job_runs(bench, fake_jobs):
    fake_jobs([make_job()])
    Path("board.sqlite").write_bytes(b"no database at all")
    ended = bench(*RUN)
    assert ended.code == 5
    assert ended.err.startswith("bench: the leaderboard")
    assert Path("board.sqlite").read_bytes() == b"no database at all"


def test_the_database_can_be_set_by_an_environment_variable(bench, fake_jobs, monkeypatch):
    monkeypatch.setenv("BENCH_DB", "elsewhere.sqlite")
    fake_jobs([make_job()])
    bench(*RUN[:-4])
    assert Path("elsewhere.sqlite").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--model", "tinny"), "bench: no model or checkpoint folder is called 'tinny'. Did you"),
        (("--set", "epoks=3", "--set", "batch_size=0"), "no hyperparameter is called 'epoks'"),
        (("--set", "epoks=3", "--set", "batch_size=0"), "bench: batch_size is '0'"),
        (("--recipe", "papre"), "no recipe is called 'papre'. Did you mean 'paper'?"),
        (("--limit", "0"), "--limit"),
        (("--seeds", "0"), "--seeds"),
        (("--precision", "fp64"), "--precision"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_bench_run_with_invalid_options_exits_with_2(bench, words, sentence):
    ended = bench(*RUN, *words)
    assert ended.code == 2
    assert sentence in ended.err
    assert "Traceback" not in ended.err
    assert not Path("board.sqlite").exists()


def test_tasks_with_missing_files_are_skipped_with_skip_missing(bench, tmp_path):
    for name in ("CoLA", "RTE"):
        shutil.copytree(mini_folder() / "glue" / name, tmp_path / "data" / name.lower())
    words = ("run", "--model", "majority", "--no-baselines", "--data", "data")
    words = (*words, "--db", "board.sqlite")
    ended = bench(*words, "--suite", "glue")
    assert ended.code == 4
    assert len(ended.err.splitlines()) == 9
    assert all(line.startswith("bench: ") for line in ended.err.splitlines())
    ended = bench(*words, "--suite", "glue", "--skip-missing")
    assert ended.code == 0, ended.err
    assert stored() == {(COLA, 0): "finished", (RTE, 0): "finished"}
    assert "glue/qqp is left out: no QQP/train.tsv" in ended.err
    assert "files are missing: glue/sst2, glue/mrpc," in ended.out
    facts = json.loads(bench(*words, "--suite", "glue", "--skip-missing", "--json").out)
    assert facts["stored_before"] == 2
    assert len(facts["left_out"]) == 8
    ended = bench(*words, "--suite", "glue", "--skip-missing", "--json", "--dry-run")
    assert json.loads(ended.out)["left_out"] == facts["left_out"]


def test_ambiguous_task_name_is_resolved_to_the_task_in_the_data_folder(bench, tmp_path):
    shutil.copytree(mini_folder() / "glue" / "RTE", tmp_path / "sets" / "RTE")
    words = ("run", "--model", "majority", "--no-baselines", "--task", "rte", "--dry-run", "--json")
    for data in ("sets", "sets/RTE"):
        (job,) = json.loads(bench(*words, "--data", data).out)["jobs"]
        assert job["task"] == RTE
    ended = bench(*words, "--data", "mini")
    assert ended.code == 2
    assert "several suites have a task 'rte': use glue/rte or superglue/rte" in ended.err


def test_internal_error_in_bench_run_keeps_its_traceback(bench, monkeypatch):
    def plan_jobs(*args, **options):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("benchharness.driver.session.plan", plan_jobs)
    with pytest.raises(ZeroDivisionError, match="ours"):
        bench(*RUN)


def test_run_reports_the_number_of_excluded_training_rows(bench):
    ended = bench("run", "--model", "tiny", "--suite", "snli", "--data", "mini", "--dry-run")
    assert ended.code == 0
    assert "16 of snli/snli:train" in ended.err


@pytest.mark.parametrize(
    ("value", "is_said"),
    [
        ("stride=64,96", True),
        ("learning_rate=x2", False),
        ("learning_rate=x2 --shots 0", True),
    ],
)
def test_a_setting_that_no_job_uses_gives_a_warning(bench, value, is_said):
    ended = bench(*RUN, "--dry-run", "--set", *value.split())
    assert ended.code == 0
    name, _, _ = value.partition("=")
    note = f"bench: {name} (--set) has no effect on any of these jobs and is ignored.\n"
    assert (note in ended.err) is is_said


@pytest.mark.parametrize("teacher", [(), ("--teacher", "tiny")])
def test_a_student_recipe_without_a_teacher_gives_a_warning(bench, teacher):
    ended = bench(*RUN, "--dry-run", "--recipe", "tinybert-student", *teacher)
    assert ended.code == 0, ended.err
    said = "is for distillation, but there is no --teacher: teacher_weight" in ended.err
    assert said is (not teacher)


def test_run_prints_no_note_if_no_training_rows_are_excluded(bench):
    ended = bench("run", "--model", "tiny", "--task", "glue/wnli", "--data", "mini", "--dry-run")
    assert "left out" not in ended.err


def planned(bench, *words):
    command = ("run", "--data", "mini", "--limit", "8", "--seeds", "2", "--dry-run", "--json")
    return [(j["model"], j["seed"]) for j in json.loads(bench(*command, *words).out)["jobs"]]


def test_baselines_are_run_once_per_task_unless_disabled(bench):
    both = [("majority", 0), ("bag-of-words", 0)]
    tiny = ("--model", "tiny", "--task", "cola")
    assert planned(bench, *tiny) == [("tiny", 1), ("tiny", 2), *both]
    assert planned(bench, *tiny, "--no-baselines") == [("tiny", 1), ("tiny", 2)]
    named = ("--model", "majority", "--task", "cola")
    assert planned(bench, *named, "--no-baselines") == both[:1]
    assert planned(bench, *tiny, *named[:2], "--no-baselines")[2:] == both[:1]


def test_planning_of_baselines_does_not_resolve_an_encoder(monkeypatch):
    """Planning neither resolves a recipe nor computes a digest of weights."""

    def refuse(*arguments):
        raise AssertionError(arguments)

    monkeypatch.setattr("benchharness.driver.plan.with_start", refuse)
    found = plan_jobs(BASELINES, "glue/rte", "mini", [1, 2, 3])
    assert [(job.model, job.seed) for job in found.jobs] == [("majority", 0), ("bag-of-words", 0)]
    assert sum(found.used_rows.values()) > 0


def test_plan_counts_baseline_jobs_separately(bench):
    command = ("run", "--model", "tiny", "--task", "cola", "--data", "mini", "--dry-run")
    assert bench(*command, "--set", "epochs=2").out.startswith(
        "7 jobs (1 model x 1 task x 5 seeds and 2 "
    )
