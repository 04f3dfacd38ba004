"""Data sources: the Hugging Face hub, official files, and the mini data in the package."""

from collections.abc import Iterable, Sequence

from benchharness.errors import BenchError, DataError
from benchharness.tasks.sources.files import Data, mini_folder, parse_data
from benchharness.tasks.sources.formats import OfficialFiles, file_rows
from benchharness.tasks.sources.hub import hub_rows
from benchharness.tasks.sources.source import Column, Row, Source, Split

__all__ = [
    "Column",
    "Data",
    "Row",
    "Source",
    "Split",
    "has_rows",
    "missing_files",
    "parse_data",
    "rows",
]


def rows(source: Source, split: str, data: Data) -> list[Row]:
    """Return the rows of one split, with their index in the split in the column `idx`.

    Args:
        source: Source of the task's rows.
        split: Name of the split.
        data: Data that the user selected: the hub, the mini data, or official files.

    Raises:
        DataError: If the split is missing or malformed.
    """
    if source.reader is not None:
        folder = mini_folder() if data.source == "mini" else data.folder
        found, place = list(source.reader(split, folder)), str(data)
    elif data.files is None:
        found = (source.read_hub or hub_rows)(source, split)
        place = f"{source.hub} ({source.config})"
    else:
        files, place = _official(source, split, data), str(data)
        found = file_rows(files)
    arranged = _arranged(source, split, found, f"the split {split} of {place}")
    return [{**row, "idx": index} for index, row in enumerate(arranged)]


def _official(source: Source, split: str, data: Data) -> OfficialFiles:
    assert data.files is not None, "the hub has no files"
    if lacking := missing_files(source, [split], data):
        raise DataError(f"{data.files} has no {lacking}; {data.files.advice}.")
    found = data.files.find(source, source.split(split))
    assert found is not None, "it is not missing"
    return OfficialFiles(source, source.split(split), found.files)


def missing_files(source: Source, splits: Iterable[str], data: Data, *, alone: bool = True) -> str:
    """Describe which files of a task are missing in the user's data, without reading any file.

    On the hub, no file counts as missing.

    Args:
        source: Source of the task's rows.
        splits: Names of the splits that are needed.
        data: Data that the user selected.
        alone: True if no other task is run. The user's folder is then assumed to be the folder of
            this task, even if it has another name.

    Returns:
        The missing files, and other folders in which they were found; "" if no file is missing.
    """
    if source.reader is not None or data.files is None:
        return ""
    files, wanted, elsewhere = data.files, list[str](), dict[str, None]()
    for name in splits:
        found = files.find(source, source.split(name))
        if found is None or (found.guessed and not alone):
            wanted.append(f"{files.wanted(source.split(name))} ({name})")
            elsewhere[files.elsewhere(source, source.split(name))] = None
    return "; ".join(filter(None, [", ".join(wanted), *elsewhere]))


def _arranged(source: Source, split: str, found: list[Row], place: str) -> Sequence[Row]:
    language = source.splits[split].language
    try:
        if language and source.language_of is not None:
            found = [row for row in found if source.language_of(row) in (None, language)]
        if language:
            found = [{**row, "language": language} for row in found]
        return found if source.arrange is None else source.arrange(found)
    except (BenchError, TypeError, ValueError) as error:
        raise DataError(
            f"{place} does not match the official data: {error}; get the official files."
        ) from error


def has_rows(source: Source, split: str, data: Data) -> bool:
    """Return whether the data contain a split. The rows are not read.

    The result is true for every split of the task if the data are on the hub, or if the task has a
    reader of its own (`Source.reader`).
    """
    if split not in source.splits:
        return False
    if source.reader is not None:
        return True
    return data.files is None or data.files.find(source, source.splits[split]) is not None
