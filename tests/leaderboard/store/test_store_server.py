"""Store on a PostgreSQL server, which BENCH_TEST_POSTGRES names or the tests start."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from benchharness.errors import BenchError, StoreError
from benchharness.leaderboard.store import SCHEMA
from benchharness.leaderboard.store.archive import read_archive
from benchharness.leaderboard.store.database import open_engine, reading, writing
from benchharness.leaderboard.store.store import open_store
from tests.helpers.postgres import empty, server
from tests.helpers.results import make_failure, make_job, make_result, make_suite


@pytest.fixture(scope="module")
def running() -> Iterator[str]:
    """URL in BENCH_TEST_POSTGRES, or else of a server that the tests start."""
    url = os.environ.get("BENCH_TEST_POSTGRES")
    if url:
        yield url
    else:
        with server() as own:
            yield own


@pytest.fixture
def url(running: str) -> Iterator[str]:
    """URL of a database without tables, before and after."""
    empty(running)
    yield running
    empty(running)


def test_results_are_read_back_equal_from_a_server(url: str) -> None:
    result = make_result(make_job(model="nul \0 surrogate \udc80 ' quote"))
    with pytest.raises(StoreError, match="there is no leaderboard at"):
        open_store(url, create=False)
    with open_store(url) as store:
        assert store.add_result(result) == 1
        assert store.add_failure(make_failure(result.job)) == 2
        assert store.result(result.job.key[:12]) == result
        assert [row.status for row in store.runs(model=result.job.model)] == ["finished"]


def test_concurrent_writers_on_a_server_lose_no_result(url: str) -> None:
    def add(seed: int) -> int:
        with open_store(url) as store:
            return store.add_result(make_suite(seeds=1)[seed % 2])

    with ThreadPoolExecutor(8) as pool:
        attempts = sorted(pool.map(add, range(16)))
    assert attempts == sorted([*range(1, 9), *range(1, 9)])


def test_all_queries_of_a_reader_of_a_server_see_the_same_state(url: str) -> None:
    count = text("SELECT count(*) FROM runs")
    with open_store(url) as store:
        store.add_result(make_result(make_job()))
        with reading(open_engine(url)) as db:
            before = db.scalar(count)
            store.add_result(make_result(make_job(seed=2)))
            assert (before, db.scalar(count)) == (1, 1)
        with reading(open_engine(url)) as db:
            assert db.scalar(count) == 2


def test_new_store_on_a_server_has_the_current_schema(url: str) -> None:
    with open_store(url) as store, store._engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), SCHEMA) == []


def test_run_list_can_be_filtered_on_a_server(url: str) -> None:
    with open_store(url) as store:
        for result in make_suite(seeds=1):
            store.add_result(result)
        store.add_failure(make_failure(make_job(model="other", task="superglue/cb")))
        assert store.suites() == ["superglue", "glue"]
        assert store.models() == ["minilm", "other"]
        assert (store.count(), store.count(suite="glue")) == (10, 9)
        assert len(store.runs(model={"minilm", "x"}, task="glue/rte")) == 1


def test_store_on_a_server_can_be_checked_backed_up_and_merged(url: str, tmp_path: Path) -> None:
    archive = tmp_path / "copy.jsonl.gz"
    with open_store(url) as store, open_store(tmp_path / "other.sqlite") as other:
        for result in make_suite(seeds=1):
            store.add_result(result)
        other.add_result(make_result(make_job(), finished="2026-01-01T00:00:00Z"))
        assert store.merge(other.stored_runs()).shared == (make_job().key,)
        assert list(store.faults()) == []
        store.back_up(archive)
        assert other.merge(read_archive(archive)).added == 9
        with writing(store._engine) as session:
            session.execute(text("UPDATE scores SET value = 1.5 WHERE run_id = 2"))
        assert len(list(store.faults())) == 1
        with pytest.raises(BenchError, match=r"must end with .gz, but is 'copy.sqlite'"):
            store.back_up(tmp_path / "copy.sqlite")


def test_unreachable_database_server_is_an_error_that_hides_the_password() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match="check that the server is running") as raised:
        open_store("postgresql+psycopg://user:secret@127.0.0.1:1/board")
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_result_is_saved_to_a_file_if_the_server_is_locked(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = make_result()
    with open_store(url) as store:
        with writing(open_engine(url)) as other:
            other.execute(text("SELECT 1"))  # begins the transaction, which holds the lock
            with pytest.raises(StoreError, match=r"locked by another process for 0\.1\d? seconds"):
                store.hurried(0.1).add_missing(result)
            kept = store.keep(result)
        assert kept.parent.parent == tmp_path / "results"
        assert kept.parent.suffix == ".unstored"
        assert "@" not in str(kept.relative_to(tmp_path))
    with open_store(url) as store:
        assert store.taken == (1, 0, ())
        assert store.result(result.job.key) == result
        assert store.add_results([result, make_result(make_job(seed=4))]) == 1
        assert list(store.faults()) == []
