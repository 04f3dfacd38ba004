"""The mark in a report's head, by which one that shows the same already is told."""

from pathlib import Path

__all__ = ["has_mark"]

HEAD_BYTES = 4096
"""In which a report's mark stands; the policy before it takes a few hundred."""


def has_mark(path: Path, mark: str) -> bool:
    """Whether a file is a report that was written with this mark."""
    try:
        with path.open("rb") as file:
            return mark.encode() in file.read(HEAD_BYTES)
    except OSError:
        return False
