"""A task's examples: read a split through a door, convert every row, check it, take its digest."""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from tasks.errors import BenchError, DataError
from tasks.examples import Example, PairExample
from tasks.sources import Data, Row, has_rows, rows
from tasks.subset import subset
from tasks.task import PairTask, Task

__all__ = ["SplitRows", "fingerprint", "has_split", "read"]


@dataclass(frozen=True, kw_only=True)
class SplitRows:
    """The examples of one split in its order, and the SHA-256 (hex) of what they say."""

    examples: tuple[Example, ...]
    fingerprint: str


def has_split(task: Task, split: str, data: Data) -> bool:
    """Whether the door has the split, without reading it.

    Optional evaluations ask first: a folder without AX does not stop MNLI.
    """
    return has_rows(task.source, split, data)


def read(task: Task, split: str, data: Data, limit: int | None = None) -> SplitRows:
    """The examples of one split; `limit` takes a fixed stratified subset (see tasks.subset).

    Raises DataError where the split is absent, malformed or empty, or where a row does not convert.
    """
    place = f"{task.name} {split} ({data})"
    examples = [
        _convert(task, row, f"{place} row {index}")
        for index, row in enumerate(rows(task.source, split, data))
    ]
    if not examples:
        raise DataError(f"{place} is empty: expected at least one row, get the official file.")
    kept = tuple(examples if limit is None else subset(examples, limit))
    return SplitRows(examples=kept, fingerprint=fingerprint(kept))


def _convert(task: Task, row: Row, place: str) -> Example:
    try:
        example = task.convert(row)
    except (BenchError, KeyError, TypeError, ValueError, IndexError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{place} does not convert: {reason}.") from error
    if isinstance(task, PairTask) and isinstance(example, PairExample):
        _check_pair(task, example, place)
    return example


def _check_pair(task: PairTask, example: PairExample, place: str) -> None:
    if not isinstance(example.text_a, str) or not isinstance(example.text_b, str | None):
        raise DataError(f"{place} has no text: found {example.text_a!r} and {example.text_b!r}.")
    label = example.label
    if label is None:
        return
    if task.value_range is not None:
        low, high = task.value_range
        if not (isinstance(label, float) and math.isfinite(label) and low <= label <= high):
            raise DataError(f"{place} has the label {label!r}; expected {low:g} to {high:g}.")
    elif label not in task.labels:
        expected = ", ".join(task.labels)
        raise DataError(f"{place} has the label {label!r}; expected one of {expected}.")


def fingerprint(examples: Iterable[Example]) -> str:
    """The SHA-256 (hex) of the examples: equal examples, equal digest, whichever door they took."""
    digest = hashlib.sha256()
    encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=vars).encode
    for example in examples:
        digest.update(encode([type(example).__name__, vars(example)]).encode() + b"\n")
    return digest.hexdigest()
