"""The database under the store: where it is, how a transaction begins, and what its errors mean."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    IntegrityError,
    NoResultFound,
    ProgrammingError,
)
from sqlalchemy.orm import Session

from leaderboard.store.schema import DamagedError
from tasks.errors import StoreError

__all__ = ["explained", "file_of", "name_of", "open_engine", "reading", "writing"]

BUSY_SECONDS = 300
"""How long a transaction waits for another's. 64 writers at once waited 3.8 s at most, and more
than a minute where the machine had fifty times the work it can do; what is not stored is lost.
"""

WRITERS_LOCK = 5_230_842_017
"""The advisory lock that makes writers take turns in PostgreSQL; any number of our own will do."""


def open_engine(url_or_path: str | Path) -> Engine:
    """An engine for a path or a SQLAlchemy URL; nothing is opened or made yet.

    Raises StoreError for an URL that cannot be used, and for a database in memory, whose runs would
    be gone at the end.
    """
    url = _parse(url_or_path)
    try:
        return _sqlite_engine(url) if url.get_backend_name() == "sqlite" else _server_engine(url)
    except (ArgumentError, ImportError) as error:
        raise _unusable(url.render_as_string(hide_password=True), error) from error


def file_of(engine: Engine) -> Path | None:
    """The file of an SQLite database; None for a database server."""
    is_file = engine.url.get_backend_name() == "sqlite" and engine.url.database
    return Path(str(engine.url.database)) if is_file else None


def name_of(engine: Engine) -> str:
    """How messages call the database: its path, or its URL without the password."""
    return str(file_of(engine) or engine.url.render_as_string(hide_password=True))


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A session that reads one state of the database, whatever others write meanwhile."""
    with explained(engine), Session(engine) as session:
        yield session


@contextmanager
def writing(engine: Engine, *, check_keys: bool = True) -> Iterator[Session]:
    """A session whose work is stored whole at the end, or not at all.

    It owns the right to write from its beginning: a transaction that reads first and asks for it
    later fails under SQLite when another has written meanwhile, however long it waits.
    `check_keys=False` is for migrations, which replace tables that others refer to.
    """
    options = engine.execution_options(bench_writes=True, bench_checks_keys=check_keys)
    with explained(engine), Session(options) as session, session.begin():
        yield session


def _parse(url_or_path: str | Path) -> URL:
    text = str(url_or_path)
    if isinstance(url_or_path, Path) or "://" not in text:
        return URL.create("sqlite", database=str(_path(text)))
    try:
        url = make_url(text)
        url.get_dialect()
    except (ArgumentError, ImportError) as error:
        raise _unusable(_without_password(text), error) from error
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(
            f"{_without_password(text)!r} is no database that can be used here: a leaderboard is "
            "kept in SQLite or PostgreSQL."
        )
    if url.get_backend_name() == "sqlite" and (url.query or not url.database):
        raise StoreError(
            f"{text!r} must name a file and nothing more, such as "
            "sqlite:///results/leaderboard.sqlite."
        )
    return url


def _unusable(url: str, error: Exception) -> StoreError:
    """What is wrong with an URL, or with what it needs."""
    if isinstance(error, ModuleNotFoundError) and error.name == "psycopg":
        step = "install it with `pip install 'benchharness[postgresql]'`"
    else:
        step = "give a path, or a SQLAlchemy URL such as sqlite:///results/leaderboard.sqlite"
    reason = str(error).splitlines()[0]
    return StoreError(f"{url!r} is no database that can be used here ({reason}): {step}.")


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise StoreError(
            f"the leaderboard {text} cannot be reached: there is no such home folder. Give a path "
            "without ~."
        ) from error


def _without_password(text: str) -> str:
    scheme, _, rest = text.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _sqlite_engine(url: URL) -> Engine:
    """An engine that opens the file anew for each transaction, so that nothing crosses a fork."""
    engine = create_engine(
        url, poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS, "isolation_level": None}
    )
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_on_sqlite)
    return engine


def _server_engine(url: URL) -> Engine:
    engine = create_engine(url, poolclass=NullPool)
    event.listen(engine, "begin", _begin_on_server)
    return engine


def _set_up_sqlite(connection: Any, record: object) -> None:  # noqa: ARG001
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_on_sqlite(connection: Connection) -> None:
    """Begin what the driver, told so by isolation_level=None, does not begin itself."""
    options = connection.get_execution_options()
    if not options.get("bench_writes"):
        connection.exec_driver_sql("BEGIN")
        return
    # SQLite before 3.51.3 can lose pages in WAL mode (sqlite.org/wal.html#walresetbug).
    connection.exec_driver_sql("PRAGMA journal_mode=DELETE")
    if not options.get("bench_checks_keys"):
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_on_server(connection: Connection) -> None:
    if connection.get_execution_options().get("bench_writes"):
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({WRITERS_LOCK})")


@contextmanager
def explained(engine: Engine) -> Iterator[None]:
    """Turn what the user can mend into a StoreError; a broken constraint is a bug of ours."""
    try:
        yield
    except (IntegrityError, ProgrammingError):
        raise
    except DatabaseError as error:
        raise StoreError(_sentence(engine, str(error.orig))) from error
    except sqlite3.DatabaseError as error:
        raise StoreError(_sentence(engine, str(error))) from error
    except (DamagedError, NoResultFound) as error:
        # NoResultFound: an index has a row that its table has not
        raise StoreError(_sentence(engine, str(error), damaged=True)) from error


def _sentence(engine: Engine, reason: str, *, damaged: bool = False) -> str:
    name, reason = name_of(engine), " ".join(reason.split()).rstrip(".")
    if "locked" in reason:
        return (
            f"the leaderboard {name} was locked by another process for {BUSY_SECONDS} seconds; "
            "try again when that one has ended."
        )
    marks = ("malformed", "not a database", "decode to UTF-8", "corrupt")
    if damaged or any(mark in reason for mark in marks):
        return (
            f"the leaderboard {name} is damaged ({reason}) and was left as it is: `bench db "
            "recover` saves what can be read, or put a backup in its place."
        )
    advice = "Check that the disk has room and that the file and its folder can be written."
    if file_of(engine) is None:
        advice = "Check the URL, and that the server is up."
    return f"the leaderboard {name} could not be used: {reason}. {advice}"
