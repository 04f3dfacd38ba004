"""What goes into a reader of official files and what comes out, whatever their format."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tasks.sources.source import Source, Split

__all__ = ["OfficialFiles", "Record"]


class OfficialFiles(NamedTuple):
    """The files of one split; only RACE's has several."""

    source: Source
    split: Split
    paths: tuple[Path, ...]


class Record(NamedTuple):
    """A row's columns as the file writes them; `place` names file and line for an error."""

    place: str
    fields: Mapping[str, object]
