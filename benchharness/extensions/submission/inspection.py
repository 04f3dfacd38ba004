"""Check a submission for problems, and repair those that have only one possible fix."""

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from lzma import LZMAError
from pathlib import Path, PurePosixPath

from benchharness.errors import DataError
from benchharness.extensions.submission.answer_file import AnswerFile, Fault, Faults
from benchharness.extensions.submission.files import (
    SUBMISSIONS,
    Submission,
    read_answer_file,
    write_answers,
)
from benchharness.extensions.submission.questions import read_answers, rewrite_answers

# Zip files are read without trusting their content.

LARGEST = 100 * 2**20
"""Maximum size of a submission in bytes. The largest one, GLUE's, has less than 10 MB, so a much
larger file is a mistake or an attack."""

DATE = (1980, 1, 1, 0, 0, 0)
"""Modification time of all files in a zip (the earliest possible), so that equal answers give equal
bytes."""


ZIP = b"PK\x03\x04"
"""First bytes of every zip that contains files."""

DAMAGE = (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, zlib.error, LZMAError)
"""Exceptions that `zipfile` raises if the bytes are not a zip, or use an unsupported feature."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """File in a zip.

    Attributes:
        path: Path of the file inside the zip.
        content: Bytes of the file; None if they are damaged or encrypted.
    """

    path: PurePosixPath
    content: bytes | None

    @property
    def is_inside(self) -> bool:
        """True if unpacking writes the file inside the target folder, on any operating system."""
        # The paths "/etc/passwd", "../RTE.tsv" and "C:/RTE.tsv" are outside.
        parts = self.path.parts
        return not (self.path.is_absolute() or ".." in parts or parts[0].endswith(":"))


def read_zip(content: bytes, faults: Faults) -> list[Member]:
    """Return the files in a zip, and in zips inside it.

    Args:
        content: Bytes of the zip.
        faults: Collector of problems. Files that cannot be read, and zips inside the zip, are added
            to it.
    """
    members: list[Member] = []
    for member in _files(content, "it", faults) or ():
        if member.path.suffix.casefold() != ".zip" or member.content is None:
            members.append(member)
            continue
        inner = _files(member.content, str(member.path), faults)
        if inner is not None:
            faults.add(f"{member.path} is a zip inside the zip", mendable=True)
            members += [replace(each, path=PurePosixPath(each.path.name)) for each in inner]
    return members


def _files(content: bytes, name: str, faults: Faults) -> list[Member] | None:
    """Return the files in a zip; if it cannot be read, report this and return None."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            infos = [info for info in archive.infolist() if not info.filename.endswith("/")]
            total = sum(info.file_size for info in infos)
            if total > LARGEST:
                faults.add(f"{name} unpacks to {total:,} bytes, too many for a submission")
                return None
            # Some Windows programs write backslashes in paths.
            return [
                Member(
                    path=PurePosixPath(info.filename.replace("\\", "/")),
                    content=_content(archive, info, faults),
                )
                for info in infos
            ]
    except DAMAGE as error:
        faults.add(f"{name} is damaged: {error}")
        return None


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, faults: Faults) -> bytes | None:
    # The lowest bit of the flags is set if the file is encrypted.
    if info.flag_bits & 1:
        faults.add(f"{info.filename} needs a password")
        return None
    try:
        return archive.read(info)
    except DAMAGE as error:
        faults.add(f"{info.filename} is damaged: {error}")
        return None


def write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files to a zip without folders; equal files give equal bytes.

    Args:
        path: Path of the zip.
        files: Content of each file, keyed by its name.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, DATE)
            # The upper 16 bits are Unix permissions; the file is readable by everybody.
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)


def check(path: Path) -> tuple[Fault, ...]:
    """Check a submission (GLUE's or SuperGLUE's zip, or SQuAD's JSON), and return all problems.

    Raises:
        DataError: The file cannot be read, or is too large for a submission.
    """
    return _examine(path).faults


def repair(path: Path, out: Path) -> tuple[Fault, ...]:
    """Write a repaired copy of a submission to `out`, and return the problems that were repaired.

    Raises:
        DataError: The file cannot be read, or a problem does not have exactly one possible fix. In
            both cases, nothing is written.
    """
    found = _examine(path)
    stuck = [fault for fault in found.faults if not fault.mendable]
    if stuck:
        more = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
        raise DataError(
            f"{path.name} cannot be repaired: {stuck[0]}{more}. Run `bench submit --check` to list "
            "all problems, and generate the faulty answers again."
        )
    if found.whole is None:
        write_zip(out, found.files)
    else:
        out.write_bytes(found.whole)
    return found.faults


@dataclass(frozen=True, kw_only=True)
class _Examined:
    """Result of examining a submission.

    Attributes:
        faults: All problems in the submission.
        files: Repaired content of the files in a zip, keyed by name.
        whole: Repaired content if the submission is a single file, else None.
    """

    faults: tuple[Fault, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    whole: bytes | None = None


def _examine(path: Path) -> _Examined:
    content = _read(path)
    faults = Faults(path.name)
    suffix = path.suffix.casefold()
    # The table of contents is at the end of a zip. `zipfile` does not recognize a truncated zip,
    # but its first bytes are still those of a zip.
    if zipfile.is_zipfile(path):
        if suffix != ".zip":
            faults.add("it is a zip, but its name does not end in .zip", mendable=True)
        return _examine_members(read_zip(content, faults), faults)
    if not content or content.startswith(ZIP):
        cut = "a truncated zip, whose end is missing" if content else "empty"
        faults.add(f"it is {cut}")
        return _Examined(faults=faults.all())
    if suffix == ".json":
        reading = read_answers(path.name, content)
        whole = None if reading.answers is None else rewrite_answers(reading.answers)
        return _Examined(faults=reading.faults, whole=whole)
    alone = [f for s in SUBMISSIONS.values() if (f := s.file_for(path.name)) is not None]
    if alone:
        faults.add("it is a single file, expected a zip with all files")
        # RTE is in both suites: "RTE.tsv" belongs to GLUE, and "RTE.jsonl" to SuperGLUE.
        file = next((file for file in alone if file.name == path.name), alone[0])
        inside = read_answer_file(file, content).faults
        return _Examined(faults=(*faults.all(), *inside))
    faults.add("it is not a submission: expected GLUE's or SuperGLUE's zip, or a .json file")
    return _Examined(faults=faults.all())


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise DataError(f"{path} has {path.stat().st_size:,} bytes, too many for a submission.")
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def _suite_of(members: Sequence[Member]) -> Submission | None:
    """Return the submission with the most file names in common; None if none has any in common."""

    def fitting(submission: Submission) -> int:
        return len({file.name for m in members if (file := submission.file_for(m.path.name))})

    best = max(SUBMISSIONS.values(), key=fitting)
    return best if fitting(best) else None


def _examine_members(members: Sequence[Member], faults: Faults) -> _Examined:
    if not members and any(not fault.mendable for fault in faults.all()):
        return _Examined(faults=faults.all())  # no file in the zip can be read
    submission = _suite_of(members)
    if submission is None:
        faults.add("it contains none of the files of a GLUE or SuperGLUE submission")
        return _Examined(faults=faults.all())
    found = _sorted_out(submission, members, faults)
    readings = {
        file.name: read_answer_file(file, content)
        for file in submission.files
        if (content := found.get(file.name)) is not None
    }
    files = {
        file.name: write_answers(file, answers)
        for file in submission.files
        if file.name in readings and (answers := readings[file.name].answers) is not None
    }
    inside = [fault for reading in readings.values() for fault in reading.faults]
    return _Examined(faults=(*faults.all(), *inside), files=files)


def _sorted_out(
    submission: Submission, members: Sequence[Member], faults: Faults
) -> dict[str, bytes | None]:
    """Assign the members of a zip to the files that the submission must have.

    Returns the contents of the members, keyed by the official file names. Members that are missing,
    unknown, duplicate, or have a wrong path are reported.
    """
    found: dict[str, bytes | None] = {}
    for member in members:
        path, file = member.path, submission.file_for(member.path.name)
        if file is None or path.parts[0] == "__MACOSX":
            faults.add(f"{path} is not a file of the submission", mendable=True)
        elif file.name in found:
            faults.add(f"{path} is a second {file.name}")
        else:
            found[file.name] = member.content
            _check_place(member, file, faults, flat=submission.flat)
    for file in submission.files:
        if file.name not in found:
            faults.add(f"{file.name} is missing")
    return found


def _check_place(member: Member, file: AnswerFile, faults: Faults, *, flat: bool) -> None:
    path = member.path
    if path.name != file.name:
        faults.add(f"{path} has the wrong name, expected {file.name}", mendable=True)
    if not member.is_inside:
        faults.add(f"{path} points outside the zip, expected {file.name}", mendable=True)
    elif flat and path.parent != PurePosixPath():
        faults.add(f"{path} is in a folder, expected at the top level of the zip", mendable=True)
