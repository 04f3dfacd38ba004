"""Tests of fault 5: a full disk loses at most the result that did not fit, no existing data."""

import sqlite3
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

import benchharness.worker.__main__ as worker
from benchharness.engines.process import Outcome, Report
from benchharness.errors import StoreError
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.store import database as migration
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import whole_file
from benchharness.progress import Progress
from tests.helpers.full_disk import room_for
from tests.helpers.made_engine import MadeEngine, Told, driven, jobs_of
from tests.helpers.results import make_job, make_result


def test_05_result_too_large_for_the_disk_leaves_the_store_intact(tmp_path: Path) -> None:
    path = tmp_path / "board.sqlite"
    large = make_result(make_job(seed=9), provenance={"words": "0123456789" * 100_000})
    with open_store(path) as store:
        store.add_result(make_result())
        with (
            room_for(path.stat().st_size + 100_000),
            pytest.raises(StoreError, match="Check that the disk has room"),
        ):
            store.add_result(large)
        assert len(store.runs()) == 1
        assert list(store.faults()) == []
        store.add_result(large)
        assert store.result(large.job.key) == large


def test_05_failed_store_creation_on_a_full_disk_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(session: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(migration, "_make_tables", full)
    with pytest.raises(StoreError, match=r"disk is full\. Check that the disk has room"):
        open_store(tmp_path / "board.sqlite")
    assert {p.name for p in tmp_path.iterdir()} <= {".board.sqlite.lock"}


def test_05_failed_backup_on_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(make_result(provenance={"words": "0123456789" * 20_000}))
        with room_for(50_000), pytest.raises(StoreError):
            store.back_up(copies / "copy.sqlite")
    assert list(copies.iterdir()) == []


def test_05_failed_file_write_on_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    with room_for(1_000), pytest.raises(OSError, match="File too large"), whole_file(path) as file:
        file.write(b"new" * 10_000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_05_full_disk_for_snapshots_is_reported_once_at_start_and_once_at_end(
    tmp_path: Path,
) -> None:
    """Three parallel jobs try to save their snapshots forty times; a fourth follows."""

    class Full(MadeEngine):
        def run(self, jobs: Iterable[Job | None], report: Report) -> Generator[Outcome]:
            *some, last = (job for job in jobs if job is not None)
            for number in range(40):
                for job in some:  # the first report of each job contains the note
                    note = "continues, but its state cannot be saved: full" if not number else ""
                    report(job, Progress(phase="loading", is_kept=False, note=note))
            yield from map(make_result, some[:2])
            # Another job with a small snapshot can write it.
            report(last, Progress(phase="loading", is_kept=True))
            assert len(told.notes) == 1, "another that runs finds no room yet"
            yield make_result(some[2])
            report(last, Progress(phase="loading", is_kept=True))
            report(last, Progress(phase="loading", is_kept=True))
            report(last, Progress(phase="loading", is_kept=False, note="cannot: full again"))
            yield make_result(last)

    told = Told()
    with open_store(tmp_path / "board.sqlite") as store:
        driven(store, Full(), jobs_of(4), told=told)
    assert told.notes == [
        "0 continues, but its state cannot be saved: full",
        "3 saves its state again, and so do all other jobs",
        "3 cannot: full again",
    ]


def test_05_worker_waits_for_disk_space_to_write_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, said = [0], list[str]()

    def full_at_first(path: Path, *words: Any, **options: Any) -> Any:
        if path.name.startswith(".result.json.") and tries[0] < 3:
            tries[0] += 1
            raise OSError(28, "No space left on device")
        return path_open(path, *words, **options)

    path_open = Path.open
    monkeypatch.setattr(Path, "open", full_at_first)
    monkeypatch.setattr(worker, "SECONDS_BETWEEN_TRIES", 0.01)
    worker._write_where_there_is_room(
        tmp_path / "result.json", "whole", lambda progress: said.append(progress.note)
    )
    assert (tmp_path / "result.json").read_text() == "whole"
    assert len(said) == 1
    assert f"waits for free disk space to write its result to {tmp_path}" in said[0]
