"""Bring a database to the schema of this version: make it, upgrade it, or say why not."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Engine, inspect, text
from sqlalchemy.orm import Session

from leaderboard.backup import copy_sqlite
from leaderboard.database import file_of, name_of, open_engine, reading, writing
from leaderboard.text import flush_to_disk
from tasks.errors import StoreError

__all__ = ["prepare", "revisions"]

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK_SECONDS = 60
SQLITE_MAGIC = b"SQLite format 3\0"
"""The first bytes of every SQLite file (sqlite.org/fileformat.html, 1.3)."""


def prepare(engine: Engine, *, create: bool, upgrade: bool = True) -> None:
    """Make the database usable: a missing one is made (if `create`), an older one upgraded.

    An SQLite file is copied beside itself before an upgrade; without `upgrade` an older database is
    refused. Raises StoreError, with the file as it
    was, where it is missing, damaged, not ours, or of a newer schema.
    """
    path = file_of(engine)
    if path is not None and not _is_there(path):
        _require(create, name_of(engine))
        _create_file(path)
    elif path is not None:
        _check_file(path)
    _bring_up(engine, path, create=create, upgrade=upgrade)


def revisions() -> tuple[str, ...]:
    """The schema's revisions that this version knows, oldest first."""
    return tuple(sorted(path.stem[1:] for path in (MIGRATIONS / "versions").glob("r[0-9]*.py")))


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"the leaderboard {path} cannot be reached: {error.strerror}.") from error
    return True


def _require(create: bool, name: str) -> None:
    if not create:
        raise StoreError(f"there is no leaderboard at {name} yet; `bench run` makes one.")


def _check_file(path: Path) -> None:
    """Refuse what is no SQLite file before SQLite opens it."""
    if path.is_dir():
        raise StoreError(f"the leaderboard {path} is a folder; give the path of a file in it.")
    try:
        with path.open("rb") as file:
            start = file.read(len(SQLITE_MAGIC))
    except OSError as error:
        raise StoreError(f"the leaderboard {path} cannot be read: {error.strerror}.") from error
    if start == SQLITE_MAGIC:
        return
    # A leaderboard gets its name when it is whole (see _create_file): an empty one has lost its
    # content, and filling it would hide that.
    found = "is empty (0 bytes)" if not start else "is not an SQLite database"
    raise StoreError(
        f"the leaderboard {path} {found} and was left as it is: `bench db recover` saves what can "
        "be read, or put a backup in its place, or move it away and `bench run` starts a new one."
    )


def _create_file(path: Path) -> None:
    """Make an empty leaderboard under another name, then give it its own: it is never half there.

    Of several processes that start at once, one makes it and the others find it made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            if not _is_there(path):
                _create_alone(path)
    except OSError as error:
        raise StoreError(
            f"the leaderboard {path} cannot be made: {error.strerror or error}. Give another path "
            "with --db or $BENCH_DB."
        ) from error


def _create_alone(path: Path) -> None:
    new = path.with_name(f".{path.name}.new")
    leftovers = (new, new.with_name(f"{new.name}-journal"))
    try:
        for leftover in leftovers:  # of a process that was killed at this place
            leftover.unlink(missing_ok=True)
        with writing(open_engine(new), check_keys=False) as session:
            _run_migrations(session)
        new.rename(path)
        flush_to_disk(path.parent)
    finally:
        for leftover in leftovers:
            leftover.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside a database, which makes creations and upgrades take turns."""
    lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout as error:
        raise StoreError(
            f"another process has been making or upgrading the leaderboard {path} for "
            f"{LOCK_SECONDS} seconds; try again when it has ended."
        ) from error
    except OSError as error:
        raise StoreError(
            f"the leaderboard {path} cannot be made or upgraded, because its folder cannot be "
            f"written: {error.strerror or error}. Give another path with --db or $BENCH_DB."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _bring_up(engine: Engine, path: Path | None, *, create: bool, upgrade: bool) -> None:
    """Upgrade an older schema, and make one on a server that has none."""
    with reading(engine) as session:
        found = _revision(session, name_of(engine))
    if found is None and path is None:
        _require(create, name_of(engine))
    elif found is None:
        raise _foreign(name_of(engine))
    if found == revisions()[-1]:
        return
    if not upgrade and found is not None:
        raise StoreError(
            f"the leaderboard {name_of(engine)} has the older schema {found}: `bench list runs` "
            f"upgrades it to {revisions()[-1]}, as any other command does, and keeps a copy."
        )
    if path is None:
        _upgrade(engine, None)
        return
    with _locked(path):
        _upgrade(engine, path)


def _upgrade(engine: Engine, path: Path | None) -> None:
    """Upgrade in one transaction; nobody else can write between the copy and the change."""
    with writing(engine, check_keys=False) as session:
        found = _revision(session, name_of(engine))
        if found == revisions()[-1]:  # another process was first
            return
        if path is not None:
            _copy_beside(engine, path, found or "")
        _run_migrations(session)


def _revision(session: Session, name: str) -> str | None:
    """The schema's revision, or None in a database without one."""
    if not inspect(session.connection()).has_table("alembic_version"):
        return None
    found = session.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if len(found) != 1 or not re.fullmatch("[0-9]{4}", str(found[0])):
        raise _foreign(name)
    if found[0] not in revisions():
        raise StoreError(
            f"the leaderboard {name} has schema {found[0]}, and this benchharness knows "
            f"{revisions()[0]} to {revisions()[-1]}: a newer one has written it. Upgrade "
            "benchharness to use it."
        )
    return str(found[0])


def _foreign(name: str) -> StoreError:
    return StoreError(
        f"{name} is a database of something else, not a leaderboard; give another path with --db "
        "or $BENCH_DB."
    )


def _copy_beside(engine: Engine, path: Path, revision: str) -> None:
    """Copy a database whole, as `leaderboard.sqlite.0001-20260801T120000.bak`."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    copy_sqlite(engine, path.with_name(f"{path.name}.{revision}-{moment}.bak"))


def _run_migrations(session: Session) -> None:
    """Run what is missing inside the session's transaction."""
    from alembic import command  # 0.2 s that a ready database need not pay
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = session.connection()
    command.upgrade(config, "head")
