"""GLUE's tables: a header, then an index and a prediction on each line, between them a tab."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from benchharness.tasks.submission.answer_file import (
    HEADER,
    AnswerFile,
    Faults,
    Line,
    Reading,
    Scalar,
    Understood,
    conclude,
    decoded,
    lines_of,
)

# The indices of a file's answers: every expected one once, in order (mostly 0 to n - 1).

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


def in_order(
    rows: Sequence[Numbered[T]],
    ids: Sequence[int],
    faults: Faults,
    names: Mapping[str, int] = MappingProxyType({}),
) -> list[T] | None:
    """The answers in the order of `ids`; None, with faults that say why, where they do not fit.

    `names` are words that a file may have for indices.
    """
    if len(rows) != len(ids):
        faults.add(f"it has {len(rows)} answers, expected {len(ids)}")
    numbers = [(row, _number(row, names, faults)) for row in rows]
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


def _number(row: Numbered[T], names: Mapping[str, int], faults: Faults) -> int | None:
    """The index as a number, None where it is none."""
    if str(row.place) in names:
        return names[str(row.place)]
    if isinstance(row.place, int) and not isinstance(row.place, bool) and row.place >= 0:
        return row.place
    text = str(row.place).strip().removesuffix(".0")
    if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST:
        known = f" or an id such as {next(iter(names))!r}" if names else ""
        sentence = f"the index is {row.place!r:.60}, expected a whole number{known}"
        faults.add(sentence, row.line, kind="the index is no whole number")
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
            sentence = f"index {row.place} stands here again, after line {lines[row.place]}"
            faults.add(sentence, row.line, kind="an index stands here again")
        lines.setdefault(row.place, row.line)


def _find_strays(rows: Sequence[_Placed[T]], ids: Sequence[int], faults: Faults) -> None:
    expected = set(ids)
    for row in rows:
        if row.place not in expected:
            sentence = f"index {row.place} is not one of the {len(ids)} expected"
            faults.add(sentence, row.line, kind="an index is not one of the expected")
    missing = sorted(expected - {row.place for row in rows})
    if missing:
        faults.add(missing_indices(missing))


def missing_indices(missing: Sequence[int]) -> str:
    """How many are missing, and the first of them."""
    some = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
    noun = "index is" if len(missing) == 1 else "indices are"
    return f"{len(missing)} {noun} missing: {some}"


def _find_disorder(rows: Sequence[_Placed[T]], ids: Sequence[int], faults: Faults) -> None:
    rank = {place: number for number, place in enumerate(ids)}
    for before, row in pairwise(rows):
        if rank[row.place] < rank[before.place]:
            faults.add(f"index {row.place} stands after {before.place}", row.line, mendable=True)
            return


INDEX_NAMES = ("index", "idx", "id", "")
PAIR = ("uid", "pairid")
"""BLiMP's paradigm and number, which make an id with a slash between."""
PREDICTION_NAMES = ("prediction", "predictions", "pred", "label", "labels", "answer")
"""What others write above the columns: DeBERTa "predictions", pandas "" for its index."""


def write_table(answers: Sequence[str]) -> bytes:
    """The file's bytes: tabs, no quotes, UTF-8, lines that end in a line feed."""
    rows = [HEADER, *((str(index), answer) for index, answer in enumerate(answers))]
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def read_table(file: AnswerFile, content: bytes, ids: Sequence[int]) -> Reading:
    """The answers of a table by anybody, with everything that is wrong with it."""
    faults = Faults(file.name)
    text = decoded(content, faults)
    lines = [] if text is None else lines_of(text, faults)
    if not lines:
        if text is not None:
            faults.add(f"it is empty, expected {len(ids)} answers")
        return conclude(None, faults)
    rows = read_rows(lines, faults, file.header)
    known: dict[str, Understood] = {}
    meant = [Numbered(row.line, row.place, _answer(file, row, known, faults)) for row in rows]
    return conclude(in_order(meant, ids, faults, file.names), faults)


def _answer(
    file: AnswerFile, row: Numbered[str], known: dict[str, Understood], faults: Faults
) -> str | None:
    """What the row's answer means; `known` are the writings seen before."""
    if row.answer not in known:
        known[row.answer] = file.answers.understand(row.answer)
    value, problem = known[row.answer]
    if problem:
        faults.add(problem, row.line, mendable=value is not None)
    return None if value is None else str(value)


def read_rows(
    lines: Sequence[Line], faults: Faults, header: tuple[str, str]
) -> list[Numbered[str]]:
    """Index and prediction of each line below the header, which should be `header`."""
    split = _splitter(lines[0][1], faults)
    number, first = lines[0][0], split(lines[0][1])
    names = [name.strip().strip("\"'").casefold() for name in first]
    expected = f"expected {header[0]}, tab, {header[1]}"
    if names[0].removesuffix(".0").isdecimal():
        faults.add(f"the header is missing: {expected}", number, mendable=True)
        return _cells(lines, split, ([0], 1), len(first), faults)
    columns = _columns(names)
    if tuple(first) != header and names != [*PAIR, header[1]]:
        is_clear = columns is not None
        faults.add(f"the header is {lines[0][1]!r}: {expected}", number, mendable=is_clear)
    return _cells(lines[1:], split, columns or ([0], 1), len(first), faults)


def _splitter(header: str, faults: Faults) -> Callable[[str], list[str]]:
    """How lines come apart: at tabs, or else at whatever separates the header."""
    separator = next((s for s in ("\t", ",", ";") if s in header), None)
    if separator != "\t" and len(header.split(separator)) > 1:
        name = {",": "a comma", ";": "a semicolon"}.get(separator or "", "white space")
        faults.add(f"{name} separates the columns, expected a tab", 1, mendable=True)

    def split(line: str) -> list[str]:
        return line.split(separator)

    return split


Columns = tuple[Sequence[int], int]
"""Where the index stands, or its parts, and the prediction."""


def _columns(header: Sequence[str]) -> Columns | None:
    """By the names that are in use."""
    pair = [header.index(name) for name in PAIR if name in header]
    index = [header.index(name) for name in INDEX_NAMES if name in header][:1]
    prediction = next((header.index(name) for name in PREDICTION_NAMES if name in header), None)
    found = pair if len(pair) == len(PAIR) else index
    return None if not found or prediction is None else (found, prediction)


def _cells(
    lines: Sequence[Line],
    split: Callable[[str], list[str]],
    columns: Columns,
    width: int,
    faults: Faults,
) -> list[Numbered[str]]:
    rows = []
    for number, line in lines:
        cells = [_unquoted(cell, number, faults) for cell in split(line)]
        if len(cells) != width or width < 2:
            faults.add(f"the line has {len(cells)} columns, expected {max(width, 2)}", number)
            continue
        index = "/".join(cells[place] for place in columns[0])
        rows.append(Numbered(number, _index(index), cells[columns[1]]))
    return rows


def _index(cell: str) -> str | int:
    """A number where it is written as one."""
    is_plain = cell.isascii() and cell.isdecimal() and len(cell) <= LONGEST
    return int(cell) if is_plain and str(int(cell)) == cell else cell


def _unquoted(cell: str, line: int, faults: Faults) -> str:
    """The cell without quotes and white space around it."""
    bare = cell.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'":
        faults.add("the cells are quoted, expected plain text", line, mendable=True)
        return bare[1:-1]
    if bare != cell:
        faults.add("there is white space around a cell", line, mendable=True)
    return bare
