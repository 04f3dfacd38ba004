"""The three sources of rows: the hub, official files, the embedded mini data."""

from collections.abc import Sequence

from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.sources.files import Data, parse_data
from benchharness.tasks.sources.formats import OfficialFiles, file_rows
from benchharness.tasks.sources.hub import hub_rows
from benchharness.tasks.sources.source import Column, Row, Source, Split

__all__ = ["Column", "Data", "Row", "Source", "Split", "has_rows", "parse_data", "rows"]


def rows(source: Source, split: str, data: Data) -> list[Row]:
    """The rows of one split; DataError where the source does not have it or it is malformed."""
    if data.files is None:
        found = hub_rows(source, split)
        place = f"{source.hub} ({source.config})"
    else:
        found, place = file_rows(_official(source, split, data)), str(data)
    arranged = _arranged(source, found, f"the split {split} of {place}")
    return [{**row, "idx": index} for index, row in enumerate(arranged)]


def _official(source: Source, split: str, data: Data) -> OfficialFiles:
    assert data.files is not None, "the hub has no files"
    wanted = source.split(split)
    found = data.files.find(source, wanted)
    if found is None:
        raise DataError(
            f"the data folder {data} has {data.files.absence(source, wanted)}, for the split "
            f"{split}; it holds {data.files.holds()}: put the official file there, or use "
            "`--data hub` or `--data mini`."
        )
    return OfficialFiles(source, wanted, found.files)


def _arranged(source: Source, found: list[Row], place: str) -> Sequence[Row]:
    if source.arrange is None:
        return found
    try:
        return source.arrange(found)
    except (BenchError, TypeError, ValueError) as error:
        raise DataError(f"{place} does not fit: {error}; get the official files.") from error


def has_rows(source: Source, split: str, data: Data) -> bool:
    """Whether the source has this split, without reading it; the hub is taken at its word."""
    if split not in source.splits:
        return False
    return data.files is None or data.files.find(source, source.splits[split]) is not None
