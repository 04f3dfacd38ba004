"""Tests of fault 10: stores from before 0.1.0 and from newer versions.

tests/leaderboard/store/test_migrations.py tests that upgrades keep all data.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchharness.errors import StoreError
from benchharness.leaderboard.store.store import open_store
from tests.helpers.results import make_result


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("0004", "by a development version before 0.1.0, .* read; benchharness 0.1.0 of commit 00"),
        ("9999", "has schema 9999, and benchharness 0.1.0 of commit 00000000 made its newest run"),
    ],
)
def test_10_development_or_newer_schema_is_refused_and_unchanged(
    tmp_path: Path, revision: str, words: str
) -> None:
    path = tmp_path / "board.sqlite"
    with open_store(path) as store:
        store.add_result(make_result())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])
        connection.commit()
    _check_refusal(path, words)
    # Simulates an older schema without these columns.
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE runs RENAME COLUMN provenance TO facts")
        connection.commit()
    _check_refusal(path, r"0\.1\.0, and can no longer be read:|schema 9999, but")


def _check_refusal(path: Path, words: str) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreError, match=words) as raised:
        open_store(path, create=False)
    assert raised.value.exit_code == 5
    assert path.read_bytes() == before
    assert list(path.parent.glob("*.bak")) == []
