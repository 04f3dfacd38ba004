"""Where a store is, how it is made, and what happens to files that are no store."""

import random
import resource
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from leaderboard import migration
from leaderboard.database import BUSY_SECONDS
from leaderboard.store import open_store
from tasks.errors import BenchError, StoreError
from tests.leaderboard.results import make_failure, make_job, make_result, make_suite


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a result of every task and one failure."""
    path = tmp_path / "board.sqlite"
    with open_store(path) as store:
        for result in make_suite(seeds=1):
            store.add_result(result)
        store.add_failure(make_failure(make_job(model="other")))
    return path


def test_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "board.sqlite"
    with open_store(path) as store:
        assert store.name == str(path)
        assert store.runs() == []
    assert sorted(p.name for p in path.parent.iterdir() if p.suffix != ".lock") == ["board.sqlite"]


def test_a_path_and_an_url_are_the_same_store(
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
def test_odd_file_names_are_names(tmp_path: Path, name: str) -> None:
    with open_store(tmp_path / name) as store:
        store.add_result(make_result())
    with open_store(str(tmp_path / name), create=False) as store:
        assert len(store.runs()) == 1
    assert (tmp_path / name).is_file()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("nonsense://user:secret@host/db", "no database that can be used here"),
        ("mysql+pymysql://user:secret@host/db", "no database that can be used here"),
        ("sqlite://", "must name a file"),
        ("sqlite:///board.sqlite?timeout=5", "must name a file and nothing more"),
    ],
)
def test_an_url_that_cannot_be_used(url: str, reason: str) -> None:
    with pytest.raises(StoreError, match=reason) as raised:
        open_store(url)
    assert "secret" not in str(raised.value)


def test_a_missing_store_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no leaderboard at .*board.sqlite yet; `bench run`"):
        open_store(tmp_path / "deep" / "board.sqlite", create=False)
    assert list(tmp_path.iterdir()) == []


def test_the_settings_that_keep_results_safe(path: Path) -> None:
    with open_store(path) as store, store._engine.connect() as connection:
        values = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        ]
    assert values == ["delete", 2, BUSY_SECONDS * 1000, 1]


def test_a_store_that_was_put_into_wal_mode_leaves_it(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    with open_store(path) as store:
        store.add_result(make_result(make_job(seed=9)))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_creation_that_was_killed_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / ".board.sqlite.new").write_bytes(b"half a file")
    (tmp_path / ".board.sqlite.new-journal").write_bytes(b"half a journal")
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(make_result())
    assert {p.name for p in tmp_path.iterdir()} <= {"board.sqlite", ".board.sqlite.lock"}


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _text(path: Path) -> None:
    path.write_text("model,task,score\n" * 500)


def _short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:7])


def _header_only(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _noise_after_the_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:16] + b"\xa5" * (path.stat().st_size - 16))


def _noise_in_the_schema(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100:3000] = b"\xa5" * 2900
    path.write_bytes(content)


def _another_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.commit()


def _newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()


def _no_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM alembic_version")
        connection.commit()


def _another_programs_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'a7c3d1e5b902'")
        connection.commit()


DAMAGES = {
    _empty: r"is empty \(0 bytes\) and was left",
    _text: "is not an SQLite database and was left",
    _short: "is not an SQLite database and was left",
    _header_only: "is damaged",
    _half: "is damaged",
    _noise_after_the_header: "is damaged",
    _noise_in_the_schema: "is damaged",
    _another_program: "of something else",
    _newer: r"has schema 9999, and this benchharness knows 0001 to \d+: a newer one",
    _no_version: "of something else",
    _another_programs_version: "of something else",
}


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(("damage", "reason"), DAMAGES.items())
def test_a_file_that_is_no_store_is_refused_and_left_alone(
    path: Path, damage: Callable[[Path], None], reason: str, create: bool
) -> None:
    damage(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=reason) as raised:
        open_store(path, create=create)
    assert raised.value.exit_code == 5
    assert str(path) in str(raised.value)
    assert path.read_bytes() == before
    assert {p.name for p in path.parent.iterdir()} <= {path.name, f".{path.name}.lock"}


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder"):
        open_store(tmp_path)


def test_a_file_in_the_way_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(StoreError, match=r"board.sqlite cannot be reached: Not a directory"):
        open_store(tmp_path / "results" / "board.sqlite")


def test_a_dangling_link_is_said(tmp_path: Path) -> None:
    (tmp_path / "board.sqlite").symlink_to(tmp_path / "gone.sqlite")
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        open_store(tmp_path / "board.sqlite")


def test_a_disk_that_is_full_while_making_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(session: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(migration, "_run_migrations", full)
    with pytest.raises(StoreError, match=r"disk is full\. Check that the disk has room"):
        open_store(tmp_path / "board.sqlite")
    assert {p.name for p in tmp_path.iterdir()} <= {".board.sqlite.lock"}


def test_a_disk_that_is_full_while_storing(path: Path) -> None:
    """The limit on a file's size stands in for the disk's end; Python ignores its signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = make_result(make_job(seed=9), provenance={"words": "0123456789" * 100_000})
    with open_store(path) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100_000, hard))
        try:
            with pytest.raises(StoreError, match="Check that the disk has room"):
                store.add_result(large)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert len(store.runs()) == 10
        store.add_result(large)
        assert store.result(large.job.key) == large


def test_a_locked_store_is_said_to_be_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leaderboard.database.BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with open_store(path) as store:
            assert len(store.runs()) == 10, "readers need not wait for a writer"
            with pytest.raises(StoreError, match="was locked by another process"):
                store.add_result(make_result(make_job(seed=9)))
        other.execute("ROLLBACK")
    with open_store(path) as store:
        assert len(store.runs()) == 10


def test_a_flipped_bit_in_a_run_is_noticed(tmp_path: Path) -> None:
    """SQLite's own check says "ok" to these: its pages have no checksums."""
    path = tmp_path / "board.sqlite"
    result = make_result(rows=40, provenance={"words": "word " * 100})
    with open_store(path) as store:
        store.add_result(result)
    content = path.read_bytes()
    marks = (
        b"word word",
        b"minilm",
        b"glue/rte",
        b"2026-08",
        b"learning_rate",
        b"matthews",
        b"dev",
    )
    places = [content.find(mark) for mark in marks if mark in content]
    places += [content.find(b"\x78\x9c") + 30]  # in the zlib stream of the predictions
    assert len(places) > 5
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with open_store(path) as store, pytest.raises(StoreError, match="damaged"):
            store.result(result.job.key)
        assert path.read_bytes() == bytes(changed)


def test_a_flipped_bit_anywhere_never_gives_another_result(tmp_path: Path) -> None:
    """The same result (the bit was in no use), or an error that a user can read."""
    path = tmp_path / "board.sqlite"
    result = make_result(rows=300)
    with open_store(path) as store:
        store.add_result(result)
    content = path.read_bytes()
    draw = random.Random(3)
    errors = 0
    for place in draw.sample(range(len(content)), 60):
        changed = bytearray(content)
        changed[place] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        try:
            with open_store(path) as store:
                assert store.result(result.job.key) == result
        except BenchError:
            errors += 1
    assert 0 < errors < 60


def test_a_run_that_only_an_index_knows_is_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flipped bit in a row's number does this; here the look-up of the key plays the index."""
    monkeypatch.setattr("leaderboard.store._find_key", lambda session, prefix: "ab" * 32)
    with open_store(path) as store, pytest.raises(StoreError, match="is damaged"):
        store.result("ab")


def test_a_number_that_became_infinite_is_damage(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE runs SET cost = replace(cost, '12.5', '1e999')")
        connection.commit()
    with open_store(path) as store, pytest.raises(StoreError, match="is damaged: it is not what"):
        store.result(store.runs()[0].key)


def test_damage_in_a_list_is_said(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE runs SET fingerprints = '{\"glue'")
        connection.commit()
    with open_store(path) as store, pytest.raises(StoreError, match="is damaged"):
        store.runs()
