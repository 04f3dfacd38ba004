"""Tests of fault 10: stores from before 0.1.0 and from newer versions.

tests/leaderboard/store/test_migrations.py tests that upgrades keep all data.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchharness.errors import StoreError
from benchharness.leaderboard.store.store import open_store


@pytest.mark.parametrize(
    ("revision", "words"),
    [("0004", "created by a development version"), ("9999", "has schema 9999")],
)
def test_10_development_or_newer_schema_is_refused_and_unchanged(
    tmp_path: Path, revision: str, words: str
) -> None:
    path = tmp_path / "board.sqlite"
    open_store(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=words) as raised:
        open_store(path, create=False)
    assert raised.value.exit_code == 5
    assert path.read_bytes() == before
    assert list(tmp_path.glob("*.bak")) == []
