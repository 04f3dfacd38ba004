"""Archives for tests: a folder packed like the benchmarks' official archives."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path


def files_in(folder: Path, above: str = "") -> dict[str, bytes]:
    """Return the files of a folder by their paths in the archive, inside folder `above`."""
    prefix = f"{above}/" if above else ""
    return {
        prefix + path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def zip_of(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a zip of the files, each with the extra file that macOS adds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            folder, slash, last = name.rpartition("/")
            archive.writestr(name, content)
            archive.writestr(f"__MACOSX/{folder}{slash}._{last}", b"\x00\x05\x16\x07")
    return path


def tar_of(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a tar of the files in reverse order, compressed according to its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = "w:gz" if path.name.endswith("gz") else "w"
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in reversed(files.items()):
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path
