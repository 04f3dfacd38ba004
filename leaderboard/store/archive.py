"""What is kept outside of a store: archives of whole stores, runs, the code that was named."""

import gzip
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from tempfile import gettempdir
from typing import IO, Any, NamedTuple

from platformdirs import user_data_path

from benchharness.leaderboard.store.numbers import Known, fitting
from benchharness.leaderboard.store.record import (
    Run,
    StoredRun,
    run_to_stored,
    shared_stored,
    stored_to_run,
)
from benchharness.leaderboard.text import flush_to_disk, to_text, whole_file
from benchharness.tasks.errors import BenchError, DataError, StoreError

_FORMAT = "benchharness archive"

_VERSION = 2
"""Goes up when a reader of the version before would misread what is written. Version 1 was written
before 0.1.0."""


# A whole store as gzipped JSON lines: a header, a line for each run, and an end with a digest.


def _archive_lines(runs: Iterable[StoredRun], facts: Mapping[str, Any]) -> Iterator[str]:
    """The archive's lines, each with its line end; see docs/exports.md for what is in them."""
    digest, count = hashlib.sha256(), 0
    # First {"format":"benchharness archive","version":2}, then for each run {"key":..,"attempt":1,
    # "status":"finished","digest":..,"data":{..}}, at last {"runs":2,"sha256":..} of all before.
    header = to_text({"format": _FORMAT, "version": _VERSION, **facts}) + "\n"
    digest.update(header.encode("ascii"))
    yield header
    for run in runs:
        line = to_text(vars(run)) + "\n"
        if len(line) >= LONGEST_LINE:
            raise DataError(f"run {run.key[:12]} has too many predictions for an archive.")
        digest.update(line.encode("ascii"))
        count += 1
        yield line
    yield to_text({"runs": count, "sha256": digest.hexdigest()}) + "\n"


def write_archive(
    file: IO[bytes], runs: Iterable[StoredRun], *, paths: bool = False, **facts: Any
) -> int:
    """Write the archive of these runs; gives how many there are. Equal runs give equal bytes.

    Paths of this machine are left out (see `sharing`), or whole with `paths`, for a copy that
    stays here. `facts` stand in its first line, which readers of archives pass over.
    """
    runs = runs if paths else map(shared_stored, runs)
    count = -2  # the header and the end are no runs
    # No name and no time in gzip's own header, or equal runs would give other bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        for line in _archive_lines(runs, facts):
            packed.write(line.encode("ascii"))
            count += 1
    return count


LONGEST_LINE = 2**27
"""Bytes: the predictions of a million rows, twice QQP's dev and test split. More is a bomb, which
is refused before it is parsed: twice as much memory is all that it takes."""


def check_archive(path: Path, known: Known | None = None) -> int:
    """Read the archive to its end and store nothing; gives the number of its runs.

    The rows of its runs go into `known`, to be held against those of a store.
    Raises DataError where a line is missing, twice there, or not what its store has written.
    """
    seen: set[tuple[str, int]] = set()
    try:
        for run in fitting(map(stored_to_run, read_archive(path)), known):
            if (run.job_key, run.attempt) in seen:
                raise DataError(
                    f"{path} has the run {run.job_key[:12]} (attempt {run.attempt}) twice: export "
                    "the store again."
                )
            seen.add((run.job_key, run.attempt))
    except StoreError as error:
        raise DataError(f"{path} was changed after it was written: {error}") from error
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


def archive_facts(path: Path) -> dict[str, Any]:
    """The first line of an archive that `read_archive` has read."""
    with gzip.open(path, "rb") as file:
        return _parsed(path, _next_line(path, file, 1), 1)


def _runs(path: Path) -> Iterator[StoredRun]:
    digest, count = hashlib.sha256(), 0
    with gzip.open(path, "rb") as file:
        line = _next_line(path, file, 1)
        header = _parsed(path, line, 1)
        if header.get("format") != _FORMAT:
            raise DataError(
                f"{path} is not a benchharness archive: its first line does not say so; `bench "
                "export --all` writes one."
            )
        if header.get("version") != _VERSION:
            raise DataError(
                f"{path} is an archive of version {header.get('version')!r}, and this "
                f"benchharness reads version {_VERSION}: export its store again by this one, or "
                "import it into a store of the code that wrote it."
            )
        digest.update(line)
        # The header is line 1, so the run after `count` others is on line count + 2.
        while line := _next_line(path, file, count + 2):
            data = _parsed(path, line, count + 2)
            if "sha256" in data:
                _check_end(path, data, count, digest.hexdigest(), file.read(1))
                return
            digest.update(line)
            count += 1
            kinds = {"key": str, "attempt": int, "status": str, "digest": str, "data": dict}
            # By `type`: true is an int too, and no number of an attempt.
            if data.keys() != kinds.keys() or any(type(data[n]) is not kinds[n] for n in kinds):
                raise DataError(
                    f"line {count + 1} of {path} is not a run: it needs "
                    f"{', '.join(kinds)} and nothing else."
                )
            yield StoredRun(**data)
    raise DataError(f"{path} is cut short: its last line is missing; copy it again.")


def _next_line(path: Path, file: gzip.GzipFile, number: int) -> bytes:
    line = file.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
        raise DataError(
            f"line {number} of {path} has more than {LONGEST_LINE // 2**20} MiB, and no run has: "
            "expected a benchharness archive."
        )
    return line


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


# An outcome that its store could not take: an archive of one run, in a folder beside the store.

_KEPT = ".jsonl.gz"


def kept_elsewhere(name: str) -> list[Path]:
    """The folders for a store whose disk is full: in the user's data, and in TMPDIR."""
    roots = (user_data_path("benchharness"), Path(gettempdir()))
    name = f"benchharness-unstored-{os.geteuid()}-{name}"
    return [root / name for root in roots if root.is_absolute()]


def write_kept(folders: Sequence[Path], run: Run, *, force: bool) -> Path:
    """Keep a run in a file of its own, in the first folder with room; raises OSError.

    It is there whole or not at all. With `force` it is another attempt, wherever its job has a
    result. All folders but the first are the user's alone: results that others put there would be
    taken for ours.
    """
    # The store that takes it in gives it its number.
    run.attempt = 1
    failed = OSError()
    for folder in folders:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            # Beside the store the umask says who else may come in; elsewhere nobody may.
            folder.mkdir(mode=0o777 if folder == folders[0] else 0o700, exist_ok=True)
            if folder != folders[0] and not is_private(folder):
                continue
            flush_to_disk(folder.parent)
            path = folder / f"{run.job_key[:12]}-{run.digest[:12]}{_KEPT}"
            with whole_file(path) as file:
                write_archive(file, [run_to_stored(run)], paths=True, force=force)
        except OSError as error:
            failed = error
        else:
            return path
    raise failed


def is_private(folder: Path) -> bool:
    """Whether a folder is there, this user's, and written by nobody else."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    # By lstat, which does not follow a link that others have put there; neither the group nor
    # others may write to it (0o022).
    return S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def own_folders(folders: Sequence[Path]) -> list[Path]:
    """Those that may be read and emptied: the one beside the store, and what is the user's."""
    return [
        folder
        for number, folder in enumerate(folders)
        if (is_private(folder) if number else not folder.is_symlink())
    ]


def kept_files(folders: Sequence[Path]) -> list[Path]:
    """The files that `write_kept` has left there, the oldest first."""

    def written(path: Path) -> int:
        try:
            return path.stat().st_mtime_ns
        except OSError:  # another process has stored it meanwhile
            return 0

    named = "[0-9a-f]" * 12
    found = (path for each in own_folders(folders) for path in each.glob(f"{named}-{named}{_KEPT}"))
    return sorted(found, key=written)


def read_kept(path: Path) -> tuple[Run, bool]:
    """The run of such a file, and whether it is another attempt in any case.

    Raises FileNotFoundError where another process has stored it meanwhile, and StoreError where a
    byte is not what was written.
    """
    try:
        # Read to its end, where the digest is checked; ValueError where it has not just one run.
        (stored,) = read_archive(path)
        return stored_to_run(stored), bool(archive_facts(path).get("force"))
    except (BenchError, OSError, ValueError) as error:
        if not path.exists():
            raise FileNotFoundError(path) from error
        raise StoreError(
            f"{path} holds what a job left when its leaderboard could not be written, and is "
            "damaged: delete it, and `bench run` runs that job again."
        ) from error


class Taken(NamedTuple):
    """What has become of the outcomes that were kept beside a store.

    How many have entered it, how many were needless because their jobs had results meanwhile, and a
    sentence for each that is damaged.
    """

    added: int = 0
    needless: int = 0
    faults: tuple[str, ...] = ()

    def sentences(self, name: str) -> Iterator[str]:
        """What a user should know of it; `name` is the store's."""
        if self.added:
            runs = "1 run that was" if self.added == 1 else f"{self.added} runs that were"
            yield f"{runs} kept while {name} could not be written {_are(self.added)} stored now."
        if self.needless:
            yield (
                f"{self.needless} kept beside {name} {_are(self.needless)} not needed any more: "
                "other results of the same jobs were stored meanwhile."
            )
        yield from self.faults


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


# Which code the commands of this user have named for a store: kept on this machine, not in it.
# Whoever hands over a store, an archive or a server's rows can write anything into them. What is
# kept here, an empty file for each piece of code, comes with none of them.


def _code_folder(store: str) -> Path:
    return user_data_path("benchharness") / "named-code" / store


def code_named_for(store: str) -> list[str]:
    """The keys of the code that was named for a store, which is told by its digest."""
    folder = _code_folder(store)
    with suppress(OSError):
        return [path.name for path in folder.iterdir()] if is_private(folder) else []
    return []


def forget_code_named(store: str) -> None:
    """Removes them, of a store that is to be deleted."""
    shutil.rmtree(_code_folder(store), ignore_errors=True)


def keep_code_named(store: str, keys: Iterable[str]) -> None:
    """Keeps them; where that folder cannot be written, the next command has to name them again."""
    for key in keys:
        with suppress(OSError):
            _code_folder(store).mkdir(mode=0o700, parents=True, exist_ok=True)
            (_code_folder(store) / key).touch()
