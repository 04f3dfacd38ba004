"""Tests of fault 49: results for a locked or full store are kept and stored later."""

import gzip
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from benchharness.driver import drive
from benchharness.errors import StoreError
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.database import BUSY_SECONDS
from benchharness.leaderboard.store.store import Store, open_store
from tests.helpers import ROOT
from tests.helpers.full_disk import room_for
from tests.helpers.made_engine import MadeEngine, Told, driven, jobs_of
from tests.helpers.results import make_cost, make_failure, make_job, make_result


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of an empty store with short waiting times."""
    for name, seconds in (("PATIENCE", 0.05), ("HURRIED", 0.05), ("BUSY", 0.1)):
        monkeypatch.setattr(drive, f"{name}_SECONDS", seconds)
    with open_store(tmp_path / "board.sqlite"):
        return tmp_path / "board.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with open_store(path) as opened:
        yield opened


@contextmanager
def held(path: Path, lock: str = "IMMEDIATE") -> Iterator[None]:
    """Hold the lock of another writer; EXCLUSIVE simulates its commit."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"BEGIN {lock}")
        yield
        other.execute("ROLLBACK")


def folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.unstored")


def seeds(path: Path) -> list[int]:
    """Return the seeds of the stored runs, without storing waiting results."""
    with open_store(path, create=False) as opened:
        assert list(opened.faults()) == []
        return sorted(row.seed for row in opened.runs())


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def change(file: Path) -> None:
    text = gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(text.replace(b'"epoch":1.0', b'"epoch":2.0')))


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_49_store_unlocked_during_the_run_gets_all_results(
    path: Path, store: Store, lock: str
) -> None:
    def finish(jobs: list[Job]) -> Iterator[Result]:
        yield make_result(jobs[0])
        with held(path, lock):
            yield make_result(jobs[1])
            yield make_result(jobs[2])
            assert len(list(folder(path).iterdir())) == 2, "they are safe while the others run"
        yield make_result(jobs[3])
        assert not folder(path).exists()
        yield make_result(jobs[4])

    jobs = jobs_of(5)
    stored, told = driven(store, MadeEngine(finish), jobs)
    assert [outcome.job.seed for outcome in stored] == told.finished == seeds(path) == [*range(5)]
    assert all(store.result(job.key) == make_result(job) for job in jobs)
    began, over = told.notes  # one note at the beginning of the lock and one at its end
    assert began.startswith(f"1 has ended; its result is kept in {folder(path)}")
    (seconds,) = re.findall(r"was locked by another process for ([0-9.]+) seconds", began)
    assert 0.05 <= float(seconds) < BUSY_SECONDS, "as long as it was, and not as was meant"
    assert "can write to the leaderboard again" in over


def test_49_run_waits_for_a_locked_store_after_the_last_job(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "BUSY_SECONDS", 300)
    lock = held(path)
    monkeypatch.setattr(drive.time, "sleep", lambda _: lock.__exit__(None, None, None))
    lock.__enter__()
    _, told = driven(store, MadeEngine(), jobs_of(1))
    assert seeds(path) == [0]
    assert told.notes[-1].endswith("all waiting results are stored")


def test_49_damaged_store_is_an_error_without_waiting(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(jobs: list[Job]) -> Iterator[Result]:
        # Overwrite the tables with noise, except the first page, which SQLite has already read.
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (size - 4096))
        yield make_result(jobs[0])

    monkeypatch.setattr(drive, "BUSY_SECONDS", 300)
    monkeypatch.setattr(drive.time, "sleep", lambda _: pytest.fail("waits"))
    with pytest.raises(StoreError, match="is damaged") as error:
        driven(store, MadeEngine(finish), jobs_of(1))
    assert "The results of a job are kept in" in str(error.value)
    assert len(list(folder(path).iterdir())) == 1


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_49_results_unstored_at_the_end_are_stored_by_the_next_command(
    path: Path, store: Store, lock: str
) -> None:
    jobs, told = jobs_of(3), Told()
    left = [make_result(jobs[0]), make_failure(jobs[1]), make_result(jobs[2])]

    def finish(_: list[Job]) -> Iterator[Result | Failure]:
        yield left[0]
        locked.__enter__()
        yield from left[1:]

    locked = held(path, lock)
    with pytest.raises(StoreError, match="was locked by another process") as error:
        driven(store, MadeEngine(finish), jobs, told=told)
    locked.__exit__(None, None, None)
    assert f"The results of 2 jobs are kept in {folder(path)}" in str(error.value)
    assert told.finished == [0, 1, 2], "the run went on"
    assert seeds(path) == [0], "a command that only reads stores nothing"
    with open_store(path) as again:
        assert again.taken == (2, 0, ())
        assert [again.result(outcome.job.key) for outcome in left] == left
    assert seeds(path) == [0, 1, 2]
    assert not folder(path).exists()
    _, told = driven(store, MadeEngine(), jobs)
    assert told.left_out == [0, 2], "only what had failed runs again"


def test_49_result_too_large_for_the_database_is_kept_in_a_file_next_to_it(
    path: Path, store: Store
) -> None:
    jobs = jobs_of(2)
    large = make_result(jobs[0], provenance={"words": "0123456789" * 100_000})

    def finish(_: list[Job]) -> Iterator[Result]:
        with room_for(path.stat().st_size + 20_000):
            yield large
            assert len(list(folder(path).iterdir())) == 1
            yield make_result(jobs[1])

    _, told = driven(store, MadeEngine(finish), jobs)
    assert "Check that the disk has room" in told.notes[0]
    assert seeds(path) == [0, 1]
    assert store.result(jobs[0].key) == large


def test_49_result_is_kept_in_memory_if_no_folder_has_space(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = {"is": True}
    keep, add = Store.keep, Store.add_missing

    def no_room(call: Callable[..., object], error: Exception) -> Callable[..., object]:
        def instead(*words: object, **options: object) -> object:
            if full["is"]:
                raise error
            return call(*words, **options)

        return instead

    monkeypatch.setattr(Store, "keep", no_room(keep, OSError(28, "No space left on device")))
    monkeypatch.setattr(Store, "add_missing", no_room(add, StoreError("the disk is full.")))

    def finish(jobs: list[Job]) -> Iterator[Result]:
        yield make_result(jobs[0])
        yield make_result(jobs[1])
        full["is"] = False
        yield make_result(jobs[2])

    _, told = driven(store, MadeEngine(finish), jobs_of(3))
    assert seeds(path) == [0, 1, 2]
    assert "is kept in memory for now, because the disk is full" in told.notes[0]
    full["is"] = True
    more = [make_job(seed=seed) for seed in (7, 8)]
    with pytest.raises(StoreError, match="results of minilm RTE seed 7"):
        driven(store, MadeEngine(), more)
    assert seeds(path) == [0, 1, 2]


@pytest.mark.parametrize("damage", [cut, change])
def test_49_damaged_unstored_result_is_reported_and_not_deleted(
    path: Path, store: Store, damage: Callable[[Path], None]
) -> None:
    damaged = store.keep(make_result(make_job(seed=1)))
    store.keep(make_result(make_job(seed=2)))
    damage(damaged)
    for added in (1, 0):
        with open_store(path) as again:
            assert (again.taken.added, again.taken.needless) == (added, 0)
            (fault,) = again.taken.faults
            assert fault.startswith(f"the file {damaged} contains a result")
            assert "is damaged: delete the file" in fault
            assert list(again.kept_faults()) == [fault]
    assert seeds(path) == [2]
    assert list(folder(path).iterdir()) == [damaged]


def test_49_unstored_result_is_dropped_if_the_job_was_stored_meanwhile(
    path: Path, store: Store
) -> None:
    early, late = (make_result(cost=make_cost(seconds=float(number))) for number in (1, 2))
    store.keep(early)
    store.keep(make_failure())
    store.add_result(late)
    with open_store(path) as again:
        assert again.taken == (0, 2, ())
        assert again.result(early.job.key) == late
        assert len(again.attempts(early.job.key)) == 1
    assert not folder(path).exists()


def test_49_unstored_result_of_a_forced_run_is_stored_as_a_new_attempt(
    path: Path, store: Store
) -> None:
    before, again = (make_result(cost=make_cost(seconds=float(number))) for number in (1, 2))
    store.add_result(before)
    locked = held(path)
    locked.__enter__()
    with pytest.raises(StoreError, match="The results of a job are kept in"):
        driven(store, MadeEngine(lambda _: iter([again])), [again.job], force=True)
    locked.__exit__(None, None, None)
    with open_store(path) as opened:
        assert opened.taken == (1, 0, ())
        assert len(opened.attempts(again.job.key)) == 2
        assert opened.result(again.job.key) == again


def test_49_unstored_file_left_by_a_killed_process_is_not_stored_twice(
    path: Path, store: Store, tmp_path: Path
) -> None:
    forced, failed = make_result(), make_failure(make_job(seed=3))
    for outcome in (forced, failed):
        store.keep(outcome, force=True)
    shutil.copytree(folder(path), tmp_path / "before")
    with open_store(path) as again:
        assert again.taken == (2, 0, ())
    shutil.copytree(tmp_path / "before", folder(path))
    with open_store(path) as again:
        assert again.taken == (0, 2, ())
        assert [len(again.attempts(each.job.key)) for each in (forced, failed)] == [1, 1]


def test_49_invalid_result_is_an_error_and_not_kept(path: Path, store: Store) -> None:
    unfit = make_result(cost=make_cost(seconds=float("nan")))
    with pytest.raises(StoreError, match="seconds is nan"):
        driven(store, MadeEngine(lambda _: iter([unfit])), [unfit.job])
    assert not folder(path).exists()


def test_49_error_about_a_locked_store_states_the_total_waiting_time(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "BUSY_SECONDS", 1.5)
    with held(path), pytest.raises(StoreError, match=r"locked .* for ([2-9]|\d\d+) seconds"):
        driven(store, MadeEngine(), jobs_of(1))


@pytest.mark.parametrize("is_full", [False, True])
def test_49_results_are_kept_in_another_folder_at_once_if_the_disk_is_full(
    path: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """The folder next to the store cannot be used, nor can the user's data folder if `is_full`."""
    temporary, data = tmp_path / "tmp", tmp_path / "data"
    temporary.mkdir()
    folder(path).touch()
    if is_full:
        data.touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    monkeypatch.setattr("benchharness.leaderboard.store.archive.gettempdir", lambda: str(temporary))
    monkeypatch.setattr(drive, "BUSY_SECONDS", 300)
    monkeypatch.setattr(drive.time, "sleep", lambda _: pytest.fail("waits"))
    jobs = jobs_of(3)
    with (
        room_for(path.stat().st_size // 2),
        pytest.raises(StoreError, match="Check that the disk has room") as raised,
    ):
        driven(store, MadeEngine(), jobs)
    where = temporary if is_full else data
    assert f"The results of 3 jobs are kept in {where}" in str(raised.value)
    assert all(path.stat().st_mode & 0o077 == 0 for path in where.rglob("*unstored*"))
    with open_store(path) as again:
        assert again.taken == (3, 0, ())
    assert not list(where.rglob("*unstored*"))
    assert seeds(path) == [0, 1, 2]


# The command line in a separate process with fake workers.

PROGRAM = """
import sys
from functools import partial
sys.path.insert(0, {root!r})
from tests.helpers.fake_worker import COMMAND, make_job
import benchharness.driver.drive as drive
import benchharness.driver.plan as plan
import benchharness.driver.session as session
import benchharness.engines.local as choice
from benchharness.cli.app import main
choice.LocalEngine = partial(choice.LocalEngine, command=COMMAND)
jobs = tuple(make_job("slow:0.1", f"glue/{{name}}") for name in ("cola", "rte", "mrpc"))
session.plan = lambda request: plan.Plan(jobs=jobs, rows={{}})
drive.PATIENCE_SECONDS, drive.HURRIED_SECONDS, drive.BUSY_SECONDS = 0.1, 0.1, {busy}
sys.argv = ["bench", "run", "--model", "tiny", "--suite", "glue", "--data", "mini", "--jobs", "1"]
sys.argv += ["--no-baselines"]
main()
"""


def start(place: Path, busy: float = 0.2) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != "BENCH_DB"}
    return subprocess.Popen(
        (sys.executable, "-P", "-c", PROGRAM.format(root=str(ROOT), busy=busy)),
        cwd=place,
        env=environment | {"CUDA_VISIBLE_DEVICES": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_49_bench_run_exits_with_5_and_the_next_run_repeats_no_job(tmp_path: Path) -> None:
    db = tmp_path / "results" / "leaderboard.sqlite"
    with open_store(db):
        pass
    with held(db):
        process = start(tmp_path)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 5, errors
    assert "[3/3] tiny MRPC seed 1: mcc 0.500 in 2 s" in errors
    assert errors.count("its result is kept in") == 1, "when it begins"
    assert errors.count(" are kept in ") == 1, "at the end"
    assert f"The results of 3 jobs are kept in {folder(db)}" in errors
    process = start(tmp_path)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "3 runs that were kept" in errors
    assert "3 stored already" in out
    assert not folder(db).exists()


def test_49_ctrl_c_with_a_locked_store_keeps_the_results(tmp_path: Path) -> None:
    db = tmp_path / "results" / "leaderboard.sqlite"
    with open_store(db):
        pass
    with held(db, "IMMEDIATE"):
        process = start(tmp_path, busy=300.0)
        assert process.stdout
        assert process.stderr
        with process.stdout, process.stderr as lines:
            next(line for line in lines if "is kept in" in line)
            process.send_signal(signal.SIGINT)
            rest = lines.read()
        assert process.wait(timeout=60) == 130, rest
    assert "bench: interrupted; 0 of 3 jobs are stored" in rest
    with open_store(db) as store:
        assert store.taken.added >= 1
