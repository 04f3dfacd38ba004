import errno
import math
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from benchharness.engines import process
from benchharness.engines.local import LocalEngine
from benchharness.engines.process import Orders
from benchharness.engines.slots import Slot
from benchharness.errors import JobError
from benchharness.kept_folders import SCRATCH, scratch_folder
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Progress
from tests.helpers.bench_process import all_gone, is_alive
from tests.helpers.fake_worker import COMMAND, make_failure, make_job, make_result


def slots(count=1):
    return [Slot(device="cpu", environment={"SLOT": str(i)}) for i in range(count)]


def engine(count=1, **options):
    return LocalEngine(slots(count), Orders(**options), COMMAND)


def run(jobs, count=1, **options):
    seen = []
    outcomes = list(engine(count, **options).run(jobs, lambda job, p: seen.append((job.key, p))))
    return outcomes, seen


def test_a_job_returns_its_result_and_reports_progress():
    job = make_job("ok")
    (outcome,), seen = run([job])
    assert outcome == make_result(job, outcome.provenance)
    training = Progress(phase="training", step=1, steps=3, loss=0.5)
    assert seen == [(job.key, Progress(phase="loading")), (job.key, training)]


def test_worker_has_the_environment_of_its_slot_and_a_process_group_of_its_own():
    (outcome,), _ = run([make_job("ok")])
    assert outcome.provenance["environment"]["SLOT"] == "0"
    assert outcome.provenance["environment"]["PATH"] == os.environ["PATH"]
    assert outcome.provenance["group"] != os.getpgid(0)


def test_failure_written_by_a_worker_is_returned_unchanged():
    job = make_job("fail:4")
    (outcome,), _ = run([job])
    assert outcome == make_failure(job, "tiny is no checkpoint.", exit_code=4)


def test_the_failure_of_a_killed_worker_names_the_signal():
    (outcome,), _ = run([make_job("die")])
    assert (outcome.kind, outcome.exit_code) == ("killed", 1)
    assert "killed by SIGKILL" in outcome.error


def test_the_failure_of_a_worker_without_a_result_has_its_exit_code_and_log():
    (outcome,), _ = run([make_job("vanish")])
    assert (outcome.kind, outcome.exit_code) == ("failed", 1)
    assert "ended with exit code 1" in outcome.error
    assert outcome.details == "the last words\n"


@pytest.mark.parametrize("left", ["", "{", "7", '{"evaluations": 7}', '{"job": {}}', "[" * 100_000])
def test_errors_distinguish_an_unreadable_result_from_a_missing_one(tmp_path, left):
    file = tmp_path / "result.json"
    file.write_text(left)
    assert process._read_outcome(file).startswith("left a result that cannot be read (")
    file.unlink()
    assert process._read_outcome(file) == "left no result"
    gone = f"left no result, because {tmp_path / 'gone'} was deleted"
    assert process._read_outcome(tmp_path / "gone" / "result.json") == gone


@pytest.mark.parametrize("left", ["no file", "half", "no folder"])
def test_job_that_exits_with_0_without_a_result_is_retried_once(tmp_path, left):
    (outcome,), seen = run([make_job(f"lose:{left}:{tmp_path / 'seen'}")])
    assert isinstance(outcome, Result)
    assert outcome.provenance["lost"] == 1
    assert [p.note for _, p in seen if p.note] == ["left no result and is started again"]


def test_a_job_that_never_writes_a_result_fails_with_the_reason():
    (outcome,), seen = run([make_job("lose:half")])
    assert (outcome.kind, outcome.exit_code) == ("failed", 1)
    assert "exit code 0 and left a result that cannot be read (JSONDecodeError" in outcome.error
    assert outcome.error.endswith("It left no result before and was started again.")
    assert len([p for _, p in seen if p.note]) == 1


def test_worker_output_that_is_not_progress_is_ignored():
    for line in (b"", b"7", b"{}", b"\xff", b"[" * 100_000):
        assert process._parse_progress(line) is None


def test_log_of_a_failure_is_cut_to_its_last_bytes_and_keeps_library_output():
    (outcome,), seen = run([make_job("babble")])
    # The banner is printed to stdout, so its position among the lines of stderr varies.
    errors = outcome.details.replace("a library's banner\n", "")
    assert errors.endswith("noise 19999 \x1b[31mÿ\nthe last words\n")
    # A character that is cut in two is replaced by U+FFFD, which has more bytes.
    cut = len("\ufffd".encode()) - 1
    assert len(outcome.details.encode()) <= process.LOG_BYTES + cut
    assert len(seen) == 2


def test_engine_runs_the_other_jobs_after_a_failure():
    jobs = [make_job(how, seed=seed) for seed, how in enumerate(("die", "ok", "fail", "ok"))]
    outcomes, _ = run(jobs)
    assert [type(o) for o in outcomes] == [Failure, Result, Failure, Result]
    assert [o.job for o in outcomes] == jobs


def test_local_engine_runs_one_job_per_slot_concurrently(tmp_path):
    go, begun = tmp_path / "go", set[int]()
    jobs = [make_job(f"wait-for:{go}", seed=seed) for seed in range(4)]

    def report(job, progress):
        """Let all jobs end as soon as each of them has begun."""
        begun.add(job.seed)
        if len(begun) == len(jobs):
            go.touch()

    outcomes = list(engine(4).run(jobs, report))
    assert {o.provenance["environment"]["SLOT"] for o in outcomes} == {"0", "1", "2", "3"}


def test_a_job_is_taken_from_the_queue_only_when_a_slot_is_free():
    taken, finished = [], []

    def queue():
        for seed in range(4):
            taken.append(seed)
            yield make_job("ok", seed=seed)

    for outcome in engine(2).run(queue(), lambda job, progress: None):
        finished.append(outcome.job.seed)
        assert len(taken) - len(finished) <= 2
    assert sorted(finished) == taken == [0, 1, 2, 3]


def test_engine_without_jobs_returns_no_outcomes():
    assert run([]) == ([], [])


def test_a_worker_without_progress_is_killed_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.2)
    pids = tmp_path / "pids"
    outcomes, _ = run([make_job(f"hang:{pids}"), make_job("ok")], timeout=1.0)
    assert (outcomes[0].kind, outcomes[0].exit_code) == ("timeout", 1)
    assert "no progress for 1 seconds" in outcomes[0].error
    assert isinstance(outcomes[1], Result)
    assert all_gone(pids.read_text().split())


def start_hanging(tmp_path):
    """Return an iterator of outcomes after its first, and the pids of a process that hangs."""
    pids = tmp_path / "pids"
    hanging = make_job(f"hang:{pids}")
    outcomes = engine(2).run([hanging, make_job("slow:0.5")], lambda job, progress: None)
    assert isinstance(next(outcomes), Result)
    while not pids.exists() or not pids.read_text():
        time.sleep(0.05)
    return outcomes, pids.read_text().split()


def test_closing_the_engine_ends_every_process(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.2)
    outcomes, pids = start_hanging(tmp_path)
    assert all(is_alive(pid) for pid in pids)
    outcomes.close()
    assert all_gone(pids)


def test_ctrl_c_ends_every_process_and_a_second_one_kills_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE_SECONDS", math.inf)
    outcomes, pids = start_hanging(tmp_path)
    timers = [threading.Timer(s, os.kill, (os.getpid(), signal.SIGINT)) for s in (0.3, 0.8)]
    for timer in timers:
        timer.start()
    with pytest.raises(KeyboardInterrupt), closing(outcomes):
        next(outcomes)
    assert all_gone(pids)
    assert not any(timer.is_alive() for timer in timers)


def stop_while_it_saves(tmp_path):
    """Close the engine while its job can be asked to stop; return whether the job saved."""
    saved = tmp_path / "saved"
    jobs = [make_job(f"save:{saved}"), make_job("ok")]
    outcomes = engine(2).run(jobs, lambda job, progress: None)
    assert isinstance(next(outcomes), Result)
    while not saved.with_suffix(".ready").exists():
        time.sleep(0.02)
    outcomes.close()
    return saved.exists()


def test_interrupted_job_gets_extra_time_to_save_its_snapshot(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.3)
    assert stop_while_it_saves(tmp_path)


def test_interrupted_job_that_saves_too_long_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(process, "SAVING_SECONDS", 0.3)
    assert not stop_while_it_saves(tmp_path)


def test_closing_the_engine_does_not_wait_for_a_worker_suspended_in_saving(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(process, "SAVING_SECONDS", math.inf)
    saving, saved = tmp_path / "saving", []
    jobs = [make_job(f"save-and-stop:{saving}"), make_job(f"wait-for:{saving}")]
    outcomes = engine(2).run(jobs, lambda job, progress: saved.append(progress.phase))
    assert isinstance(next(outcomes), Result)
    assert "saving" in saved
    outcomes.close()


def test_an_exception_in_the_progress_callback_ends_every_process(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.2)
    pids = tmp_path / "pids"

    def report(job, progress):
        if progress.phase == "training":
            while not pids.exists() or not pids.read_text():
                time.sleep(0.05)
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        list(engine().run([make_job(f"hang:{pids}")], report))
    assert all_gone(pids.read_text().split())


def test_engine_leaves_no_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run([make_job("ok"), make_job("die")])
    assert list(tmp_path.iterdir()) == []


def test_temporary_files_of_a_killed_process_are_deleted_by_the_next_one(tmp_path, monkeypatch):
    """Keep folders that are in use and folders with similar names."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    program = "from benchharness.kept_folders import *\nimport os\nwith scratch_folder() as made:\n"
    program += "    (made / 'result.json').touch()\n    os.kill(os.getpid(), 9)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run((sys.executable, "-c", program), env=environment, check=False)
    (left,) = tmp_path.iterdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"{SCRATCH}link").symlink_to(tmp_path / "elsewhere")
    with scratch_folder() as used:
        assert not left.exists()
        run([make_job("ok")])
        assert used.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"elsewhere", f"{SCRATCH}link"}


def test_a_process_that_cannot_be_started_is_reported_in_one_sentence(monkeypatch):
    def start(*args, **options):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(process.subprocess, "Popen", start)
    with pytest.raises(JobError, match=r"Too many open files; processes that already run: 0"):
        run([make_job("ok")])


def test_local_engine_starts_workers_with_the_running_python():
    assert (sys.executable, "-P", "-m", "benchharness.worker") == process.WORKER


def test_result_file_of_a_worker_is_read_only_once(monkeypatch):
    """Reading twice would be slow: a result may have the predictions of a million rows."""
    read, readings = process._read_outcome, []
    monkeypatch.setattr(process, "_read_outcome", lambda file: readings.append(1) or read(file))
    run([make_job("ok")])
    assert len(readings) == 1
