"""Tests that damage to a store is found and reported in one sentence."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchharness.errors import BenchError, StoreError
from benchharness.leaderboard.store.database import check_new
from benchharness.leaderboard.store.store import open_store
from tests.helpers.results import make_failure, make_job, make_result, make_suite
from tests.helpers.soak import in_part

DAMAGES = {
    "UPDATE scores SET value = 1.0 WHERE id = 3": "is damaged: its digest does not match",
    "UPDATE runs SET model = 'x' WHERE id = 2": "is damaged: its digest does not match",
    "UPDATE runs SET provenance = '{' WHERE id = 2": "run number 2: .*is damaged",
    "UPDATE predictions SET rows = x'00' WHERE id = 1": "run number 1: .*is damaged",
    "UPDATE headlines SET content = replace(content, '0.', '0.9') WHERE run_id = 4": (
        "the summary of run .* differs from the run"
    ),
    "UPDATE headlines SET content = '7' WHERE run_id = 4": "differs from the run",
    "DELETE FROM headlines WHERE run_id = 5": "the table `headlines` has no row for the newest",
    "DELETE FROM scores WHERE run_id = 1": "is damaged: its digest does not match",
    "DELETE FROM runs WHERE id = 1": "scores has . rows for run 1, which does not exist",
    "DROP INDEX headlines_model": "needs this change: add_index headlines_model",
    "ALTER TABLE runs ADD COLUMN note TEXT": "needs this change: remove_column .*runs note",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "board.sqlite"
    with open_store(path) as store:
        for result in make_suite(seeds=1):
            store.add_result(result)
        store.add_result(make_result(make_job(), finished="2026-09-01T00:00:00Z"))
        store.add_failure(make_failure(make_job(model="other")))
    return path


def _faults(path: Path) -> list[str]:
    with open_store(path, create=False, upgrade=False) as store:
        return list(store.faults())


def test_integrity_check_of_an_intact_store_finds_nothing(path: Path) -> None:
    before = path.read_bytes()
    assert _faults(path) == []
    assert path.read_bytes() == before


@pytest.mark.parametrize(("damage", "sentence"), in_part(DAMAGES.items(), [*DAMAGES.items()][::3]))
def test_integrity_check_reports_each_kind_of_damage_without_changes(
    path: Path, damage: str, sentence: str
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute(damage)
        connection.commit()
    before = path.read_bytes()
    found = _faults(path)
    assert any(re.search(sentence, fault) for fault in found), found
    assert all("\n" not in fault for fault in found)
    assert path.read_bytes() == before


def test_number_in_a_text_column_of_the_database_is_read_as_text(path: Path) -> None:
    """Test a number where a name was: SQLite does not enforce the types of columns."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE copy AS SELECT * FROM headlines")
        connection.execute("UPDATE copy SET suite = 7")
        connection.execute("DROP TABLE headlines")
        connection.execute("ALTER TABLE copy RENAME TO headlines")
        connection.commit()
    with open_store(path, create=False, upgrade=False) as store:
        assert store.suites() == ["7"]


@pytest.mark.parametrize("column", ["shared", "content"])
@pytest.mark.parametrize("value", ["NULL", "1", "x'18957d'"])
def test_invalid_value_in_the_run_summary_table_is_an_error(
    path: Path, column: str, value: str
) -> None:
    """Regression test, found by fuzzing: the column is NOT NULL text, but the file is damaged."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE copy AS SELECT * FROM headlines")
        connection.execute(f"UPDATE copy SET {column} = {value} WHERE run_id = 4")
        connection.execute("DROP TABLE headlines")
        connection.execute("ALTER TABLE copy RENAME TO headlines")
        connection.commit()
    with (
        open_store(path, create=False, upgrade=False) as store,
        pytest.raises(StoreError, match="is damaged"),
    ):
        store.runs()


@pytest.fixture
def without_a_page(path: Path) -> Path:
    """Store without the first page of its predictions, which opening does not read."""
    with closing(sqlite3.connect(path)) as connection:
        asked = "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = ?"
        page, size = connection.execute(asked, ("predictions",)).fetchone()
    content = bytearray(path.read_bytes())
    content[size * (page - 1) : size * page] = bytes(size)  # pages are counted from 1
    path.write_bytes(content)
    return path


def test_integrity_check_reports_a_missing_database_page(without_a_page: Path) -> None:
    assert _faults(without_a_page)


def test_backup_equals_the_store(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "deep" / "copy.sqlite"
    with open_store(path) as store:
        store.back_up(copy)
        with open_store(copy, create=False, upgrade=False) as other:
            assert list(other.stored_runs()) == list(store.stored_runs())
            assert list(other.faults()) == []
    assert {p.name for p in copy.parent.iterdir()} <= {"copy.sqlite", ".copy.sqlite.lock"}


def test_backup_of_a_damaged_store_is_an_error(without_a_page: Path, tmp_path: Path) -> None:
    (tmp_path / "copies").mkdir()
    with (
        open_store(without_a_page) as store,
        pytest.raises(StoreError, match="save what can be read"),
    ):
        store.back_up(tmp_path / "copies" / "copy.sqlite")
    assert list((tmp_path / "copies").iterdir()) == []


def test_backup_never_overwrites_a_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.sqlite").write_text("precious")
    with pytest.raises(BenchError, match="already exists"):
        check_new(tmp_path / "copy.sqlite")
    with open_store(path) as store, pytest.raises(BenchError, match="already exists"):
        store.back_up(tmp_path / "copy.sqlite")
    assert (tmp_path / "copy.sqlite").read_text() == "precious"


def test_backup_to_an_unwritable_place_is_an_error(path: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with open_store(path) as store, pytest.raises(StoreError, match="could not be written"):
        store.back_up(tmp_path / "file" / "copy.sqlite")
