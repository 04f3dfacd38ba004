"""Read users' files into tables that record where each row came from.

The layout of a file is determined by its ending and content alone, so a file is always read in the
same way. Texts are kept unchanged: "NA" and "null" are texts.
"""

import csv
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from io import BytesIO, StringIO
from itertools import islice, takewhile
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data.annotations import brat_spans
from benchharness.extensions.custom_data.cells import read_cells
from benchharness.extensions.custom_data.columns import Column, Table
from benchharness.extensions.custom_data.documents import (
    cas_table,
    is_object,
    named,
    names_of,
    objects_table,
    parsed,
    read_json,
)
from benchharness.extensions.custom_data.encodings import check_is_text, text_of
from benchharness.extensions.custom_data.headers import Lines, split_header, with_row_names
from benchharness.extensions.custom_data.inception import WEBANNO
from benchharness.extensions.custom_data.markup import read_xml
from benchharness.extensions.custom_data.memory import HEAD_BYTES, cells_per_byte, check_memory
from benchharness.extensions.custom_data.places import (
    ENDINGS,
    children,
    class_files,
    document_files,
    ending_of,
    is_brat,
    is_text,
    kind_of,
    scored_files,
    split_of,
    stamp_of,
    with_labels_apart,
)
from benchharness.extensions.custom_data.readings import count_readings
from benchharness.extensions.custom_data.words import (
    LINES,
    read_at,
    read_conll,
    read_fasttext,
    read_pubtator,
    read_tagged,
    read_webanno,
    webanno_table,
)
from benchharness.tasks.sources.formats import content_of, fields_of
from benchharness.tasks.sources.source import Place

MOST_BYTES = 2 * 2**30
"""Maximum size of a file in bytes, after unpacking. Reading takes several times as much memory."""


# Reading a file.


def read_table(
    files: Sequence[Place], encoding: str = "", *, no_header: bool = False, sheet: str = ""
) -> Table:
    """Read the rows of a file, of a file in several parts, or of a folder.

    Args:
        files: One file or folder; or the parts of one file, in order; or a file of texts and a file
            of their labels.
        encoding: The encoding of the files; "" to detect it.
        no_header: True if line 1 of a table is a row and not the names of its columns. The columns
            are then numbered from 1.
        sheet: The sheet of an Excel workbook that has the rows; "" to detect it.

    Raises:
        DataError: A file is missing, too large, malformed, of an unknown format or without rows, or
            files do not belong together. If possible, the error names the line and the column.
        BenchError: The file is not a table but `no_header` is true, it is not a workbook but
            `sheet` is given, or the encoding is unknown.
    """
    pair = with_labels_apart(files)
    tables = [_read(path, encoding, no_header, sheet, stamp_of(path)) for path in pair or files]
    if len(tables) == 1:
        return tables[0]
    first = tables[0]
    if pair:
        return _with_labels(first, tables[1])
    for table in tables[1:]:
        if list(table.columns) != list(first.columns):
            raise DataError(
                f"{table.name} has different columns than {first.name}: all parts of a file need "
                "the same columns."
            )
    # Lines are counted from 1 in each part, so ids begin with the number of the part: "0:7", "1:7".
    return replace(
        first,
        name=files[0].parent.name,
        columns={name: [v for t in tables for v in t.columns[name]] for name in first.columns},
        ids=[f"{n}:{each}" for n, t in enumerate(tables) for each in t.ids],
    )


def _with_labels(texts: Table, labels: Table) -> Table:
    """Join texts with their labels from another file, by the only column that both have.

    Raises DataError if there is no such column, or if its values in the file of labels repeat.
    """
    common = [name for name in texts.columns if name in labels.columns]
    key = common[0] if len(common) == 1 else ""
    rows = {str(value): row for row, value in enumerate(labels.columns.get(key, ()))}
    if not key or len(rows) < len(labels.ids):
        raise DataError(
            f"the labels in {labels.name} cannot be matched to the rows of {texts.name}: the files "
            "must share exactly one column, whose values differ in all rows of the labels (they "
            f"share {', '.join(map(repr, common)) or 'none'}); or put texts and labels into one "
            "file."
        )
    places = [rows.get(str(value)) for value in texts.columns[key]]
    more = {
        name: [None if at is None else values[at] for at in places]
        for name, values in labels.columns.items()
        if name != key
    }
    said = (
        f"the labels for {texts.name} are read from {labels.name}; rows are matched by the column "
        f"{key!r}"
    )
    notes = (*texts.notes, *labels.notes, said)
    return replace(texts, columns={**texts.columns, **more}, notes=notes)


@lru_cache(maxsize=4)
def _read(path: Place, encoding: str, no_header: bool, sheet: str, stamp: tuple[int, int]) -> Table:
    """Read a file; the result is cached, because a run reads a file once for each split."""
    # A member of an archive always has the stamp (1, 0), so an empty member passes this check. Its
    # reader then finds no rows.
    if stamp[0] == 0:
        raise DataError(f"{path.name} is empty: expected rows.")
    _check_size(path, stamp[0])
    kind = _folder_kind(path) if path.is_dir() else kind_of(path)
    if sheet and kind != "workbook":
        refuse_sheet(path)
    within = "" if kind else _kind_within(path, encoding)
    if not (kind or within):
        raise DataError(
            f"{path.name} is not in a supported format: expected one of the endings "
            f"{', '.join(ENDINGS)}, any of them in .gz or .zip, or one folder of .txt files per "
            "class."
        )
    try:
        if kind == "workbook":
            rows = _workbook(path, _content(path, is_text=False), sheet)
            return _checked(path, rows, no_header=no_header)
        return _as_table(path, kind or within, encoding, is_said=not within, no_header=no_header)
    except MemoryError as error:
        raise DataError(
            f"{path.name} does not fit into memory: use fewer rows, or provide more memory."
        ) from error


def _as_table(path: Place, kind: str, encoding: str, *, is_said: bool, no_header: bool) -> Table:
    """Read a file in this format into a table.

    `is_said` is whether the file's ending shows the format.
    """
    notes: tuple[str, ...] = ()
    if kind in FOLDERS:
        rows: Table | Lines = FOLDERS[kind](path, encoding)
    elif kind in BINARY:
        rows = BINARY[kind](path, _content(path, is_text=False))
    else:
        rows, notes = _of_text(path, kind, encoding, is_said=is_said)
    return _checked(path, rows, notes, no_header=no_header)


def _checked(
    path: Place, rows: Table | Lines, notes: tuple[str, ...] = (), *, no_header: bool
) -> Table:
    """Make a table of a file's rows and parse its cells; raise DataError if there are no rows."""
    if no_header and isinstance(rows, Table):
        refuse_no_header(path)
    table = rows if isinstance(rows, Table) else _of_lines(path, rows, no_header=no_header)
    if not table.ids:
        raise DataError(f"{path.name} has no rows below line 1.")
    return read_cells(replace(table, notes=(*notes, *table.notes)))


def refuse_no_header(path: Place) -> None:
    """Raise BenchError, because --no-header was passed for a file that is not a table."""
    raise BenchError(
        f"--no-header applies to tables only, and {path.name} is not a table: remove the option."
    )


def refuse_sheet(path: Place) -> None:
    """Raise BenchError, because --sheet was passed for a file that is not an Excel workbook."""
    raise BenchError(
        f"--sheet applies to Excel workbooks only, and {path.name} is not one: remove the option."
    )


def _of_text(
    path: Place, kind: str, encoding: str, *, is_said: bool
) -> tuple[Table | Lines, tuple[str, ...]]:
    """Return the rows of a text file, and notes on how it was read.

    `is_said` is whether the file's ending shows the format.
    """
    text, notes = text_of(path, _content(path), encoding)
    kind = text_kind(kind, text)
    if not is_said:
        notes = (
            *notes,
            f"{path.name} is read as {SAID[kind]}, which was detected from its content",
        )
    if kind == "table":
        text, count = without_comments(path, text)
        said = f"lines at the top of {path.name} that begin with # are read as comments: {count}"
        notes = (*notes, said) if count else notes
    return READERS[kind](path, text), notes


def _check_size(path: Place, size: int) -> None:
    if size > MOST_BYTES:
        raise DataError(
            f"{path.name} has {size / 1e9:.1f} GB, but at most {MOST_BYTES / 1e9:.1f} GB can be "
            "read, because the whole file is loaded into memory: use fewer rows."
        )


@contextmanager
def reading(path: Place) -> Iterator[None]:
    """Context manager that converts errors of reading or unpacking a file to DataError."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name} cannot be unpacked ({error}): pack it again.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


@contextmanager
def opened(path: Place) -> Iterator[IO[bytes]]:
    """Context manager that opens a file for reading bytes, and unpacks it if it is a .gz.

    Raises DataError if the file cannot be read or unpacked.
    """
    with reading(path), ExitStack() as stack:
        file: Any = path.open("rb") if isinstance(path, Path) else BytesIO(content_of(path))
        stack.enter_context(file)
        if path.name.lower().endswith(".gz"):
            file = stack.enter_context(gzip.open(file))
        yield file


CHUNK_BYTES = 2**22
"""Number of bytes that are unpacked between two checks of the free memory."""


def _content(path: Place, *, is_text: bool = True) -> bytes:
    """Return a file's bytes, unpacked if it is a .gz; raise DataError if memory is too small."""
    with opened(path) as file:
        parts = [file.read(HEAD_BYTES)]
        each, size = cells_per_byte(parts[0]) if is_text else 0.0, len(parts[0])
        whole = path.stat().st_size if isinstance(path, Path) else 0
        # The check is repeated below, because a .gz is larger after unpacking.
        check_memory(path, whole, each * whole)
        while more := file.read(CHUNK_BYTES):
            parts.append(more)
            size += len(more)
            _check_size(path, size)
            check_memory(path, size, each * size)
    return b"".join(parts)


def _class_folders(folder: Place, encoding: str) -> Table:
    """Read one text per file, and label it with the name of its folder, unless that is "unsup"."""
    rows: list[tuple[str, Any]] = []
    notes: list[str] = []
    for place in (child for child in children(folder) if child.is_dir()):
        label = None if place.name.startswith("unsup") else place.name
        for path in filter(is_text, children(place)):
            text, said = text_of(path, content_of(path), encoding)
            notes += said
            rows.append((f"{place.name}/{path.name}", {"text": text.strip(), "label": label}))
    if rows and all(is_object(row["text"]) for _, row in rows):
        raise DataError(f"{folder} has JSON in its .txt files: expected a plain text in each file.")
    return replace(objects_table(folder, rows, "file"), notes=tuple(notes[:3]))


def _class_lines(folder: Place, encoding: str) -> Table:
    """Read one text per line, or rows of tables, and label them with the class in the file name."""
    found = class_files(folder)
    if any(kind_of(path) == "table" for path in found.values()):
        whole = read_table([*found.values()], encoding)
        if "label" in whole.columns:
            raise DataError(
                f"{folder.name} has one file per class, but these files also have a column "
                "'label': put all rows into one file, train.csv."
            )
        # The id of a row begins with the number of its file: "0:7".
        classes = list(found)
        labels = [classes[int(row.partition(":")[0])] for row in whole.ids]
        return replace(whole, columns={**whole.columns, "label": labels}, name=folder.name)
    rows: list[tuple[str, Any]] = []
    notes: tuple[str, ...] = ()
    for label, path in found.items():
        text, said = text_of(path, content_of(path), encoding)
        notes += said
        lines = enumerate(text.split("\n"), start=1)
        bare = [(number, line.strip()) for number, line in lines]
        rows += [(f"{path.name}:{n}", {"text": t, "label": label}) for n, t in bare if t]
    return replace(objects_table(folder, rows, "line"), notes=notes[:3])


def _brat(folder: Place, encoding: str) -> Table:
    """Read one text per file, with the spans from the brat annotation file of the same name."""
    rows: list[tuple[str, Any]] = []
    notes: list[str] = []
    left: Counter[str] = Counter()
    beside = {child.name: child for child in children(folder)}
    for name, path in beside.items():
        if name.endswith(".txt") and (found := beside.get(f"{name.removesuffix('.txt')}.ann")):
            (text, said), (marks, _) = (text_of(p, content_of(p), encoding) for p in (path, found))
            notes += said
            bare = text.replace("\r\n", "\n")
            try:
                entities, others = brat_spans(found.name, marks, text)
            except DataError:  # positions may count a line break of Windows as one character
                if bare == text:
                    raise
                text, (entities, others) = bare, brat_spans(found.name, marks, bare)
            left += others
            rows.append((name, {"text": text, "entities": entities}))
    if left:
        counts = ", ".join(f"{count} {what}" for what, count in sorted(left.items()))
        notes.insert(0, f"left out of {folder.name}: {counts}")
    return replace(objects_table(folder, rows, "file"), notes=tuple(notes[:3]))


def _documents(folder: Place, encoding: str) -> Table:
    """Read the sentences of documents that INCEpTION has exported as one file per document."""
    texts: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    files = document_files(folder)
    for name, path in files.items():
        texts[name], said = text_of(path, content_of(path), encoding)
        notes += said
    if all(text.startswith(WEBANNO) for text in texts.values()):
        table = webanno_table(folder, texts)
    else:
        table = cas_table(folder, {name: parsed(files[name], t) for name, t in texts.items()})
    return replace(table, notes=(*notes[:3], *table.notes))


def _scored(folder: Place, encoding: str) -> Table:
    """Read a pair of texts from each line, and its score from the same line of another file."""
    rows: list[tuple[str, Any]] = []
    notes: tuple[str, ...] = ()
    for pairs, scores in scored_files(folder).items():
        found = [text_of(p, content_of(p), encoding) for p in (pairs, scores)]
        notes += found[0][1]
        lines, numbers = (text.removesuffix("\n").split("\n") for text, _ in found)
        if len(lines) != len(numbers):
            raise DataError(
                f"{pairs.name} has {len(lines)} lines, but {scores.name} has {len(numbers)}: "
                "expected one line per pair, with its score or empty."
            )
        for number, (line, score) in enumerate(zip(lines, numbers, strict=True), start=1):
            one, tab, rest = line.removesuffix("\r").partition("\t")
            if not tab:
                raise DataError(f"{pairs.name} line {number} has no tab between two texts.")
            texts = {"sentence1": one, "sentence2": rest.partition("\t")[0]}
            rows.append((f"{pairs.name}:{number}", {**texts, "score": score.strip() or None}))
    said = f"the scores in {folder.name} are read from the .gs. files, line by line"
    return replace(objects_table(folder, rows, "line"), notes=(said, *notes[:3]))


def _folder_kind(folder: Place) -> str:
    if is_brat(folder):
        return "brat"
    if scored_files(folder):
        return "scored"
    if class_files(folder):
        return "lines"
    return "documents" if document_files(folder) else "classes"


FOLDERS: Mapping[str, Callable[[Place, str], Table]] = {
    "classes": _class_folders,
    "lines": _class_lines,
    "brat": _brat,
    "scored": _scored,
    "documents": _documents,
}
"""Functions that read a folder into a table, keyed by the format of the folder: one folder or file
per class, brat annotations, text pairs with scores, or documents of INCEpTION. They take the folder
and the encoding.
"""


def _kind_within(path: Place, encoding: str) -> str:
    """Detect the format of a file with an unknown ending by its text; "" if none is recognized.

    Raises DataError if the file has a binary format.
    """
    content = _content(path)
    check_is_text(path, content)
    try:
        text, _ = text_of(path, content, encoding)
    except DataError:
        return ""
    start = text.lstrip()
    if start.startswith("[") or is_object(start.partition("\n")[0]):
        return "json"
    if start.startswith(WEBANNO) or any(fits(start) for fits in LINES.values()):
        return "text"
    text, _ = without_comments(path, text)
    delimiter, _ = delimiter_of(path, text)
    try:
        widths = [len(row) for _, row in islice(table_rows(path, text, delimiter), 200)]
    except DataError:
        return ""
    return "text" if len(widths) > 2 and len(set(widths)) == 1 and widths[0] > 1 else ""


def text_kind(kind: str, text: str) -> str:
    """Return the format of a text, which may be more specific than the ending of its file shows.

    For example, a .txt file may contain columns of words (CoNLL). They differ from a table by the
    empty lines between sentences.

    Args:
        kind: The format according to the ending of the file (a value of `ENDINGS`).
        text: The text of the file, or the beginning of the text.

    Returns:
        The format, which is a key of READERS.
    """
    if kind in ("table", "conll", "text") and text.startswith(WEBANNO):
        return "webanno"
    if kind not in ("text", "table"):
        return kind
    if kind == "text" and (own := next((name for name, fits in LINES.items() if fits(text)), "")):
        return own
    lines = [line.removesuffix("\r") for line in text[:20_000].split("\n")]
    # The last of these lines may be truncated. An empty line at the beginning or end separates no
    # sentences.
    blank = sum(not line.strip() for line in lines[1:-1])
    said = [line for line in lines[:-1] if line.strip() and not line.startswith("#")]
    widths = {len(fields_of(line)) for line in said}
    is_even = bool(blank) and len(widths) == 1 and widths != {1}
    if kind == "text":
        return "conll" if is_even else "table"
    # A .tsv is a table, unless nearly every field is a single word and sentences have more than two
    # lines on average.
    fields = [field for line in said for field in line.split("\t")]
    are_words = sum(" " in field for field in fields) < 0.1 * len(fields)
    are_columns = is_even and are_words and len(said) > 2 * blank
    return "conll" if are_columns and "\t" in text else "table"


# Tables with commas, semicolons, bars or tabs.

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Names of the delimiters of tables in messages, keyed by delimiter."""


def _delimited(path: Place, text: str) -> Lines:
    delimiter, above = delimiter_of(path, text)
    rows = with_row_names(list(table_rows(path, text, delimiter))[above:])
    if rows:
        check_widths(path, rows, rows[0][1], delimiter)
    return rows


def delimiter_of(path: Place, text: str) -> tuple[str, int]:
    """Return the delimiter of a table, and the number of rows at its top that only declare it.

    The number is 1 if the first line is a declaration for Excel, such as "sep=;", else 0.
    """
    said = re.match(r"sep=([,;|\t])\r?\n", text)  # Excel's declaration of the delimiter
    if said:
        return said[1], 1  # read as a row, so that the lines below keep their numbers
    return "\t" if ending_of(path) in (".tsv", ".tab") else _delimiter(path, text), 0


def without_comments(path: Place, text: str) -> tuple[str, int]:
    """Replace the comment lines above a table by empty lines.

    Comment lines begin with "#". They become empty so that the lines below keep their numbers. If a
    line such as "#id" is directly above the rows and has as many fields as they, it has the names
    of the columns and is kept.

    Args:
        path: The file, whose ending may determine the delimiter of fields.
        text: The text of the file, or the beginning of the text.

    Returns:
        The new text, and the number of comment lines.
    """
    lines = text.split("\n")
    top = list(takewhile(lambda line: not line.strip() or line.startswith("#"), lines))
    rest = lines[len(top) :]
    if not any(line.strip() for line in top) or sum(bool(line.strip()) for line in rest) < 2:
        return text, 0
    delimiter, _ = delimiter_of(path, "\n".join(rest))
    width = rest[0].count(delimiter)
    if width and top[-1].count(delimiter) == width and ": " not in top[-1]:
        rest = [top.pop(), *rest]
    count = sum(bool(line.strip()) for line in top)
    return "\n".join([*("" for _ in top), *rest]), count


_TOTAL = re.compile(
    r"(?:grand |sub)?total(?:s| count)?|sum|count|gesamt(?:summe)?|summe|insgesamt|totaal|totale",
    re.IGNORECASE,
)


def _without_total(path: Place, rows: Lines) -> tuple[Lines, tuple[str, ...]]:
    """Return the rows without a last row of totals, and a note on that row."""
    number, last = rows[-1] if len(rows) > 2 else (0, [])
    words = [str(value).strip() for value in last if value != ""]
    is_total = bool(words) and bool(_TOTAL.fullmatch(words[0].rstrip(":")))
    if not is_total or len(words) > len(last) / 2 or Column("", words[1:] or [0]).numbers is None:
        return rows, ()
    return rows[:-1], (f"left out of {path.name}: line {number}, a row of totals",)


def check_widths(path: Place, rows: Lines, header: Sequence[Any], delimiter: str) -> None:
    """Raise DataError if a row has more or fewer fields than the header.

    Args:
        path: The file, for error messages.
        rows: The number of the line and the fields of each row.
        header: The fields of line 1.
        delimiter: The character between fields.
    """
    for number, fields in rows:
        if len(fields) != len(header):
            raise DataError(
                f"{path.name} line {number} has {len(fields)} fields, but line 1 has "
                f"{len(header)}: fields are separated by {DELIMITERS[delimiter]}, so put quotes "
                "around texts that contain one."
            )


def _delimiter(path: Place, text: str) -> str:
    """Return the delimiter that gives the first rows equally many fields.

    If several delimiters do, or none, return the most frequent one in the first line, outside of
    quotes.
    """
    # Delimiters within quotes do not count: "Rome, in winter" or "he said ""no, never""".
    bare = re.sub(r'"(?:[^"]|"")*"', "", text.lstrip("\r\n").partition("\n")[0])
    ranked = sorted(DELIMITERS, key=bare.count, reverse=True)

    def is_even(delimiter: str) -> bool:
        try:
            widths = {len(row) for _, row in islice(table_rows(path, text, delimiter), 200)}
        except DataError:
            return False
        return len(widths) == 1 and widths != {1}

    return next(filter(is_even, ranked), ranked[0])


def _of_lines(path: Place, rows: Lines, *, no_header: bool) -> Table:
    """Make a table from rows, whose columns are named in the first lines or else are numbered."""
    if not no_header:
        return _with_names(path, named_table(path, rows))
    header: Sequence[Any] = rows[0][1] if rows else []
    rows, notes = _without_total(path, rows)
    table = table_of_rows(path, numbers_of(header), rows)
    return _with_names(path, replace(table, has_header=False, notes=notes))


_NAMES = re.compile(r"(?:.*[_-])?(?:classes|labels|categories|emotions|topics|tags|names)\.txt")
_SET = re.compile(r"[0-9]{1,3}(?:\s*,\s*[0-9]{1,3})*")


def _with_names(path: Place, table: Table) -> Table:
    """Replace label numbers by names, if the table's folder has exactly one file of names.

    Each line of that file is a name. Label numbers are sets such as "3,10" or, in column 1 of a
    table without a header, single numbers from 1. The cells in the files of all splits together
    show whether the numbers begin with 0 or 1; if they do not show it, the file of names must be
    classes.txt.
    """
    beside = [p for p in children(path.parent) if p.is_file() and p.name != path.name]
    files = [p for p in beside if _NAMES.fullmatch(p.name.lower()) and not split_of(p.name)]
    if len(files) != 1:
        return table
    lines = text_of(files[0], content_of(files[0]), "")[0].split("\n")
    names = [line.strip() for line in lines if line.strip()]
    splits = [p for p in beside if split_of(p.name) and kind_of(p) == "table"]
    splits = splits if split_of(path.name) else []
    for column, values in table.columns.items():
        is_row = table.has_header and _SET.fullmatch(column)  # line 1 is a row rather than names
        known = [value for value in values if value != ""]
        if (
            is_row
            or not known
            or not all(isinstance(v, str) and _SET.fullmatch(v.strip()) for v in known)
        ):
            continue
        cells = [*known, *(v for p in splits for v in _cells_in(p, column, table.has_header))]
        is_several = any("," in cell for cell in cells)
        numbers = {int(part) for cell in cells for part in cell.split(",")}
        first = 0 if 0 in numbers else 1
        is_sure = 0 in numbers or len(names) in numbers or files[0].name.lower() == "classes.txt"
        if not is_sure or max(numbers) - first >= len(names) or len({*names}) < max(2, len(names)):
            continue
        if not is_several and (column, first, table.has_header) != ("1", 1, False):
            continue
        found = [[names[int(n) - first] for n in v.split(",")] if v else None for v in values]
        said = f"the names of the classes in column {column} of {path.name} are the lines of "
        return replace(
            table,
            columns={**table.columns, column: found if is_several else [v and v[0] for v in found]},
            notes=(*table.notes, f"{said}{files[0].name}"),
        )
    return table


def _cells_in(path: Place, column: str, has_header: bool) -> Sequence[str]:
    """Return the cells in a column of another file that are numbers or sets of numbers."""
    text, _ = text_of(path, _content(path), "")
    rows = [row for _, row in table_rows(path, text, delimiter_of(path, text)[0])]
    head = rows[0] if has_header and rows else []
    at = head.index(column) if column in head else int(column) - 1 if not has_header else -1
    cells = [row[at] for row in rows[bool(head) :] if 0 <= at < len(row)]
    return [cell for cell in cells if _SET.fullmatch(cell.strip())]


def numbers_of(row: Sequence[Any]) -> list[str]:
    """Return the names "1", "2", ... for the columns of a table that has no header."""
    return [str(number) for number, _ in enumerate(row, start=1)]


def named_table(path: Place, rows: Lines, notes: tuple[str, ...] = ()) -> Table:
    """Make a table from rows that begin with the names of the columns.

    A row of totals at the end is left out, and a note reports this.

    Args:
        path: The file, whose name becomes the name of the table.
        rows: The number of the line and the cells of each row.
        notes: Notes on the file that are added to those of the table.

    Raises:
        DataError: Two columns have the same name.
    """
    rows, total = _without_total(path, rows)
    header, body, said = split_header(path.name, rows)
    return replace(table_of_rows(path, header, body), notes=(*said, *total, *notes))


def table_of_rows(path: Place, header: Sequence[Any], body: Lines) -> Table:
    """Make a table from rows and the names of its columns.

    An empty column without a name is dropped. A single other column without a name, which may be
    pandas' index, keeps the name "". If there are several, they are called "unnamed N", where N is
    the position of the column, counted from 1.

    Args:
        path: The file, whose name becomes the name of the table.
        header: The names of the columns.
        body: The number of the line and the cells of each row.

    Raises:
        DataError: Two columns have the same name.
    """
    # Sheets may have columns at the right that are empty and without a name.
    empty = {n for n, name in enumerate(header) if name == "" and not any(f[n] for _, f in body)}
    kept = [n for n in range(len(header)) if n not in empty]
    is_index = sum(header[n] == "" for n in kept) == 1  # pandas writes its index without a name
    header = [header[n] if header[n] != "" or is_index else f"unnamed {n + 1}" for n in kept]
    body = [(number, [f[n] for n in kept]) for number, f in body]
    doubled = [name for name, count in Counter(header).items() if count > 1]
    if doubled:
        raise DataError(
            f"{path.name} line 1 names the column {doubled[0]!r} twice: rename one of them, "
            "or pass --no-header if line 1 is a row."
        )
    columns = {name: [fields[at] for _, fields in body] for at, name in enumerate(header)}
    ids = [str(number) for number, _ in body]
    return Table(name=path.name, columns=columns, ids=ids, has_header=True)


def table_rows(
    path: Place, text: str, delimiter: str, above: int = 0, *, is_quoted: bool | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line and the fields of each row that is not empty.

    Args:
        path: The file, for error messages.
        text: The text of the file, or of a part of it.
        delimiter: The character between fields.
        above: The number of the file's lines before the text.
        is_quoted: For a file with tabs, whether fields may be in quotes; None to detect this. In
            other files they always may.

    Raises:
        DataError: A quote is not closed, or a row is malformed.
    """
    # Do not use splitlines, which also splits at Unicode line breaks within texts, such as U+2028.
    lines = text.removesuffix("\n").split("\n")
    # In files with tabs a quote is usually a part of the text, but `csv` would read all lines up to
    # the next quote as one field.
    if delimiter == "\t" and not (has_quotes(lines) if is_quoted is None else is_quoted):
        for number, line in enumerate(lines, start=above + 1):
            if line.strip("\r"):
                yield number, line.removesuffix("\r").split("\t")
        return
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # a field may be very long
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    # A quoted field may contain line breaks: a row begins below the last line of the previous row.
    before = 0
    try:
        for fields in reader:
            if fields:
                yield above + before + 1, fields
            before = reader.line_num
    except csv.Error as error:
        # If a quote is not closed, the field extends to a quote some lines below, or to the end of
        # the file.
        start = before + 1
        place = f"{path.name} line {above + start}"
        if "unexpected end" in str(error) or reader.line_num > start + 1:
            line = lines[before] if before < len(lines) else ""
            column = _open_quote(line, delimiter)
            raise DataError(f"{place} column {column} opens a quote that is not closed.") from error
        raise DataError(
            f"{place} cannot be read as a row of a table ({error}): write each quote within a "
            "text twice."
        ) from error


def has_quotes(lines: Sequence[str]) -> bool:
    """Return whether quotes enclose fields in a file with tabs, instead of being parts of texts.

    Some field must begin with a quote. In addition, either all fields that begin with a quote must
    also end with one, or the numbers of tabs per line must differ, which is a sign of quoted tabs
    or line breaks.
    """
    quoted = [f for line in lines for f in line.rstrip("\r").split("\t") if f.startswith('"')]
    whole = sum(len(f) > 1 and f.endswith('"') and f.count('"') % 2 == 0 for f in quoted)
    # Lines with more or fewer tabs than others are a sign of a quoted tab or line break.
    widths = {line.count("\t") for line in lines if line}
    return bool(quoted) and (whole == len(quoted) or len(widths) > 1)


def _open_quote(line: str, delimiter: str) -> int:
    """Return the column, from 1, of the last quote that begins a field; 1 if there is none."""
    places = [m.end() for m in re.finditer(rf'(?:^|{re.escape(delimiter)})"', line)]
    return places[-1] if places else 1


SAID = {
    "table": "a table",
    "json": "JSON",
    "xml": "XML",
    "conll": "CoNLL columns",
    "webanno": "WebAnno TSV",
    "fasttext": "fastText lines",
    "at": "texts that end in @ and a label",
    "pubtator": "PubTator documents",
    "tagged": "words followed by their tags",
}
"""Names of the text formats in notes for the user, keyed by format."""

READERS: Mapping[str, Callable[[Place, str], Table | Lines]] = {
    "table": _delimited,
    "json": read_json,
    "xml": read_xml,
    "conll": read_conll,
    "webanno": read_webanno,
    "fasttext": read_fasttext,
    "at": read_at,
    "pubtator": read_pubtator,
    "tagged": read_tagged,
}
"""Functions that read the text of a file, keyed by the format of the text. They take the file, for
messages, and the text.
"""


# Parquet, workbooks, and rows of the hub.


@contextmanager
def reading_parquet(path: Place) -> Iterator[Any]:
    """Context manager that yields the module `pyarrow.parquet`.

    Errors that pyarrow raises for a damaged file are converted to DataError.
    """
    from pyarrow import parquet  # noqa: PLC0415  (half a second)

    with _reading_arrow(f"{path.name} is not a valid Parquet file: write it again."):
        yield parquet


@contextmanager
def _reading_arrow(else_said: str) -> Iterator[None]:
    from pyarrow import ArrowException  # noqa: PLC0415  (half a second)

    try:
        yield
    except MemoryError:  # Arrow's own MemoryError is one of its ArrowExceptions too
        raise
    except (OSError, ValueError, ArrowException) as error:
        raise DataError(else_said) from error


def _parquet(path: Place, content: bytes) -> Table:
    with reading_parquet(path) as parquet:
        said = parquet.read_metadata(BytesIO(content))
        size = sum(said.row_group(n).total_byte_size for n in range(said.num_row_groups))
        # Repeated values take nearly no space in the file, but at least a byte each in memory.
        cells = said.num_rows * said.num_columns
        check_memory(path, max(size, cells), cells)
        # Texts stay dictionary-encoded, so that memory can be checked before they are expanded.
        schema = said.schema.to_arrow_schema()
        texts = [column.name for column in schema if str(column.type) in _TEXTS]
        file = parquet.ParquetFile(BytesIO(content), read_dictionary=texts)
        return _of_arrow(path, schema, file.iter_batches(_BATCH_ROWS))


def _arrow(path: Place, content: bytes) -> Table:
    """Read a file in Arrow's format, as `Dataset.save_to_disk` or Feather writes it."""
    from pyarrow import ipc  # noqa: PLC0415  (half a second)

    with _reading_arrow(f"{path.name} is not a valid Arrow file: save it again."):
        if not content.startswith(b"ARROW1"):
            stream = ipc.open_stream(BytesIO(content))
            return _of_arrow(path, stream.schema, stream)
        file = ipc.open_file(BytesIO(content))
        batches = map(file.get_batch, range(file.num_record_batches))
        return _of_arrow(path, file.schema, batches)


_TEXTS = ("string", "large_string", "binary", "large_binary")

_BATCH_ROWS = 4096
"""Number of rows that are unpacked between two checks of the free memory."""


def _of_arrow(path: Place, schema: Any, batches: Iterable[Any]) -> Table:
    held, size, cells = list[Any](), 0, 0
    for batch in batches:
        held.append(batch)
        size += sum(map(_unpacked_bytes, batch.columns))
        cells += batch.num_rows * batch.num_columns
        check_memory(path, size, cells)
    values = [_python_values(path, name, held, n) for n, name in enumerate(schema.names)]
    rows = [dict(zip(schema.names, row, strict=True)) for row in zip(*values, strict=True)]
    if not rows:
        raise DataError(f"{path.name} has no rows.")
    table = objects_table(path, [(str(n), row) for n, row in enumerate(rows, start=1)], "row")
    names = {name: each for name, each in label_names(schema).items() if name in table.columns}
    columns = {name: [named(v, names[name]) for v in table.columns[name]] for name in names}
    return replace(table, columns={**table.columns, **columns})


def _unpacked_bytes(column: Any) -> int:
    """Return the bytes of a column's values if every row had its own copy of an encoded text."""
    from pyarrow import compute, types  # noqa: PLC0415  (half a second)

    if types.is_dictionary(column.type) and str(column.type.value_type) in _TEXTS:
        lengths = compute.binary_length(column.dictionary)
        return int(compute.sum(lengths.take(column.indices)).as_py() or 0)
    return int(column.nbytes)


def _python_values(path: Place, name: str, batches: Iterable[Any], place: int) -> list[Any]:
    """Return a column's values; raise DataError for one that Python cannot represent."""
    try:
        return [value for batch in batches for value in batch.column(place).to_pylist()]
    except (OverflowError, ValueError) as error:
        raise DataError(
            f"{path.name} has a value in column {name!r} that cannot be read ({error}): remove the "
            "column, or store it as text."
        ) from error


def label_names(schema: Any) -> dict[str, Sequence[str]]:
    """Return the label names that the library `datasets` has stored in an Arrow schema.

    Args:
        schema: The schema of the file.

    Returns:
        The names of the labels 0, 1, ..., keyed by column. Columns without label names are left
        out.
    """
    try:
        said = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = said.get("info", {}).get("features", {})
        found = {
            name: names for name, each in features.items() if (names := names_of(each)) is not None
        }
    except (AttributeError, ValueError, RecursionError):
        return {}  # written by another program
    return found


def _workbook(path: Place, content: bytes, sheet: str) -> Table | Lines:
    """Read the rows of a workbook, whose cells are texts or numbers.

    Raises DataError if openpyxl is not installed, if the workbook is damaged, if it has no rows in
    `sheet`, or if `sheet` is "" and several sheets may have the rows.
    """
    try:
        from openpyxl import load_workbook  # noqa: PLC0415  (an extra)
    except ImportError:
        raise DataError(
            f"{path.name} is an Excel workbook, and openpyxl is not installed: run pip "
            "install 'benchharness[xlsx]', or save the sheet as CSV."
        ) from None
    try:
        with ZipFile(BytesIO(content)) as packed:
            check_memory(path, sum(member.file_size for member in packed.infolist()), 0)
        book = load_workbook(BytesIO(content), read_only=True, data_only=True)
        sheets = {each.title: list(each.iter_rows(values_only=True)) for each in book.worksheets}
    except (DataError, MemoryError):
        raise
    except Exception as error:  # the parsers of zip and XML raise many types of errors
        raise DataError(f"{path.name} is not a valid workbook: save the sheet as CSV.") from error
    held = {title: _filled(rows) for title, rows in sheets.items() if any(map(any, rows))}
    if sheet and held and sheet not in held:
        raise DataError(f"{path.name} has no sheet {sheet!r} with rows: pass {_sheet_words(held)}.")
    return held.get(sheet, []) if sheet else _of_sheets(path, held)


def _sheet_words(titles: Iterable[str]) -> str:
    return " or ".join(f"--sheet {title!r}" for title in titles)


MOST_LEGEND = 20
"""Maximum number of lines of a legend, i.e. of a sheet in a workbook that only explains another
sheet. In addition, a legend has at most a tenth of the lines of the largest sheet, and the name of
its first column differs from that of the largest sheet.
"""


def _of_sheets(path: Place, sheets: Mapping[str, Lines]) -> Table | Lines:
    """Return the rows of the only sheet that is a table, or of all sheets if each is a split."""
    tables = {title: rows for title, rows in sheets.items() if _is_sheet_of_rows(rows)}
    if len(tables) > 1 and not any(map(split_of, tables)):
        # Sheets with code books or notes may be tables too, but no task fits them.
        readable = {
            title: rows
            for title, rows in tables.items()
            if count_readings(read_cells(named_table(path, rows)))
        }
        # A legend is small, and its first column differs from the largest sheet's.
        largest = max(tables.values(), key=len)
        most = min(MOST_LEGEND, 0.1 * len(largest))
        large = {t: r for t, r in tables.items() if len(r) > most or r[0][1] == largest[0][1]}
        tables = readable if len(readable) == 1 else large
    if len(sheets) < 2 or len(tables) == 1:
        chosen = tables or sheets
        rows = next(iter(chosen.values()), [])
        others = ", ".join(repr(title) for title in sheets if title not in chosen)
        if not others:
            return rows
        said = f"{path.name}: the sheet {next(iter(chosen))!r} is read; ignored: {others}"
        return named_table(path, next(iter(chosen.values())), (said,))
    splits = {title: split_of(title) for title in tables}
    parts = {title: named_table(path, rows) for title, rows in tables.items()}
    heads = {tuple(map(str, part.columns)) for part in parts.values()}
    is_split = len(heads) == 1 and len(set(splits.values()) - {""}) == len(tables)
    if not is_split or "train" not in splits.values():
        raise DataError(
            f"it is not clear which sheet of {path.name} has the rows: pass "
            f"{_sheet_words(tables or sheets)}."
        )
    names = [*next(iter(parts.values())).columns]
    if "split" in names:
        raise DataError(
            f"{path.name} has a sheet for each split and also a column 'split': remove the column."
        )
    columns = {name: [v for part in parts.values() for v in part.columns[name]] for name in names}
    columns["split"] = [splits[title] for title, part in parts.items() for _ in part.ids]
    ids = [f"{title}:{n}" for title, part in parts.items() for n in part.ids]
    return Table(name=path.name, columns=columns, ids=ids, unit="row", has_header=True)


def _is_sheet_of_rows(rows: Lines) -> bool:
    """Return whether a sheet is a table: two or more columns with names, and mostly filled rows."""
    if len(rows) < 3 or len(rows[0][1]) < 2:
        return False
    header, body, _ = split_header("", rows)
    cells = [value for _, row in body for value in row]
    return "" not in header and sum(value != "" for value in cells) > len(cells) / 2


def _filled(rows: Sequence[Sequence[Any]]) -> Lines:
    numbered = [(n, list(map(_cell, row))) for n, row in enumerate(rows, 1)]
    # openpyxl also returns cells at the right that are empty and only have a format.
    width = max((at for _, row in numbered for at, v in enumerate(row, 1) if v != ""), default=0)
    return [(n, row[:width]) for n, row in numbered if any(value != "" for value in row)]


def _cell(value: Any) -> Any:
    return "" if value is None else value if isinstance(value, int | float) else str(value)


BINARY: Mapping[str, Callable[[Place, bytes], Table]] = {"parquet": _parquet, "arrow": _arrow}
"""Functions that read a file of a binary format, keyed by format. They take the file, for messages,
and its bytes. Workbooks are read by `_workbook`.
"""


def hub_table(name: str, dataset: Any) -> Table:
    """Convert a data set of the hub to a table.

    Label numbers become the names of the labels, and -1 (no label) becomes None. A nested column
    becomes several columns with dotted names, such as "answers.text".

    Args:
        name: The name of the table in messages.
        dataset: One split of the data set, as the library `datasets` loaded it.
    """
    flat = dataset.flatten()
    columns = {}
    for column in flat.column_names:
        feature = flat.features[column]
        names = getattr(getattr(feature, "feature", feature), "names", None)
        values = flat[column][:]
        columns[column] = [named(value, names) for value in values] if names else values
    ids = [str(number) for number in range(1, len(flat) + 1)]
    return Table(name=name, columns=columns, ids=ids, unit="row")
