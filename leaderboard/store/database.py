"""Database of the store: opening, transactions, upgrades, and explanations of errors."""

import errno
import fcntl
import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from filelock import FileLock, Timeout
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    NullPool,
    create_engine,
    event,
    inspect,
    make_url,
    text,
)
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    IntegrityError,
    NoResultFound,
    OperationalError,
    ProgrammingError,
)

from benchharness.errors import (
    LIBPQ,
    SECRET,
    BenchError,
    BusyStoreError,
    StoreError,
    first_line,
    shown_place,
)
from benchharness.leaderboard.store import SCHEMA, DamagedError
from benchharness.leaderboard.store.archive import maker_of, write_archive
from benchharness.leaderboard.store.record import StoredRun
from benchharness.leaderboard.text import check_place, flush_to_disk, whole_file
from benchharness.version import package_version

BUSY_SECONDS = 300
"""Maximum number of seconds that a transaction waits for others. It is large, because waiting is
better than losing a result. In a test, 64 simultaneous writers waited at most 3.8 s, but more than
a minute on an extremely overloaded machine.
"""

_WRITERS_LOCK = 5_230_842_017
"""Arbitrary id of the advisory lock that serializes writers in PostgreSQL."""


def open_engine(url_or_path: str | Path) -> Engine:
    """Return an engine for a path or a SQLAlchemy URL, without opening or creating the database.

    Raises StoreError for an unusable URL, and for an in-memory database, because its runs would be
    lost when the process ends.
    """
    url = _parse(url_or_path)
    try:
        return _engine(url)
    except (ArgumentError, ImportError) as error:
        raise _unusable(str(url_or_path), error) from error


def file_of(engine: Engine) -> Path | None:
    """Return the path of an SQLite database; None for a database server."""
    return _file(engine.url)


def _file(url: URL) -> Path | None:
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def name_of(engine: Engine) -> str:
    """Return the database's name for messages: its path, or its URL without passwords."""
    return str(file_of(engine) or shown_place(engine.url.render_as_string(hide_password=False)))


def hurried(engine: Engine, seconds: float, since: float | None = None) -> Engine:
    """Return an engine for the same database whose transactions wait only a given time for a lock.

    Args:
        engine: Engine for the database.
        seconds: Maximum waiting time in seconds.
        since: Time at which the database was found to be locked, as returned by `time.monotonic`.
            It is used in error messages; None if it is unknown.
    """
    return engine.execution_options(bench_patience=seconds, bench_since=since)


def _patience(options: Mapping[str, Any]) -> float:
    return float(options.get("bench_patience", BUSY_SECONDS))


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Context manager that yields a connection for reading, in one transaction.

    All queries see the same state of the database: on SQLite, the changes of other processes are
    committed only when the transaction has ended; on PostgreSQL, the transaction does not see them.
    """
    if engine.dialect.name == "postgresql":
        # By default, each query of PostgreSQL sees the state at its own beginning.
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with _explained(engine), engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine, *, check_keys: bool = True) -> Iterator[Connection]:
    """Context manager that yields a connection in a write transaction.

    Changes are stored completely or not at all. The write lock is taken at the beginning, because
    an SQLite transaction that reads first and writes later fails if another process has written in
    between.

    Args:
        engine: Engine for the database.
        check_keys: Enforce foreign keys on SQLite. Migrations use False, because they replace
            tables to which other tables refer.
    """
    options = engine.execution_options(bench_writes=True, bench_checks_keys=check_keys)
    with _explained(engine), options.begin() as connection:
        yield connection


def _parse(url_or_path: str | Path) -> URL:
    text = str(url_or_path)
    # A text without "://" is a path, unless it may contain a password. "postgresql:/me:secret@host"
    # is a mistyped URL, and no file should be created with this name.
    if isinstance(url_or_path, Path) or ("://" not in text and shown_place(text) == text):
        return URL.create("sqlite", database=str(_path(text)))
    try:
        url = make_url(text)
        url.get_dialect()
    except (ArgumentError, ImportError) as error:
        raise _unusable(text, error) from error
    except ValueError:  # its message contains the port, which may be a part of a password
        raise _unusable(text, ValueError("the text after the host's colon is not a port")) from None
    if url.get_backend_name() == "postgresql":
        _check_server(url, text)
    elif url.get_backend_name() != "sqlite":
        raise _unusable(text, ValueError("only SQLite and PostgreSQL are supported"))
    elif url.query or not url.database:
        raise StoreError(
            f"{shown_place(text)!r} must contain only the path of a file, such as "
            "sqlite:///results/leaderboard.sqlite."
        )
    return url


def _check_server(url: URL, text: str) -> None:
    """Raise StoreError for a URL that the driver would misread, or repeat with its secrets."""
    # The driver takes everything before the first @ as user and password. So it would read
    # "server:5432/b?user=me@x" as user "server" with a password, and "me:p@ss@host" as host
    # "ss@host".
    user, before = text.partition("://")[2].partition(":")[0], text.partition("@")[0]
    is_misread = url.password is not None and ("@" in user or re.search(r"\?[\w%]+=", before))
    if is_misread or "@" in str(url.host):
        raise _unusable(text, ValueError("in a password, write %40 for @ and %3F for ?"))
    if unknown := sorted(url.query.keys() - LIBPQ - SECRET):
        # An unknown name may be part of a password. It is repeated only if `shown_place` shows it.
        shown = re.split("[?&=]", shown_place(text))
        named = " or ".join(repr(name) for name in unknown if name in shown)
        option = f"the option {named}" if named else "an option in this URL"
        raise _unusable(text, ValueError(f"PostgreSQL does not know {option}"))


def _unusable(text: str, error: Exception) -> StoreError:
    """Return the error for an unusable URL, or for a missing driver."""
    if isinstance(error, ModuleNotFoundError) and error.name == "psycopg":
        step = "install it with `pip install 'benchharness[postgresql]'`"
    else:
        step = "use a path, or a SQLAlchemy URL such as sqlite:///results/leaderboard.sqlite"
    reason, name = first_line(error), shown_place(text)
    return StoreError(f"{name!r} cannot be used as a database ({reason}): {step}.")


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise StoreError(
            f"the leaderboard {text} cannot be reached, because the path's home folder does not "
            "exist: use a path without ~."
        ) from error


@lru_cache(maxsize=8)
def _engine(url: URL) -> Engine:
    """Return an engine that opens a new connection for each transaction.

    So no connection is shared with a forked process. The engine is cached with its compiled
    statements, because a run opens its store three times.
    """
    if _file(url) is None:
        engine = create_engine(url, poolclass=NullPool)
        event.listen(engine, "begin", _begin_on_server)
    else:
        engine = create_engine(url, poolclass=NullPool, connect_args={"isolation_level": None})
        event.listen(engine, "begin", _begin_on_sqlite)
    for moment in ("begin", "before_cursor_execute", "commit"):
        event.listen(engine, moment, _note_moment)
    return engine


class _Asked(threading.local):
    """Thread-local time of the last statement sent to a database, which may wait for a lock."""

    moment = 0.0


_ASKED = _Asked()


def _note_moment(*_: object) -> None:
    _ASKED.moment = time.monotonic()


def _begin_on_sqlite(connection: Connection) -> None:
    """Begin a transaction; with isolation_level=None the driver does not begin one itself."""
    options = connection.get_execution_options()
    # Set the timeout first, because `synchronous` takes a lock, for which the driver would only
    # wait 5 seconds.
    connection.exec_driver_sql(f"PRAGMA busy_timeout={_patience(options) * 1000:.0f}")
    connection.exec_driver_sql("PRAGMA synchronous=FULL")
    # Foreign keys are off by default. With them, deleting a run deletes its scores and predictions.
    connection.exec_driver_sql("PRAGMA foreign_keys=ON")
    if not options.get("bench_writes"):
        connection.exec_driver_sql("BEGIN")
        return
    # Do not use WAL mode, because SQLite before 3.51.3 can lose pages in it
    # (sqlite.org/wal.html#walresetbug).
    connection.exec_driver_sql("PRAGMA journal_mode=DELETE")
    # Inside a transaction the pragma would do nothing, so it comes before BEGIN.
    if not options.get("bench_checks_keys"):
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_on_server(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("bench_writes"):
        # Both the local setting and the advisory lock end with the transaction.
        connection.exec_driver_sql(f"SET LOCAL lock_timeout={_patience(options) * 1000:.0f}")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})")


@contextmanager
def _explained(engine: Engine) -> Iterator[None]:
    """Context manager that converts database errors that users can fix to StoreErrors.

    Other errors, such as a violated constraint, are bugs and are raised unchanged.
    """
    try:
        yield
    except DatabaseError as error:
        code = str(getattr(error.orig, "sqlstate", None) or "")
        # An error without a statement comes from connecting, so it is about the URL.
        is_ours = isinstance(error, ProgrammingError) and error.statement is not None
        if isinstance(error, IntegrityError) or (is_ours and code not in _CHANGED_BY_OTHERS):
            raise
        is_away = isinstance(error, OperationalError) and file_of(engine) is None
        said = _store_error(engine, str(error.orig), code=code, is_away=is_away)
        # The driver's message may contain a password, which a traceback would show.
        raise said from (None if _repeats_a_secret(engine.url, str(error)) else error)
    except sqlite3.DatabaseError as error:
        raise _store_error(engine, str(error)) from error
    except (DamagedError, NoResultFound, UnicodeDecodeError) as error:
        # NoResultFound means that a row is in an index but not in its table. UnicodeDecodeError
        # means that SQLite's own message contains bytes of a damaged schema.
        raise _store_error(engine, str(error), damaged=True) from error


_NO_RIGHT, _FULL = "42501", "53100"
_CHANGED_BY_OTHERS = {_NO_RIGHT, "42P01", "42703", "3F000"}
"""Error codes of PostgreSQL for missing rights, tables, columns and schemas (appendix A of its
manual). Such errors are caused by other users of the database.
"""


def _repeats_a_secret(url: URL, text: str) -> bool:
    # An option that is given twice has a tuple as its value. A driver may show a secret decoded, or
    # percent-encoded as in the URL.
    secrets = [url.password, *(url.query.get(name) for name in SECRET)]
    given = [one for each in secrets for one in ([each] if isinstance(each, str) else each or ())]
    return any(form in text for each in given if each for form in (each, quote(each, safe="")))


def _store_error(
    engine: Engine, reason: str, *, code: str = "", is_away: bool = False, damaged: bool = False
) -> StoreError:
    name, reason = name_of(engine), " ".join(reason.split()).rstrip(".")
    # The message of SQLite is "database is locked", and that of PostgreSQL is "canceling statement
    # due to lock timeout".
    if "locked" in reason or "lock timeout" in reason:
        since = engine.get_execution_options().get("bench_since") or _ASKED.moment
        seconds = time.monotonic() - since
        return BusyStoreError(
            f"the leaderboard {name} was locked by another process for "
            f"{round(seconds, 0 if seconds > 1 else 2):g} seconds; try again when that process "
            "has ended."
        )
    marks = ("malformed", "not a database", "decode to UTF-8", "corrupt")
    if damaged or any(mark in reason for mark in marks):
        return StoreError(
            f"the leaderboard {name} is damaged ({reason}) and was not changed: restore a "
            "backup, or save what can be read (docs/store.md)."
        )
    advice = "Check that the disk has room and that the file and its folder can be written."
    if code == _NO_RIGHT:
        advice = (
            f"The role {engine.url.username} needs the rights SELECT, INSERT, UPDATE and DELETE on "
            "the tables, USAGE on their sequences, and CREATE on the schema."
        )
    elif file_of(engine) is None:
        advice = "Check the URL, and check that the server is running."
    if _repeats_a_secret(engine.url, reason):
        reason = "the server refuses the request"
    kind = BusyStoreError if is_away and code != _FULL else StoreError
    return kind(f"the leaderboard {name} could not be used: {reason}. {advice}")


def copy_sqlite(engine: Engine, target: Path) -> None:
    """Copy an SQLite store to another file with SQLite's backup API.

    The copy is a consistent snapshot. Other processes can read during the copying, but writers wait
    until its end. Raises StoreError if the store is damaged or if the copy cannot be written.
    """
    source = file_of(engine)
    assert source is not None, "only an SQLite store has a file"
    try:
        with _explained(engine), whole_file(target) as file:
            # With isolation_level=None the driver does not open transactions itself.
            with (
                closing(sqlite3.connect(source, BUSY_SECONDS, isolation_level=None)) as here,
                closing(sqlite3.connect(Path(file.name), isolation_level=None)) as there,
            ):
                # Take a read lock first, because the backup would wait forever for a locked store.
                _note_moment()
                here.execute("BEGIN")
                here.execute("SELECT count(*) FROM sqlite_master")
                # By default all pages are copied in one step, so that no writer can interrupt the
                # backup. Then the copy is checked until the first error.
                here.backup(there)
                (found,) = there.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(f"malformed: {found}")
    except OSError as error:
        raise _unwritable(target, error) from error


def archive_runs(runs: Iterable[StoredRun], target: Path) -> None:
    """Write the runs of a store on a database server to an archive file, as its backup.

    Args:
        runs: Runs to write.
        target: Path of the archive (see docs/exports.md); its name must end with .gz.

    Raises:
        BenchError: If the name of the file has another ending.
        StoreError: If the file cannot be written.
    """
    if target.suffix != ".gz":
        raise BenchError(
            "the backup of a database server is an archive, whose name must end with .gz, "
            f"but is {target.name!r}."
        )
    try:
        with whole_file(target) as file:
            write_archive(file, runs, paths=True)
    except OSError as error:
        raise _unwritable(target, error) from error


def check_new(path: Path) -> None:
    """Raise BenchError if a file already exists at `path`, where a new file is to be written."""
    # `exists` is False for a broken link, which must not be replaced either.
    if path.exists() or path.is_symlink():
        raise BenchError(f"{path} already exists and is not overwritten: use another name.")


def _unwritable(target: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{target} could not be written: {error.strerror or error}. Use another file."
    )


MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK_SECONDS = 60
_SQLITE_MAGIC = b"SQLite format 3\0"
"""First bytes of every SQLite file (sqlite.org/fileformat.html, section 1.3)."""


def prepare(engine: Engine, *, create: bool, upgrade: bool = True) -> None:
    """Create the database if it is missing, and upgrade its schema if it is older.

    Before an upgrade, an SQLite file is copied to a backup next to it.

    Args:
        engine: Engine for the database.
        create: Create a missing database; if False, a missing database is an error.
        upgrade: Upgrade an older schema; if False, an older schema is an error.

    Raises:
        StoreError: If the database is missing or has an older schema (see above), is damaged,
            belongs to another program, or has a newer schema. The database is not changed.
    """
    path = file_of(engine)
    if path is not None and not _is_there(path):
        _require(create, name_of(engine))
        _create_file(path)
    elif path is not None:
        _check_file(path)
    _bring_up(engine, path, create=create, upgrade=upgrade)


def is_there(url_or_path: str | Path) -> bool:
    """Return whether the database file exists; always True for a database server.

    Raises StoreError for an unusable URL, or if the path cannot be reached.
    """
    path = _file(_parse(url_or_path))
    if path is None:
        open_engine(url_or_path)  # raises StoreError if the driver is missing
    return path is None or _is_there(path)


def check_writable(url_or_path: str | Path) -> None:
    """Raise StoreError if the database can be neither created nor written; change nothing.

    For a database server, the user's rights are checked. For SQLite, this also requires that files
    can be created next to the database, because SQLite writes its journal there.
    """
    engine = open_engine(url_or_path)
    path = file_of(engine)
    if path is None:
        _check_rights(engine)
        return
    try:
        if _is_there(path) and path.is_file():
            # "r+b" opens for writing without changes, whereas "wb" would empty the file.
            with path.open("r+b"):
                pass
        check_place(path.with_name(f"{path.name}-journal"))
    except OSError as error:
        verb = "written" if _is_there(path) else "created"
        raise StoreError(
            f"the leaderboard {path} cannot be {verb}: {error.strerror or error}. Use another "
            "path with --db or $BENCH_DB."
        ) from error


def _check_rights(engine: Engine) -> None:
    with reading(engine) as connection:
        # The first use needs the right to create tables. Later uses need the right to write rows.
        right = "has_schema_privilege(current_schema(), 'CREATE')"
        if inspect(connection).has_table("runs"):
            right = "has_table_privilege('runs', 'INSERT')"
        asked = f"SELECT {right} AND NOT current_setting('transaction_read_only')::bool"
        if not connection.scalar(text(asked)):
            raise _store_error(engine, "the user has no right to write to it", code=_NO_RIGHT)


def revisions() -> tuple[str, ...]:
    """Return the schema revisions that this version of benchharness knows, oldest first."""
    return tuple(sorted(path.stem[1:] for path in (MIGRATIONS / "versions").glob("r[0-9]*.py")))


def _is_there(path: Path) -> bool:
    try:
        # A broken link counts as existing, so that no store is created at its target.
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"the leaderboard {path} cannot be reached: {error.strerror}.") from error
    return True


def _require(create: bool, name: str) -> None:
    if not create:
        raise StoreError(f"there is no leaderboard at {name} yet; `bench run` creates one.")


_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def _check_locks(path: Path, file: IO[bytes]) -> None:
    """Raise StoreError if the file system of a database does not support locks.

    SQLite would mistake some of the resulting errors for a lock of another process, and wait. The
    locks are tried on `file` in the same folder, because closing the database file itself would
    release this process's locks on it.
    """
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # SQLite uses locks of this kind
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # `_locked` uses locks of this kind
    except OSError as error:
        if error.errno in _WITHOUT_LOCKS:
            raise StoreError(
                f"the leaderboard {path} is on a file system without locks ({error.strerror}), "
                "which SQLite needs: use a path on another file system with --db or $BENCH_DB, or "
                "the URL of a PostgreSQL database."
            ) from error


def _check_file(path: Path) -> None:
    """Raise StoreError if a file is not an SQLite database, before SQLite opens it."""
    if path.is_dir():
        raise StoreError(f"the leaderboard {path} is a folder: use the path of a file in it.")
    with suppress(OSError):  # a store in a read-only folder can still be read
        check_place(Path(os.path.realpath(path)), partial(_check_locks, path))
    try:
        with path.open("rb") as file:
            start = file.read(len(_SQLITE_MAGIC))
    except OSError as error:
        raise StoreError(f"the leaderboard {path} cannot be read: {error.strerror}.") from error
    if start == _SQLITE_MAGIC:
        return
    # A new leaderboard gets its file name only when it is complete (see _create_file). So an empty
    # file has lost its content, and creating a leaderboard in it would hide the loss.
    found = "is empty (0 bytes)" if not start else "is not an SQLite database"
    raise StoreError(
        f"the leaderboard {path} {found} and was not changed: restore a backup, or save what can "
        "be read (docs/store.md), or move it away, so that `bench run` creates a new one."
    )


def _create_file(path: Path) -> None:
    """Create an empty leaderboard under a temporary name, then rename the complete file.

    If several processes do this at the same time, one creates the leaderboard and the others use
    it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Check this first: in a read-only folder, filelock would wait as if the file were locked.
        check_place(path, partial(_check_locks, path))
        with _locked(path):
            # Another process may have created the file while this one waited for the lock.
            if not _is_there(path):
                new = path.with_name(f".{path.name}.new")
                leftovers = (new, new.with_name(f"{new.name}-journal"))
                try:
                    for leftover in leftovers:  # a process that was killed has left these files
                        leftover.unlink(missing_ok=True)
                    # The file gets its permissions from the umask. If SQLite created it, other
                    # users could not write to it.
                    new.touch()
                    with writing(open_engine(new), check_keys=False) as connection:
                        _make_tables(connection)
                    new.rename(path)
                    flush_to_disk(path.parent)
                finally:
                    for leftover in leftovers:
                        leftover.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"the leaderboard {path} cannot be created: {error.strerror or error}. Use another "
            "path with --db or $BENCH_DB."
        ) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Context manager that holds the lock file for creating or upgrading a database."""
    lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=_LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout as error:
        raise StoreError(
            f"another process has been creating or upgrading the leaderboard {path} for "
            f"{_LOCK_SECONDS} seconds; try again when that process has ended."
        ) from error
    except OSError as error:
        raise StoreError(
            f"the leaderboard {path} cannot be created or upgraded, because its folder cannot be "
            f"written: {error.strerror or error}. Use another path with --db or $BENCH_DB."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _bring_up(engine: Engine, path: Path | None, *, create: bool, upgrade: bool) -> None:
    """Upgrade an older schema; on a server without a schema, create it."""
    # First read the revision without a lock, because most stores are up to date. `_upgrade` reads
    # it again when it has the lock.
    with reading(engine) as connection:
        found = _revision(connection, name_of(engine))
    # On a server, missing tables are created. A file always has them (see _create_file).
    if found is None and path is None:
        _require(create, name_of(engine))
    elif found is None:
        raise _foreign(name_of(engine))
    if found == revisions()[-1]:
        return
    if not upgrade and found is not None:
        raise StoreError(
            f"the leaderboard {name_of(engine)} has the older schema {found}: `bench show runs` "
            f"upgrades it to {revisions()[-1]} and keeps a copy."
        )
    if path is None:
        _upgrade(engine, None)
        return
    try:
        check_place(path)
        with _locked(path):
            _upgrade(engine, path)
    except OSError as error:
        raise StoreError(
            f"the leaderboard {path} has the older schema {found} and cannot be upgraded: "
            f"{error.strerror or error}. Copy it to another folder, and pass the copy with --db."
        ) from error


def _upgrade(engine: Engine, path: Path | None) -> None:
    """Back up and upgrade the database in one transaction, so that nobody writes in between."""
    with writing(engine, check_keys=False) as connection:
        found = _revision(connection, name_of(engine))
        if found == revisions()[-1]:  # another process has upgraded it meanwhile
            return
        if found is None:
            _make_tables(connection)
            return
        if path is not None:
            # The name of the copy is e.g. `leaderboard.sqlite.0001-20260801T120000.bak`.
            moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            copy_sqlite(engine, path.with_name(f"{path.name}.{found}-{moment}.bak"))
        _run_migrations(connection)


def _revision(connection: Connection, name: str) -> str | None:
    """Return the revision of the database's schema; None if no revision is recorded.

    Raises StoreError if the database belongs to another program, was made by a development version
    before the first release, or has a newer schema.
    """
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.scalars(text("SELECT version_num FROM alembic_version")).all()
    # benchharness's revisions have four digits, e.g. "0010". Alembic's default is twelve hex
    # digits, so a table with such a revision belongs to another program.
    if len(found) != 1 or not re.fullmatch("[0-9]{4}", str(found[0])):
        raise _foreign(name)
    # All revisions have four digits, so they can be compared as strings.
    if found[0] in revisions():
        return str(found[0])
    maker = newest_maker(connection)
    if found[0] < revisions()[0]:
        by = f"; {maker} made its newest run" if maker else ""
        raise StoreError(
            f"the leaderboard {name} was created by a development version before 0.1.0, and can no "
            f"longer be read{by}: move it away, and `bench run` creates a new one."
        )
    by = f", and {maker} made its newest run" if maker else ""
    raise StoreError(
        f"the leaderboard {name} has schema {found[0]}{by}, but the newest schema that "
        f"benchharness {package_version()} knows is {revisions()[-1]}: upgrade benchharness to use "
        "it."
    )


def newest_maker(connection: Connection) -> str:
    """Return which benchharness made the newest stored result (see `maker_of`); "" if unknown.

    This reads databases of other versions too, as far as they store the provenance in this column.
    """
    newest = "SELECT provenance FROM runs WHERE provenance IS NOT NULL ORDER BY id DESC LIMIT 1"
    with suppress(DatabaseError, ValueError, RecursionError):
        return maker_of(json.loads(connection.scalar(text(newest)) or "null"))
    return ""


def _foreign(name: str) -> StoreError:
    return StoreError(
        f"{name} is a database of another program and not a leaderboard: use another path with "
        "--db or $BENCH_DB."
    )


def _make_tables(connection: Connection) -> None:
    """Create the newest schema directly, and record its revision as Alembic does."""
    SCHEMA.create_all(connection, checkfirst=False)
    column = "version_num VARCHAR(32) NOT NULL"
    key = "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)"
    connection.execute(text(f"CREATE TABLE alembic_version ({column}, {key})"))
    insert = text("INSERT INTO alembic_version (version_num) VALUES (:newest)")
    connection.execute(insert, {"newest": revisions()[-1]})


def _run_migrations(connection: Connection) -> None:
    """Run the missing migrations inside the connection's transaction."""
    from alembic import command, config  # noqa: PLC0415  (0.2 s, saved if no upgrade is needed)

    settings = config.Config()
    # Alembic reads its options with configparser, where "%" begins a reference.
    settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    settings.attributes["connection"] = connection
    command.upgrade(settings, "head")
