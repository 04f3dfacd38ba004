"""A whole store as gzipped JSON lines: a header, a line for each run, and an end with a digest."""

import gzip
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import IO

from leaderboard.archive import FORMAT, VERSION
from leaderboard.canonical import to_text
from leaderboard.store.record import StoredRun

__all__ = ["archive_lines", "write_archive"]


def archive_lines(runs: Iterable[StoredRun]) -> Iterator[str]:
    """The archive's lines, each with its line end; see docs/exports.md for what is in them."""
    digest, count = hashlib.sha256(), 0
    header = to_text({"format": FORMAT, "version": VERSION}) + "\n"
    digest.update(header.encode("ascii"))
    yield header
    for run in runs:
        line = to_text(asdict(run)) + "\n"
        digest.update(line.encode("ascii"))
        count += 1
        yield line
    yield to_text({"runs": count, "sha256": digest.hexdigest()}) + "\n"


def write_archive(file: IO[bytes], runs: Iterable[StoredRun]) -> int:
    """Write the archive of these runs; gives how many there are. Equal runs give equal bytes."""
    count = -2  # the header and the end are no runs
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        for line in archive_lines(runs):
            packed.write(line.encode("ascii"))
            count += 1
    return count
