"""Tests that migrations give the schema, upgrade old stores, and change nothing on failure."""

import gzip
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from benchharness.errors import StoreError
from benchharness.leaderboard.store import SCHEMA
from benchharness.leaderboard.store import database as migration
from benchharness.leaderboard.store.store import open_store
from tests.helpers.results import make_failure, make_job, make_result

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"


def upgrade() -> None:
    with op.batch_alter_table("runs", recreate="always") as runs:
        runs.add_column(sa.Column("note", sa.Text()))
    {more}
"""

AddRevision = Callable[..., str]


@pytest.fixture
def add_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddRevision:
    """Add a revision to this version, which recreates the table runs."""

    def add(more: str = "pass") -> str:
        before = migration.revisions()[-1]
        folder = tmp_path / "migrations"
        shutil.copytree(migration.MIGRATIONS, folder)
        revision = f"{int(before) + 1:04}"
        text = NEXT.format(revision=revision, before=before, more=more)
        (folder / "versions" / f"r{revision}.py").write_text(text)
        monkeypatch.setattr(migration, "MIGRATIONS", folder)
        return revision

    return add


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Store of the newest released revision."""
    path = tmp_path / "stores" / "board.sqlite"
    with open_store(path) as store:
        store.add_result(make_result(make_job(task="glue/mnli")))
        store.add_failure(make_failure(make_job(model="other")))
    return path


def _revision(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def _dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def _rows(path: Path, table: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


def test_older_store_in_a_read_only_folder_is_an_error(
    path: Path, add_revision: AddRevision, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "the folder takes no new file")

    add_revision()
    monkeypatch.setattr(migration, "check_place", refuse)
    with pytest.raises(StoreError, match="cannot be upgraded"):
        open_store(path, create=False)


def test_new_store_has_the_current_schema(path: Path) -> None:
    with open_store(path) as store, store._engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, SCHEMA) == []


def test_migrations_from_the_first_release_produce_the_current_schema(tmp_path: Path) -> None:
    kept = Path(__file__).parents[1] / "kept" / "0.1.0.sqlite.gz"
    (tmp_path / "kept.sqlite").write_bytes(gzip.decompress(kept.read_bytes()))
    with open_store(tmp_path / "kept.sqlite") as store, store._engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, SCHEMA) == []


def test_schema_comparison_detects_a_difference(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE runs ADD COLUMN note TEXT")
        connection.execute("DROP INDEX headlines_model")
        connection.commit()
    with open_store(path) as store, store._engine.connect() as connection:
        context = MigrationContext.configure(connection)
        found = str(compare_metadata(context, SCHEMA))
    assert "remove_column" in found
    assert "add_index" in found


def test_schema_revisions_are_linear_and_numbered() -> None:
    config = Config()
    config.set_main_option("script_location", str(migration.MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    line = [script.revision for script in scripts.walk_revisions()]
    assert tuple(reversed(line)) == migration.revisions()
    assert scripts.get_heads() == [migration.revisions()[-1]]


def test_migrations_are_included_in_the_package() -> None:
    folder = files("benchharness.leaderboard") / "store" / "migrations"
    assert (folder / "env.py").is_file()
    assert (folder / "versions" / "r0010.py").is_file()


def test_older_store_is_backed_up_and_upgraded(path: Path, add_revision: AddRevision) -> None:
    before = _dump(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migration, "revisions", lambda: (_revision(path), "0099"))
        # `bench db check` opens a store without upgrading it.
        with pytest.raises(StoreError, match="has the older schema"):
            open_store(path, create=False, upgrade=False)
    assert _dump(path) == before
    old, rows = _revision(path), {t: _rows(path, t) for t in ("scores", "predictions")}
    new = add_revision()
    with open_store(path, create=False) as store:
        assert [row.status for row in store.runs()] == ["finished", "diverged"]
    assert (_revision(path), new) == (new, f"{int(old) + 1:04}")
    assert all(row[-1] is None for row in _rows(path, "runs"))
    assert {t: _rows(path, t) for t in rows} == rows, "making a table anew took others with it"
    (copy,) = path.parent.glob("*.bak")
    assert copy.name.startswith(f"board.sqlite.{old}-")
    assert _dump(copy) == before


def test_upgraded_store_can_add_results(path: Path, add_revision: AddRevision) -> None:
    add_revision()
    result = make_result(make_job(seed=7))
    with open_store(path) as store:
        store.add_result(result)
        assert store.result(result.job.key) == result
    with open_store(path):
        assert len(list(path.parent.glob("*.bak"))) == 1


def test_new_store_is_created_at_the_newest_revision_without_a_backup(
    tmp_path: Path, add_revision: AddRevision
) -> None:
    new = add_revision()
    with open_store(tmp_path / "new.sqlite"):
        assert _revision(tmp_path / "new.sqlite") == new
    assert list(tmp_path.glob("*.bak")) == []


def test_failed_upgrade_leaves_the_store_unchanged(path: Path, add_revision: AddRevision) -> None:
    before = path.read_bytes()
    add_revision(more='op.execute("INSERT INTO nowhere VALUES (1)")')
    with pytest.raises(StoreError, match="no such table: nowhere"):
        open_store(path)
    assert path.read_bytes() == before


def test_store_with_a_newer_schema_is_an_error(
    path: Path, add_revision: AddRevision, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = migration.MIGRATIONS
    new = add_revision()
    with open_store(path):
        pass
    after = path.read_bytes()
    monkeypatch.setattr(migration, "MIGRATIONS", ours)
    with pytest.raises(StoreError, match=f"has schema {new}.*upgrade benchharness"):
        open_store(path)
    assert path.read_bytes() == after
