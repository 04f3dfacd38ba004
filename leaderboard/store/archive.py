"""Files outside of the database.

These are archives, results that could not be stored, and records of the code (scripts, plugins)
that the user has named on the command line.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR
from tempfile import gettempdir
from typing import IO, Any, NamedTuple

from platformdirs import user_data_path

from benchharness.errors import BenchError, DataError, StoreError
from benchharness.leaderboard.store.columns import to_columns, to_rows
from benchharness.leaderboard.store.numbers import Known, fitting
from benchharness.leaderboard.store.record import (
    Run,
    StoredRun,
    run_to_stored,
    shared_stored,
    stored_to_run,
)
from benchharness.leaderboard.text import are, flush_to_disk, to_text, whole_file
from benchharness.version import package_version

_FORMAT = "benchharness archive"

_VERSION = 2
"""Version of the archive format. It is increased if an older benchharness would misread new
archives. Version 1 was used before benchharness 0.1.0.
"""


def maker_of(provenance: object) -> str:
    """Return which benchharness made a run, such as "benchharness 0.1.0 of commit 8e422107".

    Args:
        provenance: Provenance of the run, in any form that another version may have stored.

    Returns:
        The version, with the commit unless it is a part of the version; "" if it is not recorded.
    """
    code = provenance.get("code") if isinstance(provenance, dict) else None
    said = {name: str(value) for name, value in code.items()} if isinstance(code, dict) else {}
    version, commit = said.get("version", ""), said.get("commit", "")[:8]
    if not re.fullmatch(r"\d[\w.+]{0,60}", version):
        return ""
    is_missing = re.fullmatch("[0-9a-f]{8}", commit) and commit not in version
    return f"benchharness {version}" + (f" of commit {commit}" if is_missing else "")


# Archives: gzipped JSON lines, i.e. a header, one line per run, and a last line with a digest.


def _archive_lines(
    runs: Iterable[StoredRun], facts: Mapping[str, Any], *, columns: bool = False
) -> Iterator[str]:
    """Yield the lines of an archive with their line ends (see docs/exports.md).

    If `columns` is true, predictions are written as columns (see columns.py).
    """
    digest, count = hashlib.sha256(), 0
    # The first line is {"format":"benchharness archive","version":2,"benchharness":"0.1.0"}. The
    # line of a run is {"key":..,"attempt":1,"status":"finished","digest":..,"data":{..}}. The last
    # line is {"runs":2,"sha256":..}, with the digest of all lines before it.
    known = {"format": _FORMAT, "version": _VERSION, "benchharness": package_version()}
    header = to_text({**known, **facts}) + "\n"
    digest.update(header.encode("ascii"))
    yield header
    for run in runs:
        data = to_columns(run.data) if columns else run.data
        line = to_text({**vars(run), "data": data}) + "\n"
        if len(line) >= LONGEST_LINE:
            raise DataError(f"run {run.key[:12]} has too many predictions for an archive.")
        digest.update(line.encode("ascii"))
        count += 1
        yield line
    yield to_text({"runs": count, "sha256": digest.hexdigest()}) + "\n"


def write_archive(
    file: IO[bytes],
    runs: Iterable[StoredRun],
    *,
    paths: bool = False,
    columns: bool = False,
    **facts: Any,
) -> int:
    """Write runs to an archive; return their number. Equal runs of one version give equal bytes.

    Args:
        file: File to write to.
        runs: Runs to write.
        paths: Keep the paths of this machine, for a copy that stays on this machine. By default
            they are shortened (see sharing.py).
        columns: Write predictions as columns, which takes less space (see columns.py).
        facts: Further fields of the archive's first line; `archive_facts` returns them.
    """
    runs = runs if paths else map(shared_stored, runs)
    count = -2  # do not count the header and the last line
    # Without a name and a time in gzip's header, equal runs give equal bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        for line in _archive_lines(runs, facts, columns=columns):
            packed.write(line.encode("ascii"))
            count += 1
    return count


LONGEST_LINE = 2**27
"""Maximum length in bytes of an archive's line, which contains one run. It is enough for the
predictions of a million examples, twice as many as in QQP's dev and test splits. A longer line may
be a decompression bomb, and is refused before it is parsed.
"""


def check_archive(path: Path, known: Known | None = None) -> int:
    """Check a complete archive without storing anything; return the number of its runs.

    Args:
        path: Path of the archive.
        known: Mapping to which each run is added, by the digest of its predicted example ids, for
            comparison with a store (see numbers.py); None if this is not needed.

    Raises:
        DataError: If a line is missing, repeated, or was changed after a store wrote it, or if a
            run is inconsistent (see `numbers.fitting`).
    """
    seen: set[tuple[str, int]] = set()
    try:
        for run in fitting(map(stored_to_run, read_archive(path)), known):
            if (run.job_key, run.attempt) in seen:
                raise DataError(
                    f"{path} contains the run {run.job_key[:12]} (attempt {run.attempt}) twice: "
                    "export the store again."
                )
            seen.add((run.job_key, run.attempt))
    except StoreError as error:
        raise DataError(f"{path} was changed after it was written: {error}") from error
    return len(seen)


def read_archive(path: Path) -> Iterator[StoredRun]:
    """Yield the runs of an archive in order, and check the digest after the last run.

    Raises DataError if the file is not an archive, has another version, or is truncated or damaged.
    """
    try:
        yield from _runs(path)
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        reason = str(error).rstrip(".")
        raise DataError(f"{path} is damaged or truncated ({reason}): copy it again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def archive_facts(path: Path) -> dict[str, Any]:
    """Return the fields in the first line of an archive, e.g. "version", as a dict.

    The caller must have read the archive with `read_archive` before, which checks the file.
    """
    with gzip.open(path, "rb") as file:
        return _parsed(path, _next_line(path, file, 1), 1)


def _runs(path: Path) -> Iterator[StoredRun]:
    digest, count = hashlib.sha256(), 0
    with gzip.open(path, "rb") as file:
        line = _next_line(path, file, 1)
        header = _parsed(path, line, 1)
        if header.get("format") != _FORMAT:
            raise DataError(
                f"{path} is not a benchharness archive, because it does not begin like one: `bench "
                "export --all` writes archives."
            )
        if header.get("version") != _VERSION:
            raise _unreadable(path, header, [file.readline(LONGEST_LINE) for _ in range(10)])
        digest.update(line)
        # The header is line 1, so after `count` runs the next line is number count + 2.
        while line := _next_line(path, file, count + 2):
            data = _parsed(path, line, count + 2)
            if "sha256" in data:
                _check_end(path, data, count, digest.hexdigest(), file.read(1))
                return
            digest.update(line)
            count += 1
            kinds = {"key": str, "attempt": int, "status": str, "digest": str, "data": dict}
            # Compare the types, because isinstance would accept `true` as the number of an attempt.
            if data.keys() != kinds.keys() or any(type(data[n]) is not kinds[n] for n in kinds):
                raise DataError(
                    f"line {count + 1} of {path} is not a run: it must contain exactly "
                    f"{', '.join(kinds)}."
                )
            yield StoredRun(**{**data, "data": to_rows(data["data"])})
    raise DataError(f"{path} is truncated, because its last line is missing: copy it again.")


def _unreadable(path: Path, header: dict[str, Any], lines: Iterable[bytes]) -> DataError:
    """Return the error for an archive of another version; `lines` contains its first runs."""
    version = header.get("version")
    if isinstance(version, int) and version > _VERSION:
        writer = maker_of({"code": {"version": header.get("benchharness")}})
        advice = "update benchharness" + (f" ({writer} wrote it)." if writer else ".")
    else:
        makers: list[str] = []
        for line in lines:
            with suppress(ValueError, RecursionError, LookupError, TypeError):
                makers.append(maker_of(json.loads(line)["data"]["provenance"]))
        maker = next(filter(None, makers), "")
        advice = "only the development version that wrote it can read it, so run its jobs again" + (
            f" ({maker} made its first result)." if maker else "."
        )
    return DataError(
        f"{path} is an archive of version {version!r}, but benchharness {package_version()} reads "
        f"version {_VERSION}: {advice}"
    )


def _next_line(path: Path, file: gzip.GzipFile, number: int) -> bytes:
    line = file.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
        raise DataError(
            f"line {number} of {path} has more than {LONGEST_LINE // 2**20} MiB, which is too long "
            "for a run: expected a benchharness archive."
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
            f"{path} was changed after it was written: its {count} runs do not match the digest "
            "at its end. Copy it again."
        )


# Files for results and failures that could not be stored. Each file is an archive with one run. It
# is in a folder next to the store or, if that cannot be written, in a folder of the user.

_KEPT = ".jsonl.gz"


def kept_elsewhere(name: str) -> list[Path]:
    """Return the folders for results that can neither be stored nor be saved next to the store.

    One folder is in the user's data folder, and the other in the folder for temporary files
    (TMPDIR).

    Args:
        name: Digest that identifies the store (`Store.place_digest`).
    """
    roots = (user_data_path("benchharness"), Path(gettempdir()))
    name = f"benchharness-unstored-{os.geteuid()}-{name}"
    return [root / name for root in roots if root.is_absolute()]


def write_kept(folders: Sequence[Path], run: Run, *, force: bool) -> Path:
    """Write a run to a file in the first folder that can be written; return the file's path.

    The file is written completely or not at all.

    Args:
        folders: Folders to try, in this order. The first is next to the store. The others are used
            only if they belong to the user and nobody else can write to them.
        run: Run to write.
        force: Record in the file that the run must be stored even if its job has a result by then.

    Raises:
        OSError: If no folder can be written.
        DataError: If the run is too large for an archive.
    """
    # The store will assign the real number of the attempt.
    run.attempt = 1
    failed = OSError()
    for folder in folders:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            # Next to the store, the umask decides who has access. Elsewhere, only the user has it.
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
    """Return whether a folder exists and belongs to this user, and nobody else can write to it."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    # lstat does not follow a link, which others may have created. 0o022 are the rights of the group
    # and of others to write.
    return S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def own_folders(folders: Sequence[Path]) -> list[Path]:
    """Return the folders from which saved results may be read and stored.

    The first folder is next to the store; it is returned unless it is a symbolic link. Any other
    folder is returned only if it belongs to the user and nobody else can write to it.

    Args:
        folders: Folders for results that could not be stored, in the order of `write_kept`.
    """
    return [
        folder
        for number, folder in enumerate(folders)
        if (is_private(folder) if number else not folder.is_symlink())
    ]


def kept_files(folders: Sequence[Path]) -> list[Path]:
    """Return the files that `write_kept` has written to these folders, oldest first.

    Folders to which other users may have written (see `own_folders`) are ignored.
    """

    def written(path: Path) -> int:
        try:
            return path.stat().st_mtime_ns
        except OSError:  # another process has stored and deleted it
            return 0

    named = "[0-9a-f]" * 12
    found = (path for each in own_folders(folders) for path in each.glob(f"{named}-{named}{_KEPT}"))
    return sorted(found, key=written)


def read_kept(path: Path) -> tuple[Run, bool]:
    """Read a file that `write_kept` has written; return the run and the value of `force`.

    Raises:
        FileNotFoundError: If another process has stored the run and deleted the file.
        StoreError: If the file is damaged.
    """
    try:
        # Reading to the end checks the digest. If there is not exactly one run, this line raises
        # ValueError.
        (stored,) = read_archive(path)
        return stored_to_run(stored), bool(archive_facts(path).get("force"))
    except (BenchError, OSError, ValueError) as error:
        if not path.exists():
            raise FileNotFoundError(path) from error
        raise StoreError(
            f"the file {path} contains a result that could not be stored earlier, and is damaged: "
            "delete the file, and `bench run` runs the job again."
        ) from error


class Taken(NamedTuple):
    """Summary of the files with unstored results and failures that were read for a store.

    Results and failures that could not be stored earlier were saved in these files.

    Attributes:
        added: Number of runs that were stored now.
        needless: Number of runs that were not stored, because they were stored already or because
            their jobs had another result by then.
        faults: One message per damaged file.
    """

    added: int = 0
    needless: int = 0
    faults: tuple[str, ...] = ()

    def sentences(self, name: str) -> Iterator[str]:
        """Yield messages for the user about the added runs, the other runs and the damaged files.

        `name` is the name of the store, i.e. its path or URL.
        """
        if self.added:
            runs = "1 run that was" if self.added == 1 else f"{self.added} runs that were"
            yield f"{runs} kept while {name} could not be written {are(self.added)} stored now."
        if self.needless:
            yield (
                f"{self.needless} of the runs kept for {name} {are(self.needless)} no longer "
                "needed, because results of the same jobs were stored meanwhile."
            )
        yield from self.faults


# Record of the code (scripts, plugins) that the user has named on the command line for a store. It
# is kept outside of the store. Otherwise anyone who can write to the store could add code, which
# this user would then run. The record consists of one empty file per piece of code.


def _code_folder(store: str) -> Path:
    return user_data_path("benchharness") / "named-code" / store


def code_named_for(store: str) -> list[str]:
    """Return the recorded keys of the code (scripts, plugins) that the user trusts for a store.

    The user trusts code by naming it on the command line.

    Args:
        store: Digest that identifies the store (`Store.place_digest`).

    Returns:
        Digests of the location and content of each piece of code (`foreign_code.Code.key`). Empty
        if there is no record, or if other users could have changed it.
    """
    folder = _code_folder(store)
    with suppress(OSError):
        return [path.name for path in folder.iterdir()] if is_private(folder) else []
    return []


def forget_code_named(store: str) -> None:
    """Delete the record of the code (scripts, plugins) that the user trusts for a store.

    Args:
        store: Digest that identifies the store (`Store.place_digest`).
    """
    shutil.rmtree(_code_folder(store), ignore_errors=True)


def keep_code_named(store: str, keys: Iterable[str]) -> None:
    """Record the code (scripts, plugins) that the user has named on the command line for a store.

    Later commands for the store then trust the code. If the record cannot be written, no error is
    raised, and users must name the code again in later commands.

    Args:
        store: Digest that identifies the store (`Store.place_digest`).
        keys: Digests of the location and content of each piece of code (`foreign_code.Code.key`).
    """
    for key in keys:
        with suppress(OSError):
            _code_folder(store).mkdir(mode=0o700, parents=True, exist_ok=True)
            (_code_folder(store) / key).touch()
