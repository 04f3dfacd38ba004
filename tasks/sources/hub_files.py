"""Files that come from the hub: whether what has arrived is what the hub has.

The hub's library keeps each file under the digest that the hub gives it, a SHA-256 for large ones
and git's SHA-1 for the others, and never compares the two: a byte that changed on the way stays.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["arriving"]


@contextmanager
def arriving(repository: Path) -> Iterator[list[Path]]:
    """The files that the block adds to a repository's cache and that are not what the hub has.

    The list is filled when the block ends, however it ends; these files are deleted, so that they
    are fetched again.
    """
    blobs = repository / "blobs"
    known, damaged = set(blobs.glob("*")), list[Path]()
    try:
        yield damaged
    finally:  # a damaged file may be why the block fails
        for path in sorted(set(blobs.glob("*")) - known):
            if not _is_whole(path):
                path.unlink()
                damaged.append(path)


def _is_whole(path: Path) -> bool:
    """True also where the name is no digest: a file on its way."""
    if re.fullmatch("[0-9a-f]{64}", path.name):
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == path.name
    if re.fullmatch("[0-9a-f]{40}", path.name):
        content = path.read_bytes()
        digest = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        return digest.hexdigest() == path.name
    return True
