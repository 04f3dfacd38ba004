"""Tests of fault 6 (soak): drivers with overlapping jobs are killed and restarted at random."""

import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers.struck_runs import (
    Process,
    are_gone,
    begin,
    check_whole,
    processes_of,
    results_of,
    table_of,
)

KILLS = int(os.environ.get("BENCH_SOAK_DRAWS", "20"))
SEED = 20261122

EPOCHS = ("--set", "epochs=12", "--seeds", "2")

SWEEPS = (
    ("--task", "glue/rte", *EPOCHS),
    ("--task", "glue/rte", "--task", "glue/mrpc", "--task", "glue/cola", *EPOCHS),
    ("--task", "glue/cola", "--task", "glue/stsb", *EPOCHS),
    ("--task", "glue/stsb", "--task", "glue/rte", *EPOCHS),
)
"""Options of each driver. All drivers share the MNLI jobs, from which the others start."""


def kill_at_random(folder: Path, drivers: list[Process], chance: random.Random) -> None:
    """Kill a driver or any process of the folder."""
    driver = chance.choice(drivers)
    victim = chance.choice([driver.pid, driver.pid, *processes_of(folder)])
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)


def wait_while_they_run(drivers: list[Process], seconds: float) -> list[Process]:
    """Return the drivers still running after `seconds`, or [] once all have ended."""
    deadline = time.monotonic() + seconds
    while running := [driver for driver in drivers if driver.poll() is None]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return running


def finish(folder: Path, count: int, seconds: float, most: int, chance: random.Random) -> int:
    """Run the sweeps in parallel with at most `most` kills, and restart ended drivers."""
    kills = 0
    drivers = [begin(folder, *options) for options in SWEEPS[:count]]
    while any(driver.poll() != 0 for driver in drivers):
        running = wait_while_they_run(drivers, chance.uniform(0.0, seconds))
        if kills < most and running:
            kills += 1
            kill_at_random(folder, running, chance)
            time.sleep(0.1)
        for place, driver in enumerate(drivers):
            if driver.poll() not in (None, 0):  # the driver or one of its workers was killed
                drivers[place] = begin(folder, *SWEEPS[place])
    return kills


@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("count", [2, 4])
def test_06_killed_overlapping_drivers_give_identical_results(tmp_path: Path, count: int) -> None:
    began = time.monotonic()
    for options in SWEEPS[:count]:
        assert begin(tmp_path / "whole", *options).wait() == 0
    seconds = (time.monotonic() - began) / count
    expected, table = results_of(tmp_path / "whole"), table_of(tmp_path / "whole")
    chance, kills, rounds = random.Random(SEED + count), 0, 0
    while kills < KILLS:
        rounds += 1
        folder = tmp_path / f"killed{rounds}"
        kills += finish(folder, count, seconds, KILLS - kills, chance)
        log = (folder / "log").read_text(encoding="utf-8")
        assert are_gone(folder)
        assert results_of(folder) == expected
        assert table_of(folder) == table
        check_whole(folder)
        for complaint in ("is incomplete", "cannot be saved", "is damaged"):
            assert complaint not in log, log
    sys.stdout.write(f"{kills} kills of {count} drivers in {rounds} rounds\n")
