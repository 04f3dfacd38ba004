"""A file that is written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

__all__ = ["flush_to_disk", "whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` at the end; folders above it are made.

    Where the writing fails or the power, what was there before stays. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."[:200], delete=False) as file:
        temporary = Path(file.name)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            # A temporary file is private to its owner; what is written here is made to be read.
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
            flush_to_disk(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def flush_to_disk(path: Path) -> None:
    """Waits until a file's bytes, or a folder's names, would survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
