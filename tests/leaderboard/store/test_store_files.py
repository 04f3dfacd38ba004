"""Store files: path, creation, and errors of folders, file systems and locks."""

import errno
import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from benchharness.errors import StoreError
from benchharness.leaderboard.store.database import BUSY_SECONDS
from benchharness.leaderboard.store.store import open_store
from tests.helpers.results import filled_store, make_job, make_result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Store with a result of every task and one failure."""
    return filled_store(tmp_path / "board.sqlite")


def test_opening_a_store_creates_missing_folders(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "board.sqlite"
    with open_store(path) as store:
        assert store.name == str(path)
        assert store.runs() == []
    assert sorted(p.name for p in path.parent.iterdir() if p.suffix != ".lock") == ["board.sqlite"]


def test_path_and_sqlite_url_open_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_store(f"sqlite:///{tmp_path}/50% of a #board.sqlite") as store:
        store.add_result(make_result())
    for same in (Path("50% of a #board.sqlite"), "~/50% of a #board.sqlite"):
        with open_store(same, create=False) as store:
            assert len(store.runs()) == 1


@pytest.mark.parametrize("name", ["what?is=this.sqlite", "file:x.sqlite", "a b%41.sqlite", "-é"])
def test_store_file_names_with_url_characters_are_taken_literally(
    tmp_path: Path, name: str
) -> None:
    with open_store(tmp_path / name) as store:
        store.add_result(make_result())
    with open_store(str(tmp_path / name), create=False) as store:
        assert len(store.runs()) == 1
    assert (tmp_path / name).is_file()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nonsense://user:secret@host/db", "cannot be used as a database"),
        ("mysql+pymysql://user:secret@host/db", "cannot be used as a database"),
        ("sqlite://", "only the path of a file"),
        ("sqlite:///board.sqlite?timeout=5", "only the path of a file"),
    ],
)
def test_invalid_database_url_is_an_error_that_hides_the_password(url: str, reason: str) -> None:
    with pytest.raises(StoreError, match=reason) as raised:
        open_store(url)
    assert "secret" not in str(raised.value)


def test_opening_a_missing_store_for_reading_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no leaderboard at .*board.sqlite yet; `bench run`"):
        open_store(tmp_path / "deep" / "board.sqlite", create=False)
    assert list(tmp_path.iterdir()) == []


def test_sqlite_connection_uses_durable_settings(path: Path) -> None:
    with open_store(path) as store, store._engine.connect() as connection:
        values = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        ]
    assert values == ["delete", 2, BUSY_SECONDS * 1000, 1]


def test_sqlite_store_in_wal_mode_is_switched_to_delete_mode(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    with open_store(path) as store:
        store.add_result(make_result(make_job(seed=9)))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_files_of_an_interrupted_store_creation_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".board.sqlite.new").write_bytes(b"half a file")
    (tmp_path / ".board.sqlite.new-journal").write_bytes(b"half a journal")
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(make_result())
    assert {p.name for p in tmp_path.iterdir()} <= {"board.sqlite", ".board.sqlite.lock"}


def test_store_path_that_is_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder"):
        open_store(tmp_path)


def test_store_path_with_a_file_as_its_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(StoreError, match=r"board.sqlite cannot be reached: Not a directory"):
        open_store(tmp_path / "results" / "board.sqlite")


def test_store_path_that_is_a_dangling_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "board.sqlite").symlink_to(tmp_path / "gone.sqlite")
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        open_store(tmp_path / "board.sqlite")


@pytest.mark.parametrize("road", ["open", "read", "write", "copy"])
def test_locked_store_is_an_error_that_states_the_waiting_time(
    path: Path, monkeypatch: pytest.MonkeyPatch, road: str
) -> None:
    monkeypatch.setattr("benchharness.leaderboard.store.database.BUSY_SECONDS", 0.3)
    store = open_store(path)
    roads: dict[str, Callable[[], object]] = {
        "open": lambda: open_store(path, create=False),
        "read": store.runs,
        "write": lambda: store.add_result(make_result(make_job(seed=9))),
        "copy": lambda: store.back_up(path.with_name("copy.sqlite")),
    }
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        start = time.monotonic()
        with pytest.raises(StoreError, match="was locked by another process") as raised:
            roads[road]()
        waited = time.monotonic() - start
        other.execute("ROLLBACK")
    (said,) = re.findall("for ([0-9.]+) seconds", str(raised.value))
    assert 0.3 <= float(said) <= waited + 0.5, "the time that it has waited, however long"
    assert not path.with_name("copy.sqlite").exists()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
@pytest.mark.parametrize("call", ["lockf", "flock"])
def test_store_on_a_file_system_without_locks_is_an_error(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    def fails(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"benchharness.leaderboard.store.database.fcntl.{call}", fails)
    for place in (path, tmp_path / "new" / "board.sqlite"):
        with pytest.raises(StoreError, match=r"on a file system without locks \(.*--db") as raised:
            open_store(place)
        assert os.strerror(number) in str(raised.value)
    assert list((tmp_path / "new").iterdir()) == []


def test_locks_are_probed_in_the_folder_of_the_link_target(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "elsewhere" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(path)
    tried: list[Path] = []

    def temporary(**options: Path) -> Any:
        tried.extend(options.values())
        return TemporaryFile(**options)

    monkeypatch.setattr("benchharness.leaderboard.text.TemporaryFile", temporary)
    open_store(link).close()
    assert tried == [path.parent.resolve()]
    open_store(tmp_path / "new.sqlite").close()
    assert tried[1:] == [tmp_path], "once, also where it is made"


def test_readers_do_not_wait_for_a_writer_and_a_second_writer_is_an_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchharness.leaderboard.store.database.BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with open_store(path) as store:
            assert len(store.runs()) == 10, "readers need not wait for a writer"
            with pytest.raises(StoreError, match="was locked by another process"):
                store.add_result(make_result(make_job(seed=9)))
        other.execute("ROLLBACK")
    with open_store(path) as store:
        assert len(store.runs()) == 10
