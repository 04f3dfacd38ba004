"""Write archives of runs for a repository, and read them without trusting their authors."""

import io
import re
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchharness.driver.start_checkpoints import with_needs
from benchharness.errors import BenchError, DataError
from benchharness.extensions.reproduce.rounding import with_digits
from benchharness.extensions.share.repository import PACKED_BYTES, Contribution
from benchharness.leaderboard.boards.entry import Entry
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.archive import read_archive, write_archive
from benchharness.leaderboard.store.numbers import fitting
from benchharness.leaderboard.store.record import (
    Run,
    StoredRun,
    outcome_to_run,
    run_to_stored,
    shared_stored,
    stored_to_run,
)
from benchharness.leaderboard.store.store import Store
from benchharness.leaderboard.text import digest

UNPACKED_BYTES = 2**25
"""Largest size in bytes of an archive without compression. A compressed archive of 1 MB has 10 to
25 MB of text."""

MOST_RUNS = 1_000
"""Largest number of runs in an archive: 20 seeds on each of 50 tasks."""

DIGITS = (None, 6, 4, 3, 2)
"""Numbers of decimals to which probabilities are rounded, tried in this order until an archive is
small enough; None for no rounding. With three decimals, five seeds on all of GLUE take 0.8 to 0.9
MB."""


class Packed(NamedTuple):
    """An archive of one row of a leaderboard, in memory.

    Attributes:
        name: Name of the file.
        content: Content of the file, compressed with gzip.
        runs: Number of runs.
        digits: Number of decimals to which the probabilities are rounded; None if they are not.
    """

    name: str
    content: bytes
    runs: int
    digits: int | None


def pack(store: Store, entry: Entry, suite: str, tasks: Collection[str]) -> Packed:
    """Pack the finished runs of a leaderboard entry, and the runs from which they start.

    The archive has no weights and no paths. Its probabilities have as many decimals as fit in
    `PACKED_BYTES`. The file name stays the same when seeds or tasks are added to the row, so a new
    archive replaces the old one.

    Args:
        store: Store that has the runs.
        entry: Entry whose runs are packed.
        suite: Name of the leaderboard's suite.
        tasks: Names of the tasks whose runs are packed.

    Raises:
        DataError: The entry has more than `MOST_RUNS` runs, the archive is too large even with two
            decimals, or `check_text` refuses a run.
    """
    cells = [entry.cells[task] for task in tasks]
    keys = sorted({run.key for cell in cells for run in cell.runs})
    results = list(store.origins(keys))
    needed = {job.key for each in results for job in with_needs(store, each.job)}
    every = sorted({*keys, *needed})
    if len(every) > MOST_RUNS:
        raise DataError(
            f"{entry.name} has {len(every):,} runs, but an archive holds at most {MOST_RUNS:,}."
        )
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", f"{entry.model}-{suite}").strip("-.")[:80] or "row"
    row = [suite, entry.model, entry.recipe, entry.precision, entry.variant]
    name = f"{slug}-{digest(row)[:10]}.jsonl.gz"
    content = b""
    for digits in DIGITS:
        file = io.BytesIO()
        count = write_archive(file, _rounded(store, every, digits), columns=True)
        content = file.getvalue()
        if len(content) <= PACKED_BYTES:
            if _unpacked_size(content) > UNPACKED_BYTES:
                break
            return Packed(name, content, count, digits)
    raise DataError(
        f"{entry.name} would be an archive of {len(content):,} bytes, but a row has at most "
        f"{PACKED_BYTES:,} bytes and {UNPACKED_BYTES:,} bytes unpacked: share fewer tasks (--task)."
    )


def _rounded(store: Store, keys: Collection[str], digits: int | None) -> Iterator[StoredRun]:
    for outcome in store.results(keys):
        run = outcome_to_run(
            with_digits(outcome, digits) if isinstance(outcome, Result) else outcome
        )
        run.attempt = 1  # the number of attempts at a job differs between stores
        shared = shared_stored(run_to_stored(run))
        check_text(shared)  # `bench share check` would refuse this run too
        yield shared


def _unpacked_size(content: bytes) -> int:
    return sum(len(part) for part in _parts(io.BytesIO(content), 2 * UNPACKED_BYTES))


def _parts(file: io.BufferedIOBase, most: int) -> Iterator[bytes]:
    """Yield the unpacked content of a gzip file in pieces, at most `most` bytes and a MiB."""
    unpacker, size = zlib.decompressobj(wbits=31), 0
    while size <= most and (packed := unpacker.unconsumed_tail or file.read(2**16)):
        part = unpacker.decompress(packed, 2**20)
        size += len(part)
        yield part
        if unpacker.eof:
            return


def check_size(path: Path) -> None:
    """Raise DataError if an archive needs too much memory or time, or cannot be unpacked.

    The file is unpacked in pieces, and only their sizes are kept.
    """
    size = lines = 0
    try:
        with path.open("rb") as file:
            for part in _parts(file, UNPACKED_BYTES):
                size, lines = size + len(part), lines + part.count(b"\n")
                if size > UNPACKED_BYTES or lines > MOST_RUNS + 2:
                    raise DataError(
                        f"it unpacks to more than {UNPACKED_BYTES // 2**20} MiB or more than "
                        f"{MOST_RUNS:,} runs, which no row needs: write it with `bench share add`."
                    )
    except zlib.error as error:
        raise DataError(
            f"it is not a gzip file, or is damaged ({error}): write it with `bench share add`."
        ) from error
    except OSError as error:
        raise DataError(f"it cannot be read: {error.strerror or error}.") from error


def read_runs(each: Contribution) -> Iterator[tuple[StoredRun, Run]]:
    """Yield the runs of a contributed archive, each with its rows of the tables of a database.

    Nothing in the archive is executed, imported or downloaded, and no path in it is opened.

    Raises:
        DataError: The file was refused before, is too large, cannot be read, has no run or the same
            run twice, or has a run with a wrong digest or with a text that `check_text` refuses.
    """
    seen, count = set[str](), 0
    if each.fault:
        raise DataError(each.fault)
    check_size(each.path)
    try:
        for stored in read_archive(each.path):
            check_text(stored)
            run = next(fitting([stored_to_run(stored)]))
            if stored.key in seen:
                raise DataError(
                    f"it contains the run {stored.key[:12]} twice: write it with `bench share add`."
                )
            seen.add(stored.key)
            count += 1
            yield stored, run
    except BenchError as error:
        raise DataError(str(error).replace(str(each.path), "it")) from error
    if not count:
        raise DataError("it contains no run: share a row that has finished runs.")


_SHOWN = ("model", "checkpoint", "weights", "task", "data", "recipe", "precision", "source")
"""Fields of a job that pages and tables show as text."""

_PLAIN = re.compile(r"(?!.*(?:\.\.|//))[^\W_][\w .,:;+=@%#()\[\]/'&*-]{0,199}", re.ASCII)
"""Pattern of names that cannot be a path of a file, markup or a command: "org/model", "lr=2e-5",
"glue#3fa2c1"."""


def check_text(stored: StoredRun) -> None:
    """Raise DataError if a run is without a job, refers to code, or has an unsafe name or limit.

    A name is unsafe if it may be markup, a path or a command.
    """
    job = stored.data.get("job")
    if not isinstance(job, Mapping):
        raise DataError(
            f"the record of the run {_short(stored)} has no field 'job': write the archive again "
            "with `bench share add`."
        )
    check_definition(job.get("definition"), _short(stored))
    if job.get("limit") is not None and not (type(job["limit"]) is int and job["limit"] > 0):
        raise DataError(
            f"the run {_short(stored)} has the limit {job['limit']!r:.20}: expected a number of "
            "rows above 0."
        )
    names = {name: job.get(name) for name in _SHOWN}
    for name, value in names.items():
        is_empty = value in ("", None) and name in ("checkpoint", "source")
        if not is_empty and not (isinstance(value, str) and _PLAIN.fullmatch(value)):
            raise DataError(
                f"the run {_short(stored)} has the {name} {value!r:.60}, which may be markup, a "
                "path or a command: expected a plain name of at most 200 letters, digits and signs "
                "such as /, = and #. `bench db rename` renames a model."
            )


def check_definition(definition: object, run: str) -> None:
    """Raise DataError if the definition of a custom task refers to code.

    Args:
        definition: Definition of the task, as in a job; None for a benchmark's task.
        run: First 12 characters of the run's key, for the message.
    """
    if not definition:
        return
    metrics = definition.get("metrics") if isinstance(definition, Mapping) else None
    named = [str(each) for each in metrics] if isinstance(metrics, list) else [repr(metrics)]
    odd = [name for name in named if not re.fullmatch(r"[A-Za-z0-9_:@. -]{1,60}", name)]
    code = [name for name in named if name.startswith(("evaluate", "hub"))] or odd
    if code or (isinstance(definition, Mapping) and definition.get("scripts")):
        raise DataError(
            f"the run {run} has the metric {' '.join(code)[:80]!r}, which needs code, but a "
            "repository accepts no code: share a row that is scored by a metric of benchharness."
        )


def check_paths(stored: StoredRun) -> None:
    """Raise DataError if a run contains paths that `bench share add` would shorten."""
    if shared_stored(stored) is not stored:
        raise DataError(
            f"the run {_short(stored)} names paths of a machine: write the archive with `bench "
            "share add`, which shortens them."
        )


def _short(stored: StoredRun) -> str:
    return re.sub("[^0-9a-f]", "?", stored.key[:12])
