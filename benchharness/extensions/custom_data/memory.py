"""Check that a file of rows fits into memory before it is read."""

import os
import re
import resource
from contextlib import suppress
from pathlib import Path

from benchharness.errors import DataError
from benchharness.tasks.sources.source import Place

CONTAINER, MACHINE, PROCESS = (
    Path("/sys/fs/cgroup"),
    Path("/proc/meminfo"),
    Path("/proc/self/statm"),
)
"""Files of Linux from which free memory is read: the cgroup of a container, the machine's memory,
and the memory of this process.
"""

BYTES_PER_BYTE, BYTES_PER_CELL = 8, 170
"""Estimated memory of rows: BYTES_PER_BYTE for each byte of the file, plus BYTES_PER_CELL for each
cell.

Measured in CPython 3.11 with ten files of 5 to 17 MB: tables, JSON files and columns of words. A
file took at most a quarter more memory than estimated. Files whose cells are single letters took
two thirds of the estimate.
"""

HEAD_BYTES = 2**20
"""Number of bytes at the beginning of a file in which cells are counted. Smaller files are read
without a check of the memory.
"""

_BETWEEN = b"\n,;\t|"
"""Bytes that end a cell in text formats."""


def free_memory() -> int:
    """Return the number of bytes that this process may still allocate.

    This is the smallest of three numbers: the free memory of the machine, the free memory of its
    container, and the memory that the process's own limit (`ulimit -v`) leaves. A number that
    cannot be read, such as on other systems than Linux, is ignored.
    """
    free = [2**62]
    with suppress(OSError, ValueError, StopIteration):
        lines = MACHINE.read_text(encoding="ascii").splitlines()
        free.append(1024 * int(next(n for n in lines if n.startswith("MemAvailable")).split()[1]))
    with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        limit, taken = ((CONTAINER / f"memory.{n}").read_text() for n in ("max", "current"))
        free.append(int(limit) - int(taken) + _cached_files())
    limit_here, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit_here != resource.RLIM_INFINITY:
        with suppress(OSError, ValueError):
            pages = int(PROCESS.read_text(encoding="ascii").split()[0])
            free.append(limit_here - pages * os.sysconf("SC_PAGE_SIZE"))
    return max(0, min(free))


def _cached_files() -> int:
    """Return the bytes of a container's file cache, which the kernel frees on demand."""
    with suppress(OSError, ValueError):
        said = (CONTAINER / "memory.stat").read_text(encoding="ascii")
        return sum(map(int, re.findall(r"^(?:in)?active_file (\d+)$", said, re.MULTILINE)))
    return 0


def cells_per_byte(head: bytes) -> float:
    """Estimate the number of cells per byte of a text file from the first bytes of the file.

    Line breaks and the usual delimiters of fields are counted as the ends of cells.
    """
    return sum(map(head.count, (bytes([each]) for each in _BETWEEN))) / max(1, len(head))


def check_memory(path: Place, size: int, cells: float) -> None:
    """Raise DataError if the rows of a file will not fit into memory.

    Files of at most HEAD_BYTES are not checked.

    Args:
        path: The file, for error messages.
        size: The size of the file in bytes, after unpacking.
        cells: The (estimated) number of cells in the file.
    """
    needed, free = BYTES_PER_BYTE * size + BYTES_PER_CELL * cells, free_memory()
    if size > HEAD_BYTES and needed > free:
        raise DataError(
            f"{path.name} has {size / 1e9:.2g} GB of rows, which need about {needed / 1e9:.2g} GB "
            f"of memory, but only {free / 1e9:.2g} GB are free: use fewer rows, or raise the "
            "memory limit (ulimit -v, or the limit of the container)."
        )
