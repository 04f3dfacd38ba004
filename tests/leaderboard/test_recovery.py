"""What is left of damaged stores: every whole run, nothing that has changed, the file untouched."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from leaderboard.result import Failure, Result
from leaderboard.store.database import revisions
from leaderboard.store.recovery import recover, rows_in_pages
from leaderboard.store.schema import Headline, Predictions, Run, Score
from leaderboard.store.store import Store, open_store
from tasks.errors import StoreError
from tests.leaderboard.results import make_failure, make_job, make_result

STORES = Path(__file__).parent / "stores"
TABLES = {"runs": Run, "scores": Score, "predictions": Predictions, "headlines": Headline}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty results, one of them large, a rerun and a failure."""
    path = tmp_path_factory.mktemp("original") / "board.sqlite"
    with open_store(path) as store:
        for seed in range(40):
            store.add_result(make_result(make_job(seed=seed), rows=500 if seed == 7 else 3))
        store.add_result(make_result(make_job(seed=3), finished="2026-09-01T00:00:00Z"))
        store.add_failure(make_failure(make_job(model="other")))
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original, tmp_path / "board.sqlite"))


def _outcomes(store: Store) -> dict[str, Result | Failure]:
    return {row.key: store.result(row.key) for row in store.runs()}


def _attempts(path: Path) -> list[tuple[str, int, str]]:
    with open_store(path) as store:
        return [(run.key, run.attempt, run.digest) for run in store.stored_runs()]


def _recovered(path: Path) -> Path:
    before = path.read_bytes()
    new = path.with_name("new.sqlite")
    new.unlink(missing_ok=True)
    found = recover(str(path), new)
    assert path.read_bytes() == before
    with open_store(new) as store:
        assert list(store.faults()) == []
        assert len(list(store.stored_runs())) == found.kept
    assert sorted(p.name for p in new.parent.iterdir() if p.suffix != ".lock") == sorted(
        {path.name, "new.sqlite"} | {p.name for p in new.parent.glob("*-journal")}
    )
    return new


def test_the_pages_hold_what_sqlite_says(path: Path) -> None:
    found: dict[int, int] = {}
    with path.open("rb") as file:
        for row in rows_in_pages(file):
            found[len(row.values)] = found.get(len(row.values), 0) + 1
    with closing(sqlite3.connect(path)) as connection:
        counts = {
            name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in TABLES
        }
    assert found[29] == counts["runs"]
    assert found[7] == counts["scores"] + counts["predictions"] + counts["headlines"]


def test_columns_are_told_by_their_number_and_order(path: Path) -> None:
    """A new column makes a row another length: RUN and SCORE of recovery.py must know it."""
    with closing(sqlite3.connect(path)) as connection:
        for name, table in TABLES.items():
            stored = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            assert stored == [column.name for column in table.__table__.columns]
    assert [len(table.__table__.columns) for table in TABLES.values()] == [29, 7, 7, 7]


def test_a_sound_store_comes_back_whole(path: Path) -> None:
    assert _attempts(_recovered(path)) == _attempts(path)
    assert recover(str(path), path.with_name("again.sqlite")).lost == 0


@pytest.mark.parametrize("revision", revisions())
def test_a_store_of_every_revision_is_recovered(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "board.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((STORES / f"r{revision}.sql").read_text())
    assert len(_attempts(_recovered(path))) == 2


def test_half_a_file_gives_about_half_of_the_runs(path: Path) -> None:
    content = path.read_bytes()
    with open_store(path) as store:
        outcomes = _outcomes(store)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match="`bench db recover` saves"):
        open_store(path)
    with open_store(_recovered(path)) as store:
        found = _outcomes(store)
    assert 5 < len(found) < len(outcomes)
    for key, outcome in found.items():
        # Of a job that was run twice, the newer result may be lost and the older one left.
        assert outcome == outcomes[key] or outcome.job.seed == 3


def test_a_file_without_its_beginning_is_read(path: Path) -> None:
    """SQLite says "file is not a database": no header, no schema."""
    content = path.read_bytes()
    path.write_bytes(random.Random(1).randbytes(4096) + content[4096:])
    new = path.with_name("new.sqlite")
    found = recover(str(path), new)
    assert (found.kept, found.lost) == (42, 0)


def test_noise_in_the_file_loses_only_what_it_hits(path: Path) -> None:
    content = bytearray(path.read_bytes())
    draw = random.Random(2)
    with open_store(path) as store:
        outcomes = _outcomes(store)
    for _ in range(10):
        place = draw.randrange(4096, len(content) - 64)
        content[place : place + 64] = draw.randbytes(64)
    path.write_bytes(content)
    with open_store(_recovered(path)) as store:
        found = _outcomes(store)
    assert len(outcomes) - 12 <= len(found) < len(outcomes)
    for key, outcome in found.items():
        # Of a job that was run twice, the newer result may be lost and the older one left.
        assert outcome == outcomes[key] or outcome.job.seed == 3


def test_a_writer_that_was_killed_is_undone_in_a_copy(path: Path) -> None:
    code = (
        "import os, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA cache_size=1'); c.execute('PRAGMA cache_spill=1')\n"
        "c.execute('BEGIN IMMEDIATE')\n"
        "c.execute('UPDATE runs SET model = model || model, details = hex(zeroblob(9000))')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    expected = _attempts(path)
    ended = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    journal = path.with_name("board.sqlite-journal")
    assert journal.stat().st_size > 0
    assert _attempts(_recovered(path)) == expected
    assert journal.exists()


@pytest.mark.parametrize("content", [b"", b"model,score\n" * 900, os.urandom(40_000)])
def test_a_file_of_something_else_gives_nothing(tmp_path: Path, content: bytes) -> None:
    path, new = tmp_path / "board.sqlite", tmp_path / "new.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="nothing that is whole could be read"):
        recover(str(path), new)
    assert not new.exists()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        recover(str(tmp_path / "gone.sqlite"), tmp_path / "new.sqlite")
    assert list(tmp_path.iterdir()) == []
