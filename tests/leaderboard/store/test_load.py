"""Large stores: what a command reads grows with what it shows, not with what is stored."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text

from benchharness.leaderboard.store.store import Store, open_store
from tests.helpers.many_suites import make_store

SUITES, MODELS = 101, 200
"""Of 10 tasks and 5 seeds each: 1,009,000 results, 9,000 of them GLUE's."""

NO_OP = "run --model tiny --task glue/wnli --data mini --limit 16 --seeds 1 --no-baselines"
"""What has nothing to do, the second time."""

LIMITS = {
    NO_OP: 2.0,
    "report": 5.0,
    "leaderboard": 1.0,
    "leaderboard --suite made07": 1.0,
    "compare model-00001-of-05 model-00002-of-05 --suite made05": 2.0,
}
"""Seconds of the processor on a machine that does nothing else."""

TABLES = ("runs", "scores", "predictions", "headlines")
SCANS = tuple(f"SCAN {table}" for table in TABLES)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three suites of two models."""
    return make_store(tmp_path_factory.mktemp("small"), 3, 2)


@pytest.fixture
def store(small: Path) -> Iterator[Store]:
    with open_store(small) as opened:
        yield opened


@contextmanager
def noted_plans(engine: Engine) -> Iterator[list[str]]:
    """How SQLite goes about each query: "SEARCH ... USING INDEX ..." or "SCAN ..."; in the end."""
    issued: list[tuple[str, object]] = []
    plans: list[str] = []

    def note(
        connection: object, cursor: object, statement: str, values: object, *_: object
    ) -> None:
        if statement.startswith(("SELECT", "WITH")):
            issued.append((statement, values))

    event.listen(engine, "before_cursor_execute", note)
    yield plans
    event.remove(engine, "before_cursor_execute", note)
    with engine.connect() as connection:
        for statement, values in issued:
            explained = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            plans.extend(row[-1] for row in explained)


def test_made_results_are_like_stored_ones(store: Store) -> None:
    assert list(store.faults()) == []
    assert store.count() == (9 + 10 + 10) * 2 * 5
    assert store.suites() == ["made02", "made01", "glue"]


def test_what_is_asked_for_is_searched_for(store: Store) -> None:
    """No statement goes through a whole table."""
    key = store.runs(suite="glue")[0].key
    with noted_plans(store._engine) as plans:
        store.runs(suite="made01", model={"model-00001-of-01", "x"})
        store.runs(key=key[:10])
        store.runs_with([key])
        store.finished_keys([key])
        store.result(key)
        store.attempts(key)
        store.count(suite="glue")
        store.past_runs(store.runs(suite="made02"))
    found = {plan.split()[1] for plan in plans if plan.startswith("SEARCH")}
    assert found == set(TABLES)
    assert [plan for plan in plans if plan.startswith(SCANS)] == []


@pytest.mark.parametrize("names", [Store.suites, Store.models])
def test_names_are_steps_into_an_index(store: Store, names: Callable[[Store], list[str]]) -> None:
    """What is gone through are the names that were found, the table's rows are not even read."""
    with noted_plans(store._engine) as plans:
        assert names(store)
    about = [plan for plan in plans if "headlines" in plan]
    assert len(about) >= 2
    assert all(plan.startswith("SEARCH headlines USING COVERING INDEX") for plan in about)


def test_a_scan_would_be_noticed(store: Store) -> None:
    with store._engine.connect() as connection:
        plan = connection.execute(text("EXPLAIN QUERY PLAN SELECT * FROM runs WHERE data = 'x'"))
        assert [row[-1] for row in plan] == ["SCAN runs"]


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_million_results(tmp_path: Path) -> None:
    path = make_store(tmp_path, SUITES, MODELS)
    with open_store(path) as store:
        assert store.count() > 1_000_000
    _seconds(NO_OP.split(), path)
    for words, limit in LIMITS.items():
        seconds = min(_seconds(words.split(), path) for _ in range(2))
        sys.stdout.write(f"{words}: {seconds:.2f} s\n")
        assert seconds < limit, words


def _seconds(words: list[str], path: Path) -> float:
    """What a command takes of the processor; how long it waits for others is the machine's."""
    environment = {"BENCH_DB": str(path), "BENCH_PLUGINS": str(path.with_name("many.py"))}
    code = "from benchharness.cli.app import main; main()"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-P", "-c", code, *words],
        check=True,
        cwd=path.parent,
        env=os.environ | environment,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
