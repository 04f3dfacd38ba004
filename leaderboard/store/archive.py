"""What an archive of a whole store is: the names that its writer and its reader share."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from benchharness.leaderboard.store.record import StoredRun, stored_to_run
from benchharness.leaderboard.store.schema import to_text
from benchharness.tasks.errors import DataError, StoreError

_FORMAT = "benchharness archive"

_VERSION = 1
"""Goes up when a reader of the version before would misread what is written."""


# A whole store as gzipped JSON lines: a header, a line for each run, and an end with a digest.


def _archive_lines(runs: Iterable[StoredRun]) -> Iterator[str]:
    """The archive's lines, each with its line end; see docs/exports.md for what is in them."""
    digest, count = hashlib.sha256(), 0
    header = to_text({"format": _FORMAT, "version": _VERSION}) + "\n"
    digest.update(header.encode("ascii"))
    yield header
    for run in runs:
        line = (
            to_text({name: value for name, value in vars(run).items() if value is not None}) + "\n"
        )
        digest.update(line.encode("ascii"))
        count += 1
        yield line
    yield to_text({"runs": count, "sha256": digest.hexdigest()}) + "\n"


def write_archive(file: IO[bytes], runs: Iterable[StoredRun]) -> int:
    """Write the archive of these runs; gives how many there are. Equal runs give equal bytes."""
    count = -2  # the header and the end are no runs
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        for line in _archive_lines(runs):
            packed.write(line.encode("ascii"))
            count += 1
    return count


LONGEST_LINE = 2**30
"""Bytes: the predictions of a million rows are a tenth of it; more is no run but a bomb."""


def check_archive(path: Path) -> int:
    """Read the archive to its end and store nothing; gives the number of its runs.

    Raises DataError where a line is missing, twice there, or not what its store has written.
    """
    seen: set[tuple[str, int]] = set()
    for run in read_archive(path):
        try:
            stored_to_run(run)
        except StoreError as error:
            raise DataError(f"{path} was changed after it was written: {error}") from error
        if (run.key, run.attempt) in seen:
            raise DataError(
                f"{path} has the run {run.key[:12]} (attempt {run.attempt}) twice: export the "
                "store again."
            )
        seen.add((run.key, run.attempt))
    return len(seen)


def read_archive(path: Path) -> Iterator[StoredRun]:
    """The archive's runs, in the order they were stored in; the last line is checked at the end.

    Raises DataError where the file is no archive, of another version, cut short or damaged.
    """
    try:
        yield from _runs(path)
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        reason = str(error).rstrip(".")
        raise DataError(f"{path} is damaged or cut short ({reason}): copy it again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def _runs(path: Path) -> Iterator[StoredRun]:
    digest, count = hashlib.sha256(), 0
    with gzip.open(path, "rb") as file:
        line = file.readline(LONGEST_LINE)
        header = _parsed(path, line, 1)
        if header.get("format") != _FORMAT:
            raise DataError(
                f"{path} is not a benchharness archive: its first line does not say so; `bench "
                "export --all` writes one."
            )
        if header.get("version") != _VERSION:
            raise DataError(
                f"{path} is an archive of version {header.get('version')!r}, and this "
                f"benchharness reads version {_VERSION}: import it with the release "
                "that wrote it, or a newer one."
            )
        digest.update(line)
        while line := file.readline(LONGEST_LINE):
            data = _parsed(path, line, count + 2)
            if "sha256" in data:
                _check_end(path, data, count, digest.hexdigest(), file.read(1))
                return
            digest.update(line)
            count += 1
            kinds = {"key": str, "attempt": int, "status": str, "digest": str, "data": dict}
            known = kinds | ({"facts": dict} if "facts" in data else {})
            if data.keys() != known.keys() or any(
                type(data[name]) is not known[name] for name in known
            ):
                raise DataError(
                    f"line {count + 1} of {path} is not a run: it needs "
                    f"{', '.join(kinds)} and nothing else."
                )
            yield StoredRun(**data)
    raise DataError(f"{path} is cut short: its last line is missing; copy it again.")


def _parsed(path: Path, line: bytes, number: int) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise DataError(
            f"line {number} of {path} is not a JSON object: expected a benchharness archive, as "
            "`bench export --all` writes it."
        )
    return data


def _check_end(path: Path, end: dict[str, Any], count: int, digest: str, rest: bytes) -> None:
    if end.get("runs") != count or end["sha256"] != digest or rest:
        raise DataError(
            f"{path} is not what was written: its {count} runs do not fit the digest at its end; "
            "copy it again."
        )
