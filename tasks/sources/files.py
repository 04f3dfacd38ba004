"""The files door: official tab-separated files, read as they were released.

Quotes are text, "NA" and "null" are text, a line ends at a line feed only (a sentence may hold any
other Unicode line break), and a byte order mark or a carriage return before the line feed is no
part of a field.
"""

from collections.abc import Mapping
from pathlib import Path

from tasks.errors import DataError
from tasks.sources.source import Column, Row, Source, Split

__all__ = ["file_rows", "find_file"]


def find_file(source: Source, split: Split, folder: Path) -> Path | None:
    """The first of the split's files that is in the suite's folder or in `folder`, else None."""
    homes = (folder / source.home, folder)
    return next((h / name for h in homes for name in split.files if (h / name).is_file()), None)


def file_rows(source: Source, split_name: str, folder: Path) -> list[Row]:
    """The rows of one split's official file; DataError where it is absent or malformed."""
    split = source.split(split_name)
    path = find_file(source, split, folder)
    if path is None:
        raise DataError(
            f"the data folder {folder} has no {' or '.join(split.files)} ({source.config}, split "
            f"{split_name}): put the official file there, or use `--data hub` or `--data mini`."
        )
    columns = source.columns if split.columns is None else split.columns
    has_header = not all(isinstance(column, int) for column in columns.values())
    table = _read_table(path)
    header = table[0] if has_header and table else None
    where = _positions(path, columns, header, _optional(source, split))
    return [
        {"idx": line - 1 - has_header} | _row(source, split, where, fields, f"{path} line {line}")
        for line, fields in enumerate(table[has_header:], start=1 + has_header)
    ]


def _read_table(path: Path) -> list[list[str]]:
    """The fields of every line, all lines with as many fields as the first."""
    table: list[list[str]] = []
    for number, line in enumerate(_read_lines(path), start=1):
        fields = line.split("\t")
        if table and len(fields) != len(table[0]):
            raise DataError(
                f"{path} line {number} has {len(fields)} fields where the first line has "
                f"{len(table[0])}: the file is damaged or is an old release, get the official one."
            )
        table.append(fields)
    return table


def _read_lines(path: Path) -> list[str]:
    content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path} line {line} is not UTF-8 text: get the official file.") from error
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def _optional(source: Source, split: Split) -> tuple[str, ...]:
    hides_labels = split.hidden or split.hub.startswith("test")
    return (*source.optional, "label") if hides_labels else source.optional


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


def _row(
    source: Source, split: Split, where: Mapping[str, int | None], fields: list[str], place: str
) -> dict[str, object]:
    row: dict[str, object] = {}
    for name, position in where.items():
        if position is not None and position >= len(fields):
            raise DataError(f"{place} has {len(fields)} fields, too few for the {name}.")
        row[name] = None if position is None else fields[position]
    if split.hidden:
        row["label"] = None
    elif isinstance(text := row.get("label"), str):
        row["label"] = _label(source, text, place)
    return row


def _label(source: Source, text: str, place: str) -> str | float:
    """The label's name, or the number where the source names no labels."""
    if not source.label_names:
        return _number(text, place)
    name = source.label_texts.get(text, text)
    if name not in source.label_names:
        expected = ", ".join(source.label_texts or source.label_names)
        raise DataError(f"{place} has the label {text!r}; expected one of {expected}.")
    return name


def _number(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{place} has the label {text!r}; expected a number.") from None
