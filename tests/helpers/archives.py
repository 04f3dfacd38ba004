"""Archives for tests: a folder packed as the benchmarks' own archives are."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


def files_in(folder: Path, above: str = "") -> dict[str, bytes]:
    """The files of a folder by their paths in it, below a folder `above`."""
    prefix = f"{above}/" if above else ""
    return {
        prefix + path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def zip_of(path: Path, files: Mapping[str, bytes]) -> Path:
    """A zip with the files, and with what macOS puts beside each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            folder, slash, last = name.rpartition("/")
            archive.writestr(name, content)
            archive.writestr(f"__MACOSX/{folder}{slash}._{last}", b"\x00\x05\x16\x07")
    return path


def tar_of(path: Path, files: Mapping[str, bytes]) -> Path:
    """A tar with the files, compressed where its name says so, backwards: a tar is in any order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = "w:gz" if path.name.endswith("gz") else "w"
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in reversed(files.items()):
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path
