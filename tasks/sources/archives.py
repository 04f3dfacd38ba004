"""Read official archives (zip, tar, tar.gz) in place: nothing is unpacked to the disk.

Opening an archive refuses names that lead outside, duplicate files, and sizes that no benchmark
has. In a tar only regular files are listed; links are ignored.
"""

import gzip
import re
import struct
import tarfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from benchharness.errors import DataError

LARGEST_FILE = 2**30
"""Maximum number of bytes of one file: twice the size of SNLI's training file, the largest one."""

LARGEST_ARCHIVE = 2**32
"""Maximum number of bytes of an unpacked archive: three times the size of MNLI.zip, the largest
one."""

MOST_FILES = 200_000
"""Maximum number of files in an archive; RACE has 28,000."""

_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error),
    *(OSError, EOFError, RuntimeError, ValueError, ArithmeticError, LookupError),
)
"""Exceptions of the libraries for an archive that is damaged, encrypted or packed in an unknown
way."""


class _Zip:
    def __init__(self, path: Path) -> None:
        self._file = zipfile.ZipFile(path)
        self._members = [each for each in self._file.infolist() if not each.is_dir()]
        self.close = self._file.close

    def listed(self) -> Iterator[tuple[str, int]]:
        return ((member.filename, member.file_size) for member in self._members)

    def read(self, number: int) -> bytes:
        member = self._members[number]
        with self._file.open(member) as file:
            return file.read(member.file_size + 1)  # no more, whatever the archive holds


class _Tar:
    """A tar archive, which has no list of its files: reading through it once finds them."""

    def __init__(self, path: Path, *, packed: bool) -> None:
        stream = _Bounded(gzip.GzipFile(path) if packed else path.open("rb"))
        self._stream, self.close = stream, stream.close
        try:
            self._file = tarfile.TarFile(fileobj=stream)  # type: ignore[arg-type]
        except BaseException:
            stream.close()
            raise
        self._members: list[tarfile.TarInfo] = []

    def listed(self) -> Iterator[tuple[str, int]]:
        for member in self._file:
            # The next member is reached by unpacking all of this one.
            if member.isreg():
                self._members.append(member)
                yield member.name, member.size
        # A whole tar ends in blocks of zeros. One that is truncated between two members lacks them,
        # which tarfile does not report.
        if self._stream.last != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("unexpected end of data")

    def read(self, number: int) -> bytes:
        file = self._file.extractfile(self._members[number])
        assert file is not None, "only plain files are listed"
        return file.read()


class _Bounded:
    """A stream that refuses to read beyond the size of any benchmark's archive."""

    def __init__(self, stream: gzip.GzipFile | BufferedReader) -> None:
        self._stream = stream
        self.tell, self.close = stream.tell, stream.close
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LARGEST_FILE:
            raise _TooLargeError
        self._check(self.tell() + size)
        self.last = self._stream.read(size)
        return self.last

    def seek(self, offset: int, whence: int = 0) -> int:
        self._check(offset)
        return self._stream.seek(offset, whence)

    @staticmethod
    def _check(offset: int) -> None:
        if offset > LARGEST_ARCHIVE:
            raise _TooLargeError


class _TooLargeError(Exception):
    """Error for an archive that exceeds the limits of this module."""


class Member:
    """A file or folder in an archive, as a `Place`; the archive itself is its topmost folder.

    `number` is a file's position in the archive, and None for a folder. Members are ordered by it,
    so that a tar is read from its beginning to its end.
    """

    def __init__(self, archive: "_Archive", path: str, name: str, number: int | None) -> None:
        self._archive = archive
        self._path = path
        self.name = name
        self.number = number
        self.parent = self
        self.members: dict[str, Member] = {}

    def __str__(self) -> str:
        return self._path

    def __lt__(self, other: "Member") -> bool:
        return (self.number or 0) < (other.number or 0)

    def is_dir(self) -> bool:
        """Return whether this is a folder."""
        return self.number is None

    def is_file(self) -> bool:
        """Return whether this is a file."""
        return self.number is not None

    def iterdir(self) -> Iterator["Member"]:
        """Return an iterator over the members of a folder."""
        return iter(self.members.values())

    def resolve(self) -> "Member":
        """Return the member itself, because no link is followed."""
        return self

    def read_bytes(self) -> bytes:
        """Return the file's bytes; raise DataError if the archive is damaged there."""
        assert self.number is not None, "a folder has no bytes"
        return self._archive.read(self.number, str(self))

    def within(self, name: str, number: int | None) -> "Member":
        """Return the member of this name in the folder, made if needed; raise KeyError if taken."""
        known = self.members.get(name)
        if known is None:
            known = Member(self._archive, f"{self}/{name}", name, number)
            known.parent = self
            self.members[name] = known
        elif number is not None or known.is_file():
            raise KeyError(name)
        return known


class _Archive:
    """An open archive, which is closed when no member of it is referenced any more."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.root = Member(self, str(path), name, None)
        with self._refusing(path):
            with path.open("rb") as file:
                start = file.read(2)
            # The first bytes decide, whatever the name: "PK" for a zip, 1F 8B for gzip, else a tar.
            is_zip = start == b"PK"
            self._content = _Zip(path) if is_zip else _Tar(path, packed=start == b"\x1f\x8b")
        # The content's own method, because one of this object would keep it alive for ever.
        weakref.finalize(self, self._content.close)
        with self._refusing(path):
            total = 0
            for number, (inner, size) in enumerate(self._content.listed()):
                total += size
                if size > LARGEST_FILE or total > LARGEST_ARCHIVE or number >= MOST_FILES:
                    raise _TooLargeError
                self._add(inner, number)

    def read(self, number: int, place: str) -> bytes:
        with self._refusing(place):
            return self._content.read(number)

    @contextmanager
    def _refusing(self, place: object) -> Iterator[None]:
        """Raise DataError if the block finds the archive damaged or too large."""
        try:
            yield
        except _DAMAGE as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(
                f"{place} cannot be unpacked ({reason}): get the official archive."
            ) from error
        except _TooLargeError:
            raise DataError(
                f"{self.path} unpacks to more than any benchmark's archive does ({MOST_FILES:,} "
                f"files, {LARGEST_FILE >> 20:,} MiB for one, {LARGEST_ARCHIVE >> 20:,} MiB for "
                "all): get the official archive."
            ) from None

    def _add(self, name: str, number: int) -> None:
        parts = tuple(part for part in re.split(r"[/\\]", name) if part != ".")
        # "/etc/passwd" has an empty first part, "../x" leads outside, "C:" is a drive of Windows.
        if "" in parts or ".." in parts or ":" in parts[0] or "\0" in name:
            raise DataError(
                f"{self.path} holds {name!r}, which is no place in it: get the official archive."
            )
        try:
            folder = self.root
            for part in parts[:-1]:
                folder = folder.within(part, None)
            folder.within(parts[-1], number)
        except KeyError:
            raise DataError(
                f"{self.path} holds {name!r} twice: get the official archive."
            ) from None


def open_archive(path: Path, name: str) -> Member:
    """Return an archive's topmost folder, called `name`; raise DataError if it cannot be opened."""
    return _Archive(path, name).root
