"""What was read from a prediction file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import DataError
from tasks.examples import Prediction
from tasks.submission import Fault

__all__ = ["PredictionFile", "content_of", "require_clear"]

SHOWN = 3
"""Faults that an error names."""


@dataclass(frozen=True, kw_only=True)
class PredictionFile:
    """One prediction for each example, in order, and what had to be read leniently to get them.

    `sweep_order` are the question ids in the order of a file of no-answer scores, which decides
    between equal scores where SQuAD's script looks for the best threshold.
    """

    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...] = ()
    sweep_order: tuple[str, ...] | None = None


def content_of(path: Path) -> bytes:
    """The file's bytes; DataError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def require_clear(path: Path, faults: Sequence[Fault]) -> tuple[str, ...]:
    """Notes of the faults that leave no doubt; DataError where one does."""
    doubts = [str(fault) for fault in faults if not fault.mendable]
    if doubts:
        more = f" (and {len(doubts) - SHOWN} faults more)" if len(doubts) > SHOWN else ""
        raise DataError(f"{path} cannot be scored: {'; '.join(doubts[:SHOWN])}{more}.")
    return tuple(str(fault) for fault in faults)
