import re
import sqlite3
from contextlib import closing

import pytest

from benchharness.leaderboard.store import numbers
from benchharness.leaderboard.store.store import open_store
from tests.helpers.results import make_failure, make_job, make_result


@pytest.fixture
def stored(tmp_path):
    """Store two results and a failure in board.sqlite, in the working directory of the test."""
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(make_result(make_job(seed=1)))
        store.add_result(make_result(make_job(seed=2)))
        store.add_failure(make_failure(make_job(model="other")))
    return tmp_path / "board.sqlite"


def change(path, statement):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_db_check_of_an_intact_database_passes(bench, stored):
    ended = bench("db", "check", "--db", "board.sqlite")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("board.sqlite: no problems found, jobs: 3\n")


def test_db_check_lists_damaged_runs_and_exits_with_5(bench, stored):
    change(stored, "UPDATE scores SET value = 0.99")
    ended = bench("db", "check", "--db", "board.sqlite")
    assert ended.code == 5
    assert len(ended.out.splitlines()) == 2
    assert all("is damaged" in line for line in ended.out.splitlines())
    assert "has 2 problems. Restore a backup" in ended.err


def test_db_check_of_a_missing_database_is_an_error(bench, tmp_path):
    ended = bench("db", "check", "--db", "gone.sqlite")
    assert (ended.code, ended.out) == (5, "")
    assert "there is no leaderboard at" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_backup_passes_the_check_and_is_not_overwritten(bench, stored):
    assert bench("db", "backup", "copy.sqlite", "--db", "board.sqlite").code == 0
    assert bench("db", "check", "--db", "copy.sqlite").code == 0
    again = bench("db", "backup", "copy.sqlite", "--db", "board.sqlite")
    assert again.code == 2
    assert "already exists" in again.err


def test_a_damaged_database_is_merged_after_its_damaged_runs_are_deleted(bench, stored):
    """Follow docs/store.md: delete the runs that `bench db check` lists, then merge the others."""
    change(stored, "UPDATE runs SET cost = '{}' WHERE id = 1")
    change(stored, "DELETE FROM runs WHERE id = 3")  # the scores and the headline of the run remain
    change(stored, "DELETE FROM headlines WHERE run_id = 2")
    refused = bench("db", "merge", "board.sqlite", "--db", "saved.sqlite")
    assert refused.code == 5
    assert "is damaged: its digest does not match" in refused.err
    with open_store("saved.sqlite") as store:
        assert store.runs() == []
    faults = bench("db", "check", "--db", "board.sqlite").out
    assert re.findall(r"^run number (\d+): ", faults, re.MULTILINE) == ["1"]
    change(stored, "DELETE FROM runs WHERE id = 1")
    merged = bench("db", "merge", "board.sqlite", "--db", "saved.sqlite")
    assert (merged.code, merged.out.split(".")[0]) == (0, "added: 1 run")
    assert bench("db", "check", "--db", "saved.sqlite").out.endswith("no problems found, jobs: 1\n")
    with open_store("saved.sqlite") as store:
        assert store.result(make_job(seed=2).key) == make_result(make_job(seed=2))


@pytest.mark.parametrize("road", [("merge", "board.sqlite"), ("import", "all.jsonl.gz")])
def test_each_imported_or_merged_run_is_checked_only_once(bench, stored, road, monkeypatch):
    bench("export", "--all", "all.jsonl.gz", "--db", "board.sqlite")
    checked = []
    faults = numbers._faults_of_split
    monkeypatch.setattr(
        numbers,
        "_faults_of_split",
        lambda run, *of: checked.append(run.job_key) or faults(run, *of),
    )
    assert bench("db", *road, "--db", "new.sqlite").code == 0
    assert sorted(checked) == sorted(make_job(seed=seed).key for seed in (1, 2))


def test_db_merge_adds_runs_and_lists_conflicting_ones(bench, stored):
    with open_store("b.sqlite") as store:
        store.add_result(make_result(make_job(seed=2), finished="2026-09-01T00:00:00Z"))
        store.add_result(make_result(make_job(seed=3)))
    ended = bench("db", "merge", "b.sqlite", "--db", "board.sqlite")
    assert ended.code == 0
    first, second = ended.out.splitlines()
    assert first == "added: 2 runs. Jobs in the other database: 2."
    assert second.startswith(
        f"both databases have different runs of 1 job ({make_job(seed=2).key[:12]}"
    )
    again = bench("db", "merge", "b.sqlite", "--db", "board.sqlite")
    assert again.out == "added: 0 runs. Jobs in the other database: 2.\n"
    assert bench("db", "check", "--db", "board.sqlite").out.endswith("no problems found, jobs: 4\n")
