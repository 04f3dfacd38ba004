"""Runs of `tests.helpers.struck_run` in a folder: their processes and final files."""

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from benchharness.leaderboard.store.store import open_store
from tests.helpers.stopped_jobs import ENVIRONMENT, deterministic
from tests.helpers.struck_run import COMMAND, FOLDER, Strike

Process = subprocess.Popen[bytes]

OPTIONS = (
    *("run", "--model", "tiny", "--data", "mini", "--no-baselines", "--precision", "fp32"),
    *("--device", "cpu", "--jobs", "2", "--limit", "8", "--set", "batch_size=8"),
    *("--start-from", "glue/mnli", "--checkpoint-every", "0.0001"),
)


def begin(folder: Path, *options: str, strike: Strike | None = None) -> Process:
    """Start a run in the folder; its notes are in `notes`, its output in `log`."""
    notes = folder / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "BENCH_DB"}
    environment |= {**ENVIRONMENT, FOLDER: str(notes)}
    if strike is not None:
        environment |= strike.environment(notes)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            (*COMMAND, *OPTIONS, *options), cwd=folder, env=environment, stdout=log, stderr=log
        )


def processes_of(folder: Path) -> list[int]:
    """Return the processes of runs in a folder, with their children."""
    mark = f"{FOLDER}={folder / 'notes'}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:  # the process has ended meanwhile, or belongs to another user
            continue
    return found


def are_gone(folder: Path, seconds: float = 10.0) -> bool:
    """Return whether all of them end within `seconds`."""
    deadline = time.monotonic() + seconds
    while processes_of(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def results_of(folder: Path) -> dict[str, Any]:
    """Return the parts of results that must not depend on interruptions, by job key."""
    with open_store(folder / "results" / "leaderboard.sqlite", create=False) as store:
        return {row.key: deterministic(store.result(row.key)) for row in store.runs()}


def table_of(folder: Path) -> bytes:
    """Return the output of `bench leaderboard`."""
    words = (*COMMAND, "leaderboard", "--data", "mini")
    return subprocess.run(words, cwd=folder, capture_output=True, check=True).stdout


def check_whole(folder: Path) -> None:
    """Check that no job was computed twice or failed, and that only results are left."""
    notes = folder / "notes"
    assert not list(notes.glob("twice-*")), "two processes computed a job at once"
    with open_store(folder / "results" / "leaderboard.sqlite", create=False) as store:
        for row in store.runs():
            ends = [attempt.status for attempt in store.attempts(row.key)]
            assert ends.count("finished") == 1, ends
        assert list(store.faults()) == []
    left = {path.name for path in (folder / "results").iterdir()}
    assert left <= {"leaderboard.sqlite", ".leaderboard.sqlite.lock", "leaderboard.html",
                    "models"}, left  # fmt: skip
    assert not list((folder / "results" / "models").glob("*"))
