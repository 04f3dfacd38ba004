"""Read the rows of a file in parts, so that the needed memory does not grow with the file."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, count
from pathlib import Path
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.custom_data.cells import read_cells
from benchharness.extensions.custom_data.columns import Table, key_of
from benchharness.extensions.custom_data.documents import is_object, object_lines, objects_table
from benchharness.extensions.custom_data.encodings import text_of
from benchharness.extensions.custom_data.headers import Lines, split_header, with_row_names
from benchharness.extensions.custom_data.places import ending_of, kind_of
from benchharness.extensions.custom_data.tables import (
    check_widths,
    delimiter_of,
    has_quotes,
    numbers_of,
    opened,
    read_table,
    reading,
    reading_parquet,
    refuse_no_header,
    refuse_sheet,
    table_of_rows,
    table_rows,
    text_kind,
    without_comments,
)

PART_BYTES, PART_ROWS = 2**19, 2048
"""PART_BYTES is the number of bytes that are read at once from a file of text. PART_ROWS is the
maximum number of rows in a part of other files, such as Parquet, and of files that can only be read
as a whole.
"""

STDIN = "-"
"""File name that stands for standard input. Standard input must have one JSON object or one text
per line.
"""

Block = tuple[int, str, tuple[str, ...]]
"""A block of complete rows: the number of lines before the block in its file, the text of the
block, and notes for the user on how the text was decoded.
"""


@dataclass(frozen=True, kw_only=True)
class Written:
    """Options with which the user describes a file.

    Attributes:
        encoding: The encoding of the file; "" to detect it.
        no_header: True if line 1 of a table is a row and not the names of its columns.
        sheet: The sheet of an Excel workbook that has the rows; "" to detect it.
    """

    encoding: str = ""
    no_header: bool = False
    sheet: str = ""


def read_parts(
    name: str, encoding: str = "", *, no_header: bool = False, sheet: str = ""
) -> Iterator[Table]:
    """Return an iterator over the rows of a file or of standard input, as tables of limited size.

    Each table also has the cells as they are in the file (`Table.as_read`).

    Text tables such as CSV and TSV, JSON lines, files with one text per line (these three also in
    .gz) and Parquet are read piece by piece as the iteration proceeds. Other files, and texts in
    UTF-16, are read as a whole. Errors are raised during the iteration. The iterator is empty if
    standard input is empty, or if a CSV or TSV file has only a header.

    Args:
        name: A path, or "-" for standard input.
        encoding: The encoding of the file; "" to detect it.
        no_header: True if line 1 of a table is a row and not the names of its columns. The columns
            are then numbered from 1.
        sheet: The sheet of an Excel workbook that has the rows; "" to detect it.

    Raises:
        DataError: The file does not exist, is empty, or is malformed.
        BenchError: The file is not a table but `no_header` is true, it is not a workbook but
            `sheet` is given, or the encoding is unknown.
    """
    parts = _parts(name, Written(encoding=encoding, no_header=no_header, sheet=sheet))
    return (read_cells(replace(part, as_read=part), is_part=True) for part in parts)


def _parts(name: str, how: Written) -> Iterator[Table]:
    path = Path(name)
    if how.sheet and kind_of(path) != "workbook":
        refuse_sheet(path)
    if name == STDIN:
        stdin: Any = sys.stdin.buffer
        with reading(Path("stdin")):
            # read1 returns the bytes that have arrived, so that rows are processed while later rows
            # are still being written.
            yield from _lines(Path("stdin"), stdin.read1, how, is_text=None)
        return
    if not path.is_file():
        raise DataError(f"{name} is not a file: pass a file of rows, or - for standard input.")
    kind = kind_of(path)
    if kind == "parquet" and path.suffix == ".parquet":
        yield from _of_parquet(path, how)
        return
    with opened(path) as file:
        head = file.read(PART_BYTES) if kind in ("table", "json", "text") else b""
        start = head.decode("utf-8-sig", "replace")
        if head and _has_whole_lines(head, how.encoding) and _has_lines(path, kind, start):
            file.seek(0)
            if kind == "text" and _has_texts(path, how):
                yield from _lines(path, file.read, how, is_text=True)
                return
            if kind != "text":
                read = _rows if kind == "table" else _lines
                yield from read(path, file.read, how)
                return
    yield from _of_whole(path, how)


def _has_whole_lines(head: bytes, encoding: str) -> bool:
    """Return whether a file can be split at line feed bytes, unlike UTF-16 and archives."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"PK\x03\x04")):
        return False
    try:
        return "\n".encode(encoding or "utf-8") == b"\n"
    except (LookupError, UnicodeError):
        return False  # unknown encodings are an error when the file is read as a whole


def _has_lines(path: Path, kind: str, text: str) -> bool:
    """Return whether a file with this beginning has one row per line, unlike most .json files."""
    if kind != "json":
        return text_kind(kind, text) == "table"
    first, _, rest = text.lstrip().partition("\n")
    is_document = ending_of(path) == ".json" and not (is_object(first) and rest.strip())
    return not is_document and not first.startswith("[")


def _has_texts(path: Path, how: Written) -> bool:
    """Return whether a file has one text per line: no table, or one column without a name."""
    if how.no_header:
        return False
    try:
        table = read_table([path], how.encoding)
    except DataError:
        with opened(path) as file:
            first, second = file.readline(), file.readline()
        # The file cannot be read as a table. Its lines are texts if the first line has no tab, and
        # if it has a comma or semicolon or is the only line.
        return b"\t" not in first and (b"," in first or b";" in first or not second)
    names = [key_of(name) for name in table.columns]
    return table.has_header and len(names) == 1 and names[0] not in ONE_COLUMN


ONE_COLUMN = ("text", "texts", "sentence", "sentences", "content", "review", "tweet", "comment")
"""Usual names of the column in a table that has only a column of texts, normalized as by `key_of`.
If line 1 of a .txt file with one text per line is none of these names, it is a text as well.
"""


def _of_whole(path: Path, how: Written) -> Iterator[Table]:
    table = read_table([path], how.encoding, no_header=how.no_header, sheet=how.sheet)
    for start in range(0, len(table.ids), PART_ROWS):
        yield table.take(range(start, min(start + PART_ROWS, len(table.ids))))


def _of_parquet(path: Path, how: Written) -> Iterator[Table]:
    if how.no_header:
        refuse_no_header(path)
    numbers = count(1)
    with reading_parquet(path) as parquet:
        for batch in parquet.ParquetFile(path).iter_batches(PART_ROWS):
            rows = [(str(next(numbers)), row) for row in batch.to_pylist()]
            yield objects_table(path, rows, "row")


Read = Callable[[int], bytes]


def _blocks(
    path: Path,
    read: Read,
    encoding: str,
    is_whole: Callable[[bytes], int] = lambda block: block.rfind(b"\n") + 1,
) -> Iterator[Block]:
    """Yield a file's text in blocks of whole rows.

    `is_whole` returns the length of the whole rows at the beginning of the given bytes.
    """
    rest, above = b"", 0
    while True:
        more = read(PART_BYTES)
        rest += more
        end = is_whole(rest) if more else len(rest)
        block, rest = rest[:end], rest[end:]
        if block:
            text, notes = text_of(path, block, encoding, above)
            # The encoding of the first block with non-ASCII letters is used for the rest.
            encoding = encoding or ("cp1252" if notes else "" if block.isascii() else "utf-8")
            yield above, text, notes
            above += block.count(b"\n")
        if not more:
            return


def _lines(
    path: Path, read: Read, how: Written, *, is_text: bool | None = False
) -> Iterator[Table]:
    """Yield parts of a file with an object per line or, with `is_text`, a text per line.

    If `is_text` is None, the first line decides.
    """
    if how.no_header:
        refuse_no_header(path)
    for above, text, notes in _blocks(path, read, how.encoding):
        lines = list(enumerate(text.removesuffix("\n").split("\n"), start=above + 1))
        if is_text is None:
            is_text = not is_object(lines[0][1])
        if is_text:
            rows = [(str(n), {"text": line.rstrip("\r")}) for n, line in lines]
            table = objects_table(path, rows, "line")
        else:
            table = object_lines(path, text, [(n, line) for n, line in lines if line.strip()])
        if table.ids or table.notes:  # a truncated last line gives no row, but a note
            yield replace(table, notes=(*notes, *table.notes))


def _rows(path: Path, read: Read, how: Written) -> Iterator[Table]:
    """Yield the parts of a table file; each part has the names of the columns."""
    quoted, delimiter = True, ""

    def whole(block: bytes) -> int:
        if not quoted:
            return block.rfind(b"\n") + 1
        # A quoted field may contain line breaks. The end of a line is also the end of a row if the
        # number of quotes before it is even.
        lines = block.split(b"\n")[:-1]
        sums = accumulate(line.count(b'"') for line in lines)
        ends = accumulate(len(line) + 1 for line in lines)
        return max((end for end, sum_ in zip(ends, sums, strict=True) if sum_ % 2 == 0), default=0)

    header: Sequence[Any] | None = None
    for above, block, notes in _blocks(path, read, how.encoding, whole):
        skipped, text = 0, block
        if header is None:
            text, _ = without_comments(path, block)
            delimiter, skipped = delimiter_of(path, text)
            quoted = delimiter != "\t" or has_quotes(text.removesuffix("\n").split("\n"))
        rows: Lines = list(table_rows(path, text, delimiter, above, is_quoted=quoted))[skipped:]
        said: Sequence[str] = ()
        rows = with_row_names(rows) if header is None else rows
        first = rows[0][1] if rows else ()
        check_widths(path, rows, first if header is None else header, delimiter)
        if header is None and rows:
            if how.no_header:
                header = numbers_of(rows[0][1])
            else:
                header, rows, said = split_header(path.name, rows)
        if rows and header is not None:
            table = table_of_rows(path, header, rows)
            yield replace(table, notes=(*notes, *said), has_header=not how.no_header)
