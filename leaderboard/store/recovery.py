"""What can still be read of a damaged store, put into a new one; the damaged one stays as it is."""

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple

from sqlalchemy import CompoundSelect, Engine, func, select, union

from leaderboard.store.database import file_of, open_engine, reading
from leaderboard.store.merging import run_ids, whole_runs
from leaderboard.store.record import StoredRun, fill_facts, run_to_stored
from leaderboard.store.schema import Headline, Predictions, Run, Score
from leaderboard.store.store import open_store
from leaderboard.text import flush_to_disk
from tasks.errors import StoreError

__all__ = ["recover", "rows_in_pages"]

# The rows in an SQLite file's pages, read without SQLite: what is left of a damaged file.
#
# Every page is looked at by itself, so that it does not matter which others are lost. Nothing
# tells a damaged row from a whole one: that is what the digests of the runs are for. The format
# is that of sqlite.org/fileformat2.html.

Value = None | int | float | str | bytes

MAGIC = b"SQLite format 3\0"
USUAL_PAGE = 4096
LEAF = 13
"""What the page of a table's rows begins with."""

LONGEST = 2**30
"""Bytes of a row; SQLite itself takes no more than 1,000,000,000 (sqlite.org/limits.html, 1)."""


class Row(NamedTuple):
    """A row of any table: its number, and its columns from left to right."""

    number: int
    values: tuple[Value, ...]


class _Layout(NamedTuple):
    """Bytes in a page, and how many of them hold content."""

    size: int
    usable: int


def rows_in_pages(file: BinaryIO) -> Iterator[Row]:
    """Every row that can be read in the pages of tables, whatever table it is of."""
    layout = _layout(file)
    number = 1
    while page := _page(file, number, layout):
        yield from _rows(file, page, 100 if number == 1 else 0, layout)
        number += 1


def _layout(file: BinaryIO) -> _Layout:
    file.seek(0)
    header = file.read(100)
    size = int.from_bytes(header[16:18], "big")
    size = 65536 if size == 1 else size
    if not header.startswith(MAGIC) or size < 512 or size & (size - 1):
        return _Layout(USUAL_PAGE, USUAL_PAGE)
    return _Layout(size, max(480, size - header[20]))


def _page(file: BinaryIO, number: int, layout: _Layout) -> bytes:
    file.seek((number - 1) * layout.size)
    return file.read(layout.size)


def _rows(file: BinaryIO, page: bytes, start: int, layout: _Layout) -> Iterator[Row]:
    if len(page) < start + 8 or page[start] != LEAF:
        return
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    for place in range(start + 8, min(start + 8 + 2 * count, len(page) - 1), 2):
        try:
            yield _row(file, page, int.from_bytes(page[place : place + 2], "big"), layout)
        except (IndexError, ValueError, struct.error):  # damaged: there may be others
            continue


def _row(file: BinaryIO, page: bytes, place: int, layout: _Layout) -> Row:
    length, place = _varint(page, place)
    number, place = _varint(page, place)
    if not 0 < length < LONGEST:
        raise ValueError("no row is so long")
    here = _kept_here(length, layout.usable)
    content = page[place : place + here]
    if here < length:
        following = int.from_bytes(page[place + here : place + here + 4], "big")
        content += _overflow(file, following, length - here, layout)
    if len(content) != length:
        raise ValueError("the row is cut short")
    return Row(number, tuple(_values(content)))


def _kept_here(length: int, usable: int) -> int:
    """The bytes of a row that lie in its own page (fileformat2, 1.6)."""
    most = usable - 35
    if length <= most:
        return length
    least = (usable - 12) * 32 // 255 - 23
    some = least + (length - least) % (usable - 4)
    return some if some <= most else least


def _overflow(file: BinaryIO, number: int, length: int, layout: _Layout) -> bytes:
    """The rest of a row, in a chain of pages."""
    parts: list[bytes] = []
    while number and length > 0:
        page = _page(file, number, layout)
        parts.append(page[4 : min(layout.usable, 4 + length)])
        if not parts[-1]:
            break
        length -= len(parts[-1])
        number = int.from_bytes(page[:4], "big")
    return b"".join(parts)


def _values(content: bytes) -> Iterator[Value]:
    end, place = _varint(content, 0)
    types: list[int] = []
    while place < end:
        kind, place = _varint(content, place)
        types.append(kind)
    for kind in types:
        length = _length(kind)
        part = content[place : place + length]
        if len(part) != length:
            raise ValueError("a column is cut short")
        yield _value(kind, part)
        place += length


def _length(kind: int) -> int:
    if kind >= 12:
        return (kind - 12) // 2
    if kind in (10, 11):
        raise ValueError("no column is of this type")
    return (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind]


def _value(kind: int, part: bytes) -> Value:
    if kind >= 12:
        return part.decode("utf-8") if kind % 2 else part
    if kind == 0:
        return None
    if kind == 7:
        (number,) = struct.unpack(">d", part)
        return float(number)
    return kind - 8 if kind in (8, 9) else int.from_bytes(part, "big", signed=True)


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of one to nine bytes, and the place behind it."""
    value = 0
    for _ in range(8):
        byte = data[place]
        place += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place
    value = value << 8 | data[place]
    return (value - 2**64 if value >= 2**63 else value), place + 1


RUN, SCORE = (27, 29), (6, 7)
"""The columns that a run and a score have had, before revision 0003 and since."""


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
                    if not run.facts:
                        fill_facts(run)
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
    if (table := _table(row.values)) is None:
        return
    values = [row.number, *row.values[1:]]
    values += {RUN[0]: ["{}", ""], SCORE[0]: [""]}.get(len(values), [])
    places = ", ".join("?" * len(values))
    connection.execute(f"INSERT OR IGNORE INTO {table} VALUES ({places})", values)  # noqa: S608


def _table(values: Sequence[Value]) -> str | None:
    """By the number of the columns, and where it is the same, by their types."""
    if len(values) in RUN:
        return "runs"
    if len(values) not in SCORE:
        return None
    if len(values) == 7 and isinstance(values[1], str):
        return "headlines"
    return "predictions" if isinstance(values[-1], bytes) else "scores"


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
