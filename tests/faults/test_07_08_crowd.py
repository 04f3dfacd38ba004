"""Tests of faults 7 and 8: parallel writers lose or repeat no row, and create one schema.

With 8 writers on SQLite, and with 64 writers and a PostgreSQL server too.
"""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchharness.leaderboard.store.store import open_store
from tests.helpers.postgres import server
from tests.helpers.results import make_job
from tests.helpers.store_writer import start

WRITERS, COMMITS, STARTS = 64, 20, 8


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a database that does not exist yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/board.sqlite"
    else:
        with server() as found:
            yield found


def _crowd(url: str, writers: int, count: int, go: Path) -> list[str]:
    """Start `writers` processes, release them together, return the keys they confirmed."""
    started = [start(url, f"model {n}", count, 4, go) for n in range(writers)]
    time.sleep(writers / 8)  # until most writers have started and wait for the file
    go.touch()
    said = [writer.communicate(timeout=1800) for writer in started]
    codes = Counter(writer.returncode for writer in started)
    assert (codes, {err for _, err in said}) == ({0: writers}, {""})
    return [key for out, _ in said for key in out.split()]


def _check(url: str, keys: list[str]) -> None:
    with open_store(url, create=False) as store:
        stored = Counter(run.key for run in store.stored_runs())
        assert stored == Counter(keys)
        assert sorted(row.key for row in store.runs()) == sorted(stored)
        assert list(store.faults()) == []


@pytest.mark.soak
def test_07_08_eight_simultaneous_writers_create_one_store_with_all_results(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "board.sqlite"
    path.parent.mkdir()
    keys = _crowd(f"sqlite:///{path}", STARTS, 6, tmp_path / "go")
    assert len(keys) == STARTS * 6
    _check(f"sqlite:///{path}", keys)
    shared = make_job(model="shared", seed=0).key
    with open_store(path) as store, closing(sqlite3.connect(path)) as connection:
        assert len(store.attempts(shared)) == STARTS
        query = "SELECT attempt FROM runs WHERE job_key = ? ORDER BY id"
        found = [attempt for (attempt,) in connection.execute(query, [shared])]
        assert found == list(range(1, STARTS + 1))
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
    assert {p.name for p in path.parent.iterdir()} <= {"board.sqlite", ".board.sqlite.lock"}


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_07_results_of_64_simultaneous_writers_are_each_stored_once(
    url: str, tmp_path: Path
) -> None:
    open_store(url).close()
    keys = _crowd(url, WRITERS, COMMITS, tmp_path / "go")
    assert len(keys) == WRITERS * COMMITS
    assert keys.count(make_job(model="shared", seed=0).key) == WRITERS
    _check(url, keys)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_08_eight_simultaneous_first_starts_create_one_store(url: str, tmp_path: Path) -> None:
    keys = _crowd(url, STARTS, 2, tmp_path / "go")
    assert len(keys) == STARTS * 2
    _check(url, keys)
