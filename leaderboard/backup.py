"""A copy of a store while others use it: whole and of one moment, or not there at all."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine

from leaderboard.database import explained, file_of
from leaderboard.exports.archive import write_archive
from leaderboard.store.record import StoredRun
from leaderboard.text import whole_file
from tasks.errors import BenchError, StoreError

__all__ = ["archive_runs", "check_new", "copy_sqlite"]


def copy_sqlite(engine: Engine, target: Path) -> None:
    """Copy an SQLite store to a file of its own by SQLite's online backup.

    Writers wait meanwhile (readers do not), so that the copy is of one moment. Raises StoreError
    where the store is damaged or the copy cannot be written.
    """
    source = file_of(engine)
    assert source is not None, "a server has no file"
    try:
        with explained(engine), whole_file(target) as file:
            _copy(source, Path(file.name))
    except OSError as error:
        raise _unwritable(target, error) from error


def archive_runs(runs: Iterable[StoredRun], target: Path) -> None:
    """Write the runs of a server's store as an archive; see docs/exports.md."""
    if target.suffix != ".gz":
        raise BenchError(
            f"the backup of a database server is an archive: name {target.name!r} .jsonl.gz."
        )
    try:
        with whole_file(target) as file:
            write_archive(file, runs)
    except OSError as error:
        raise _unwritable(target, error) from error


def check_new(path: Path) -> None:
    """Raises BenchError where a file that is to be made is there already."""
    if path.exists() or path.is_symlink():
        raise BenchError(f"{path} is there already, and nothing is written over: give a new name.")


def _unwritable(target: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{target} could not be written: {error.strerror or error}. Give another file."
    )


def _copy(source: Path, target: Path) -> None:
    # isolation_level=None: nothing but the backup opens a transaction.
    with (
        closing(sqlite3.connect(source, isolation_level=None)) as here,
        closing(sqlite3.connect(target, isolation_level=None)) as there,
    ):
        here.backup(there)
        (found,) = there.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(f"malformed: {found}")
