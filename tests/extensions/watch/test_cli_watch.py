"""Tests of `bench watch`: progress of a run in another process, as lines, bars and JSON."""

import io
import json
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from benchharness.driver.live import LIVE, Followed, LiveFile, live_files
from benchharness.extensions.watch import command as watch
from benchharness.progress import Progress, Watcher
from tests.helpers.fake_worker import make_failure, make_job, make_result
from tests.helpers.plans import schedule_of

JOBS = [make_job(seed=seed) for seed in range(3)]


@pytest.fixture
def db(tmp_path):
    return tmp_path / "board.sqlite"


@pytest.fixture
def run(tmp_path):
    """A run of three jobs, one of which has ended and one is training."""
    with LiveFile(Watcher(), schedule_of(*JOBS), tmp_path) as file:
        for step in (1, 5, 9, 10):
            report(file, JOBS[0], step)
        file.finish(make_result(JOBS[0]))
        report(file, JOBS[1], 1)
        report(file, JOBS[1], 10)
        yield file


def report(file, job, step):
    file.report(job, Progress(phase="training", step=step, steps=10, loss=1 / step))


def ending_soon(file, monkeypatch):
    """End the run after a delay, from another thread."""
    monkeypatch.setattr(watch, "NEXT_SECONDS", 0.0)
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.02)

    def end():
        time.sleep(0.3)
        file.finish(make_failure(JOBS[1]))
        file.finish(make_result(JOBS[2]))
        file.__exit__(None, None, None)

    thread = threading.Thread(target=end)
    thread.start()
    return thread


def test_watch_prints_a_message_if_no_run_is_in_progress(bench, db):
    ended = bench("watch", "--db", db)
    assert (ended.code, ended.out, ended.err) == (
        0,
        "",
        f"no run is in progress in the folder of {db}.\n",
    )


def test_watch_prints_progress_lines_until_the_run_ends(bench, db, run, monkeypatch):
    thread = ending_soon(run, monkeypatch)
    ended = bench("watch", "--db", db)
    thread.join()
    lines = ended.out.splitlines()
    assert lines[0] == "[1/3] tiny CoLA seed 0: mcc 0.500 in 2 s  █▁"
    assert lines[1].startswith("1 of 3 jobs done, about ")
    assert "tiny CoLA seed 1: training, epoch 0.00" in lines[1]
    assert lines[2:] == [
        "[2/3] tiny CoLA seed 1: it went wrong  █▁",
        "[3/3] tiny CoLA seed 2: mcc 0.500 in 2 s",
        "the run is over: 3 of 3 jobs done, 1 failed.",
    ]
    assert ended.code == 1, "a job has failed"


def test_watch_json_has_the_current_state_and_one_line_per_change(bench, db, run, monkeypatch):
    thread = ending_soon(run, monkeypatch)
    first, *others = map(json.loads, bench("watch", "--db", db, "--json").out.splitlines())
    thread.join()
    assert (first["event"], first["done"], first["jobs"]) == ("run", 1, 3)
    assert first["ended"][0]["losses"] == [1.0, 0.1]
    assert first["running"][0]["share"] == 0.9
    assert first["seconds_left"] > 0
    assert [line["event"] for line in others] == ["end", "end", "over"]
    assert [line["done"] for line in others] == [2, 3, 3]
    assert others[-1]["seconds_left"] == 0


def test_watch_once_prints_progress_bars_and_exits(bench, db, run):
    ended = bench("watch", "--db", db, "--once")
    assert ended.code == 0
    head, bar = ended.out.splitlines()
    assert "1 of 3 jobs done, about" in head
    assert bar.startswith("tiny CoLA seed 1")
    assert "90%" in bar
    assert "━" in bar
    assert "█▁" in bar
    (snapshot,) = bench("watch", "--db", db, "--once", "--json").out.splitlines()
    assert json.loads(snapshot)["running"][0]["name"] == "tiny CoLA seed 1"


def test_watch_in_a_terminal_shows_progress_bars_below_finished_jobs(db, run, monkeypatch):
    thread = ending_soon(run, monkeypatch)
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    known = set(live_files(db.parent))
    runs = [Followed(path) for path in known]
    watch._follow(db.parent, runs, known, watch._Screen(console))
    thread.join()
    text = console.file.getvalue()
    assert text.index("━") < text.index("it went wrong") < text.index("the run is over")
    assert "\x1b[2K" in text, "the bars are drawn again in their place"


def test_watch_ends_when_the_watched_run_is_killed(bench, db, tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from tests.helpers.plans import schedule_of;"
        "from tests.helpers.fake_worker import make_job;"
        "from benchharness.progress import Watcher;"
        "from benchharness.driver.live import LiveFile;"
        "file = LiveFile(Watcher(), schedule_of(make_job()), Path(sys.argv[1])).__enter__();"
        "print('ready', flush=True); time.sleep(60)"
    )
    command = (sys.executable, "-c", script, str(tmp_path))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as driver:
        driver.stdout.readline()
        words = (sys.executable, "-m", "benchharness", "watch", "--db", str(db))
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout.readline().startswith("0 of 1 job done, about 20 s left")
            driver.kill()
            driver.wait()
            assert watching.stdout.read() == "the run was killed: 0 of 1 job done.\n"
            assert watching.wait(10) == 1
    assert len(list((tmp_path / LIVE).iterdir())) == 1, "the next run deletes it"
    ended = bench("watch", "--db", db, "--once")
    assert ended.code == 1
    assert ended.out.endswith("the run was killed: 0 of 1 job done.\n")
    told = bench("watch", "--db", db, "--once", "--json").out.splitlines()
    assert [json.loads(line)["event"] for line in told] == ["run", "over"]
