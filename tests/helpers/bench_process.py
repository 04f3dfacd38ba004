"""`bench` in a separate process, as a user starts it."""

import os
import subprocess
import sys
import time
from pathlib import Path

BENCH = (sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()")


def environment():
    return {k: v for k, v in os.environ.items() if k != "BENCH_DB"} | {"OMP_NUM_THREADS": "1"}


def start(folder, *words):
    return subprocess.Popen(
        (*BENCH, *words),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def bench(folder, *words):
    process = start(folder, *words)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def table(folder):
    """Return the leaderboard's scores and keys, without anything that depends on the clock."""
    return bench(folder, "leaderboard", "--json")[1]


def wait_for_line(process, beginning):
    for line in process.stderr:
        if line.startswith(beginning):
            return
    raise AssertionError(f"{beginning!r} was never printed")


def workers_of(process):
    """Return the processes that a `bench run` has started (Linux only)."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children]


def all_gone(pids):
    """Wait until all processes have ended, and return True: a kill takes effect with a delay.

    A process that never ends makes the test end at its time limit.
    """
    while any(map(is_alive, pids)):
        time.sleep(0.02)
    return True


def is_alive(pid):
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
