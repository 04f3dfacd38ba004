"""Tell whether a file of rows fits into memory before it is read."""

import os
import re
import resource
from contextlib import suppress
from pathlib import Path

from benchharness.tasks.errors import DataError
from benchharness.tasks.sources.source import Place

CONTAINER, MACHINE, PROCESS = (
    Path("/sys/fs/cgroup"),
    Path("/proc/meminfo"),
    Path("/proc/self/statm"),
)

BYTES_PER_BYTE, BYTES_PER_CELL = 8, 170
"""Measured of ten tables, JSON files and columns of words of 5 to 17 MB in CPython 3.11: what is
read takes so much memory for each byte of the file and for each of its cells, at most a quarter
more, and where cells are single letters two thirds of it."""

HEAD_BYTES = 2**20
"""How much of a file is looked at; one that is no larger is read whatever memory is free."""

_BETWEEN = b"\n,;\t|"
"""What ends a cell in the layouts that are text."""


def free_memory() -> int:
    """The bytes that this process may still take: of the machine, its container and its limit."""
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
    """The bytes of files that a container holds, which the kernel gives back."""
    with suppress(OSError, ValueError):
        said = (CONTAINER / "memory.stat").read_text(encoding="ascii")
        return sum(map(int, re.findall(r"^(?:in)?active_file (\d+)$", said, re.MULTILINE)))
    return 0


def cells_per_byte(head: bytes) -> float:
    """How many cells a file of text has for each of its bytes, as its beginning has."""
    return sum(map(head.count, (bytes([each]) for each in _BETWEEN))) / max(1, len(head))


def check_memory(path: Place, size: int, cells: float) -> None:
    """Raise DataError, with what is needed, where a file of so many bytes does not fit."""
    needed, free = BYTES_PER_BYTE * size + BYTES_PER_CELL * cells, free_memory()
    if size > HEAD_BYTES and needed > free:
        raise DataError(
            f"{path.name} has {size / 1e9:.2g} GB of rows, which take about {needed / 1e9:.2g} GB "
            f"of memory when they are read, and {free / 1e9:.2g} GB are free: give fewer rows, or "
            "more memory (ulimit -v, the container's limit)."
        )
