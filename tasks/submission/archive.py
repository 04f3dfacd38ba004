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
"""Bytes. The largest submission, GLUE's, has less than 10 MB; what unpacks to far more is a mistake
or an attack."""

DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip can say; the same answers give the same bytes."""


DAMAGE = (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, zlib.error, LZMAError)
"""What `zipfile` raises for bytes that are no zip, or one of a kind that it cannot read."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A file in a zip: the folders it lies in ("" for none), its name and its bytes."""

    folder: str
    name: str
    content: bytes


def read_zip(content: bytes, faults: Faults) -> list[Member]:
    """The files of a zip, also of one inside it; what cannot be read is a fault."""
    members: list[Member] = []
    for path, inside in _files(content, "it", faults):
        if path.suffix.casefold() != ".zip":
            folder = "" if path.parent == PurePosixPath() else str(path.parent)
            members.append(Member(folder=folder, name=path.name, content=inside))
            continue
        faults.add(f"{path} is a zip inside the zip", mendable=True)
        members += [
            Member(folder="", name=inner.name, content=answers)
            for inner, answers in _files(inside, str(path), faults)
        ]
    return members


def _files(content: bytes, name: str, faults: Faults) -> Iterator[tuple[PurePosixPath, bytes]]:
    """The paths and contents of one zip's files."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            total = sum(info.file_size for info in archive.infolist())
            if total > LARGEST:
                faults.add(f"{name} unpacks to {total:,} bytes, far more than any answers")
                return
            for info in archive.infolist():
                is_folder = info.filename.endswith("/")
                if not is_folder and (found := _content(archive, info, faults)) is not None:
                    # Some programs on Windows write backslashes.
                    yield PurePosixPath(info.filename.replace("\\", "/")), found
    except DAMAGE as error:
        faults.add(f"{name} is damaged: {error}")


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo, faults: Faults) -> bytes | None:
    if info.flag_bits & 1:
        faults.add(f"{info.filename} needs a password")
        return None
    try:
        return archive.read(info)
    except DAMAGE as error:
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
