"""The indices of a file's answers: every expected one once, in order (mostly 0 to n - 1)."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from tasks.submission.answers import Scalar
from tasks.submission.faults import Faults

__all__ = ["LONGEST", "Numbered", "in_order"]

T = TypeVar("T")

LONGEST = 15
"""Digits of an index; Python refuses to read numbers of thousands."""


class Numbered(NamedTuple, Generic[T]):
    """An answer with its index as written, and the line it stands on."""

    line: int
    place: Scalar
    answer: T


class _Placed(NamedTuple, Generic[T]):
    line: int
    place: int
    answer: T


def in_order(rows: Sequence[Numbered[T]], ids: Sequence[int], faults: Faults) -> list[T] | None:
    """The answers in the order of `ids`; None, with faults that say why, where they do not fit."""
    if len(rows) != len(ids):
        faults.add(f"it has {len(rows)} answers, expected {len(ids)}")
    numbers = [(row, _number(row, faults)) for row in rows]
    first = _offset([number for _, number in numbers], ids)
    if first:
        faults.add(
            f"its indices run from {first} to {first + len(ids) - 1}, expected 0 to "
            f"{len(ids) - 1}: every file counts from 0",
            mendable=True,
        )
    placed = [
        _Placed(row.line, number - first, row.answer)
        for row, number in numbers
        if number is not None
    ]
    answers = {row.place: row.answer for row in placed}
    _find_doubles(placed, faults)
    _find_strays(placed, ids, faults)
    if len(placed) != len(ids) or answers.keys() != set(ids):
        return None
    _find_disorder(placed, ids, faults)
    return [answers[place] for place in ids]


def _number(row: Numbered[T], faults: Faults) -> int | None:
    """The index as a number, None where it is none."""
    if isinstance(row.place, int) and not isinstance(row.place, bool) and row.place >= 0:
        return row.place
    text = str(row.place).strip().removesuffix(".0")
    if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST:
        faults.add(f"the index is {row.place!r}, expected a whole number", row.line)
        return None
    faults.add("the index is not written as a plain whole number", row.line, mendable=True)
    return int(text)


def _offset(indices: Sequence[int | None], ids: Sequence[int]) -> int:
    """Where the indices begin, if they should begin at 0 and are complete otherwise; else 0."""
    known = {index for index in indices if index is not None}
    low, count = min(known, default=0), len(ids)
    is_whole = len(indices) == count and known == set(range(low, low + count))
    return low if is_whole and set(ids) == set(range(count)) else 0


def _find_doubles(rows: Iterable[_Placed[T]], faults: Faults) -> None:
    lines: dict[int, int] = {}
    for row in rows:
        if row.place in lines:
            faults.add(
                f"index {row.place} stands here again, after line {lines[row.place]}", row.line
            )
        lines.setdefault(row.place, row.line)


def _find_strays(rows: Sequence[_Placed[T]], ids: Sequence[int], faults: Faults) -> None:
    expected = set(ids)
    for row in rows:
        if row.place not in expected:
            faults.add(f"index {row.place} is none of the {len(ids)} expected", row.line)
    missing = sorted(expected - {row.place for row in rows})
    if missing:
        some = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        noun = "index is" if len(missing) == 1 else "indices are"
        faults.add(f"{len(missing)} {noun} missing: {some}")


def _find_disorder(rows: Sequence[_Placed[T]], ids: Sequence[int], faults: Faults) -> None:
    rank = {place: number for number, place in enumerate(ids)}
    for before, row in pairwise(rows):
        if rank[row.place] < rank[before.place]:
            faults.add(f"index {row.place} stands after {before.place}", row.line, mendable=True)
            return
