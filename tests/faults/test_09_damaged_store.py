"""Tests of fault 9: damaged stores and files of other kinds are refused and left unchanged."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from benchharness.errors import BenchError, StoreError
from benchharness.leaderboard.store.store import open_store
from tests.helpers.results import filled_store, make_result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a store with a result of every task and one failure."""
    return filled_store(tmp_path / "board.sqlite")


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
    _empty: r"is empty \(0 bytes\) and was not changed",
    _text: "is not an SQLite database and was not changed",
    _short: "is not an SQLite database and was not changed",
    _header_only: "is damaged",
    _half: "is damaged",
    _noise_after_the_header: "is damaged",
    _noise_in_the_schema: "is damaged",
    _another_program: "of another program",
    _newer: r"has schema 9999.*: upgrade",
    _no_version: "of another program",
    _another_programs_version: "of another program",
}


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(("damage", "reason"), DAMAGES.items())
def test_09_invalid_store_file_is_refused_and_unchanged(
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


def test_09_flipped_bit_in_a_run_is_detected(tmp_path: Path) -> None:
    """SQLite's integrity check passes here, because its pages have no checksums."""
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
    places += [content.find(b"\x78\x9c") + 30]  # a byte inside the compressed predictions
    assert len(places) > 5
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with open_store(path) as store, pytest.raises(StoreError, match="damaged"):
            store.result(result.job.key)
        assert path.read_bytes() == bytes(changed)


def test_09_flipped_bit_anywhere_never_gives_a_wrong_result(tmp_path: Path) -> None:
    """Reading gives the same result (the bit is unused) or an error message."""
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


def test_09_run_key_that_is_in_an_index_but_has_no_run_is_reported_as_damage(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flipped bit in a row id has this effect; a patched key lookup simulates it."""
    monkeypatch.setattr(
        "benchharness.leaderboard.store.store._find_key", lambda session, prefix: "ab" * 32
    )
    with open_store(path) as store, pytest.raises(StoreError, match="is damaged"):
        store.result("ab")


def test_09_changed_cost_of_a_stored_run_is_detected_by_its_digest(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE runs SET cost = replace(cost, '12.5', '1e999')")
        connection.commit()
    with (
        open_store(path) as store,
        pytest.raises(StoreError, match="is damaged: its digest does not match"),
    ):
        store.result(store.runs()[0].key)


@pytest.mark.parametrize("content", ['{"glue', "7", "{}", '{"losses": [1], "flags": {}}'])
def test_09_damaged_headline_score_is_an_error_when_runs_are_listed(
    path: Path, content: str
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE headlines SET content = ? WHERE run_id = 3", [content])
        connection.commit()
    with open_store(path) as store, pytest.raises(StoreError, match="is damaged"):
        store.runs()


def test_09_stored_run_without_a_headline_score_is_reported_as_damage(tmp_path: Path) -> None:
    with open_store(tmp_path / "x.sqlite") as store:
        result = make_result()
        store.add_result(result)
        with closing(sqlite3.connect(tmp_path / "x.sqlite")) as connection:
            connection.execute("DELETE FROM headlines")
            connection.commit()
        with pytest.raises(StoreError, match="is damaged"):
            store.result(result.job.key)
