"""A command as a whole process: its seconds, and the most memory that it and its children held."""

import os
import resource
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LIMIT", "Ended", "run_whole"]

SAMPLE_SECONDS = 0.5

LIMIT: ContextVar[float | None] = ContextVar("LIMIT", default=None)
"""After how many seconds a command is killed, as one that hangs."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A process that has ended well.

    `cpu_seconds` are those of all its children too. `peak_bytes` is the larger of two figures: the
    kernel's for the largest process, and the sum over the tree of processes, with shared pages
    counted once (Pss, where /proc has it), sampled twice a second.
    """

    stdout: str
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run_whole(command: Sequence[str], environment: Mapping[str, str]) -> Ended:
    """Runs a command to its end; RuntimeError with its last lines where it fails.

    Raises subprocess.TimeoutExpired at the LIMIT. Whatever is raised, the command has ended.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watch = _Watch(process.pid)
        watch.start()
        try:
            stdout, stderr = process.communicate(timeout=LIMIT.get())
            seconds = time.monotonic() - start
        finally:
            process.kill()  # nothing, where it has ended
            watch.stop()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}:\n{stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ended(stdout=stdout, seconds=seconds, cpu_seconds=cpu, peak_bytes=watch.peak_bytes)


class _Watch(threading.Thread):
    """Samples the memory of a tree of processes until it is stopped."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak_bytes = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            tree = _tree(self.pid)
            together = sum(_kilobytes(pid, "smaps_rollup", "Pss:") for pid in tree)
            largest = max((_kilobytes(pid, "status", "VmHWM:") for pid in tree), default=0)
            self.peak_bytes = max(self.peak_bytes, 1024 * max(together, largest))

    def stop(self) -> None:
        self._over.set()
        self.join()


def _tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        text = " ".join((thread / "children").read_text() for thread in threads)
    except OSError:
        return []
    return [pid, *(inner for child in text.split() for inner in _tree(int(child)))]


def _kilobytes(pid: int, file: str, name: str) -> int:
    """A figure of /proc, 0 for a process that is gone or a system without it."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
