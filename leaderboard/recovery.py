"""What can still be read of a damaged store, put into a new one; the damaged one stays as it is."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import NamedTuple

from sqlalchemy import CompoundSelect, Engine, func, select, union

from leaderboard.database import file_of, open_engine, reading
from leaderboard.store.record import StoredRun, run_to_stored
from leaderboard.store.recovery import Row, rows_in_pages
from leaderboard.store.schema import Headline, Predictions, Run, Score
from leaderboard.store.store import open_store
from leaderboard.text import flush_to_disk
from leaderboard.whole_runs import run_ids, whole_runs
from tasks.errors import StoreError

__all__ = ["Recovered", "recover"]

TABLES = {27: "runs", 6: "scores", 7: "predictions"}
"""By the number of their columns, in every revision of the schema so far."""


class Recovered(NamedTuple):
    """How many attempts the new store has, and how many are known to be lost."""

    kept: int
    lost: int


def recover(damaged: str, new: Path) -> Recovered:
    """Save every attempt of a damaged store that is byte for byte what was written.

    A file is read page by page, so that the loss of some loses no others, and never written to; of
    a server's database, which has no such file, what the server can read is saved. The new store
    is there whole or not at all. Raises StoreError where it cannot be made or nothing was found.
    """
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=new.parent, prefix=f".{new.name}."[:200]) as folder:
            made = Path(folder) / "new.sqlite"
            readable = open_engine(damaged)
            if (file := file_of(readable)) is not None:
                readable = _readable(file, Path(folder))
            found = _save(readable, made)
            flush_to_disk(made)
            made.rename(new)
        flush_to_disk(new.parent)
    except OSError as error:
        raise StoreError(
            f"{new} could not be made from {damaged}: {error.strerror or error}."
        ) from error
    if not found.kept:
        new.unlink()
        raise StoreError(f"nothing that is whole could be read from {damaged}: nothing was made.")
    return found


def _save(readable: Engine, new: Path) -> Recovered:
    with reading(readable) as session:
        ids = run_ids(session)
        seen = session.scalar(select(func.count()).select_from(_mentioned().subquery())) or 0
    whole = dict[int, None]()

    def stored() -> Iterator[StoredRun]:
        for number, run in whole_runs(readable, ids):
            with suppress(StoreError):
                if isinstance(run, Run):
                    yield run_to_stored(run)
                    whole[number] = None

    with open_store(new) as store:
        kept = store.merge(stored()).added
    return Recovered(kept, max(seen, *whole, 0) - kept)


def _mentioned() -> CompoundSelect[tuple[int]]:
    """The numbers of all runs of which a row is left; they count up from 1."""
    others = (Score.run_id, Predictions.run_id, Headline.run_id)
    return union(select(Run.id), *map(select, others))


def _readable(damaged: Path, folder: Path) -> Engine:
    """A database with every row of the file's tables that can be read, whole runs or not."""
    path = folder / "readable.sqlite"
    open_store(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    with _settled(damaged, folder).open("rb") as file, closing(connection):
        for statement in ("PRAGMA foreign_keys=OFF", "PRAGMA synchronous=OFF", "BEGIN"):
            connection.execute(statement)
        for row in rows_in_pages(file):
            _put(connection, row)
        connection.execute("COMMIT")
    return open_engine(path)


def _put(connection: sqlite3.Connection, row: Row) -> None:
    """Keep a row as what it looks like; one that fits no table, or is there already, is left."""
    table = TABLES.get(len(row.values))
    if table == "predictions" and isinstance(row.values[1], str):
        table = "headlines"  # the other one of seven columns, whose second is a job's key
    if table is not None:
        values = (row.number, *row.values[1:])
        places = ", ".join("?" * len(values))
        connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({places})", values)  # noqa: S608


def _settled(damaged: Path, folder: Path) -> Path:
    """The file itself, or where a transaction was cut off, a copy in which SQLite has undone it."""
    sides = [damaged.with_name(damaged.name + end) for end in ("-journal", "-wal")]
    if not any(side.exists() for side in sides):
        return damaged
    for path in (damaged, *(side for side in sides if side.exists())):
        copyfile(path, folder / path.name)
    copy = folder / damaged.name
    with suppress(sqlite3.Error), closing(sqlite3.connect(copy)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return copy
