"""Read and write GLUE's and RACE's tables, which have an index and an answer per line.

The first line is a header. Columns are separated by tabs.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from benchharness.errors import BenchError
from benchharness.extensions.submission.answer_file import (
    HEADER,
    AnswerFile,
    Faults,
    Line,
    Reading,
    Scalar,
    Understood,
    conclude,
    lines_of,
)
from benchharness.tasks.examples import ChoicePrediction

# The indices of the answers in a file must be complete, unique and in order. Usually they are 0 to
# n - 1.

LONGEST = 15
"""Maximum number of digits in an index; Python refuses to parse thousands of digits."""


class Numbered(NamedTuple):
    """Answer with the index of its row.

    Attributes:
        line: Number of the line in the file; 0 if the answer was not read from a file.
        place: Index of the row, as it is written in the file.
        answer: Answer, in the form that the server expects.
    """

    line: int
    place: Scalar
    answer: Any


def in_order(
    rows: Sequence[Numbered],
    ids: Sequence[int],
    faults: Faults,
    names: Mapping[str, int] = MappingProxyType({}),
) -> list[Any] | None:
    """Return the answers in the order of `ids`, and report problems with their indices.

    Indices that should begin at 0, but are consecutive from another number, such as 1, are shifted;
    this is reported. Of the rows that are out of order, only the first is reported.

    Args:
        rows: Answers with their indices.
        ids: Expected indices, in the order of the result.
        faults: Collector of problems, to which a wrong number of answers is added too.
        names: Index of each row, keyed by row id. The file may have these ids instead of indices.

    Returns:
        The answers; None if an expected index is missing, or if an index is repeated or unexpected.
    """
    if len(rows) != len(ids):
        faults.add(_count(len(rows), len(ids)))
    numbers = [_number(row, names, faults) for row in rows]
    first = _offset(numbers, ids)
    if first:
        faults.add(
            f"its indices run from {first} to {first + len(ids) - 1}, expected 0 to "
            f"{len(ids) - 1}: the first index must be 0",
            mendable=True,
        )
    pairs = zip(rows, numbers, strict=True)
    placed = [(n - first, row.line, row.answer) for row, n in pairs if n is not None]
    answers = {place: answer for place, _, answer in placed}
    _find_odd([(place, line) for place, line, _ in placed], ids, faults)
    if len(placed) != len(ids) or answers.keys() != set(ids):
        return None
    rank = {place: number for number, place in enumerate(ids)}
    # Only the first row that is out of order is reported, because all later rows may also be out of
    # order.
    for (before, *_), (place, line, _) in pairwise(placed):
        if rank[place] < rank[before]:
            faults.add(f"index {place} comes after index {before}", line, mendable=True)
            break
    return [answers[place] for place in ids]


def _count(found: int, wanted: int) -> str:
    return f"it has {found} answer{'s' * (found != 1)}, expected {wanted}"


def _find_odd(places: Sequence[tuple[int, int]], ids: Sequence[int], faults: Faults) -> None:
    """Report indices that are repeated, unexpected, or missing."""
    lines: dict[int, int] = {}
    for place, line in places:
        if place in lines:
            sentence = f"index {place} is repeated (it is in line {lines[place]} already)"
            faults.add(sentence, line, kind="an index is repeated")
        lines.setdefault(place, line)
    expected = set(ids)
    for place, line in places:
        if place not in expected:
            sentence = f"index {place} is not one of the {len(ids)} expected indices"
            faults.add(sentence, line, kind="an index is not one of the expected indices")
    if missing := sorted(expected - lines.keys()):
        faults.add(missing_indices(missing))


def missing_indices(missing: Sequence[int]) -> str:
    """Return a phrase with the number of missing indices, and the first five of them."""
    some = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
    noun = "index is" if len(missing) == 1 else "indices are"
    return f"{len(missing)} {noun} missing: {some}"


def _number(row: Numbered, names: Mapping[str, int], faults: Faults) -> int | None:
    """Return the index of an answer as a number; if it is invalid, report this and return None."""
    if str(row.place) in names:
        return names[str(row.place)]
    if isinstance(row.place, int) and not isinstance(row.place, bool) and row.place >= 0:
        return row.place
    # pandas writes "12.0" in a column with missing values. Only ASCII digits are accepted, because
    # `int` would accept the digits of any script.
    text = str(row.place).strip().removesuffix(".0")
    if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST:
        known = f" or an id such as {next(iter(names))!r}" if names else ""
        sentence = f"the index is {row.place!r:.60}, expected a whole number{known}"
        faults.add(sentence, row.line, kind="the index is not a whole number")
        return None
    faults.add("the index is not written as a plain whole number", row.line, mendable=True)
    return int(text)


def _offset(indices: Sequence[int | None], ids: Sequence[int]) -> int:
    """Return the first index if the indices are consecutive but do not begin at 0, else 0."""
    known = {index for index in indices if index is not None}
    low, count = min(known, default=0), len(ids)
    # A file with such an offset usually counts from 1. The offset is always 0 if the expected
    # indices are not 0 to n - 1.
    is_whole = len(indices) == count and known == set(range(low, low + count))
    return low if is_whole and set(ids) == set(range(count)) else 0


INDEX_NAMES = ("index", "idx", "id", "")
PAIR = ("uid", "pairid")
"""Names, in lower case, of the columns that form the id in a file for BLiMP: the paradigm and the
number of the pair. The id is "paradigm/number"."""
PREDICTION_NAMES = ("prediction", "predictions", "pred", "label", "labels", "answer")
"""Accepted names of the column with predictions; DeBERTa writes "predictions". The accepted names
of the index column (INDEX_NAMES) include "", which pandas writes."""


def write_rows(rows: Sequence[tuple[str, str]]) -> bytes:
    """Return the bytes of a tab-separated table in UTF-8, without quotes."""
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def write_table(answers: Sequence[str]) -> bytes:
    """Return the bytes of a table for GLUE, given the answers in the order of their indices."""
    return write_rows([HEADER, *((str(index), answer) for index, answer in enumerate(answers))])


def read_table(file: AnswerFile, content: bytes, ids: Sequence[int]) -> Reading:
    """Read the answers in a table from any program, and report all problems in it.

    Args:
        file: Description of the file.
        content: Bytes of the file.
        ids: Expected indices of the rows.
    """
    faults = Faults(file.name)
    lines = lines_of(content, faults, f"{len(ids)} answers")
    if not lines:
        return conclude(None, faults)
    rows = read_rows(lines, faults, file.header)
    known: dict[str, Understood] = {}
    meant = [row._replace(answer=_answer(file, row, known, faults)) for row in rows]
    return conclude(in_order(meant, ids, faults, file.names), faults)


def write_lines(answers: Sequence[str]) -> bytes:
    """Return the bytes of a file with one answer per line."""
    return "".join(f"{answer}\n" for answer in answers).encode()


def read_single(file: AnswerFile, content: bytes, ids: Sequence[int]) -> Reading:
    """Read the answers in a file that has only one answer per line, in the order of the rows.

    Args:
        file: Description of the file.
        content: Bytes of the file.
        ids: Expected indices of the rows; only their number is used.
    """
    faults, known = Faults(file.name), dict[str, Understood]()
    lines = lines_of(content, faults, f"{len(ids)} answers")
    rows = [Numbered(number, place, line) for place, (number, line) in enumerate(lines)]
    answers = [_answer(file, row, known, faults) for row in rows]
    if len(answers) != len(ids):
        faults.add(_count(len(answers), len(ids)))
    return conclude(answers, faults)


def _answer(
    file: AnswerFile, row: Numbered, known: dict[str, Understood], faults: Faults
) -> str | None:
    """Return an answer in the server's form, and report it if it is written differently.

    `known` caches the results for answers that were seen before.
    """
    if row.answer not in known:
        known[row.answer] = file.answers.understand(row.answer)
    value, problem = known[row.answer]
    if problem:
        faults.add(problem, row.line, mendable=value is not None)
    return None if value is None else str(value)


def read_rows(lines: Sequence[Line], faults: Faults, header: tuple[str, str]) -> list[Numbered]:
    """Return the index and the answer in each line of a table, except the header.

    A first line that begins with a number is not a header but an answer. Lines with a wrong number
    of columns are reported and left out.

    Args:
        lines: Lines of a table.
        faults: Collector of problems, to which a missing or different header is added too.
        header: Expected names of the column with indices and of the column with answers.
    """
    split = _splitter(lines[0][1], faults)
    number, first = lines[0][0], split(lines[0][1])
    names = [name.strip().strip("\"'").casefold() for name in first]
    expected = f"expected {header[0]}, tab, {header[1]}"
    # If the first line begins with a number, e.g. "0<tab>entailment", it is not a header.
    if names[0].removesuffix(".0").isdecimal():
        faults.add(f"the header is missing: {expected}", number, mendable=True)
        return _cells(lines, split, ([0], 1), len(first), faults)
    columns = _columns(names)
    if tuple(first) != header and names != [*PAIR, header[1]]:
        is_clear = columns is not None
        faults.add(f"the header is {lines[0][1]!r}: {expected}", number, mendable=is_clear)
    return _cells(lines[1:], split, columns or ([0], 1), len(first), faults)


def _splitter(header: str, faults: Faults) -> Callable[[str], list[str]]:
    """Return a function that splits lines into columns.

    The separator is inferred from the header. If it is not a tab, this is reported.
    """
    # If the header has none of these separators, `split` gets None and splits at white space.
    separator = next((s for s in ("\t", ",", ";") if s in header), None)
    if separator != "\t" and len(header.split(separator)) > 1:
        name = {",": "a comma", ";": "a semicolon"}.get(separator or "", "white space")
        faults.add(f"{name} separates the columns, expected a tab", 1, mendable=True)

    def split(line: str) -> list[str]:
        return line.split(separator)

    return split


Columns = tuple[Sequence[int], int]
"""Numbers of the columns that form the index, and the number of the column with the prediction."""


def _columns(header: Sequence[str]) -> Columns | None:
    """Find the columns with the index and the prediction by name; return None if one is missing."""
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
) -> list[Numbered]:
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
    """Return the cell as a number if it is a plain integer, else unchanged."""
    # "007" is not converted, so that `_number` reports it.
    is_plain = cell.isascii() and cell.isdecimal() and len(cell) <= LONGEST
    return int(cell) if is_plain and str(int(cell)) == cell else cell


def _unquoted(cell: str, line: int, faults: Faults) -> str:
    """Return a cell without quotes and white space around it, and report that it had them."""
    bare = cell.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'":
        faults.add("the cells are quoted, expected plain text", line, mendable=True)
        return bare[1:-1]
    if bare != cell:
        faults.add("there is white space around a cell", line, mendable=True)
    return bare


# There is no server for RACE, so benchharness defines a table of its answers, with one id and one
# letter per line.

RACE_HEADER = ("id", "answer")
LETTERS = "ABCD"
QUESTIONS = 4934
"""Number of questions in RACE's test set: 1436 middle and 3498 high (Lai et al., EMNLP 2017, table
2)."""


def write_race(predictions: Sequence[ChoicePrediction]) -> bytes:
    """Return the bytes of a table with answers to RACE.

    Raises:
        BenchError: The number of predictions is not the number of questions in the test set.
    """
    if len(predictions) != QUESTIONS:
        raise BenchError(
            f"RACE's test set has {QUESTIONS} questions, but got {len(predictions)} predictions: "
            "predict the whole test set with `bench run --test`, from the hub or official files."
        )
    # A predicted text that is not an option gets the first letter, a constant, as in other
    # submissions.
    return write_rows([RACE_HEADER, *((p.id, LETTERS[max(p.option, 0)]) for p in predictions)])
