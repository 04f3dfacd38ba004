"""GLUE's tables: a header, then an index and a prediction on each line, between them a tab."""

from collections.abc import Callable, Sequence

from tasks.submission.answer_file import AnswerFile, Reading, conclude
from tasks.submission.answers import Understood
from tasks.submission.faults import Faults
from tasks.submission.order import LONGEST, Numbered, in_order
from tasks.submission.text import Line, decoded, lines_of

__all__ = ["read_rows", "read_table", "write_table"]

HEADER = ("index", "prediction")
INDEX_NAMES = ("index", "idx", "id", "")
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
        faults.add(f"it is empty, expected {len(ids)} answers")
        return conclude(None, faults)
    rows = read_rows(lines, faults)
    known: dict[str, Understood] = {}
    meant = [Numbered(row.line, row.place, _answer(file, row, known, faults)) for row in rows]
    return conclude(in_order(meant, ids, faults), faults)


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
    lines: Sequence[Line], faults: Faults, header: tuple[str, str] = HEADER
) -> list[Numbered[str]]:
    """Index and prediction of each line below the header, which should be `header`."""
    split = _splitter(lines[0][1], faults)
    number, first = lines[0][0], split(lines[0][1])
    names = [name.strip().strip("\"'").casefold() for name in first]
    expected = f"expected {header[0]}, tab, {header[1]}"
    if names[0].removesuffix(".0").isdecimal():
        faults.add(f"the header is missing: {expected}", number, mendable=True)
        return _cells(lines, split, (0, 1), len(first), faults)
    columns = _columns(names)
    if tuple(first) != header:
        is_clear = columns is not None
        faults.add(f"the header is {lines[0][1]!r}: {expected}", number, mendable=is_clear)
    return _cells(lines[1:], split, columns or (0, 1), len(first), faults)


def _splitter(header: str, faults: Faults) -> Callable[[str], list[str]]:
    """How lines come apart: at tabs, or else at whatever separates the header."""
    separator = next((s for s in ("\t", ",", ";") if s in header), None)
    if separator != "\t" and len(header.split(separator)) > 1:
        name = {",": "a comma", ";": "a semicolon"}.get(separator or "", "white space")
        faults.add(f"{name} separates the columns, expected a tab", 1, mendable=True)

    def split(line: str) -> list[str]:
        return line.split(separator)

    return split


def _columns(header: Sequence[str]) -> tuple[int, int] | None:
    """Where index and prediction stand, by the names that are in use."""
    index = next((header.index(name) for name in INDEX_NAMES if name in header), None)
    prediction = next((header.index(name) for name in PREDICTION_NAMES if name in header), None)
    return None if index is None or prediction is None else (index, prediction)


def _cells(
    lines: Sequence[Line],
    split: Callable[[str], list[str]],
    columns: tuple[int, int],
    width: int,
    faults: Faults,
) -> list[Numbered[str]]:
    rows = []
    for number, line in lines:
        cells = [_unquoted(cell, number, faults) for cell in split(line)]
        if len(cells) != width or width < 2:
            faults.add(f"the line has {len(cells)} columns, expected 2", number)
            continue
        rows.append(Numbered(number, _index(cells[columns[0]]), cells[columns[1]]))
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
