"""Fault 10: stores of older and newer versions, as a command meets them.

That each revision keeps everything is tested in tests/leaderboard/store/test_migrations.py.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchharness.leaderboard.store import database as migration
from benchharness.leaderboard.store.store import open_store
from benchharness.tasks.errors import StoreError

STORES = Path(__file__).parents[1] / "leaderboard" / "stores"


@pytest.fixture(params=sorted(STORES.glob("r*.sql")), ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store as a release has written it."""
    path = tmp_path / "board.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(request.param.read_text())
    return path


def _dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_10_a_command_upgrades_an_older_store_and_keeps_a_copy(path: Path) -> None:
    from benchharness.cli.app import app

    before = _dump(path)
    is_newest = any(f"VALUES('{migration.revisions()[-1]}')" in line for line in before)
    ended = CliRunner().invoke(app, ["list", "runs", "--json", "--db", str(path)])
    assert ended.exit_code == 0
    assert "diverged" in ended.output
    copies = list(path.parent.glob("*.bak"))
    assert [_dump(copy) for copy in copies] == ([] if is_newest else [before])


def test_10_an_upgrade_that_fails_leaves_the_old_schema(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = migration._run_migrations

    def failing(session: object) -> None:
        run(session)  # type: ignore[arg-type]
        raise sqlite3.OperationalError("database or disk is full")

    before = _dump(path)
    monkeypatch.setattr(migration, "_run_migrations", failing)
    if f"VALUES('{migration.revisions()[-1]}')" in "".join(before):
        return
    with pytest.raises(StoreError, match="disk is full"):
        open_store(path)
    assert _dump(path) == before


def test_10_a_newer_store_is_refused_and_left(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"has schema 9999.*Upgrade benchharness") as raised:
        open_store(path)
    assert raised.value.exit_code == 5
    assert path.read_bytes() == before
    assert list(path.parent.glob("*.bak")) == []
