"""Read rows from JSON: one object per line, a list of objects, or an object that contains rows."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.custom_data.annotations import is_pair, tool_rows
from benchharness.extensions.custom_data.columns import Table
from benchharness.extensions.custom_data.inception import cas_rows
from benchharness.extensions.custom_data.places import ending_of, split_of
from benchharness.tasks.sources.formats import squad_questions
from benchharness.tasks.sources.source import Place


def read_json(path: Place, text: str) -> Table:
    """Read the rows of a JSON file into a table.

    Args:
        path: The file, for error messages.
        text: The text of the file.

    Raises:
        DataError: The text is not JSON, or has none of the layouts that can be read, or several
            lists may contain the rows.
    """
    lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    # The names of files with JSON lines often end in .json too. Their first line is then a complete
    # object.
    is_lines = ending_of(path) in (".jsonl", ".ndjson") or (
        len(lines) > 1 and is_object(lines[0][1])
    )
    if is_lines and not text.lstrip().startswith("["):
        return object_lines(path, text, lines)
    return _of_document(path, parsed(path, text))


def object_lines(path: Place, text: str, lines: Sequence[tuple[int, str]]) -> Table:
    """Read a row from each line, which is usually a JSON object.

    If the file was cut off within its last line, and this is line 3 or a later one, the line is
    left out, and a note reports it.

    Args:
        path: The file, for error messages.
        text: The text of the file, or of a part of it.
        lines: The number in the file and the text of each line that is not empty.

    Raises:
        DataError: A line is not JSON, or neither an object nor a row of a known annotation tool.
    """
    notes: tuple[str, ...] = ()
    if lines and lines[-1][0] > 2 and not text.endswith("\n") and _is_cut(lines[-1][1]):
        notes = (f"{path.name} is cut off within line {lines[-1][0]}, which is left out",)
        lines = lines[:-1]
    table = objects_table(path, [(str(n), parsed(path, line, n)) for n, line in lines], "line")
    return replace(table, notes=(*table.notes, *notes))


def _of_document(path: Place, document: Any) -> Table:
    match document:
        case list():
            return objects_table(path, _numbered(_named(document)), "row")
        case {"data": [{"paragraphs": _}, *_]}:
            return _squad(path, document)
        case {"%FEATURE_STRUCTURES": list()}:
            return cas_table(path, {path.name: document})
        case {
            "columns": [*names],
            "data": [[*_], *_] as rows,
        }:  # pandas writes it with orient="split"
            return objects_table(path, _numbered(_named(rows, [*map(str, names)])), "row")
        case {"features": [{"name": _, "type": _}, *_] as features, "rows": [{"row": _}, *_]}:
            return _of_viewer(path, features, document["rows"])
        case dict():
            return _of_object(path, document)
    raise _no_rows(path)


def cas_table(path: Place, documents: Mapping[str, Any]) -> Table:
    """Read the sentences of documents in UIMA CAS JSON, which INCEpTION exports.

    Args:
        path: The file or folder, for messages.
        documents: The parsed files, keyed by name.

    Raises:
        DataError: A file has no text.
    """
    rows, notes = cas_rows(path.name, documents)
    table = objects_table(path, rows, "sentence")
    return replace(table, notes=(*table.notes, *notes))


def _of_viewer(path: Place, features: Sequence[Any], rows: Sequence[Any]) -> Table:
    """Read a response of the hub's dataset viewer, with label numbers converted to names."""
    table = objects_table(path, _numbered([each["row"] for each in rows]), "row")
    names = {each["name"]: names_of(each["type"]) for each in features}
    columns = {
        name: [named(value, names[name] or ()) for value in values] if names.get(name) else values
        for name, values in table.columns.items()
    }
    return replace(table, columns=columns)


def names_of(feature: Any) -> Sequence[str] | None:
    """Return the label names of a column, or None if the column does not contain class labels.

    Args:
        feature: The type of the column, as the library `datasets` writes it to JSON. Label names
            exist if the type is ClassLabel or a list of ClassLabel. `datasets` writes a list as an
            object with "feature", or as a list of one feature.
    """
    inner = feature.get("feature", feature) if isinstance(feature, dict) else feature
    inner = inner[0] if isinstance(inner, list) and len(inner) == 1 else inner
    if not isinstance(inner, dict) or inner.get("_type") != "ClassLabel":
        return None
    names = inner.get("names")
    return names if isinstance(names, list) and all(isinstance(n, str) for n in names) else None


def named(value: Any, names: Sequence[str]) -> Any:
    """Convert a label number, or a list of label numbers, to names.

    None and negative numbers mean a missing label and give None. A list that contains such a value
    gives None as a whole. A number without a name is returned unchanged.

    Args:
        value: The label number or numbers.
        names: The names of the labels 0, 1, ...
    """
    if isinstance(value, list):
        found = [named(each, names) for each in value]
        return None if None in found else found
    return None if value is None or value < 0 else names[value] if value < len(names) else value


def _of_object(path: Place, document: Mapping[str, Any]) -> Table:
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    if splits := _splits(lists):
        rows = [
            (f"{name}:{number}", {**row, SPLIT: splits[name]} if isinstance(row, dict) else row)
            for name in splits
            for number, row in _numbered(_named(lists[name]))
        ]
        return objects_table(path, rows, "row")
    if document and len(lists) == len(document) and not _lists_of_objects(document):
        return _column_lists(path, document)
    found = _held(path, document)
    if found is None:
        raise _no_rows(path)
    return objects_table(path, found, "row")


def _no_rows(path: Place) -> DataError:
    return DataError(
        f"{path.name} is JSON without rows: expected a list of objects, one object per line, or "
        "the format of SQuAD."
    )


SPLIT = "split"
"""Name of the column that is added if a JSON document has one list of rows per split. The column
has the split of each row.
"""


def _splits(lists: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """Map names of lists to splits; return {} unless these lists are rows of different splits."""
    splits = {name: split_of(name) for name in lists}
    named = {name: split for name, split in splits.items() if split}
    is_clear = len(set(named.values())) == len(named) > 1 and "train" in named.values()
    are_rows = all(isinstance(row, dict | list) for name in named for row in lists[name])
    return named if is_clear and are_rows else {}


def _named(rows: Sequence[Any], names: Sequence[str] = ()) -> Sequence[Any]:
    """Turn rows that are lists into objects with these names, or numbers from 1, as keys.

    Other rows are returned unchanged.
    """
    lengths = {len(row) if isinstance(row, list) else -1 for row in rows}
    if len(lengths) != 1 or min(lengths) < 2 or all(map(is_pair, rows)):
        return rows
    columns = list(names) or [str(number + 1) for number in range(lengths.pop())]
    if lengths and lengths != {len(columns)}:
        return rows
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _numbered(rows: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(str(number), row) for number, row in enumerate(rows, start=1)]


def _held(path: Place, document: Mapping[str, Any]) -> list[tuple[str, Any]] | None:
    """Find the rows in an object: its only list of objects, or its values if all are objects.

    Nested objects are searched too. Returns None if there are no rows, and raises DataError if the
    object holds several lists of rows.
    """
    lists = _lists_of_objects(document)
    lists = [name for name in lists if name in _ROWS] or lists
    if len(lists) > 1:
        raise DataError(
            f"{path.name} has several lists of rows ({', '.join(map(repr, lists))}): save one of "
            "them as a separate file."
        )
    if lists:
        return _numbered(document[lists[0]])
    inner = {name: value for name, value in document.items() if isinstance(value, dict) and value}
    if len(inner) == len(document) > 1:
        return _by_key(document)
    # The rows may be in an inner object, such as "rasa_nlu_data" or "assets". Other inner objects
    # describe the file.
    found = [rows for value in inner.values() if (rows := _held(path, value)) is not None]
    return found[0] if len(found) == 1 else None


_ROWS = ("rows", "data", "examples", "records", "items", "documents", "utterances")
"""Usual names of the list of rows. They are preferred if a document has several lists."""


def _lists_of_objects(document: Mapping[str, Any]) -> list[str]:
    """Return the names of the lists that hold only objects, or only spaCy's pairs."""
    return [
        name
        for name, value in document.items()
        if isinstance(value, list)
        and value
        and (all(isinstance(each, dict) for each in value) or all(map(is_pair, value)))
    ]


def _by_key(document: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """Read rows from an object that maps row keys to rows, or (pandas) columns to their values."""
    first, *others = (list(value) for value in document.values())
    is_columns = all(keys == first for keys in others) and (
        len(first) > len(document) or all(key.isdigit() for key in first)
    )
    if is_columns:
        return [(key, {name: document[name][key] for name in document}) for key in first]
    return list(document.items())


def _is_cut(line: str) -> bool:
    """Return whether a line is an incomplete object, as after an interrupted download."""
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        return line.startswith("{") and (
            error.pos >= len(line.rstrip()) or error.msg.startswith("Unterminated string")
        )
    except (ValueError, RecursionError):
        return False
    return False


def is_object(line: str) -> bool:
    """Return whether a line of text is a complete JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def parsed(path: Place, text: str, line: int = 1) -> Any:
    """Parse a JSON text that begins at `line` of a file.

    Args:
        path: The file, for error messages.
        text: The JSON text.
        line: The number of the line in the file at which the text begins.

    Raises:
        DataError: The text is not JSON, is nested too deeply, has a number with too many digits, or
            has an object in which a key occurs twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            ((key, _),) = Counter(name for name, _ in pairs).most_common(1)
            raise DataError(
                f"{path.name} line {line} names the column {key!r} twice: remove one of them."
            )
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path.name} line {line + error.lineno - 1} column {error.colno} is not JSON: "
            f"{error.msg}."
        ) from error
    except ValueError as error:  # a number with more digits than Python accepts
        raise DataError(
            f"{path.name} line {line} has JSON that cannot be read: {error}."
        ) from error
    except RecursionError as error:
        raise DataError(
            f"{path.name} line {line} has JSON that is nested too deeply: use fewer levels."
        ) from error


def objects_table(path: Place, objects: Sequence[tuple[str, Any]], unit: str) -> Table:
    """Make a table from JSON objects, with a column per key.

    The name of the column for a key in a nested object consists of all keys on the path, joined by
    dots ("meta.source"). If an object lacks a key, the value in the key's column is None. Objects
    in the export format of a known annotation tool are converted first. A nested object with the
    only key "choices", as Label Studio writes it, is replaced by the value of this key.

    Args:
        path: The file, whose name becomes the name of the table.
        objects: The id and the object of each row.
        unit: What the ids count, such as "line" (see `Table.unit`).

    Raises:
        DataError: A row is not an object.
    """
    return rows_of_objects(Table(name=path.name, columns={}, ids=[], unit=unit), objects)


def rows_of_objects(table: Table, objects: Sequence[tuple[str, Any]]) -> Table:
    """Return a copy of a table with the columns and ids of the given objects.

    The copy has a column per key, as described in `objects_table`.

    Args:
        table: A table that provides the name, the unit and the notes.
        objects: The id and the object of each row.

    Raises:
        DataError: A row is not an object.
    """
    found = tool_rows(table.name, objects)
    flat = []
    for number, row in found.rows:
        if not isinstance(row, dict):
            raise DataError(
                f"{table.name} {table.unit} {number} is of type {type(row).__name__}: expected an "
                "object with a value for each column."
            )
        flat.append(_flat(row))
    names = dict.fromkeys(name for row in flat for name in row)
    columns = {name: [row.get(name) for row in flat] for name in names}
    ids = [number for number, _ in found.rows]
    return replace(table, columns=columns, ids=ids, notes=(*table.notes, *found.notes))


def _flat(found: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict) and list(value) == ["choices"]:  # Label Studio's choices
            row[str(name)] = value["choices"]
        elif isinstance(value, dict):
            row |= {f"{name}.{inner}": each for inner, each in _flat(value).items()}
        else:
            row[str(name)] = value
    return row


def _column_lists(path: Place, document: Mapping[str, Sequence[Any]]) -> Table:
    lengths = {len(values) for values in document.values()}
    if len(lengths) != 1:
        raise DataError(
            f"{path.name} has columns with {min(lengths)} to {max(lengths)} values: expected the "
            "same number of values in each."
        )
    ids = [str(number) for number in range(1, lengths.pop() + 1)]
    return Table(name=path.name, columns=dict(document), ids=ids, unit="row")


def _squad(path: Place, document: Mapping[str, Any]) -> Table:
    """Read the questions of SQuAD's articles, version 1.1 or 2.0."""
    found = squad_questions(document, path.name, has_titles=False)
    records = [record.fields for record, _ in found]
    names = ("context", "question", "answers.text", "answers.answer_start")
    rows = [(str(row["id"]), {name: row[name] for name in names}) for row in records]
    return objects_table(path, rows, "question")
