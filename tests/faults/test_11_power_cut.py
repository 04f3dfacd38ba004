"""Tests of fault 11: after a power cut at any moment a file is the complete old or new one.

A simulated disk records the requests of `whole_file`, and draws every state in which a power cut
may leave it: unflushed data may be there, in part, or not.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchharness.leaderboard.store.store import open_store
from benchharness.leaderboard.text import whole_file

OLD, NEW = b"the old table\n" * 50, b"the new table, which is longer\n" * 400


@dataclass
class Disk:
    """Requests in order: ("write", file), ("flush", file or folder), ("name", file)."""

    asked: list[tuple[str, str]] = field(default_factory=list)

    def after_a_cut(self, moment: int, luck: st.DataObject) -> bytes:
        """Return the content of the file after a power cut before request number `moment`."""
        done = self.asked[:moment]
        if ("name", "table") not in done:
            return OLD
        named = done.index(("name", "table"))
        is_named = ("flush", "folder") in done[named:] or luck.draw(st.booleans(), "name kept")
        if not is_named:
            return OLD
        flushed = ("flush", "draft") in done[:named]
        return NEW if flushed else NEW[: luck.draw(st.integers(0, len(NEW)), "bytes kept")]


@contextmanager
def _recorded(folder: Path) -> Iterator[Disk]:
    disk, fsync, replace = Disk(), os.fsync, Path.replace

    def flush(descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        disk.asked.append(("flush", "folder" if target == folder else "draft"))
        fsync(descriptor)

    def rename(self: Path, target: Path) -> Path:
        disk.asked.append(("name", target.name))
        return replace(self, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", flush)
        patch.setattr(Path, "replace", rename)
        yield disk


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(luck=st.data())
def test_11_file_after_a_power_cut_is_the_old_or_the_new_one(
    tmp_path: Path, luck: st.DataObject
) -> None:
    path = tmp_path / "table"
    path.write_bytes(OLD)
    with _recorded(tmp_path) as disk, whole_file(path) as file:
        file.write(NEW)
        disk.asked.append(("write", "draft"))
    assert path.read_bytes() == NEW
    moment = luck.draw(st.integers(0, len(disk.asked)), "moment")
    found = disk.after_a_cut(moment, luck)
    assert found in (OLD, NEW)
    if moment == len(disk.asked):
        assert found == NEW, "whole_file had returned, so the new one must be there"


def test_11_file_is_flushed_then_renamed_then_its_folder_is_flushed(tmp_path: Path) -> None:
    with _recorded(tmp_path) as disk, whole_file(tmp_path / "table") as file:
        file.write(NEW)
    assert disk.asked == [("flush", "draft"), ("name", "table"), ("flush", "folder")]


def test_11_folder_of_a_new_store_is_flushed_after_the_rename(tmp_path: Path) -> None:
    """SQLite itself flushes the file (synchronous=FULL)."""
    flushed: list[str] = []
    fsync = os.fsync

    def flush(descriptor: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", flush)
        open_store(tmp_path / "board.sqlite").close()
    assert flushed[-1] == str(tmp_path)
    with open_store(tmp_path / "board.sqlite") as store, store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
