"""A task's examples: read a split through a door, convert every row, check it, take its digest."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tasks.check import find_fault
from tasks.errors import BenchError, DataError
from tasks.examples import Example
from tasks.sources import Data, Row, has_rows, rows
from tasks.subset import subset
from tasks.task import Task

__all__ = ["SplitRows", "fingerprint", "has_split", "read"]


@dataclass(frozen=True, kw_only=True)
class SplitRows:
    """The examples of one split in its order, and the SHA-256 (hex) of what they say.

    `left_out` counts the rows of the whole split that the benchmark's convention leaves out, and
    `cut` those that a limit took away.
    """

    examples: tuple[Example, ...]
    fingerprint: str
    left_out: int = 0
    cut: int = 0


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
    chosen = [example for example in examples if not task.leaves_out(split, example)]
    if not chosen:
        raise DataError(f"{place} is empty: expected at least one row, get the official file.")
    _check_ids(chosen, place)
    kept = tuple(chosen if limit is None else subset(chosen, limit))
    left_out = len(examples) - len(chosen)
    cut = len(chosen) - len(kept)
    return SplitRows(examples=kept, fingerprint=fingerprint(kept), left_out=left_out, cut=cut)


def _convert(task: Task, row: Row, place: str) -> Example:
    try:
        example = task.convert(row)
    except (BenchError, KeyError, TypeError, ValueError, IndexError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DataError(f"{place} does not convert: {reason}.") from error
    if fault := find_fault(task, example):
        raise DataError(f"{place} {fault}.")
    return example


def _check_ids(examples: Iterable[Example], place: str) -> None:
    """Two examples of one id could not be told apart in stored predictions."""
    name, times = Counter(example.id for example in examples).most_common(1)[0]
    if times > 1:
        raise DataError(f"{place} has {times} rows with the id {name!r}: get the official file.")


def fingerprint(examples: Iterable[Example]) -> str:
    """The SHA-256 (hex) of the examples: equal examples, equal digest, whichever door they took."""
    digest = hashlib.sha256()
    encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=vars).encode
    for example in examples:
        digest.update(encode([type(example).__name__, vars(example)]).encode() + b"\n")
    return digest.hexdigest()
