"""A split's rows through any door."""

from pathlib import Path

from tasks.sources.data import Data
from tasks.sources.files import file_rows, find_file
from tasks.sources.hub import hub_rows
from tasks.sources.mini import mini_folder
from tasks.sources.source import Row, Source

__all__ = ["has_rows", "rows"]


def rows(source: Source, split: str, data: Data) -> list[Row]:
    """The rows of one split; DataError where the door does not have it or it is malformed."""
    folder = _folder(data)
    if folder is None:
        return hub_rows(source, split)
    return file_rows(source, split, folder)


def has_rows(source: Source, split: str, data: Data) -> bool:
    """Whether the door has this split, without reading it; the hub is taken at its word."""
    if split not in source.splits:
        return False
    folder = _folder(data)
    return folder is None or find_file(source, source.splits[split], folder) is not None


def _folder(data: Data) -> Path | None:
    return mini_folder() if data.door == "mini" else data.folder
