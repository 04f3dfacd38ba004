"""JSON lines, as SuperGLUE and SNLI are released: an object a line, some with several rows."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tasks.errors import DataError
from tasks.sources.json_text import parse_object
from tasks.sources.official import OfficialFiles, Record
from tasks.sources.source import Column, Source
from tasks.sources.text import read_lines

__all__ = ["jsonl_records"]


def jsonl_records(files: OfficialFiles) -> Iterator[Record]:
    """The rows of a file of JSON objects; columns are keys, dotted where objects are nested."""
    source, split, (path, *_) = files
    optional = source.may_lack(split)
    for number, line in enumerate(read_lines(path), start=1):
        place = f"{path} line {number}"
        for part in _unfolded(source, parse_object(line, place), place):
            fields = {
                name: _find(part, column, name, place, optional=name in optional)
                for name, column in source.columns.items()
            }
            yield Record(place, fields)


def _unfolded(
    source: Source, document: Mapping[str, Any], place: str
) -> Iterable[Mapping[str, Any]]:
    if source.unfold is None:
        return (document,)
    try:
        return list(source.unfold(document))
    except (KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{place} is not laid out like {source.config}: {reason}.") from error


def _find(
    document: Mapping[str, Any], column: Column, name: str, place: str, *, optional: bool
) -> object:
    for path in (column,) if isinstance(column, str | int) else column:
        found: object = document
        for key in str(path).split("."):
            found = found.get(key, _ABSENT) if isinstance(found, Mapping) else _ABSENT
        if found is not _ABSENT:
            return found
    if optional:
        return None
    raise DataError(f"{place} has no {column!r}, the {name}: found {', '.join(document)}.")


_ABSENT = object()
