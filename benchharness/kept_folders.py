"""A folder that is there whole or not at all: it takes its name when its manifest is written.

The manifest holds the digest of every file, so whoever reads the folder can tell damage.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchharness.models.identity import file_digest
from leaderboard.text import flush_to_disk

__all__ = ["MANIFEST", "DamagedError", "check_folder", "delete_folder", "new_folder"]

MANIFEST = "manifest.json"


class DamagedError(Exception):
    """A folder is not what was written; the text is how a sentence about it goes on."""


@contextmanager
def new_folder(folder: Path, facts: Mapping[str, Any]) -> Iterator[Path]:
    """A draft to write files into, which takes the folder's name at the end of the block.

    `facts` are put into the manifest. What stood there is replaced, unless it is the same. Nothing
    is left of a draft whose block raises. Raises OSError.
    """
    draft = _draft(folder, "draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        manifest = _seal(draft, facts)
        if not _is_same(folder, manifest):
            _take_place(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_folder(folder: Path) -> Mapping[str, Any]:
    """The manifest of a folder, after each of its files was read and compared.

    Its "files" are the digests by name. Raises DamagedError.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name, digest in manifest["files"].items():
            if file_digest(folder / name) != digest:
                raise DamagedError(f"is damaged ({name} is not what was written)")
    except FileNotFoundError as error:
        raise DamagedError(f"is not whole ({Path(error.filename).name} is missing)") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"cannot be read ({error})") from None
    return manifest


def delete_folder(folder: Path) -> None:
    """Deletes a folder and the drafts of it that a killed process has left."""
    with suppress(OSError):
        (folder / MANIFEST).unlink()
    for path in (folder, *folder.parent.glob(f"{folder.name}.*")):
        shutil.rmtree(path, ignore_errors=True)


def _draft(folder: Path, kind: str) -> Path:
    return folder.with_name(f"{folder.name}.{os.getpid()}.{kind}")


def _seal(draft: Path, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Writes the manifest, and all of the folder to the disk before it."""
    files = sorted(path for path in draft.iterdir() if path.is_file())
    for path in files:
        flush_to_disk(path)
    manifest = {**facts, "files": {path.name: file_digest(path) for path in files}}
    (draft / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    flush_to_disk(draft / MANIFEST)
    flush_to_disk(draft)
    return manifest


def _is_same(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether another process has left the same there meanwhile, which others may be reading."""
    try:
        return check_folder(folder) == manifest
    except DamagedError:
        return False


def _take_place(draft: Path, folder: Path) -> None:
    """Renames the draft; a folder can only take the place of none, which others may have filled."""
    old = _draft(folder, "old")
    while draft.exists():
        with suppress(FileNotFoundError):
            folder.rename(old)
        try:
            draft.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        shutil.rmtree(old, ignore_errors=True)
    flush_to_disk(folder.parent)
