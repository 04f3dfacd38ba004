"""Faults 7 and 8: many writers at once lose and double nothing; many first starts make one schema.

The small crowd of every test run is in tests/leaderboard/test_store_processes.py.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from leaderboard.store import open_store
from tests.leaderboard.postgres import server
from tests.leaderboard.results import make_job

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

WRITERS, COMMITS, STARTS = 64, 20, 8


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database that is not there yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/board.sqlite"
    else:
        with server() as found:
            yield found


def _start(url: str, name: str, count: int, go: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.leaderboard.writer", url, name, str(count), "4"],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "WRITER_GO": str(go)},
    )


def _crowd(url: str, writers: int, count: int, go: Path) -> list[str]:
    """The keys that so many processes said they have stored, all let go at one moment."""
    started = [_start(url, f"model {n}", count, go) for n in range(writers)]
    time.sleep(writers / 4)  # so that most have started and wait
    go.touch()
    keys: list[str] = []
    for writer in started:
        out, err = writer.communicate(timeout=1800)
        assert (writer.returncode, err) == (0, "")
        keys += out.split()
    return keys


def _check(url: str, keys: list[str]) -> None:
    with open_store(url, create=False) as store:
        stored = Counter(run.key for run in store.stored_runs())
        assert stored == Counter(keys)
        assert sorted(row.key for row in store.runs()) == sorted(stored)
        assert list(store.faults()) == []


def test_07_64_writers_of_20_results(url: str, tmp_path: Path) -> None:
    open_store(url).close()
    keys = _crowd(url, WRITERS, COMMITS, tmp_path / "go")
    assert len(keys) == WRITERS * COMMITS
    assert keys.count(make_job(model="shared", seed=0).key) == WRITERS
    _check(url, keys)


def test_08_eight_first_starts(url: str, tmp_path: Path) -> None:
    keys = _crowd(url, STARTS, 2, tmp_path / "go")
    assert len(keys) == STARTS * 2
    _check(url, keys)
