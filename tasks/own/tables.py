"""Files of rows as people have them, read into tables whose every row knows its place.

The layout is told by a file's ending and its content alone, so that whoever reads the file again
reads the same. Texts stay as they are written: "NA" and "null" are text.
"""

import csv
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO, StringIO
from itertools import islice
from typing import Any

from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.own.annotations import label_studio_rows, words_of_spans
from benchharness.tasks.own.places import ENDINGS, children, ending_of, kind_of, stamp_of
from benchharness.tasks.sources.formats import DOCUMENT, content_of, sentences_of, squad_questions
from benchharness.tasks.sources.source import Place

MOST_BYTES = 2 * 2**30
"""A file is read as a whole, and takes several times its size in memory."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows by column, and the place of each as errors name it ("reviews.csv line 7").

    `ids` tell rows apart within the file: the number of a line, of a row or of a question. `notes`
    say what was guessed about how it is written.
    """

    name: str
    columns: Mapping[str, Sequence[Any]]
    ids: Sequence[str]
    unit: str = "line"
    has_header: bool = False
    notes: tuple[str, ...] = ()

    def take(self, rows: Sequence[int]) -> "Table":
        """Some of the rows, by their indices."""
        columns = {name: [values[n] for n in rows] for name, values in self.columns.items()}
        return replace(self, columns=columns, ids=[self.ids[n] for n in rows])

    def place(self, row: int) -> str:
        """Where a row stands."""
        return f"{self.name} {self.unit} {self.ids[row]}"


# Reading a file.


def read_table(files: Sequence[Place], encoding: str = "", *, no_header: bool = False) -> Table:
    """The rows of a file, or of its parts one after the other.

    `encoding` is what it is written in, where that cannot be told; `no_header` says that the first
    line of a table is a row, which numbers its columns from 1. Raises DataError, with line and
    column, where a file is not what it seems to be.
    """
    tables = [_read(path, encoding, no_header, stamp_of(path)) for path in files]
    if len(tables) == 1:
        return tables[0]
    first = tables[0]
    for table in tables[1:]:
        if list(table.columns) != list(first.columns):
            raise DataError(f"{table.name} has other columns than {first.name}.")
    # Each part counts its lines from 1, so that the part stands before: "0:7", "1:7".
    return replace(
        first,
        name=files[0].parent.name,
        columns={name: [v for t in tables for v in t.columns[name]] for name in first.columns},
        ids=[f"{n}:{each}" for n, t in enumerate(tables) for each in t.ids],
    )


@lru_cache(maxsize=4)
def _read(path: Place, encoding: str, no_header: bool, stamp: tuple[int, int]) -> Table:
    """A run looks at the same file for its columns, and for each of its splits."""
    # A member of an archive has the stamp (1, 0): of an empty one the readers find no rows.
    if stamp[0] == 0:
        raise DataError(f"{path.name} is empty: expected rows.")
    _check_size(path, stamp[0])
    kind = "classes" if path.is_dir() else kind_of(path)
    if not kind:
        raise DataError(
            f"{path.name} has an ending that no reader knows: expected {', '.join(ENDINGS)}, any "
            "of them in .gz or .zip, or a folder of .txt files for each class."
        )
    notes: tuple[str, ...] = ()
    if kind == "classes":
        rows: Table | Lines = _class_folders(path, encoding)
    elif kind in BINARY:
        rows = BINARY[kind](path, _content(path))
    else:
        text, notes = text_of(path, _content(path), encoding)
        kind = _text_kind(text) if kind == "text" else kind
        rows = READERS[kind](path, text)
    if no_header and isinstance(rows, Table):
        raise BenchError(f"--no-header is of tables, and {path.name} is none: leave it out.")
    table = rows if isinstance(rows, Table) else _of_lines(path, rows, no_header=no_header)
    if not table.ids:
        raise DataError(f"{path.name} has no rows below line 1.")
    return replace(table, notes=(*notes, *table.notes))


def _check_size(path: Place, size: int) -> None:
    if size > MOST_BYTES:
        raise DataError(
            f"{path.name} has {size / 1e9:.1f} GB and is read as a whole, which takes several "
            f"times as much memory: give at most {MOST_BYTES / 1e9:.1f} GB of it."
        )


def _content(path: Place) -> bytes:
    """A file's bytes, unpacked where it is a .gz."""
    content = content_of(path)
    if path.name.lower().endswith(".gz"):
        # One byte more than is allowed tells a larger file without unpacking all of it.
        try:
            with gzip.open(BytesIO(content)) as file:
                content = file.read(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path.name} cannot be unpacked ({error}): pack it again.") from error
        _check_size(path, len(content))
    return content


def _class_folders(folder: Place, encoding: str) -> Table:
    """A text a file, its label the name of its folder; in "unsup" nobody has labelled them."""
    rows: list[tuple[str, Any]] = []
    notes: list[str] = []
    for place in (child for child in children(folder) if child.is_dir()):
        label = None if place.name.startswith("unsup") else place.name
        for path in (child for child in children(place) if child.name.endswith(".txt")):
            text, said = text_of(path, content_of(path), encoding)
            notes += said
            rows.append((f"{place.name}/{path.name}", {"text": text.strip(), "label": label}))
    return replace(objects_table(folder, rows, "file"), notes=tuple(notes[:3]))


MAGIC = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x1f\x8b": "packed by gzip (.gz is its ending)",
    b"SQLite": "an SQLite database",
    b"PAR1": "Parquet",
}


def text_of(
    path: Place, content: bytes, encoding: str, above: int = 0
) -> tuple[str, tuple[str, ...]]:
    """A file's text, and a note where its encoding was found to be another than UTF-8.

    `above` lines of the file stand before the content.
    """
    for magic, what in MAGIC.items():
        if content.startswith(magic):
            raise DataError(f"{path.name} is {what}: save its rows as CSV, JSON lines or Parquet.")
    if encoding:
        return _decoded(path, content, encoding, above), ()
    note = f"{path.name} is read as {{}}, for it is not UTF-8 (--encoding names another)"
    # The byte order marks of UTF-16, which Excel's "Unicode text" begins with.
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _decoded(path, content, "utf-16"), (note.format("utf-16"),)
    # A zero byte is UTF-8 too, and UTF-16 without its mark has one beside every letter.
    if b"\0" in content:
        line = above + content.count(b"\n", 0, content.index(b"\0")) + 1
        raise DataError(f"{path.name} line {line} holds a zero byte: it is not text.")
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        return _western(path, content, error.start, above), (note.format("cp1252"),)


def _western(path: Place, content: bytes, odd: int, above: int) -> str:
    """The text in Windows' western encoding, if it is letters there; `odd` is no UTF-8."""
    found = content.decode("cp1252", "replace")
    strange = [letter for letter in found if ord(letter) > 127]
    # cp1252 has nothing for five bytes (81, 8D, 8F, 90 and 9D). In western text most of what is
    # beyond ASCII are letters such as "é", and the rest quotes and dashes.
    if "\ufffd" in found or sum(map(str.isalpha, strange)) < 0.7 * len(strange):
        line = above + content.count(b"\n", 0, odd) + 1
        column = odd - content.rfind(b"\n", 0, odd)
        raise DataError(
            f"{path.name} line {line} column {column} is neither UTF-8 nor cp1252: say with "
            "--encoding what it is written in."
        )
    return found


def _decoded(path: Place, content: bytes, encoding: str, above: int = 0) -> str:
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeError as error:
        odd = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = above + content.count(b"\n", 0, odd) + 1
        raise DataError(
            f"{path.name} line {line} cannot be read as {encoding}: {error}."
        ) from error
    except LookupError as error:
        raise BenchError(
            f"--encoding is {encoding!r}, which is none that Python reads text in: give one such "
            "as latin-1 or utf-16."
        ) from error


def _text_kind(text: str) -> str:
    """What a file of no known ending holds: tables have tabs, CoNLL's columns empty lines too."""
    if text.lstrip().startswith(FASTTEXT):
        return "fasttext"
    lines = text[:20_000].splitlines()
    # The last line may be cut in the middle, and an empty line at an end parts no sentences.
    blank = sum(not line.strip() for line in lines[1:-1])
    widths = {len(line.split()) for line in lines[:-1] if line.strip()}
    return "conll" if blank and len(widths) == 1 and widths != {1} else "table"


# Tables with commas, semicolons, bars or tabs.

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


Lines = Sequence[tuple[int, Sequence[Any]]]
"""Rows of a table with the numbers of their lines."""


def _delimited(path: Place, text: str) -> Lines:
    delimiter, above = delimiter_of(path, text)
    rows = list(table_rows(path, text, delimiter))[above:]
    if rows:
        check_widths(path, rows, rows[0][1], delimiter)
    return rows


def delimiter_of(path: Place, text: str) -> tuple[str, int]:
    """What cuts the rows of a table, and how many rows at its top say so and are none."""
    said = re.match(r"sep=([,;|\t])\r?\n", text)  # Excel's way to name what cuts the rows
    if said:
        return said[1], 1  # it is read as a row, so that the lines below have their own numbers
    return "\t" if ending_of(path) in (".tsv", ".tab") else _delimiter(path, text), 0


def check_widths(path: Place, rows: Lines, header: Sequence[Any], delimiter: str) -> None:
    """DataError where a row has not as many fields as line 1."""
    for number, fields in rows:
        if len(fields) != len(header):
            raise DataError(
                f"{path.name} line {number} has {len(fields)} fields where line 1 has "
                f"{len(header)}: it is cut at {DELIMITERS[delimiter]}; quote texts that hold one."
            )


def _delimiter(path: Place, text: str) -> str:
    """What cuts the first rows evenly; else what the first line has most of, outside of quotes."""
    # What stands in quotes says nothing: "Rome, in winter" or "he said ""no, never""".
    bare = re.sub(r'"(?:[^"]|"")*"', "", text.partition("\n")[0])
    ranked = sorted(DELIMITERS, key=bare.count, reverse=True)

    def is_even(delimiter: str) -> bool:
        try:
            widths = {len(row) for _, row in islice(table_rows(path, text, delimiter), 200)}
        except DataError:
            return False
        return len(widths) == 1 and widths != {1}

    return next(filter(is_even, ranked), ranked[0])


def _of_lines(path: Place, rows: Lines, *, no_header: bool) -> Table:
    """Rows below the names of their columns, which are numbers from 1 where no row has them."""
    header: Sequence[Any] = rows[0][1] if rows else []
    if no_header:
        names = [str(number + 1) for number in range(len(header))]
        return replace(table_of_rows(path, names, rows), has_header=False)
    return table_of_rows(path, header, rows[1:])


def table_of_rows(path: Place, header: Sequence[Any], body: Lines) -> Table:
    """Rows as a table; DataError where two of its columns have one name."""
    doubled = [name for name, count in Counter(header).items() if count > 1]
    if doubled:
        raise DataError(
            f"{path.name} line 1 names the column {doubled[0]!r} twice: rename one, or say "
            "--no-header where line 1 is a row."
        )
    columns = {name: [fields[at] for _, fields in body] for at, name in enumerate(header)}
    ids = [str(number) for number, _ in body]
    return Table(name=path.name, columns=columns, ids=ids, has_header=True)


def table_rows(
    path: Place, text: str, delimiter: str, above: int = 0, *, is_quoted: bool | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its first line; rows of no fields are none.

    `above` lines of the file stand before the text; `is_quoted` says whether quotes in a file with
    tabs are its own, where that is known.
    """
    # No splitlines: a text may hold any other line break of Unicode, such as U+2028.
    lines = text.removesuffix("\n").split("\n")
    # With tabs a quote is mostly text: `csv` would take all lines up to the next one for a field.
    if delimiter == "\t" and not (has_quotes(lines) if is_quoted is None else is_quoted):
        for number, line in enumerate(lines, start=above + 1):
            if line.strip("\r"):
                yield number, line.removesuffix("\r").split("\t")
        return
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # a field may be a book
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    # A quoted field may hold line breaks: a row begins below the last line of the one before.
    before = 0
    try:
        for fields in reader:
            if fields:
                yield above + before + 1, fields
            before = reader.line_num
    except csv.Error as error:
        # An open quote runs on to the next one, some lines below, or to the end of the file.
        start = before + 1
        place = f"{path.name} line {above + start}"
        if "unexpected end" in str(error) or reader.line_num > start + 1:
            line = lines[before] if before < len(lines) else ""
            column = _open_quote(line, delimiter)
            raise DataError(f"{place} column {column} opens a quote that is not closed.") from error
        raise DataError(
            f"{place} is not a row of a table ({error}): double the quotes in it."
        ) from error


def has_quotes(lines: Sequence[str]) -> bool:
    """Whether quotes in a file with tabs are its own: fields that begin with one end with one."""
    quoted = [f for line in lines for f in line.rstrip("\r").split("\t") if f.startswith('"')]
    whole = sum(len(f) > 1 and f.endswith('"') and f.count('"') % 2 == 0 for f in quoted)
    # Lines with more or fewer tabs than others are a sign of a quoted tab or line break.
    widths = {line.count("\t") for line in lines if line}
    return bool(quoted) and (whole == len(quoted) or len(widths) > 1)


def _open_quote(line: str, delimiter: str) -> int:
    """The column, from 1, of the last quote that begins a field."""
    places = [m.end() for m in re.finditer(rf'(?:^|{re.escape(delimiter)})"', line)]
    return places[-1] if places else 1


# JSON: an object a line, one list of objects, or SQuAD's articles.


def _json(path: Place, text: str) -> Table:
    lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    # People call JSON lines .json too: a first line that is an object tells them.
    is_lines = ending_of(path) != ".json" or (len(lines) > 1 and is_object(lines[0][1]))
    document = None if is_lines and not text.lstrip().startswith("[") else parsed(path, text)
    match document:
        case None:
            objects = [(str(n), parsed(path, line, n)) for n, line in lines]
            return objects_table(path, objects, "line")
        case list():
            return objects_table(path, [(str(n), row) for n, row in enumerate(document, 1)], "row")
        case {"data": list()}:
            return _squad(path, document)
        case dict() if document and all(isinstance(v, list) for v in document.values()):
            return _column_lists(path, document)
    raise DataError(
        f"{path.name} is JSON, but no rows: expected a list of objects, an object a line, or "
        "SQuAD's layout."
    )


def is_object(line: str) -> bool:
    """Whether a line is a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def parsed(path: Place, text: str, line: int = 1) -> Any:
    """What a JSON text of a file says that begins at that line; DataError where it is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path.name} line {line + error.lineno - 1} column {error.colno} is not JSON: "
            f"{error.msg}."
        ) from error
    except RecursionError as error:
        raise DataError(f"{path.name} line {line} is JSON that is nested too deep.") from error


def objects_table(path: Place, objects: Sequence[tuple[str, Any]], unit: str) -> Table:
    """Objects as rows; a column inside another one has a dotted name, and None is missing.

    Marked spans of a text are words and tags.
    """
    flat = []
    for number, found in label_studio_rows(path.name, objects):
        if not isinstance(found, dict):
            raise DataError(
                f"{path.name} {unit} {number} is a {type(found).__name__}: expected an object with "
                "a value for each column."
            )
        flat.append(_flat(found))
    names = dict.fromkeys(name for row in flat for name in row)
    columns: dict[str, list[Any]] = {}
    for name in names:
        columns |= _even(name, [row.get(name) for row in flat])
    table = Table(name=path.name, columns=columns, ids=[n for n, _ in objects], unit=unit)
    more, notes = words_of_spans(columns, table.place)
    return replace(table, columns=columns | more, notes=notes)


def _even(name: str, values: list[Any]) -> dict[str, list[Any]]:
    """A column as it is; several lists of objects with a text, and lists beside single texts."""
    known = [value for value in values if value is not None]
    if not any(isinstance(value, list) for value in known):
        return {name: values}
    # "Rome" beside ["Rome", "the capital"] is a list of one answer.
    if all(isinstance(value, str | list) for value in known):
        values = [[value] if isinstance(value, str) else value for value in values]
    inner = [each for value in known if isinstance(value, list) for each in value]
    if not (inner and all(isinstance(each, dict) and "text" in each for each in inner)):
        return {name: values}
    if any("start" in each for each in inner):  # marked spans
        return {name: values}
    # "answers" of [{"text": "Rome", "answer_start": 3}] becomes "answers.text" of ["Rome"] and
    # "answers.answer_start" of [3], as the hub's SQuAD has them.
    return {
        f"{name}.{key}": [None if v is None else [each.get(key) for each in v] for v in values]
        for key in dict.fromkeys(key for each in inner for key in each)
    }


def _flat(found: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict) and list(value) == ["choices"]:  # of Label Studio, where several
            row[str(name)] = value["choices"]
        elif isinstance(value, dict):
            row |= {f"{name}.{inner}": each for inner, each in _flat(value).items()}
        else:
            row[str(name)] = value
    return row


def _column_lists(path: Place, document: Mapping[str, Sequence[Any]]) -> Table:
    lengths = {len(values) for values in document.values()}
    if len(lengths) != 1:
        raise DataError(f"{path.name} has columns of {min(lengths)} to {max(lengths)} rows.")
    ids = [str(number) for number in range(1, lengths.pop() + 1)]
    return Table(name=path.name, columns=dict(document), ids=ids, unit="row")


def _squad(path: Place, document: Mapping[str, Any]) -> Table:
    """SQuAD's articles, of version 1.1 or 2.0."""
    records = [record.fields for record, _ in squad_questions(document, path.name)]
    names = ("context", "question", "answers.text", "answers.answer_start")
    rows = [(str(row["id"]), {name: row[name] for name in names}) for row in records]
    return objects_table(path, rows, "question")


# CoNLL's columns, which are numbered from 1: a word a line, an empty line after a sentence.


CONLLU, NO_WORD = 10, re.compile(r"\d+[-.]\d+")
"""The columns of CoNLL-U: the word is the second, its part of speech the fourth."""


def _conll(path: Place, text: str) -> Table:
    rows: list[tuple[str, Any]] = []
    width = 0
    # CoNLL-U's comments, "# text = She left.", become empty lines, so that the numbers of lines
    # stay. A hash alone may be a word.
    for found in sentences_of("" if x.startswith("# ") else x for x in text.split("\n")):
        # CoNLL-U has contractions, whose words follow, and words that are not there.
        words = [
            w for w in found if len(w.columns) != CONLLU or not NO_WORD.fullmatch(w.columns[0])
        ]
        if not words or words[0].columns[0] == DOCUMENT:
            continue
        for number, fields in words:
            width = width or len(fields)
            if len(fields) != width or width == 1:
                expected = f"{width}, as in the lines before" if width > 1 else "a word and its tag"
                raise DataError(
                    f"{path.name} line {number} has {len(fields)} field"
                    f"{'' if len(fields) == 1 else 's'}: expected {expected}."
                )
        columns = {str(at + 1): [fields[at] for _, fields in words] for at in range(width)}
        rows.append((str(words[0].line), columns))
    return objects_table(path, rows, "line")


# fastText: the labels of a line before its text.

FASTTEXT = "__label__"


def _fasttext(path: Place, text: str) -> Table:
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if words := line.split():
            labels = [word.removeprefix(FASTTEXT) for word in words if word.startswith(FASTTEXT)]
            plain = " ".join(word for word in words if not word.startswith(FASTTEXT))
            rows.append((str(number), {"text": plain, "label": labels}))
    return objects_table(path, rows, "line")


READERS: Mapping[str, Callable[[Place, str], Table | Lines]] = {
    "table": _delimited,
    "json": _json,
    "conll": _conll,
    "fasttext": _fasttext,
}


# Parquet, workbooks, and rows of the hub.


@contextmanager
def reading_parquet(path: Place) -> Iterator[Any]:
    """The module that reads a file of Parquet; DataError where that is not whole."""
    from pyarrow import ArrowException, parquet  # noqa: PLC0415  (half a second)

    try:
        yield parquet
    except (OSError, ValueError, ArrowException) as error:
        raise DataError(f"{path.name} is not whole Parquet: write it again.") from error


def _parquet(path: Place, content: bytes) -> Table:
    with reading_parquet(path) as parquet:
        rows = parquet.read_table(BytesIO(content)).to_pylist()
    if not rows:
        raise DataError(f"{path.name} has no rows.")
    return objects_table(path, [(str(n), row) for n, row in enumerate(rows, start=1)], "row")


def _workbook(path: Place, content: bytes) -> Lines:
    """The rows of the one sheet that has any, cells as text or numbers."""
    try:
        from openpyxl import load_workbook  # noqa: PLC0415  (an extra)
    except ImportError:
        raise DataError(
            f"{path.name} is an Excel workbook, which takes openpyxl: pip install "
            "'benchharness[xlsx]', or save the sheet as CSV."
        ) from None
    try:
        book = load_workbook(BytesIO(content), read_only=True, data_only=True)
        sheets = {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in book.worksheets}
    except Exception as error:  # whatever its parsers of zip and XML raise
        raise DataError(f"{path.name} is no whole workbook: save the sheet as CSV.") from error
    held = {title: rows for title, rows in sheets.items() if any(map(any, rows))}
    if len(held) > 1:
        raise DataError(f"{path.name} has the sheets {', '.join(held)}: save one of them as CSV.")
    numbered = [
        (n, list(map(_cell, row))) for rows in held.values() for n, row in enumerate(rows, 1)
    ]
    # Cells to the right that only have a format are there too, and empty.
    width = max((at for _, row in numbered for at, v in enumerate(row, 1) if v != ""), default=0)
    return [(n, row[:width]) for n, row in numbered if any(value != "" for value in row)]


def _cell(value: Any) -> Any:
    return "" if value is None else value if isinstance(value, int | float) else str(value)


BINARY: Mapping[str, Callable[[Place, bytes], Table | Lines]] = {
    "parquet": _parquet,
    "workbook": _workbook,
}


def hub_table(name: str, dataset: Any) -> Table:
    """The rows of a data set of the hub, class labels as names, -1 as a missing one."""
    flat = dataset.flatten()
    columns = {}
    for column in flat.column_names:
        feature = flat.features[column]
        names = getattr(getattr(feature, "feature", feature), "names", None)
        values = flat[column][:]
        columns[column] = [_named(value, names) for value in values] if names else values
    ids = [str(number) for number in range(1, len(flat) + 1)]
    return Table(name=name, columns=columns, ids=ids, unit="row")


def _named(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        found = [_named(each, names) for each in value]
        return None if None in found else found
    return None if value is None or value < 0 else names[value]
