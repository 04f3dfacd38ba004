"""What is fuzzed: a reader of bytes from outside, with real files to begin with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Case:
    """A file that is read without an error, and how it is read from these or other bytes.

    `read` gets the bytes and a folder of its own that it may write to.
    """

    content: bytes = field(repr=False)
    read: Callable[[bytes, Path], Any]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One reader: its cases are made when they are needed; `share` is its part of a long run."""

    name: str
    cases: Callable[[], list[Case]]
    share: float = 1.0
