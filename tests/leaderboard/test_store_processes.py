"""Many processes at one store, and processes that are killed while they write."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from leaderboard.result import Result
from leaderboard.store import open_store
from tests.leaderboard.results import make_job

PROCESSES, COMMANDS = 8, 10


def _start(path: Path, name: str, count: int, kilobytes: int) -> subprocess.Popen[str]:
    words = (str(path), name, str(count), str(kilobytes))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.leaderboard.writer", *words],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def _let_go(path: Path) -> None:
    path.with_name(f"{path.name}.go").touch()


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A store that eight processes found missing, and the job keys they said they stored."""
    path = tmp_path_factory.mktemp("crowd") / "deep" / "board.sqlite"
    path.parent.mkdir()
    writers = [_start(path, f"model {n}", COMMANDS, 4) for n in range(PROCESSES)]
    time.sleep(1)  # so that most of them have started and wait
    _let_go(path)
    keys = []
    for writer in writers:
        out, err = writer.communicate(timeout=120)
        assert (writer.returncode, err) == (0, "")
        keys += out.split()
    return path, keys


def test_every_result_of_every_process_is_there_once(crowded: tuple[Path, list[str]]) -> None:
    path, keys = crowded
    assert len(keys) == PROCESSES * COMMANDS
    with open_store(path) as store:
        assert sorted(row.key for row in store.runs()) == sorted(set(keys))
        for row in store.runs(model="model 3"):
            assert len(store.attempts(row.key)) == 1
            assert isinstance(store.result(row.key), Result)


def test_attempts_at_one_job_are_numbered_without_gaps(crowded: tuple[Path, list[str]]) -> None:
    path, keys = crowded
    shared = make_job(model="shared", seed=0).key
    assert keys.count(shared) == PROCESSES
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT attempt FROM runs WHERE job_key = ? ORDER BY id"
        found = [attempt for (attempt,) in connection.execute(query, [shared])]
    assert found == list(range(1, PROCESSES + 1))


def test_the_schema_was_made_once(crowded: tuple[Path, list[str]]) -> None:
    path, _ = crowded
    assert {p.name for p in path.parent.iterdir()} <= {
        "board.sqlite",
        "board.sqlite.go",
        ".board.sqlite.lock",
    }
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)


def test_a_writer_that_is_killed_leaves_no_half_run(tmp_path: Path) -> None:
    """What it said was stored is there; what it was writing is there whole or not at all."""
    draw = random.Random(0)
    path = tmp_path / "board.sqlite"
    _let_go(path)
    said: list[str] = []
    hit = 0
    for round_number in range(60):
        writer = _start(path, f"round {round_number}", 500, 512)
        assert writer.stdout is not None
        said.append(writer.stdout.readline().strip())
        time.sleep(draw.uniform(0, 0.06))
        writer.send_signal(signal.SIGKILL)
        out, _ = writer.communicate(timeout=60)
        said += [line for line in out.splitlines() if len(line) == 64]
        hit += path.with_name("board.sqlite-journal").exists()
        _check_whole(path, set(said))
        if round_number >= 4 and hit:
            break
    assert hit > 0, "no kill fell into a transaction, so nothing was tested"


def _check_whole(path: Path, said: set[str]) -> None:
    with open_store(path, create=False) as store:
        rows = store.runs()
        assert said <= {row.key for row in rows}
        for row in rows:
            found = store.result(row.key)  # checks every byte by its digest
            assert isinstance(found, Result)
            assert row.scores == {e.task: e.scores for e in found.evaluations}
            assert len(found.evaluations) == 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
