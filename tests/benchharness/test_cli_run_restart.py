"""Tests of the snapshots of `bench run`: their folder, and the deletion of obsolete ones."""

from pathlib import Path

import pytest

from benchharness.driver.start_checkpoints import StartCheckpoints
from benchharness.kept_folders import Holds
from benchharness.leaderboard.store.store import open_store
from tests.helpers.fake_worker import make_job, make_result

RUN = ("run", "--model", "tiny", "--suite", "glue", "--data", "mini")


def keep_something(folder: Path, *jobs) -> None:
    for job in jobs:
        (folder / "results" / "snapshots" / job.key / "step-0000000004").mkdir(parents=True)


def kept(folder: Path) -> set[str]:
    return {path.name for path in (folder / "results" / "snapshots").glob("*")}


def options_of(folder: Path, job, database: str = "results/leaderboard.sqlite") -> list[str]:
    with open_store(folder / database, create=False) as store:
        options: list[str] = store.result(job.key).provenance["options"]
        return options


@pytest.mark.parametrize(
    ("database", "minutes", "every"),
    [("results/leaderboard.sqlite", "0.5", "30.0"), ("other/board.sqlite", "", "300.0")],
)
def test_snapshots_are_stored_next_to_the_database(bench, fake_jobs, database, minutes, every):
    job, tmp_path = make_job(), Path.cwd()
    fake_jobs([job])
    words = ("--checkpoint-every", minutes) if minutes else ()
    assert bench(*RUN, "--db", database, *words).code == 0
    folder = tmp_path / database
    expected = ["--snapshots", str(folder.parent / "snapshots" / job.key)]
    assert options_of(tmp_path, job, database) == [*expected, "--checkpoint-every", every]


def test_option_checkpoint_every_0_disables_snapshots(bench, fake_jobs, tmp_path):
    job = make_job()
    fake_jobs([job])
    assert bench(*RUN, "--checkpoint-every", "0").code == 0
    assert options_of(tmp_path, job) == []


def test_finished_and_diverged_jobs_leave_no_snapshots(bench, fake_jobs, tmp_path):
    jobs = [make_job(how, seed=n) for n, how in enumerate(("ok", "die", "diverge"))]
    fake_jobs(jobs)
    keep_something(tmp_path, *jobs)
    assert bench(*RUN).code == 1
    assert kept(tmp_path) == {jobs[1].key}, "what was killed resumes from its state"


def test_snapshots_left_by_a_killed_driver_are_deleted(bench, fake_jobs, tmp_path):
    before, job = make_job(task="glue/rte"), make_job()
    (tmp_path / "results").mkdir()
    with open_store(tmp_path / "results" / "leaderboard.sqlite") as store:
        store.add_result(make_result(before))
    keep_something(tmp_path, before)
    fake_jobs([job])
    assert bench(*RUN).code == 0
    assert not (tmp_path / "results" / "snapshots").exists()


def test_unfinished_copy_of_a_model_is_deleted_when_its_job_ends(
    bench, fake_jobs, tmp_path, monkeypatch
):
    """A worker of a killed driver begins to write the model when the next driver runs the job."""
    job = make_job()
    fake_jobs([job])
    draft = tmp_path / "results" / "models" / f"{job.key}.123.draft"
    before = StartCheckpoints.discard_damaged

    def then_written(places: StartCheckpoints, key: str) -> None:
        before(places, key)
        draft.mkdir(parents=True)

    monkeypatch.setattr(StartCheckpoints, "discard_damaged", then_written)
    assert bench(*RUN).code == 0
    assert not draft.exists()
    assert draft.parent.exists()


def test_snapshots_of_a_job_run_by_another_process_are_kept(bench, fake_jobs, tmp_path):
    """Store the job here while another process runs it for another database or with --force."""
    theirs, job, holds = make_job(task="glue/rte"), make_job(), Holds(tmp_path / "results/locks")
    (tmp_path / "results").mkdir()
    with open_store(tmp_path / "results" / "leaderboard.sqlite") as store:
        store.add_result(make_result(theirs))
    keep_something(tmp_path, theirs)
    assert holds.take(theirs.key)
    fake_jobs([job])
    assert bench(*RUN).code == 0
    assert kept(tmp_path) == {theirs.key}
    holds.close()
    assert bench(*RUN).code == 0
    assert kept(tmp_path) == set()


def test_a_forced_run_keeps_the_snapshots_of_an_interrupted_forced_run(bench, fake_jobs, tmp_path):
    """Store the job first: its snapshot then belongs to the interrupted forced run."""
    job = make_job("fail")
    (tmp_path / "results").mkdir()
    with open_store(tmp_path / "results" / "leaderboard.sqlite") as store:
        store.add_result(make_result(job))
    keep_something(tmp_path, job)
    fake_jobs([job])
    assert bench(*RUN, "--force").code == 1
    assert kept(tmp_path) == {job.key}


def test_hanging_job_is_restarted_with_a_message(bench, fake_jobs, tmp_path, monkeypatch):
    monkeypatch.setattr("benchharness.engines.process.GRACE_SECONDS", 0.2)
    job = make_job(f"hang-once:{tmp_path / 'pids'}")
    fake_jobs([job])
    ended = bench(*RUN, "--timeout", "3")
    assert ended.code == 0
    sentence = "tiny CoLA seed 1 printed no progress for 3 seconds and is started again."
    assert sentence in ended.err
