"""Tests of fault 3: a killed writer keeps each confirmed run and leaves no partial run."""

import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import open_store
from tests.helpers.store_writer import start


@pytest.mark.soak
def test_03_killed_writer_keeps_confirmed_runs_and_leaves_no_partial_run(tmp_path: Path) -> None:
    draw = random.Random(0)
    path, go = tmp_path / "board.sqlite", tmp_path / "go"
    go.touch()
    said: list[str] = []
    hit = 0
    for number in range(60):
        writer = start(path, f"round {number}", 500, 512, go)
        assert writer.stdout is not None
        said.append(writer.stdout.readline().strip())
        assert said[-1], writer.communicate()[1]
        time.sleep(draw.uniform(0, 0.06))
        writer.send_signal(signal.SIGKILL)
        out, _ = writer.communicate(timeout=60)
        said += [line for line in out.splitlines() if len(line) == 64]
        hit += path.with_name("board.sqlite-journal").exists()
        _check_whole(path, set(said))
        if number >= 4 and hit:
            break
    assert hit > 0, "no kill fell into a transaction, so nothing was tested"


def _check_whole(path: Path, said: set[str]) -> None:
    with open_store(path, create=False) as store:
        rows = store.runs()
        assert said <= {row.key for row in rows}
        for row in rows:
            found = store.result(row.key)  # reading the result verifies its digest
            assert isinstance(found, Result)
            assert row.scores == {e.task: e.scores for e in found.evaluations}
            assert len(found.evaluations) == 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
