"""Read files in official archives (zip, tar, tar.gz) without unpacking them to the disk.

An archive is refused if a path in it leads out of the archive, if a path occurs twice, or if its
files are larger than those of any benchmark. Links in a tar are ignored.
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
"""Maximum size of a file in bytes: twice the size of SNLI's training file, which is the largest
official file."""

LARGEST_ARCHIVE = 2**32
"""Maximum size of an unpacked archive in bytes: three times the size of MNLI.zip, which is the
largest official archive."""

MOST_FILES = 200_000
"""Maximum number of files in an archive: seven times the number in RACE's archive (28,000)."""

_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error),
    *(OSError, EOFError, RuntimeError, ValueError, ArithmeticError, LookupError),
)
"""Exceptions that libraries raise for an archive which is damaged, encrypted, or compressed by an
unknown method."""


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
            # Do not unpack more than one byte beyond the size that the zip declares.
            return file.read(member.file_size + 1)


class _Tar:
    """Tar archive. A tar has no table of contents, so it is read once to list its files."""

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
            # To reach the next member, tarfile decompresses this one; `_Bounded` limits the total.
            if member.isreg():
                self._members.append(member)
                yield member.name, member.size
        # A complete tar ends with blocks of zeros. tarfile does not report that they are missing if
        # the archive is truncated between two members.
        if self._stream.last != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("unexpected end of data")

    def read(self, number: int) -> bytes:
        file = self._file.extractfile(self._members[number])
        assert file is not None, "only plain files are listed"
        return file.read()


class _Bounded:
    """Stream that reads at most LARGEST_FILE bytes at once, and LARGEST_ARCHIVE bytes in total."""

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
    """Exception for an archive that exceeds one of the limits in this module."""


class Member:
    """File or folder in an archive, with those methods of `Path` that readers of files use.

    The archive itself is the topmost folder. If members are sorted, they are in the order of
    `number`, so that the files of a tar are read sequentially.

    Attributes:
        name: Name of the file or folder.
        number: Index of a file in the archive; None for a folder.
        parent: Folder that contains the member; the topmost folder is its own parent.
        members: Files and folders in this folder, keyed by name.
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
        """Return whether the member is a folder."""
        return self.number is None

    def is_file(self) -> bool:
        """Return whether the member is a file."""
        return self.number is not None

    def iterdir(self) -> Iterator["Member"]:
        """Return an iterator over the files and folders in this folder."""
        return iter(self.members.values())

    def resolve(self) -> "Member":
        """Return the member itself, because links are ignored."""
        return self

    def read_bytes(self) -> bytes:
        """Return the content of the file; raise DataError if the archive is damaged."""
        assert self.number is not None, "a folder has no bytes"
        return self._archive.read(self.number, str(self))

    def within(self, name: str, number: int | None) -> "Member":
        """Add a file to this folder, or find one of its subfolders, which is created if missing.

        Args:
            name: Name of the file or subfolder.
            number: Index of the file in the archive; None for a subfolder.

        Returns:
            The file or subfolder.

        Raises:
            KeyError: If a file with this name exists, or if a file is added and there is a
                subfolder with this name.
        """
        known = self.members.get(name)
        if known is None:
            known = Member(self._archive, f"{self}/{name}", name, number)
            known.parent = self
            self.members[name] = known
        elif number is not None or known.is_file():
            raise KeyError(name)
        return known


class _Archive:
    """Open archive, which is closed when none of its members is referenced any more."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.root = Member(self, str(path), name, None)
        with self._refusing(path):
            with path.open("rb") as file:
                start = file.read(2)
            # Detect the format by the first bytes instead of the name: "PK" is a zip, 1F 8B is
            # gzip, and anything else should be a tar.
            is_zip = start == b"PK"
            self._content = _Zip(path) if is_zip else _Tar(path, packed=start == b"\x1f\x8b")
        # The finalizer must not be a method of this object, because it would keep the object alive.
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
        """Context manager that raises DataError if the archive is damaged or too large."""
        try:
            yield
        except _DAMAGE as error:
            reason = f"{type(error).__name__}: {error}"
            raise DataError(
                f"{place} cannot be unpacked ({reason}): get the official archive."
            ) from error
        except _TooLargeError:
            raise DataError(
                f"{self.path} unpacks to more than any benchmark's archive: expected at most "
                f"{MOST_FILES:,} files, {LARGEST_FILE >> 20:,} MiB per file and "
                f"{LARGEST_ARCHIVE >> 20:,} MiB in total. Get the official archive."
            ) from None

    def _add(self, name: str, number: int) -> None:
        parts = tuple(part for part in re.split(r"[/\\]", name) if part != ".")
        # "/etc/passwd" has an empty first part, "../x" leads outside, and "C:" is a Windows drive.
        if "" in parts or ".." in parts or ":" in parts[0] or "\0" in name:
            raise DataError(
                f"{self.path} contains the invalid path {name!r}: get the official archive."
            )
        try:
            folder = self.root
            for part in parts[:-1]:
                folder = folder.within(part, None)
            folder.within(parts[-1], number)
        except KeyError:
            raise DataError(
                f"{self.path} contains {name!r} more than once: get the official archive."
            ) from None


def open_archive(path: Path, name: str) -> Member:
    """Open an archive, and return its topmost folder.

    Args:
        path: Path of the archive.
        name: Name to give to the topmost folder.

    Raises:
        DataError: If the archive is damaged or too large, or if a path in it is invalid.
    """
    return _Archive(path, name).root
