"""Tests of fault 18 (soak): processes are stopped, killed or terminated in any phase of a run."""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
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
PARTS = 10
"""Number of tests that share the draws, so that two processes need half the time."""

SEED = int(os.environ.get("BENCH_SOAK_SEED", "20261122"))
TIMEOUT = int(os.environ.get("BENCH_SOAK_TIMEOUT", "30"))
"""Seconds without progress after which a job hangs; importing torch may take half."""

GRACE = 10
"""Seconds within which an interrupted command and its child processes end."""

SWEEP = (
    *("--task", "glue/rte", "--task", "glue/cola", "--seeds", "2", "--set", "epochs=2"),
    *("--timeout", str(TIMEOUT)),
)
"""Options of a sweep with six jobs, MNLI included."""


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
    """Return the pid that was struck, or None if the run ended before."""
    note = folder / "notes" / "struck"
    while not (note.exists() and note.read_text()):
        if process.poll() is not None:
            return None
        time.sleep(0.02)
    return int(note.read_text())


def see_through(
    strike: Strike, process: Process, victim: int, usual: float, chance: random.Random
) -> str:
    """Wait for the struck run to end within the allowed time; return a summary."""
    began, allowed = time.monotonic(), TIMEOUT + GRACE + usual
    if victim == process.pid:
        if strike.signal == "SIGSTOP":
            time.sleep(1.0)
            os.kill(victim, chance.choice((signal.SIGCONT, signal.SIGKILL)))
        else:
            allowed = GRACE
        if strike.signal == "SIGINT":  # simulates a second Ctrl-C
            time.sleep(chance.uniform(0.0, 1.0))
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
    process.wait(2 * allowed)
    taken = time.monotonic() - began
    assert taken < allowed, f"{strike} took {taken:.0f} s"
    return f"{strike.signal} to the {strike.target}: {process.returncode}, {taken:.0f} s"


def strike_until_done(
    folder: Path, draws: Iterator[Strike], usual: float, chance: random.Random
) -> None:
    """Run the command, struck once per draw, until all of its jobs are finished."""
    code = 1
    while code:
        strike = next(draws, None)
        process = begin(folder, *SWEEP, strike=strike)
        victim = strike and wait_for_strike(folder, process)
        if strike is not None and victim is not None:
            said = see_through(strike, process, victim, usual, chance)
            sys.stdout.write(f"{strike.phase}, {said}\n")
        code = process.wait(usual + TIMEOUT + GRACE)
        assert are_gone(folder, GRACE), (strike, processes_of(folder))
        (folder / "notes" / "struck").unlink(missing_ok=True)


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_18_processes_stopped_or_killed_in_any_phase_give_identical_results(
    part: int, tmp_path: Path
) -> None:
    began = time.monotonic()
    whole = begin(tmp_path / "whole", *SWEEP)
    assert whole.wait() == 0, (tmp_path / "whole" / "log").read_text()
    # Three times the undisturbed time, because the machine may become busier.
    usual = 3 * (time.monotonic() - began)
    expected, table = results_of(tmp_path / "whole"), table_of(tmp_path / "whole")
    assert len(expected) == 6
    chance, left, sweeps = random.Random(f"{SEED} {part}"), len(range(part, DRAWS, PARTS)), 0

    def draws() -> Iterator[Strike]:
        nonlocal left
        while left:
            left -= 1
            yield draw(chance)

    while left:
        sweeps += 1
        folder = tmp_path / f"sweep{sweeps}"
        strike_until_done(folder, draws(), usual, chance)
        assert results_of(folder) == expected
        assert table_of(folder) == table
        check_whole(folder)
    sys.stdout.write(f"{sweeps} sweeps\n")
