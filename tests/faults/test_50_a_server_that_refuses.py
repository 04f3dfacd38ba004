"""Tests of fault 50: missing rights on a server and malformed URLs are one-sentence errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from benchharness.errors import StoreError
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.database import open_engine, writing
from benchharness.leaderboard.store.store import open_store
from tests.helpers.made_engine import MadeEngine, driven, jobs_of
from tests.helpers.postgres import server
from tests.helpers.results import make_job, make_result

RUN = ("run", "--model", "majority", "--task", "glue/rte", "--data", "mini", "--no-baselines")
ODD = "postgresql+psycopg://rw:x@127.0.0.1:1/b2"


@pytest.fixture(scope="module")
def owner() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def poor(owner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the URL of a role without rights, on a server without tables."""
    monkeypatch.chdir(tmp_path)
    for name in ("PATIENCE", "HURRIED"):
        monkeypatch.setattr(f"benchharness.driver.drive.{name}_SECONDS", 0.05)
    tell(owner, "CREATE ROLE poor LOGIN", "GRANT USAGE ON SCHEMA public TO poor")
    yield owner.replace("bench@", "poor@")
    tables = ("annotations", "headlines", "predictions", "scores", "runs", "alembic_version")
    tell(owner, *(f"DROP TABLE IF EXISTS {table} CASCADE" for table in tables))
    tell(owner, "DROP OWNED BY poor", "DROP ROLE poor")


def tell(url: str, *statements: str) -> None:
    with writing(open_engine(url)) as session:
        for statement in statements:
            session.execute(text(statement))


def may(url: str, rights: str) -> None:
    """Grant the role these rights on every table."""
    tell(
        url,
        f"GRANT {rights} ON ALL TABLES IN SCHEMA public TO poor",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO poor",
    )


def is_refused(ended: Any, *words: str) -> None:
    assert (ended.code, ended.err.count("bench: ")) == (5, 1), ended
    assert all(word in ended.err for word in words), ended.err


def test_50_database_role_that_cannot_create_tables_is_an_error(bench: Any, poor: str) -> None:
    is_refused(bench(*RUN, "--db", poor), "permission denied", "poor", "CREATE")


def test_50_first_run_on_a_server_creates_the_tables(bench: Any, owner: str, poor: str) -> None:
    tell(owner, "GRANT CREATE ON SCHEMA public TO poor")
    ended = bench(*RUN, "--db", poor)
    assert ended.code == 0, ended.err
    assert "50.0" in bench("leaderboard", "--suite", "glue", "--db", poor).out


def test_50_read_only_role_can_list_runs_but_not_write(bench: Any, owner: str, poor: str) -> None:
    with open_store(owner) as store:
        store.add_result(make_result())
    may(owner, "SELECT")
    assert bench("show", "runs", "--db", poor).code == 0
    is_refused(bench("db", "rename", "minilm", "x", "--db", poor), "permission denied", "poor")
    is_refused(bench(*RUN, "--db", poor), "no right to write", "poor")
    assert not Path("results").exists(), "nothing was started"


@pytest.mark.parametrize("forced", [False, True])
def test_50_results_are_kept_if_rights_are_revoked_during_a_run(
    owner: str, poor: str, forced: bool
) -> None:
    def finish(jobs: list[Job]) -> Iterator[Result]:
        yield make_result(jobs[0])
        tell(owner, "REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public FROM poor")
        yield make_result(jobs[1])
        yield make_result(jobs[2])

    open_store(owner).close()
    may(owner, "ALL")
    with open_store(poor) as store, pytest.raises(StoreError, match="permission denied") as raised:
        driven(store, MadeEngine(finish), jobs_of(3), force=forced)
    assert "The results of 2 jobs are kept in" in str(raised.value)
    may(owner, "ALL")
    with open_store(poor) as store:
        assert store.taken == (2, 0, ())
        assert len(store.runs()) == 3


def test_50_results_are_kept_if_the_store_raises_any_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> bool:
        raise ZeroDivisionError("a bug of ours")

    with open_store(tmp_path / "x.sqlite") as store:
        with monkeypatch.context() as patch:
            patch.setattr("benchharness.leaderboard.store.store.append_run", broken)
            patch.setattr("benchharness.leaderboard.store.store.append_missing", broken)
            with pytest.raises(StoreError, match=r"ZeroDivisionError: a bug of ours") as raised:
                driven(store, MadeEngine(), [make_job()])
        assert "The results of a job are kept in" in str(raised.value)
        assert store.take_kept() == (1, 0, ())


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (ODD.replace(":1/", ":abc/"), "not a port"),
        (ODD.replace(":1/", ":99999/"), "could not be used"),
        (f"{ODD}?nonsense=1", "not know the option 'nonsense'"),
        (f"{ODD}?autocommit=1", "not know the option 'autocommit'"),
        (f"{ODD}?password=a&b=c", "does not know an option in this URL"),
        (f"{ODD}?connect_timeout=abc", "connect_timeout"),
        (f"{ODD}?sslmode=abc", "sslmode"),
        (f"{ODD}?port=abc", "port"),
        ("postgresql+psycopg://rw:a@b@127.0.0.1:1/b2", "%40"),
        ("postgresql+nonsense://127.0.0.1/b2", "nonsense"),
        ("postgresql+psycopg:rw:a@127.0.0.1/b2", "a SQLAlchemy URL"),
        ("host=127.0.0.1 password=a", "a SQLAlchemy URL"),
        ("mysql://127.0.0.1/b2", "only SQLite and PostgreSQL"),
    ],
)
@pytest.mark.parametrize("command", ["leaderboard", "run"])
def test_50_malformed_database_url_is_reported_in_one_sentence(
    bench: Any, url: str, words: str, command: str
) -> None:
    if words == "could not be used":  # in this case, the driver wrote the message
        pytest.importorskip("psycopg", reason="psycopg is not installed")
    call = RUN if command == "run" else (command,)
    is_refused(bench(*call, "--db", url), words)
