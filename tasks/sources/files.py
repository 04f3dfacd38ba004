"""Official files as a source, read as they were released, each format by its own reader.

A byte order mark and a carriage return before a line feed are no part of a text.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from benchharness.tasks.errors import DataError
from benchharness.tasks.sources.formats import (
    OfficialFiles,
    Record,
    conll_records,
    csv_records,
    jsonl_records,
    race_records,
    squad_records,
    tsv_records,
)
from benchharness.tasks.sources.source import Format, Row, Source, Split

Reader = Callable[[OfficialFiles], Iterable[Record]]

READERS: Mapping[Format, Reader] = MappingProxyType(
    {
        "tsv": tsv_records,
        "csv": csv_records,
        "jsonl": jsonl_records,
        "squad": squad_records,
        "race": race_records,
        "conll": conll_records,
    }
)


def find_files(source: Source, split: Split, folder: Path) -> tuple[Path, ...]:
    """The first of the split's files that is in the suite's folder or in `folder`, else none.

    Several where the name stands for several, in the order of their paths.
    """
    for home in (folder / source.home, folder):
        for name in split.files:
            found = sorted(path for path in home.glob(name) if path.is_file())
            if found:
                return tuple(found)
    return ()


def file_rows(source: Source, split_name: str, folder: Path) -> list[Row]:
    """The rows of one split's official files; DataError where they are absent or malformed."""
    split = source.split(split_name)
    paths = find_files(source, split, folder)
    if not paths:
        raise DataError(
            f"the data folder {folder} has no {' or '.join(split.files)} ({source.config}, split "
            f"{split_name}): put the official file there, or use `--data hub` or `--data mini`."
        )
    records = READERS[source.format](OfficialFiles(source, split, paths))
    return [_row(source, split, record) for record in records]


def _row(source: Source, split: Split, record: Record) -> Row:
    if source.label not in source.columns:
        return record.fields
    if split.hidden:
        return {**record.fields, source.label: None}
    return {**record.fields, source.label: _label(source, split, record)}


def _label(source: Source, split: Split, record: Record) -> object:
    """The label's name, or the number where the source names no labels; None where there is none.

    A list of labels has been read as names already.
    """
    value = record.fields[source.label]
    if _is_missing(source, split, value):
        return None
    if isinstance(value, list):
        return value
    if not source.label_names:
        try:
            return float(str(value))
        except ValueError:
            raise DataError(f"{record.place} has the label {value!r}; expected a number.") from None
    name = source.label_texts.get(str(value), str(value))
    if name not in source.label_names:
        expected = ", ".join(source.label_texts or source.label_names)
        raise DataError(f"{record.place} has the label {value!r}; expected one of {expected}.")
    return name


def _is_missing(source: Source, split: Split, value: object) -> bool:
    if value is None:
        return source.label in source.may_lack(split)
    return value == source.unlabelled
