"""Fault 18, at length: a process that is stopped, killed or ended in any phase of a run."""

import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers.struck_run import DRIVERS, STARTERS, WORKERS, Strike
from tests.helpers.struck_runs import (
    Process,
    are_gone,
    begin,
    check_whole,
    processes_of,
    results_of,
    table_of,
)

DRAWS = int(os.environ.get("BENCH_SOAK_DRAWS", "200"))
SEED = int(os.environ.get("BENCH_SOAK_SEED", "20261122"))

TIMEOUT = 30
"""Seconds of silence after which a job hangs. Importing torch may take half of it."""

GRACE = 10

TASKS = (*("--task", "glue/rte", "--task", "glue/cola"), "--seeds", "1", "--set", "epochs=2")


def draw(chance: random.Random) -> Strike:
    phase = chance.choice((*DRIVERS, *STARTERS, *WORKERS))
    targets = ["driver", "starter", "worker"]
    return Strike(
        phase=phase,
        signal=chance.choice(("SIGSTOP", "SIGKILL", "SIGTERM", "SIGINT")),
        target=chance.choice(targets if phase in WORKERS else targets[:2]),
        nth=chance.randint(1, 2),
    )


def wait_for_strike(folder: Path, process: Process) -> int | None:
    """The process that was struck; None where the run has ended before."""
    note = folder / "notes" / "struck"
    while not (note.exists() and note.read_text()):
        if process.poll() is not None:
            return None
        time.sleep(0.02)
    return int(note.read_text())


def see_through(
    strike: Strike, process: Process, victim: int | None, usual: float, chance: random.Random
) -> None:
    """Waits for the end of a struck run, which must not take long."""
    struck, allowed = time.monotonic(), TIMEOUT + GRACE + usual
    if victim == process.pid:
        if strike.signal == "SIGSTOP":
            time.sleep(1.0)
            os.kill(victim, chance.choice((signal.SIGCONT, signal.SIGKILL)))
        elif strike.signal in ("SIGTERM", "SIGKILL"):
            allowed = GRACE
        else:  # Ctrl-C once, and again
            time.sleep(chance.uniform(0.0, 1.0))
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            allowed = GRACE
    process.wait(allowed + usual)
    taken = time.monotonic() - struck
    assert taken < allowed, f"{strike} took {taken:.0f} s"


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_18_any_process_struck_in_any_phase(tmp_path: Path) -> None:
    began = time.monotonic()
    whole = begin(tmp_path / "whole", *TASKS)
    assert whole.wait() == 0, (tmp_path / "whole" / "log").read_text()
    usual = 2 * (time.monotonic() - began)  # the machine may be busier by and by
    expected, table = results_of(tmp_path / "whole"), table_of(tmp_path / "whole")
    assert len(expected) == 3
    chance, ends, slowest = random.Random(SEED), Counter[str](), 0.0
    for number in range(DRAWS):
        strike, folder = draw(chance), tmp_path / f"draw{number}"
        sys.stdout.write(f"{number}: {strike}\n")
        process = begin(folder, *TASKS, "--timeout", str(TIMEOUT), strike=strike)
        victim = wait_for_strike(folder, process)
        ends["struck" if victim else "never came to that phase so often"] += 1
        began = time.monotonic()
        see_through(strike, process, victim, usual, chance)
        slowest = max(slowest, time.monotonic() - began)
        assert are_gone(folder), (strike, processes_of(folder))
        again = begin(folder, *TASKS)
        assert again.wait(usual + TIMEOUT) == 0, (strike, (folder / "log").read_text())
        assert results_of(folder) == expected, strike
        check_whole(folder)
        if number % 20 == 0:
            assert table_of(folder) == table
        ends[f"{strike.signal} of the {strike.target}: {process.returncode}"] += 1
        shutil.rmtree(folder)
    sys.stdout.write(f"{ends}; at most {slowest:.0f} s after the strike\n")
    assert ends["struck"] > DRAWS / 2
