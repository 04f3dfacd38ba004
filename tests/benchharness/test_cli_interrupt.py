"""Tests of `bench run` in a separate process with fake workers: interruptions, concurrent runs."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from benchharness.engines.process import LAST_SECONDS
from benchharness.leaderboard.store.store import open_store
from tests.helpers import ROOT

DRIVER = """
import signal
import sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored
from functools import partial
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.helpers.fake_worker import COMMAND, make_job
import benchharness.engines.local as choice
import benchharness.driver.plan as plan
import benchharness.driver.session as session
from benchharness.cli.app import main
import benchharness.engines.process as process
from benchharness.leaderboard.store.store import Store
add = Store.add_missing
Store.add_missing = lambda *words: Path("storing").touch() or add(*words)
choice.LocalEngine = partial(choice.LocalEngine, command=COMMAND)
process.LAST_SECONDS = {last}
planned = plan.Plan(jobs=tuple(make_job(*job) for job in {jobs!r}), rows={{}})
session.plan = lambda request: planned
sys.argv = ["bench", "run", "--model", "tiny", "--suite", "glue", "--data", "mini", "--jobs", "2"]
sys.argv += ["--no-baselines"]
main()
"""


def start(folder, *jobs, last=LAST_SECONDS):
    code = DRIVER.format(root=str(ROOT), jobs=jobs, last=last)
    environment = {k: v for k, v in os.environ.items() if k != "BENCH_DB"}
    return subprocess.Popen(
        (sys.executable, "-P", "-c", code),
        cwd=folder,
        env=environment | {"CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stored(folder):
    with open_store(folder / "results" / "leaderboard.sqlite", create=False) as store:
        return {row.task: row.status for row in store.runs()}


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak),
        (signal.SIGINT, 130),
        (signal.SIGHUP, 129),
    ],
)
def test_an_interrupted_run_keeps_finished_jobs(tmp_path, number, code):
    process = start(tmp_path, ("slow:120", "glue/rte"), ("ok", "glue/cola"))
    for line in process.stderr:
        if line.startswith("[1/2]"):
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "1 of 2 jobs are stored" in err
    assert stored(tmp_path) == {"glue/cola": "finished"}
    assert "report:" not in out


def test_two_concurrent_bench_runs_compute_each_job_once(tmp_path):
    counts = tmp_path / "counts"
    counts.mkdir()
    jobs = [(f"count:{counts}", f"glue/{name}") for name in ("cola", "rte", "mrpc")]
    both = [start(tmp_path, *jobs) for _ in range(2)]
    ends = [(*process.communicate(timeout=120), process.returncode) for process in both]
    assert [code for *_, code in ends] == [0, 0], ends
    assert all("3 of 3 jobs are finished" in out for out, *_ in ends)
    assert stored(tmp_path) == dict.fromkeys((task for _, task in jobs), "finished")
    assert [len(path.read_text().splitlines()) for path in counts.iterdir()] == [1] * 3
    assert not (tmp_path / "results" / "locks").exists()


def start_two(folder, *jobs):
    """Start two runs, the second of which waits for the first; return both and its message."""
    first = start(folder, *jobs)
    while not list((folder / "results" / "locks").glob("*")):
        assert first.poll() is None, first.communicate()
        time.sleep(0.02)
    second = start(folder, *jobs)
    line = next(line for line in second.stderr if "waiting for its result" in line)
    return first, second, line


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak)],
)
def test_a_waiting_run_can_be_interrupted_or_takes_over_from_a_killed_one(tmp_path, number, code):
    go = tmp_path / "go"
    job = (f"wait-for:{go}", "glue/cola")
    first, second, line = start_two(tmp_path, job)
    assert line.startswith(f"tiny CoLA seed 1 is already being run by process {first.pid} on ")
    assert line.endswith("; waiting for its result.\n")
    second.send_signal(number)
    second.communicate(timeout=60)
    assert second.returncode == code
    assert first.poll() is None, "the second did not wait for its end"
    second = start(tmp_path, job)
    assert any("waiting for its result" in line for line in second.stderr)
    first.kill()
    first.communicate()
    go.touch()
    out, err = second.communicate(timeout=60)
    assert (second.returncode, stored(tmp_path)) == (0, {"glue/cola": "finished"}), err
    assert "1 of 1 job is finished" in out
    assert not (tmp_path / "results" / "locks").exists()


def is_pending(pid, number):
    """Return whether a signal that was sent to a process is still pending."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"ShdPnd:\s*(\w+)", status)[1], 16) >> (number - 1) & 1


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for signals")
@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_a_run_blocked_in_a_library_can_be_terminated(tmp_path, numbers):
    """Make SQLite wait for a lock until the timeout, during which it handles no exception."""
    go = tmp_path / "go"
    assert LAST_SECONDS < 10
    process = start(tmp_path, (f"wait-for:{go}", "glue/cola"), last=2.0)
    while not list((tmp_path / "results" / "locks").glob("*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    with closing(sqlite3.connect(tmp_path / "results" / "leaderboard.sqlite")) as theirs:
        theirs.isolation_level = None
        theirs.execute("BEGIN EXCLUSIVE")
        go.touch()
        while not (tmp_path / "storing").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        time.sleep(0.5)  # gives the process time to request the lock
        for number in numbers:
            process.send_signal(number)
            # Two pending signals of the same kind would be merged into one.
            while is_pending(process.pid, number):
                time.sleep(0.02)
        _, err = process.communicate(timeout=60)  # the process ends although the lock is still held
    assert process.returncode == 128 + numbers[-1]
    assert err.endswith("bench: the process did not stop by itself and was ended by force.\n")
