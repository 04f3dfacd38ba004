"""The three sources of rows: the hub, official files, the embedded mini data."""

from collections.abc import Sequence
from pathlib import Path

from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.mini import folder as mini_folder
from benchharness.tasks.sources.files import file_rows, find_files
from benchharness.tasks.sources.hub import hub_rows
from benchharness.tasks.sources.source import Column, Data, Row, Source, Split, parse_data

__all__ = ["Column", "Data", "Row", "Source", "Split", "has_rows", "parse_data", "rows"]


def rows(source: Source, split: str, data: Data) -> list[Row]:
    """The rows of one split; DataError where the source does not have it or it is malformed."""
    folder = _folder(data)
    found = hub_rows(source, split) if folder is None else file_rows(source, split, folder)
    arranged = _arranged(source, found, f"{source.hub} {source.config} {split} ({data})")
    return [{**row, "idx": index} for index, row in enumerate(arranged)]


def _arranged(source: Source, found: list[Row], place: str) -> Sequence[Row]:
    if source.arrange is None:
        return found
    try:
        return source.arrange(found)
    except (BenchError, TypeError, ValueError) as error:
        raise DataError(
            f"{place} cannot be put in order: {error}; get the official file."
        ) from error


def has_rows(source: Source, split: str, data: Data) -> bool:
    """Whether the source has this split, without reading it; the hub is taken at its word."""
    if split not in source.splits:
        return False
    folder = _folder(data)
    return folder is None or bool(find_files(source, source.splits[split], folder))


def _folder(data: Data) -> Path | None:
    return mini_folder() if data.source == "mini" else data.folder
