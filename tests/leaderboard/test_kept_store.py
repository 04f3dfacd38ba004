"""A store of 0.1.0 is read for ever: kept/0.1.0.sqlite.gz, and what 0.1.0 printed of it.

If a form changes before 0.1.0 is released, `python -m tests.helpers.kept_store` makes both anew.
"""

import gzip
import json
from pathlib import Path
from typing import get_args

import pytest

from benchharness.leaderboard.job import Kind
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.archive import read_archive, write_archive
from benchharness.leaderboard.store.store import open_store
from tests.helpers.kept_store import PRINTED, STORE, printed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.sqlite"
    path.write_bytes(gzip.decompress(STORE.read_bytes()))
    return path


def test_a_store_of_the_first_release_shows_what_it_showed(path: Path) -> None:
    assert printed(path) == json.loads(gzip.decompress(PRINTED.read_bytes()))


def test_it_is_whole_and_its_archive_is_the_same_store(path: Path, tmp_path: Path) -> None:
    archive = tmp_path / "all.jsonl.gz"
    with open_store(path) as store, open_store(tmp_path / "other.sqlite") as other:
        assert list(store.faults()) == []
        with archive.open("wb") as file:
            write_archive(file, store.stored_runs())
        other.merge(read_archive(archive))
        assert list(other.stored_runs()) == list(store.stored_runs())


def test_it_has_every_kind_of_run(path: Path) -> None:
    with open_store(path) as store:
        rows = store.runs()
        jobs = [store.result(row.key).job for row in rows]
        assert {row.kind for row in rows} == set(get_args(Kind))
        assert {row.status for row in rows} == {"finished", "diverged"}
        assert all(any(getattr(job, name) for job in jobs) for name in vars(jobs[0]))
        assert len(store.attempts(next(row.key for row in rows if row.seed == 9))) == 2
        whole = [store.result(row.key) for row in rows if row.status == "finished"]
    assert all(isinstance(each, Result) and each.evaluations[0].predictions for each in whole)
    assert any(row.truncated and row.selection for row in rows)
