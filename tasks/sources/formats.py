"""Read official files in the formats in which they were released, with one reader per format.

Byte order marks, and carriage returns before line feeds, are removed.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from types import MappingProxyType
from typing import Any, NamedTuple

from benchharness.errors import DataError, first_line
from benchharness.tasks.sources.source import Column, Format, Place, Row, Source, Split


class OfficialFiles(NamedTuple):
    """Official files of one split.

    Attributes:
        source: Source of the task's rows.
        split: Description of the split.
        paths: Paths of the files. In most formats, a split has only one file.
    """

    source: Source
    split: Split
    paths: tuple[Place, ...]


class Record(NamedTuple):
    """Row of an official file, before its label is converted to a name.

    Attributes:
        place: Location of the row (file and line) for error messages.
        fields: Values of the row, keyed by the name of the column.
    """

    place: str
    fields: Mapping[str, object]


# Files are UTF-8 text; a byte order mark at the beginning is skipped. Lines end at a line feed.


FILE = "file"
"""Name of the column that is added if a split consists of several files or configs.

It contains the name of the file from which the row was read (without its extension), or the name of
the config.
"""


def content_of(path: Place) -> bytes:
    """Return the content of a file as bytes; raise DataError if the file cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_text(path: Place) -> str:
    """Return the text of a UTF-8 file; a byte order mark at its beginning is skipped.

    Raises:
        DataError: If the file cannot be read, or if it is not UTF-8.
    """
    content = content_of(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path} line {line} is not UTF-8 text: get the official file.") from error


def read_lines(path: Place) -> list[str]:
    """Return the lines of a file without line breaks (LF or CR LF).

    Only a line feed ends a line, because sentences may contain other line breaks of Unicode.
    """
    text = read_text(path)
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


# Tables are tab-separated (GLUE), where quotes are part of the text, or CSV files (SWAG). In both,
# "NA" and "null" are ordinary texts.

Line = tuple[int, list[str]]
"""Line of a table: its number, counted from 1, and its fields."""


def tsv_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the rows of a tab-separated file, which has one row per line."""
    lines = enumerate(read_lines(files.paths[0]), start=1)
    return _records(files, [(n, line.split("\t")) for n, line in lines])


def csv_records(files: OfficialFiles, delimiter: str = ",") -> Iterator[Record]:
    """Read the rows of a CSV file, in which quoted fields may contain line breaks.

    Args:
        files: Files of the split; only the first one is read.
        delimiter: Character between two fields.
    """
    path = files.paths[0]
    # newline="" keeps line breaks within quotes unchanged. A row with several lines gets the number
    # of its last line.
    reader = csv.reader(StringIO(read_text(path), newline=""), strict=True, delimiter=delimiter)
    try:
        table = [(reader.line_num, fields) for fields in reader]
    except csv.Error as error:
        raise DataError(
            f"{path} line {reader.line_num} is not CSV ({error}): get the official file."
        ) from error
    return _records(files, table)


def _records(files: OfficialFiles, table: Sequence[Line]) -> Iterator[Record]:
    """Yield the rows of a table.

    Raises DataError if a line has another number of fields than the first line.
    """
    source, split, (path, *_) = files
    # All lines are checked before any row is read, because QQP's first release has broken lines
    # with shifted columns.
    for number, fields in table:
        if len(fields) != len(table[0][1]):
            raise DataError(
                f"{path} line {number} has {len(fields)} fields, but the first line has "
                f"{len(table[0][1])}: the file is damaged or is an old release. Get the official "
                "file."
            )
    columns = source.columns if split.columns is None else split.columns
    # CoLA's training file has no header, and its columns are indices: {"sentence": 3, "label": 1}.
    has_header = not all(isinstance(column, int) for column in columns.values())
    header = table[0][1] if has_header and table else None
    where = _positions(path, columns, header, source.may_lack(split))
    for number, fields in table[has_header:]:
        place = f"{path} line {number}"
        row: dict[str, object] = {}
        for name, position in where.items():
            if position is not None and position >= len(fields):
                raise DataError(
                    f"{place} has only {len(fields)} fields, so it has no value for the {name}."
                )
            row[name] = None if position is None else fields[position]
        yield Record(place, row)


def _positions(
    path: Place, columns: Mapping[str, Column], header: list[str] | None, optional: tuple[str, ...]
) -> dict[str, int | None]:
    """Return the index of each column in a line; None for an optional column that is missing.

    Raises DataError if a required column is missing.
    """
    where: dict[str, int | None] = {}
    for name, column in columns.items():
        known = header or []
        names = column if isinstance(column, tuple) else (column,)
        # Releases have different names for the same column; the first name that exists is used.
        places = [
            n if isinstance(n, int) else known.index(n)
            for n in names
            if isinstance(n, int) or n in known
        ]
        where[name] = next(iter(places), None)
        if not places and name not in optional:
            found = ", ".join(header) if header else "an empty file"
            raise DataError(
                f"{path} line 1 has no column for the {name}: expected {_shown(column)}, found "
                f"{found}."
            )
    return where


def parse_object(text: str, place: str) -> dict[str, Any]:
    """Parse a text as a JSON object.

    Args:
        text: Text to parse.
        place: Location of the text (file and line) for error messages.

    Raises:
        DataError: If the text is not a JSON object.
    """
    found: dict[str, Any] = parse_json(text, place, dict, "an object")
    return found


def parse_json(text: str, place: str, kind: type, noun: str) -> Any:
    """Parse a text as a JSON value of a given type.

    Args:
        text: Text to parse.
        place: Location of the text (file and line) for error messages.
        kind: Expected type of the value, e.g. `list`.
        noun: Noun for the expected type in the error message, e.g. "a list".

    Raises:
        DataError: If the text is not JSON, or if the value has another type.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON ({error}): get the official file.") from error
    if not isinstance(found, kind):
        raise DataError(f"{place} is JSON, but not {noun}: found {type(found).__name__}.")
    return found


def value(document: Any, key: str, place: str) -> Any:
    """Return `document[key]` of a parsed JSON object.

    Args:
        document: The parsed JSON.
        key: Key of the value.
        place: Location of the document (file and line) for error messages.

    Raises:
        DataError: If the document is not an object, or does not have the key.
    """
    if not isinstance(document, dict) or key not in document:
        found = ", ".join(document) if isinstance(document, dict) else type(document).__name__
        raise DataError(f"{place} has no {key!r}: found {found or 'an empty object'}.")
    return document[key]


def items(document: Any, key: str, place: str) -> list[Any]:
    """Return the list `document[key]` of a parsed JSON object.

    Args:
        document: The parsed JSON.
        key: Key of the list.
        place: Location of the document (file and line) for error messages.

    Raises:
        DataError: If the document is not an object, or if the value is missing or not a list.
    """
    found = value(document, key, place)
    if not isinstance(found, list):
        raise DataError(f"{place} has no list {key!r}: found {type(found).__name__}.")
    return found


def parallel_lists(
    found: Sequence[Any], place: str, keys: Mapping[str, str]
) -> dict[str, list[Any]]:
    """Convert a list of JSON objects to one list of values per column.

    Args:
        found: Objects to convert.
        place: Location of the objects (file and line) for error messages.
        keys: Mapping from the name of each column to the key of its values in the objects.

    Raises:
        DataError: If an object does not have one of the keys.
    """
    return {column: [value(each, key, place) for each in found] for column, key in keys.items()}


# SuperGLUE and SNLI are released as JSON lines. Each line has one object, which may contain several
# rows.


def jsonl_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the rows of files with one JSON object per line.

    The location of a column (`Source.columns`) is its key, or a dotted path into nested objects.
    """
    source, split, paths = files
    optional = source.may_lack(split)
    lines = ((path, *line) for path in paths for line in enumerate(read_lines(path), start=1))
    for path, number, line in lines:
        place = f"{path} line {number}"
        for part in _unfolded(source, parse_object(line, place), place):
            fields = {
                name: _find(part, column, name, place, optional=name in optional)
                for name, column in source.columns.items()
            }
            yield Record(place, fields)


def _unfolded(
    source: Source, document: Mapping[str, Any], place: str
) -> Iterable[Mapping[str, Any]]:
    if source.unfold is None:
        return (document,)
    try:
        return list(source.unfold(document))
    except (KeyError, TypeError, AttributeError) as error:
        reason = first_line(error)
        raise DataError(f"{place} is not laid out like the official file: {reason}.") from error


def _shown(column: Column) -> str:
    """Return the name or position of a column, or its names in several releases, for a message."""
    return " or ".join(map(repr, (column,) if isinstance(column, str | int) else column))


def _find(
    document: Mapping[str, Any], column: Column, name: str, place: str, *, optional: bool
) -> object:
    for path in (column,) if isinstance(column, str | int) else column:
        found: object = document
        # "idx.paragraph" is the 7 in {"idx": {"paragraph": 7}}. The next name is tried only if a
        # key is absent; null is a value.
        for key in str(path).split("."):
            found = found.get(key, _ABSENT) if isinstance(found, Mapping) else _ABSENT
        if found is not _ABSENT:
            return found
    if optional:
        return None
    raise DataError(
        f"{place} has no value for the {name}: expected {_shown(column)}, found "
        f"{', '.join(document)}."
    )


_ABSENT = object()


# In SQuAD's JSON, articles contain paragraphs, and paragraphs contain questions. A row is a
# question.


def squad_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the questions of a file in SQuAD's JSON format.

    The columns `answers.text` and `answers.answer_start` contain lists, with one item per answer.

    Raises:
        DataError: If the file is malformed, or if it belongs to another version of SQuAD than
            `Source.no_answer` requires.
    """
    source, _, (path, *_) = files
    document = parse_object(read_text(path), str(path))
    marks = set[bool | None]()
    has_titles = "title" not in source.optional
    for record, mark in squad_questions(document, str(path), has_titles=has_titles):
        marks.add(mark)
        yield record
    # Every question of version 2.0 has is_impossible. In version 1.1 no question has it, so the
    # set of marks is {None}.
    if source.no_answer is True and marks == {None}:
        raise DataError(
            f"{path} contains SQuAD 1.1: every question has an answer, and the field is_impossible "
            "is missing. Get the official file of SQuAD 2.0, or use --task squad/v1.1."
        )
    if source.no_answer is False and True in marks:
        raise DataError(
            f"{path} contains SQuAD 2.0: some questions have no answer. Get the "
            "official file of SQuAD 1.1, or use --task squad/v2.0."
        )


def squad_questions(
    document: Mapping[str, Any], name: str, *, has_titles: bool = True
) -> Iterator[tuple[Record, bool | None]]:
    """Yield the questions in a SQuAD file, each with its value of `is_impossible`.

    The value is true if the question cannot be answered, and false if it can. If the file does not
    give the value, as in version 1.1, it is true for a question without answers, and None for
    others.

    Args:
        document: Parsed content of the file.
        name: Name of the file for error messages.
        has_titles: False if articles need not have titles; the column `title` is then empty.

    Raises:
        DataError: If the file does not have the structure of SQuAD's files.
    """
    for number, article in enumerate(items(document, "data", name)):
        place = f"{name} article {number}"
        title = value(article, "title", place) if has_titles else ""
        for position, paragraph in enumerate(items(article, "paragraphs", place)):
            yield from _questions(paragraph, title, f"{place} paragraph {position}")


def _questions(paragraph: Any, title: str, place: str) -> Iterator[tuple[Record, bool | None]]:
    """Yield the questions about a paragraph, with `is_impossible` marks as in `squad_questions`."""
    context = value(paragraph, "context", place)
    for question in items(paragraph, "qas", place):
        name = value(question, "id", place)
        where = f"{place} question {name}"
        answers = items(question, "answers", where)
        fields = {
            "id": name,
            "title": title,
            "context": context,
            "question": value(question, "question", where),
            **parallel_lists(
                answers, where, {"answers.text": "text", "answers.answer_start": "answer_start"}
            ),
        }
        # A question without answers counts as impossible even if the file does not mark it.
        mark = question.get("is_impossible", None if answers else True)
        yield Record(where, fields), mark if mark is None else bool(mark)


# RACE has folders with one JSON file per passage. Each file has parallel lists of questions,
# options and answers.


def race_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the questions of RACE, from one JSON file per passage.

    The column `example_id` contains the name of the passage, e.g. "high12.txt".
    """
    for path in files.paths:
        place = str(path)
        passage = parse_object(read_text(path), place)
        article = value(passage, "article", place)
        questions = items(passage, "questions", place)
        options, answers = items(passage, "options", place), items(passage, "answers", place)
        if not len(questions) == len(options) == len(answers):
            raise DataError(
                f"{place} has {len(questions)} questions, {len(options)} lists of options and "
                f"{len(answers)} answers; expected the same number of each."
            )
        for number, question in enumerate(questions):
            fields = {
                # The file "high/12.txt" has the id "high12.txt" on the hub.
                "example_id": f"{path.parent.name}{path.name}".lower(),
                "article": article,
                "question": question,
                "options": options[number],
                "answer": answers[number],
            }
            yield Record(f"{place} question {number}", fields)


# A file in CoNLL format has one word per line with its tags, and an empty line after each sentence.

DOCUMENT = "-DOCSTART-"
"""First column of a line that begins a document."""


class Word(NamedTuple):
    """Line of a file in CoNLL format, which describes one word.

    Attributes:
        line: Number of the line, counted from 1.
        columns: Columns of the line. In CoNLL-2003, the first one is the word, and the last one is
            its entity tag.
    """

    line: int
    columns: list[str]


def fields_of(line: str) -> list[str]:
    """Split a line of a file in CoNLL format into columns, at tabs if it has any, else at spaces.

    In a line with tabs, a space inside of a column is part of the column. Unicode white space other
    than tabs and spaces never separates columns.
    """
    line = line.strip(" \r\f\v")
    if "\t" in line:
        return [field.strip(" ") for field in line.split("\t")] if line.strip("\t ") else []
    return [field for field in line.split(" ") if field]


def sentences_of(lines: Iterable[str], separator: str | None = None) -> Iterator[list[Word]]:
    """Yield the words of each sentence in a file in CoNLL format.

    An empty line ends a sentence. The line -DOCSTART-, which begins a document, is yielded as a
    sentence with a single word.

    Args:
        lines: Lines of a file.
        separator: Separator of columns; None to split lines at tabs or spaces (`fields_of`).
    """
    sentence: list[Word] = []
    # The additional empty line ends the last sentence.
    for number, line in enumerate([*lines, ""], start=1):
        columns = fields_of(line) if separator is None else line.split(separator) if line else []
        if columns and columns[0] != DOCUMENT:
            sentence.append(Word(number, columns))
            continue
        if sentence:
            yield sentence
            sentence = []
        if columns:
            yield [Word(number, columns)]


def conll_records(files: OfficialFiles) -> Iterator[Record]:
    """Read the sentences of a file in the format of CoNLL-2003.

    The first column of a line is the word, and the last is its entity tag. The column `document` of
    a row is the number of -DOCSTART- lines before the sentence.
    """
    source, path, document = files.source, files.paths[0], 0
    for sentence in sentences_of(read_lines(path)):
        if sentence[0].columns[0] == DOCUMENT:
            document += 1
            continue
        # Only the first and the last column are read, e.g. "EU" and "I-ORG" of "EU NNP I-NP I-ORG".
        for number, columns in sentence:
            place, tag = f"{path} line {number}", columns[-1]
            if len(columns) == 1:
                raise DataError(f"{place} has the word {tag!r} but no tag.")
            if tag not in source.label_names:
                expected = ", ".join(source.label_names)
                raise DataError(f"{place} has the tag {tag!r}; expected one of {expected}.")
        words, tags = [w.columns[0] for w in sentence], [w.columns[-1] for w in sentence]
        fields = {"tokens": words, source.label: tags, "document": document}
        yield Record(f"{path} line {sentence[0].line}", fields)


# Records are converted to rows, in which labels are names.

Reader = Callable[[OfficialFiles], Iterable[Record]]

READERS: Mapping[Format, Reader] = MappingProxyType(
    {
        "tsv": tsv_records,
        "csv": csv_records,
        "jsonl": jsonl_records,
        "squad": squad_records,
        "race": race_records,
        "conll": conll_records,
    }
)
"""Functions that read the official files of a split, keyed by the format of the files."""


def file_rows(files: OfficialFiles) -> list[Row]:
    """Read the rows of a split from its official files; raise DataError if a file is malformed."""
    records = (files.source.read_records or READERS[files.source.format])(files)
    return [_row(files.source, files.split, record) for record in records]


def _row(source: Source, split: Split, record: Record) -> Row:
    if source.label not in source.columns:
        return record.fields
    if split.hidden:
        return {**record.fields, source.label: None}
    return {**record.fields, source.label: _label(source, split, record)}


def _label(source: Source, split: Split, record: Record) -> object:
    """Return the label of a record: a name, or a number if the source has no label names.

    Returns None if the label is missing or marked as unlabelled. A list of labels is returned
    unchanged, because it already consists of names. Raises DataError if the label is unknown.
    """
    value = record.fields[source.label]
    may_lack = source.label in source.may_lack(split)
    if (value is None and may_lack) or (value is not None and value == source.unlabelled):
        return None
    if isinstance(value, list):
        return value
    if not source.label_names:
        try:
            return float(str(value))
        except ValueError:
            raise DataError(f"{record.place} has the label {value!r}; expected a number.") from None
    # "1" in CoLA's file means "acceptable"; MNLI's files contain the names themselves.
    name = source.label_texts.get(str(value), str(value))
    if name not in source.label_names:
        expected = ", ".join(source.label_texts or source.label_names)
        raise DataError(f"{record.place} has the label {value!r}; expected one of {expected}.")
    return name
