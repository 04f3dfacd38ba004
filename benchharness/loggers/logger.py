"""The protocol of a logger: whatever keeps the numbers of runs for people to look at."""

from collections.abc import Mapping
from typing import Protocol

from benchharness.loggers.logged_run import LoggedRun

__all__ = ["Logger", "Value"]

Value = str | int | float | bool


class Logger(Protocol):
    """Keeps the numbers of several runs that go on at once; `key` is that of a run's job.

    All calls come from one thread of its own, in order. Any of them may raise.
    """

    @property
    def place(self) -> str:
        """Where to look: a folder or an address."""

    def begin(self, run: LoggedRun) -> None:
        """A run begins."""

    def log(self, key: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of an optimizer step; steps may come again or go back."""

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:
        """A run has ended, with its last numbers and texts by name."""

    def close(self) -> None:
        """Nothing more comes; runs that have not ended were interrupted."""
