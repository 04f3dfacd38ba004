"""The store on a PostgreSQL server, where BENCH_TEST_POSTGRES is the URL of an empty database."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from leaderboard.database import open_engine, writing
from leaderboard.schema import Base
from leaderboard.store import open_store
from tasks.errors import StoreError
from tests.leaderboard.results import make_failure, make_job, make_result, make_suite


@pytest.fixture
def url() -> Iterator[str]:
    """A database without tables, before and after."""
    url = os.environ.get("BENCH_TEST_POSTGRES")
    if not url:
        pytest.skip("BENCH_TEST_POSTGRES is not set")
    _empty(url)
    yield url
    _empty(url)


def _empty(url: str) -> None:
    with writing(open_engine(url)) as session:
        for table in ("predictions", "scores", "runs", "alembic_version"):
            session.execute(text(f"DROP TABLE IF EXISTS {table}"))


def test_results_come_back_equal(url: str) -> None:
    result = make_result(make_job(model="nul \0 surrogate \udc80 ' quote"))
    with pytest.raises(StoreError, match="there is no leaderboard at"):
        open_store(url, create=False)
    with open_store(url) as store:
        assert store.add_result(result) == 1
        assert store.add_failure(make_failure(result.job)) == 2
        assert store.result(result.job.key[:12]) == result
        assert [row.status for row in store.runs(model=result.job.model)] == ["finished"]


def test_many_start_and_write_at_once(url: str) -> None:
    def add(seed: int) -> int:
        with open_store(url) as store:
            return store.add_result(make_suite(seeds=1)[seed % 2])

    with ThreadPoolExecutor(8) as pool:
        attempts = sorted(pool.map(add, range(16)))
    assert attempts == sorted([*range(1, 9), *range(1, 9)])


def test_the_history_makes_the_schema(url: str) -> None:
    with open_store(url) as store, store._engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_a_server_that_is_down_is_said_without_the_password() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match="Check the URL, and that the server is up") as raised:
        open_store("postgresql+psycopg://user:secret@127.0.0.1:1/board")
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)
