"""Tests that the SQL queries on docs/store.md return the same data as the Python functions."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import benchharness as bh
from benchharness.leaderboard.store.store import open_store
from tests.helpers.doc_blocks import block
from tests.helpers.results import make_failure, make_job, make_result, make_suite

RATES = {1e-5: 0, 3e-5: 1}
BEST = {"learning_rate": 3e-5, "epochs": 3}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a suite, a sweep, a repeated job, a job that failed and one that did first."""
    path = tmp_path / "results" / "leaderboard.sqlite"
    path.parent.mkdir()
    job, failed = make_job(model="again"), make_job(model="failed", seed=3)
    with open_store(path) as store:
        for result in make_suite(seeds=2):
            store.add_result(result)
        for rate, seed in RATES.items():
            store.add_result(
                make_result(
                    make_job(model="swept", seed=seed, settings={**BEST, "learning_rate": rate})
                )
            )
        store.add_failure(make_failure(job))
        for minute in (1, 2):
            store.add_result(make_result(job, finished=f"2026-08-01T12:0{minute}:00Z"))
        store.add_failure(make_failure(failed))
    return path


@pytest.fixture
def views(path: Path) -> Iterator[sqlite3.Connection]:
    """The store, opened read-only, with the views of the page."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    db.executescript(block("store.md", "CREATE TEMP VIEW results"))
    yield db
    db.close()


def test_view_of_results_has_the_scores_of_the_newest_runs(path: Path, views) -> None:
    found = pd.read_sql_query("SELECT * FROM results", views)
    known = bh.runs(path).query("status == 'finished'")
    assert set(found["key"]) == set(known["key"])
    for row in known.to_dict("records"):
        scores = found[(found["key"] == row["key"]) & (found["split"] != "test")]
        for name, value in zip(scores["score"], scores["value"], strict=True):
            assert row[name] == value
        first = scores.iloc[0]
        for name in ("model", "kind", "task", "seed", "data", "precision", "seconds", "parameters"):
            assert first[name] == row[name], name
        assert first["flags"] == "[]"
    assert found[found["model"] == "again"]["finished"].unique().tolist() == [
        "2026-08-01T12:02:00Z"
    ]


def test_sql_views_list_settings_of_runs_and_reasons_of_failures(path: Path, views) -> None:
    found = pd.read_sql_query("SELECT * FROM settings WHERE model = 'swept'", views)
    assert found.groupby("name")["value"].apply(sorted).to_dict() == {
        "learning_rate": [1e-5, 3e-5],
        "epochs": [3, 3],
    }
    assert set(found["source"]) == {"a paper"}
    ((model, status, error),) = views.execute("SELECT model, status, error FROM failures")
    assert (model, status) == ("failed", "diverged")
    assert error.startswith("the loss became nan")


def test_documented_sql_queries_give_the_right_answers(views) -> None:
    rates, collapsed, hours, losses = block("store.md", "-- The best learning rate").split(";")[:4]
    best = [row for row in views.execute(rates) if row[0] == "swept"]
    assert {row[3] for row in best} == {1e-5, 3e-5}
    assert [row[5] for row in best] == sorted((row[5] for row in best), reverse=True)
    assert views.execute(collapsed).fetchall() == []
    ((total,),) = [row[1:] for row in views.execute(hours) if row[0] == "again"]
    assert total == pytest.approx(12.5 / 3600)
    assert views.execute(losses).fetchall() == [(10, 0.69), (20, 0.61)]


def test_documented_sql_query_finds_collapsed_runs(path: Path, views) -> None:
    with open_store(path) as store:
        job = make_job(model="constant")
        (one,) = make_result(job).evaluations
        flagged = type(one)(**{**vars(one), "flags": ("constant predictions",)})
        store.add_result(make_result(job, evaluations=(flagged,)))
    collapsed = block("store.md", "-- The best learning rate").split(";")[1]
    ((_, model, _, _, flags),) = views.execute(collapsed)
    assert (model, json.loads(flags)) == ("constant", ["constant predictions"])


def test_documented_python_code_reads_results_and_predictions(
    path: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("views.sql").write_text(block("store.md", "CREATE TEMP VIEW results"))
    names: dict[str, object] = {}
    exec(block("store.md", "read_sql_query"), names)
    assert "glue/cola" in capsys.readouterr().out
    exec(block("store.md", "zlib.decompress"), names)
    assert json.loads(capsys.readouterr().out.replace("'", '"'))["id"] == "0"
    names["store"].close()


def test_store_that_is_opened_as_documented_is_read_only(views) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        views.execute("DELETE FROM runs")


def test_documented_queries_for_duckdb_and_datasette_run_in_sqlite(views) -> None:
    query = (
        block("store.md", "ATTACH")
        .partition("USE store;")[2]
        .replace("GROUP BY ALL", "GROUP BY 1, 2, 3")
    )
    assert len(views.execute(query).fetchall()) > 5
    query = block("store.md", "databases:").partition("sql: |-")[2]
    assert [row[4] for row in views.execute(query)] == ["diverged"]
