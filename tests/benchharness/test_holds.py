"""Tests of exclusive and shared locks, which last until all processes that inherited them end."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.driver.drive import drive
from benchharness.driver.options import RunOptions
from benchharness.driver.plan import Plan
from benchharness.driver.schedule import schedule
from benchharness.driver.start_checkpoints import StartCheckpoints
from benchharness.engines.local import Placement
from benchharness.engines.process import Engine
from benchharness.errors import BenchError, JobError
from benchharness.kept_folders import Holds
from benchharness.leaderboard.job import Trust
from tests.helpers.made_engine import CPU, MadeEngine
from tests.helpers.results import make_job

JOB, ANOTHER = "a" * 64, "b" * 64
ENCODER = f"{JOB}.encoder"

HOLDER = """
import sys
from pathlib import Path
from benchharness.kept_folders import Holds
holds = Holds(Path(sys.argv[1]))
print(holds.take("a" * 64), flush=True)
sys.stdin.read()
"""


def holder(folder: Path) -> "subprocess.Popen[str]":
    """Start a process that holds the lock of a job."""
    process = subprocess.Popen(
        (sys.executable, "-c", HOLDER, str(folder)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "True\n"
    return process


def test_exclusive_lock_has_one_holder_until_it_is_released(tmp_path: Path) -> None:
    first, second = Holds(tmp_path / "locks"), Holds(tmp_path / "locks")
    assert first.take(JOB)
    assert first.take(JOB)
    assert not second.take(JOB)
    assert second.take(ANOTHER)
    assert second.holder(JOB).startswith(f"process {os.getpid()} on ")
    first.release(JOB)
    assert second.take(JOB)
    second.close()
    first.close()
    assert list(tmp_path.iterdir()) == [], "no lock is left"


def test_shared_lock_prevents_an_exclusive_lock(tmp_path: Path) -> None:
    first, second, third = (Holds(tmp_path / "locks") for _ in range(3))
    first.share(ENCODER)
    second.share(ENCODER)
    assert not third.take(ENCODER)
    first.release(ENCODER)
    assert not third.take(ENCODER)
    assert not first.take(ENCODER)
    second.close()
    assert first.take(ENCODER)
    first.close()
    assert not (tmp_path / "locks").exists()


def test_locks_of_a_killed_process_are_free_and_their_files_are_deleted(tmp_path: Path) -> None:
    process, holds = holder(tmp_path / "locks"), Holds(tmp_path / "locks")
    assert not holds.take(JOB)
    assert holds.holder(JOB).startswith(f"process {process.pid} on ")
    process.kill()
    process.communicate()
    assert (tmp_path / "locks" / JOB).exists()
    assert holds.take(ANOTHER)
    holds.close()
    assert not (tmp_path / "locks").exists()
    assert holds.take(JOB)
    holds.close()


def test_a_lock_is_held_until_all_processes_that_inherited_it_have_ended(tmp_path: Path) -> None:
    first, second = Holds(tmp_path), Holds(tmp_path)
    assert first.take(JOB)
    descriptor = first.descriptor(JOB)
    assert descriptor is not None
    worker = subprocess.Popen(("sleep", "60"), pass_fds=[descriptor])
    os.close(descriptor)  # the kernel closes it when the driver is killed
    assert not second.take(JOB)
    worker.kill()
    worker.wait()
    assert second.take(JOB)


def test_deleted_lock_file_never_gives_two_processes_the_same_lock(tmp_path: Path) -> None:
    """A process that opened the file before its deletion may lock the deleted file."""
    first, second, third = (Holds(tmp_path) for _ in range(3))
    assert first.take(JOB)
    old = os.open(tmp_path / JOB, os.O_RDWR)
    first.release(JOB)
    assert second.take(JOB)
    assert not third.take(JOB)
    os.close(old)


def test_locks_are_granted_to_every_process_if_the_lock_folder_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file in the place of the folder")
    first, second = Holds(tmp_path / "locks"), Holds(tmp_path / "locks")
    first.share(ENCODER)
    assert first.take(JOB)
    assert second.take(JOB)
    assert first.descriptor(JOB) is None
    first.close()


@pytest.mark.parametrize("fault", ["code of others", "no store", "no engine"])
def test_failed_bench_run_releases_its_locks(fault: str, tmp_path: Path) -> None:
    """In Python the process continues after the error, so it must release the locks itself."""
    db = tmp_path / "board.sqlite"
    job = replace(make_job(), trust=Trust(remote_code=fault == "code of others"))
    if fault == "no store":
        db.write_text("no database, but a text that somebody has called so" * 9)
    held = StartCheckpoints.of([job], str(db), keep=False)
    assert held.holds.take(job.key)

    def engine(_: object) -> Engine:
        if fault == "no engine":
            raise JobError("none")
        return MadeEngine()

    planned = schedule(Plan(jobs=(job,), rows={}), CPU, held)
    place = Placement(slots=CPU, engine=engine)
    with pytest.raises(BenchError), drive(planned, place, RunOptions(db=str(db))):
        pytest.fail("it was not refused")
    other = StartCheckpoints.of([job], str(db), keep=False).holds
    assert other.take(job.key)
    other.close()
