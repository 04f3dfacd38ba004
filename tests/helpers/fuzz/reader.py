"""Fuzz target: a reader of external bytes, with real files to start from."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Case:
    """File that is read without an error, and the function that reads it or other bytes.

    `read` gets the bytes and a separate folder that it may write to.
    """

    content: bytes = field(repr=False)
    read: Callable[[bytes, Path], Any]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One reader: its cases are created on demand; `share` is its part of a long run."""

    name: str
    cases: Callable[[], list[Case]]
    share: float = 1.0

    def few_cases(self, count: int) -> list[Case]:
        """Return at most `count` of the cases, evenly spaced."""
        cases = self.cases()
        return cases[:: -(-len(cases) // count)]
