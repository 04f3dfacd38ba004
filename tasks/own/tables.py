"""Files of rows as people have them, read into tables whose every row knows its place.

The layout is told by a file's ending and its content alone, so that whoever reads the file again
reads the same. Texts stay as they are written: "NA" and "null" are text.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.sources.formats import DOCUMENT, OfficialFiles, content_of, squad_records
from benchharness.tasks.sources.source import Source, Split

MOST_BYTES = 2 * 2**30
"""A file is read as a whole, and takes several times its size in memory."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows by column, and the place of each as errors name it ("reviews.csv line 7").

    `ids` tell rows apart within the file: the number of a line, of a row or of a question.
    """

    name: str
    columns: Mapping[str, Sequence[Any]]
    ids: Sequence[str]
    unit: str = "line"
    has_header: bool = False
    encoding: str = ""

    def place(self, row: int) -> str:
        """Where a row stands."""
        return f"{self.name} {self.unit} {self.ids[row]}"


# Which file is which split.

SPLIT_NAMES = {
    "train": {"train", "training"},
    "dev": {"dev", "devel", "development", "valid", "val", "validation", "testa"},
    "test": {"test", "testing", "testb"},
}

ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".tab"), "table"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "json"),
    **dict.fromkeys((".conll", ".iob", ".iob2", ".bio", ".conllu"), "conll"),
    ".parquet": "parquet",
    ".txt": "text",
}


def split_of(name: str) -> str:
    """The split that a file's name says, empty where it says none."""
    words = set(re.findall("[a-z]+", name.lower()))
    found = [split for split, names in SPLIT_NAMES.items() if words & names]
    return found[0] if len(found) == 1 else ""


def split_files(place: Path) -> dict[str, list[Path]]:
    """The files of each split of a folder; of one file "all".

    Parts of one file, which differ in their digits alone, are read one after the other.
    """
    if place.is_file():
        return {"all": [place]}
    rows = [path for path in _children(place) if path.is_file() and _kind(path)]
    found: dict[str, list[Path]] = {}
    for path in rows:
        if split := split_of(path.name):
            found.setdefault(split, []).append(path)
    for split, files in found.items():
        if len({re.sub(r"\d", "", path.name) for path in files}) > 1:
            both = " and ".join(path.name for path in files[:2])
            raise DataError(f"{place} has {both}, which are both {split}: leave one of them there.")
    if "train" in found:
        return {split: found[split] for split in SPLIT_NAMES if split in found}
    if not found and len(rows) == 1:
        return {"all": rows}
    held = ", ".join(path.name for path in rows[:4]) or "no file of rows"
    raise DataError(
        f"{place} has no train file (it holds {held}): call it train.csv, and the others dev and "
        "test, or name one file."
    )


def _children(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DataError(f"the data file {str(folder)!r} does not exist: give a file or a folder.")
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"{folder} cannot be read: {error.strerror or error}.") from error


def _kind(path: Path) -> str:
    ending = path.suffix.lower()
    is_named = ending.lstrip(".") in {name for names in SPLIT_NAMES.values() for name in names}
    return ENDINGS.get(ending, "text" if is_named else "")


# Reading a file.


def read_table(files: Sequence[Path], encoding: str = "") -> Table:
    """The rows of a file, or of its parts one after the other.

    `encoding` is what it is written in, where that cannot be told. Raises DataError, with line and
    column, where it is not what it seems to be.
    """
    tables = [_read(path, encoding, *_stamp(path)) for path in files]
    if len(tables) == 1:
        return tables[0]
    first = tables[0]
    for table in tables[1:]:
        if list(table.columns) != list(first.columns):
            raise DataError(f"{table.name} has other columns than {first.name}.")
    return Table(
        name=files[0].parent.name,
        columns={name: [v for t in tables for v in t.columns[name]] for name in first.columns},
        ids=[f"{n}:{each}" for n, t in enumerate(tables) for each in t.ids],
        unit=first.unit,
        encoding=first.encoding,
    )


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    return found.st_size, found.st_mtime_ns


@lru_cache(maxsize=4)
def _read(path: Path, encoding: str, size: int, _changed: int) -> Table:
    """A run looks at the same file for its columns, and for each of its splits."""
    if size == 0:
        raise DataError(f"{path.name} is empty: expected rows.")
    if size > MOST_BYTES:
        raise DataError(
            f"{path.name} has {size / 1e9:.1f} GB and is read as a whole, which takes several "
            f"times as much memory: give at most {MOST_BYTES / 1e9:.1f} GB of it."
        )
    kind = _kind(path)
    if not kind:
        raise DataError(
            f"{path.name} has an ending that no reader knows: expected {', '.join(ENDINGS)}."
        )
    if kind == "parquet":
        return _parquet(path)
    text, used = _text(path, encoding)
    reader = READERS[_text_kind(text) if kind == "text" else kind]
    table = reader(path, text)
    if not table.ids:
        raise DataError(f"{path.name} has no rows below line 1.")
    return replace(table, encoding=used)


MAGIC = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x1f\x8b": "packed by gzip",
    b"SQLite": "an SQLite database",
    b"PAR1": "Parquet",
}


def _text(path: Path, encoding: str) -> tuple[str, str]:
    """A file's text, and its encoding where that was found to be another than UTF-8."""
    content = content_of(path)
    for magic, what in MAGIC.items():
        if content.startswith(magic):
            raise DataError(f"{path.name} is {what}: save its rows as CSV, JSON lines or Parquet.")
    if encoding:
        return _decoded(path, content, encoding), ""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _decoded(path, content, "utf-16"), "utf-16"
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise DataError(f"{path.name} line {line} holds a zero byte: it is not text.")
    try:
        return content.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        return _western(path, content, error.start), "cp1252"


def _western(path: Path, content: bytes, odd: int) -> str:
    """The text in Windows' western encoding, if it is letters there; `odd` is no UTF-8."""
    found = content.decode("cp1252", "replace")
    strange = [letter for letter in found if ord(letter) > 127]
    if "\ufffd" in found or sum(map(str.isalpha, strange)) < 0.7 * len(strange):
        line = content.count(b"\n", 0, odd) + 1
        column = odd - content.rfind(b"\n", 0, odd)
        raise DataError(
            f"{path.name} line {line} column {column} is neither UTF-8 nor cp1252: say with "
            "--encoding what it is written in."
        )
    return found


def _decoded(path: Path, content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeError as error:
        raise DataError(f"{path.name} cannot be read as {encoding}: {error}.") from error
    except LookupError as error:
        raise BenchError(
            f"--encoding is {encoding!r}, which is none that Python reads text in: give one such "
            "as latin-1 or utf-16."
        ) from error


def _text_kind(text: str) -> str:
    """What a file of no known ending holds: tables have tabs, CoNLL's columns empty lines too."""
    lines = text[:20_000].splitlines()
    blank = sum(not line.strip() for line in lines[1:-1])
    widths = {len(line.split()) for line in lines[:-1] if line.strip()}
    return "conll" if blank and len(widths) == 1 and widths != {1} else "table"


# Tables with commas, semicolons, bars or tabs.

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def _delimited(path: Path, text: str) -> Table:
    first = text.partition("\n")[0]
    if path.suffix.lower() in (".tsv", ".tab"):
        delimiter = "\t"
    else:  # the one that the first line has most of, outside of quotes
        bare = re.sub(r'"(?:[^"]|"")*"', "", first)
        delimiter = max(DELIMITERS, key=bare.count)
    rows = list(_table_rows(path, text, delimiter))
    (_, header), *body = rows or [(1, [])]
    doubled = [name for name, count in Counter(header).items() if count > 1]
    if doubled:
        raise DataError(f"{path.name} line 1 names the column {doubled[0]!r} twice.")
    for number, fields in body:
        if len(fields) != len(header):
            raise DataError(
                f"{path.name} line {number} has {len(fields)} fields where line 1 has "
                f"{len(header)}: it is cut at {DELIMITERS[delimiter]}; quote texts that hold one."
            )
    columns = {name: [fields[at] for _, fields in body] for at, name in enumerate(header)}
    ids = [str(number) for number, _ in body]
    return Table(name=path.name, columns=columns, ids=ids, has_header=True)


def _table_rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its first line; rows of no fields are none."""
    lines = text.removesuffix("\n").split("\n")
    if delimiter == "\t" and not _is_quoted(lines):
        for number, line in enumerate(lines, start=1):
            if line.strip("\r"):
                yield number, line.removesuffix("\r").split("\t")
        return
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # a field may be a book
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    before = 0
    try:
        for fields in reader:
            if fields:
                yield before + 1, fields
            before = reader.line_num
    except csv.Error as error:
        start = before + 1
        if "unexpected end" in str(error) or reader.line_num > start + 1:
            line = lines[before] if before < len(lines) else ""
            column = _open_quote(line, delimiter)
            raise DataError(
                f"{path.name} line {start} column {column} opens a quote that is not closed."
            ) from error
        raise DataError(
            f"{path.name} line {start} is not a row of a table ({error}): double the quotes in it."
        ) from error


def _is_quoted(lines: Sequence[str]) -> bool:
    """Whether quotes in a file with tabs are its own: fields that begin with one end with one."""
    quoted = [f for line in lines for f in line.rstrip("\r").split("\t") if f.startswith('"')]
    whole = sum(len(f) > 1 and f.endswith('"') and f.count('"') % 2 == 0 for f in quoted)
    widths = {line.count("\t") for line in lines if line}
    return bool(quoted) and (whole == len(quoted) or len(widths) > 1)


def _open_quote(line: str, delimiter: str) -> int:
    """The column, from 1, of the last quote that begins a field."""
    places = [m.end() for m in re.finditer(rf'(?:^|{re.escape(delimiter)})"', line)]
    return places[-1] if places else 1


# JSON: an object a line, one list of objects, or SQuAD's articles.


def _json(path: Path, text: str) -> Table:
    lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    is_lines = path.suffix.lower() != ".json" or (len(lines) > 1 and _is_object(lines[0][1]))
    document = None if is_lines and not text.lstrip().startswith("[") else _parsed(path, text)
    match document:
        case None:
            objects = [(str(n), _parsed(path, line, n)) for n, line in lines]
            return _objects(path, objects, "line")
        case list():
            return _objects(path, [(str(n), row) for n, row in enumerate(document, 1)], "row")
        case {"data": list()}:
            return _squad(path)
        case dict() if document and all(isinstance(v, list) for v in document.values()):
            return _column_lists(path, document)
    raise DataError(
        f"{path.name} is JSON, but no rows: expected a list of objects, an object a line, or "
        "SQuAD's layout."
    )


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _parsed(path: Path, text: str, line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path.name} line {line + error.lineno - 1} column {error.colno} is not JSON: "
            f"{error.msg}."
        ) from error
    except RecursionError as error:
        raise DataError(f"{path.name} line {line} is JSON that is nested too deep.") from error


def _objects(path: Path, objects: Sequence[tuple[str, Any]], unit: str) -> Table:
    """Objects as rows; a column inside another one has a dotted name, and None is missing."""
    flat = []
    for number, found in objects:
        if not isinstance(found, dict):
            raise DataError(
                f"{path.name} {unit} {number} is a {type(found).__name__}: expected an object with "
                "a value for each column."
            )
        flat.append(_flat(found))
    names = dict.fromkeys(name for row in flat for name in row)
    columns = {name: [row.get(name) for row in flat] for name in names}
    return Table(name=path.name, columns=columns, ids=[n for n, _ in objects], unit=unit)


def _flat(found: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            row |= {f"{name}.{inner}": each for inner, each in _flat(value).items()}
        else:
            row[str(name)] = value
    return row


def _column_lists(path: Path, document: Mapping[str, Sequence[Any]]) -> Table:
    lengths = {len(values) for values in document.values()}
    if len(lengths) != 1:
        raise DataError(f"{path.name} has columns of {min(lengths)} to {max(lengths)} rows.")
    ids = [str(number) for number in range(1, lengths.pop() + 1)]
    return Table(name=path.name, columns=dict(document), ids=ids, unit="row")


def _squad(path: Path) -> Table:
    """SQuAD's articles, of version 1.1 or 2.0."""
    source = Source(hub="", config="", revision="", splits={})
    split = Split(hub="", files=())
    try:
        records = [r.fields for r in squad_records(OfficialFiles(source, split, (path,)))]
    except DataError as error:
        raise DataError(str(error).replace(str(path), path.name)) from error
    names = ("context", "question", "answers.text", "answers.answer_start")
    ids = [str(row["id"]) for row in records]
    columns = {name: [row[name] for row in records] for name in names}
    return Table(name=path.name, columns=columns, ids=ids, unit="question")


# CoNLL's columns, which are numbered from 1: a word a line, an empty line after a sentence.


def _conll(path: Path, text: str) -> Table:
    sentences: list[list[list[str]]] = [[]]
    ids: list[str] = []
    width = 0
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split()
        if not fields or fields[0] == DOCUMENT or line.startswith("# "):
            if sentences[-1]:
                sentences.append([])
            continue
        width = width or len(fields)
        if len(fields) != width or width == 1:
            expected = f"{width}, as in the lines before" if width > 1 else "a word and its tag"
            raise DataError(
                f"{path.name} line {number} has {len(fields)} field"
                f"{'' if len(fields) == 1 else 's'}: expected {expected}."
            )
        if not sentences[-1]:
            ids.append(str(number))
        sentences[-1].append(fields)
    kept = [sentence for sentence in sentences if sentence]
    columns = {str(at + 1): [[word[at] for word in s] for s in kept] for at in range(width)}
    return Table(name=path.name, columns=columns, ids=ids)


READERS: Mapping[str, Callable[[Path, str], Table]] = {
    "table": _delimited,
    "json": _json,
    "conll": _conll,
}


# Parquet, and rows of the hub.


def _parquet(path: Path) -> Table:
    from pyarrow import ArrowException, parquet  # noqa: PLC0415  (half a second)

    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ArrowException) as error:
        raise DataError(f"{path.name} is not whole Parquet: write it again.") from error
    if not rows:
        raise DataError(f"{path.name} has no rows.")
    return _objects(path, [(str(n), row) for n, row in enumerate(rows, start=1)], "row")


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
