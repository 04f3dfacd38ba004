"""Tables: GLUE's tab-separated files, where quotes are text, and SWAG's quoted CSV.

"NA" and "null" are text in both.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

from tasks.errors import DataError
from tasks.sources.official import OfficialFiles, Record
from tasks.sources.source import Column
from tasks.sources.text import read_lines, read_text

__all__ = ["csv_records", "tsv_records"]

Line = tuple[int, list[str]]
"""A line's number from 1 and its fields."""


def tsv_records(files: OfficialFiles) -> Iterator[Record]:
    """The rows of a tab-separated file, one a line."""
    lines = enumerate(read_lines(files.paths[0]), start=1)
    return _records(files, [(n, line.split("\t")) for n, line in lines])


def csv_records(files: OfficialFiles) -> Iterator[Record]:
    """The rows of a comma-separated file with quotes; a quoted field may hold line breaks."""
    path = files.paths[0]
    reader = csv.reader(StringIO(read_text(path), newline=""), strict=True)
    try:
        table = [(reader.line_num, fields) for fields in reader]
    except csv.Error as error:
        raise DataError(
            f"{path} line {reader.line_num} is no CSV ({error}): get the official file."
        ) from error
    return _records(files, table)


def _records(files: OfficialFiles, table: Sequence[Line]) -> Iterator[Record]:
    """The table's rows; all lines must have as many fields as the first."""
    source, split, (path, *_) = files
    for number, fields in table:
        if len(fields) != len(table[0][1]):
            raise DataError(
                f"{path} line {number} has {len(fields)} fields where the first line has "
                f"{len(table[0][1])}: the file is damaged or is an old release, get the official "
                "one."
            )
    columns = source.columns if split.columns is None else split.columns
    has_header = not all(isinstance(column, int) for column in columns.values())
    header = table[0][1] if has_header and table else None
    where = _positions(path, columns, header, source.may_lack(split))
    for number, fields in table[has_header:]:
        place = f"{path} line {number}"
        yield Record(place, _fields(where, fields, place))


def _positions(
    path: Path, columns: Mapping[str, Column], header: list[str] | None, optional: tuple[str, ...]
) -> dict[str, int | None]:
    """Each column's position in a line, None where an optional one is absent."""
    where = {name: _position(column, header) for name, column in columns.items()}
    for name, position in where.items():
        if position is None and name not in optional:
            found = ", ".join(header) if header else "an empty file"
            raise DataError(
                f"{path} line 1 names no column {columns[name]!r}, the {name}: found {found}."
            )
    return where


def _position(column: Column, header: list[str] | None) -> int | None:
    if isinstance(column, int):
        return column
    names = (column,) if isinstance(column, str) else column
    known = header or []
    return next((known.index(name) for name in names if name in known), None)


def _fields(where: Mapping[str, int | None], fields: list[str], place: str) -> dict[str, object]:
    row: dict[str, object] = {}
    for name, position in where.items():
        if position is not None and position >= len(fields):
            raise DataError(f"{place} has {len(fields)} fields, too few for the {name}.")
        row[name] = None if position is None else fields[position]
    return row
