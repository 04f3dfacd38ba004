"""Tests of fault 4: workers end with a killed `bench run`, and the same command resumes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from tests.helpers.bench_process import is_alive
from tests.helpers.stopped_jobs import ENVIRONMENT, wait_for_step

RUN = (
    *(sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()", "run"),
    *("--model", "tiny", "--task", "cola", "--data", "mini", "--seeds", "1", "--no-baselines"),
    *("--limit", "16", "--set", "epochs=15", "--set", "batch_size=8", "--precision", "fp32"),
    *("--checkpoint-every", "0.0001"),
)


def start(folder: Path) -> "subprocess.Popen[str]":
    environment = {name: value for name, value in os.environ.items() if name != "BENCH_DB"}
    return subprocess.Popen(
        RUN,
        cwd=folder,
        env=environment | ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def descendants_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    children = [int(word) for word in text.split()]
    return [*children, *(below for child in children for below in descendants_of(child))]


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")
@pytest.mark.soak
def test_04_workers_end_with_killed_driver_and_same_command_resumes(tmp_path: Path):
    snapshots = tmp_path / "results" / "snapshots"
    first = start(tmp_path)
    while not list(snapshots.glob("*")):
        assert first.poll() is None, first.communicate()
        time.sleep(0.01)
    (job,) = snapshots.iterdir()
    wait_for_step(job, 3, first)
    workers = descendants_of(first.pid)
    assert workers
    first.kill()
    first.communicate()
    deadline = time.monotonic() + 10
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(is_alive, workers))

    second = start(tmp_path)
    output, _ = second.communicate()
    assert second.returncode == 0, output
    assert "tiny CoLA seed 1 resumes after step" in output
    assert "1 of 1 job is finished" in output
    with open_store(tmp_path / "results" / "leaderboard.sqlite", create=False) as store:
        (row,) = store.runs()
        assert row.status == "finished"
        assert store.result(row.key).provenance["resumed"]["times"] == 1
    assert not snapshots.exists(), "what was kept is deleted when the result is stored"
