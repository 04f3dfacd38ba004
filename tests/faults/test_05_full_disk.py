"""Fault 5: a full disk costs the result that did not fit, and nothing that was there."""

import sqlite3
from pathlib import Path

import pytest

from benchharness.leaderboard.store import database as migration
from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import whole_file
from benchharness.tasks.errors import StoreError
from tests.helpers.full_disk import room_for
from tests.helpers.results import make_job, make_result


def test_05_a_result_that_does_not_fit(tmp_path: Path) -> None:
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


def test_05_a_store_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(session: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(migration, "_run_migrations", full)
    with pytest.raises(StoreError, match=r"disk is full\. Check that the disk has room"):
        open_store(tmp_path / "board.sqlite")
    assert {p.name for p in tmp_path.iterdir()} <= {".board.sqlite.lock"}


def test_05_a_backup_that_does_not_fit(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(make_result(provenance={"words": "0123456789" * 20_000}))
        with room_for(50_000), pytest.raises(StoreError):
            store.back_up(copies / "copy.sqlite")
    assert list(copies.iterdir()) == []


def test_05_a_file_that_does_not_fit_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    with room_for(1_000), pytest.raises(OSError, match="File too large"), whole_file(path) as file:
        file.write(b"new" * 10_000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
