"""Tests of fault 39: SQL in names, keys and filters is not executed."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchharness.cli.app import app
from benchharness.errors import BenchError
from benchharness.leaderboard.store.store import open_store
from tests.helpers.results import make_job, make_result

HOSTILE = (
    "'; DROP TABLE runs; --",
    'x" OR "1"="1',
    "x' UNION SELECT digest FROM runs --",
    "% _ \\ ? :name %s $1 {model}",
    "nul\0inside",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_39_sql_in_a_name_is_not_executed_by_the_store(tmp_path: Path, name: str) -> None:
    job = make_job(model=name, data=name, recipe=name, checkpoint=name, weights=name)
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(make_result(job))
        store.add_result(make_result(make_job(model="innocent")))
        assert [row.key for row in store.runs(model=name)] == [job.key]
        assert store.runs(suite=name) == store.runs(task=[name, "x"]) == store.runs(key=name) == []
        assert store.count(suite=name) == 0
        assert len(store.suites()) == 1
        with pytest.raises(BenchError, match="no run has a key"):
            store.result(name)
        assert len(store.runs()) == 2
        assert list(store.faults()) == []


@pytest.mark.parametrize("name", HOSTILE[:-1])
def test_39_sql_in_a_filter_of_a_command_is_not_executed(tmp_path: Path, name: str) -> None:
    db = ["--db", str(tmp_path / "board.sqlite")]
    with open_store(tmp_path / "board.sqlite") as store:
        store.add_result(make_result())
    for command in (
        ["show", "runs", "--model", name],
        ["show", name],
        ["leaderboard", "--data", name],
        ["compare", name, name],
    ):
        CliRunner().invoke(app, [*command, *db])
    with open_store(tmp_path / "board.sqlite") as store:
        assert len(store.runs()) == 1
        assert list(store.faults()) == []
