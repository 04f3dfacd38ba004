"""Zips: which files one holds, without trusting it, and how one is written."""

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from lzma import LZMAError
from pathlib import Path, PurePosixPath

from tasks.submission.faults import Faults

__all__ = ["Member", "read_zip", "write_zip"]

LARGEST = 100 * 2**20
"""Bytes. The largest file of any submission, GLUE's QQP.tsv, has less than 5 MB; what claims far
more is a mistake or an attack."""

DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip can say; the same answers give the same bytes."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A file in a zip: the folders it lies in ("" for none), its name and its bytes."""

    folder: str
    name: str
    content: bytes


def read_zip(content: bytes, faults: Faults) -> list[Member]:
    """The files of a zip, also of one inside it; what cannot be read is a fault."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            return list(_members(archive, faults))
    except zipfile.BadZipFile:
        faults.add("it is not a zip")
        return []


def _members(archive: zipfile.ZipFile, faults: Faults) -> Iterator[Member]:
    for info in archive.infolist():
        if info.is_dir():
            continue
        content = _content(archive, info, faults)
        if content is None:
            continue
        path = PurePosixPath(info.filename)
        if path.suffix.casefold() == ".zip":
            faults.add(f"{info.filename} is a zip inside the zip", mendable=True)
            yield from _inner(content, info.filename, faults)
        else:
            yield Member(folder=str(path.parent).strip("."), name=path.name, content=content)


def _inner(content: bytes, name: str, faults: Faults) -> Iterator[Member]:
    """The files of a zip inside the zip, which may hold no further zip."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            for info in archive.infolist():
                inner = None if info.is_dir() else _content(archive, info, faults)
                if inner is not None:
                    yield Member(folder="", name=PurePosixPath(info.filename).name, content=inner)
    except zipfile.BadZipFile:
        faults.add(f"{name} is damaged")


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, faults: Faults) -> bytes | None:
    if info.flag_bits & 1:
        faults.add(f"{info.filename} needs a password")
        return None
    if info.file_size > LARGEST:
        faults.add(
            f"{info.filename} unpacks to {info.file_size:,} bytes, far more than any answers"
        )
        return None
    try:
        return archive.read(info)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, LZMAError) as error:
        faults.add(f"{info.filename} is damaged: {error}")
        return None


def write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files into one flat zip, the same bytes for the same files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name, DATE)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
