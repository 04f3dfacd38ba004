"""Official archives (zip, tar, tar.gz), read where they are: nothing is unpacked to the disk.

A name that leads outside, a file twice, and sizes that no benchmark has are refused when an archive
is opened. Of a tar only plain files are there: a link in it leads nowhere.
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

from benchharness.tasks.errors import DataError

LARGEST_FILE = 2**30
"""In bytes: twice that of SNLI's training file, the largest one."""

LARGEST_ARCHIVE = 2**32
"""In bytes, unpacked: three times MNLI.zip, the largest one."""

MOST_FILES = 200_000
"""RACE has 28,000."""

_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error),
    *(OSError, EOFError, RuntimeError, ValueError, ArithmeticError, LookupError),
)
"""What the libraries raise where an archive is damaged, encrypted or packed in a way of its own."""


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
            return file.read(member.file_size + 1)  # never more, whatever is packed there


class _Tar:
    """A tar has no list of its files: its first reading looks through it once."""

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
            # What lies behind it is reached by unpacking all of it.
            if member.isreg():
                self._members.append(member)
                yield member.name, member.size
        # A whole tar ends in blocks of zeros. One that is cut between two members ends without,
        # and tarfile says nothing of it.
        if self._stream.last != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("unexpected end of data")

    def read(self, number: int) -> bytes:
        file = self._file.extractfile(self._members[number])
        assert file is not None, "only plain files are listed"
        return file.read()


class _Bounded:
    """A stream that refuses to go on where no benchmark's archive is as large."""

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
    """More than the bounds of this module."""


class Member:
    """A file or folder in an archive, as a `Place`; the archive itself is its topmost folder.

    `number` is a file's place in the archive, by which members are ordered: a tar is then read from
    its beginning to its end.
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
        """Whether it holds others."""
        return self.number is None

    def is_file(self) -> bool:
        """Whether it has bytes."""
        return self.number is not None

    def iterdir(self) -> Iterator["Member"]:
        """What is in a folder."""
        return iter(self.members.values())

    def resolve(self) -> "Member":
        """Itself: no link is followed."""
        return self

    def read_bytes(self) -> bytes:
        """The file's bytes; DataError where the archive is damaged there."""
        assert self.number is not None, "a folder has no bytes"
        return self._archive.read(self.number, str(self))

    def within(self, name: str, number: int | None) -> "Member":
        """The member of that name in this folder, made where there is none; KeyError if taken."""
        known = self.members.get(name)
        if known is None:
            known = Member(self._archive, f"{self}/{name}", name, number)
            known.parent = self
            self.members[name] = known
        elif number is not None or known.is_file():
            raise KeyError(name)
        return known


class _Archive:
    """An open archive; it is closed when nobody holds a member of it any more."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.root = Member(self, str(path), name, None)
        with self._refusing(path):
            with path.open("rb") as file:
                start = file.read(2)
            # By the first bytes, whatever the name says: "PK" of a zip, 1F 8B of gzip, else a tar.
            is_zip = start == b"PK"
            self._content = _Zip(path) if is_zip else _Tar(path, packed=start == b"\x1f\x8b")
        # The content's own method: one of this object would keep it alive for ever.
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
        """DataError where the archive can be no benchmark's."""
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
    """The topmost folder of an archive, to be called `name`; DataError where it is none."""
    return _Archive(path, name).root
