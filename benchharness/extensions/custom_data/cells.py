"""Parse the cells of a table, before its columns get roles such as text and label.

A cell may hold a value that was written as text: a list or an object in the notation of JSON,
Python or numpy. Objects become columns, and marked spans become columns of words and tags.
"""

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from benchharness.errors import DataError
from benchharness.extensions.custom_data.annotations import with_words
from benchharness.extensions.custom_data.columns import MISSING, Table
from benchharness.extensions.custom_data.documents import rows_of_objects

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_ITEM = rf"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|{_NUMBER}|True|False)"
_NUMPY = re.compile(rf"\[\s*{_ITEM}(?:\s+{_ITEM})+\s*\]", re.DOTALL)
"""Pattern of a printed numpy array of two or more items, such as "['a' 'b']" or "[1 2]". As Python
source, the first would be a list of one joined string and the second a syntax error.
"""

_BARE = re.compile(r"\[([^\[\]{}'\"]*)\]")
"""Pattern of a list of words without quotes: "[billing, bug]"."""

_MARKED = re.compile(r"(?:<[^<>/\s][^<>\s]*>)+|\|[^|\n]+(?:\|[^|\n]+)*\|")
"""Pattern of Stack Exchange's tags: "<python><pandas>", or "|python|pandas|" in later dumps."""

_ARRAY = re.compile(
    rf"array\(\s*(\[\s*(?:{_ITEM}(?:,\s*{_ITEM})*)?\s*\])\s*(?:,\s*dtype=[^)]*)?\)", re.DOTALL
)
"""Pattern of a numpy array inside another printed value: "{'text': array(['a'], dtype=object)}"."""

_OPEN, _CLOSE = "[({'\"", "])}'\""


def read_cells(table: Table, *, is_part: bool = False) -> Table:
    """Parse the values in a table's cells, and give every key of an object its own column.

    If a column marks spans of a text, columns of words and tags are added.

    Args:
        table: The table to parse.
        is_part: True if the table has only a part of the rows of a file. Columns of ticked boxes,
            whose cells are empty or have a mark such as "x", are then not detected, because other
            rows of the file may have other values.

    Raises:
        DataError: A cell has another form than the rest of its column, or a marked span is invalid.
            The error names the row.
    """
    columns = {name: _values(values) for name, values in table.columns.items()}
    if any(columns[name] is not values for name, values in table.columns.items()):
        numbers = range(len(table.ids))
        rows = [(table.ids[n], {name: columns[name][n] for name in columns}) for n in numbers]
        table = rows_of_objects(replace(table, columns={}), rows)
    even: dict[str, Sequence[Any]] = {}
    for name, values in table.columns.items():
        even |= _even(table, name, values)
    ticks = {} if is_part else _read_ticks(even)
    return with_words(replace(table, columns=even | ticks, ticked=tuple(ticks)))


# Values that are stored as text.


def _values(values: Sequence[Any]) -> Sequence[Any]:
    """Parse the values of a column if all of its cells can be parsed; else return it unchanged."""
    known = [value for value in values if not _is_missing(value)]
    if known and all(isinstance(v, str) and _MARKED.fullmatch(v) for v in known):
        return [None if _is_missing(v) else re.split(r"><|\|", v[1:-1]) for v in values]
    return _written(values, known)


def _written(values: Sequence[Any], known: Sequence[Any]) -> Sequence[Any]:
    if not known or not all(map(_may_be_value, known)):
        # Label Studio's CSV has a single choice as plain text, and several as an object.
        is_choice = any(isinstance(v, str) and v.startswith('{"choices"') for v in known)
        if not is_choice or not all(isinstance(v, str) for v in known):
            return values
        return [_choices(value) for value in values]
    try:
        read = {value: value_of(value) for value in dict.fromkeys(known)}
    except ValueError:
        return values
    # If no cell has a comma or a quote, cells such as "[POS]" are names of labels rather than
    # lists.
    if not any(re.search(r"""[,'"]""", value) or _NUMPY.fullmatch(value) for value in read):
        return values
    # The column is left unchanged unless all values are lists, all objects or all texts.
    kinds = {type(value) for value in read.values()}
    if len(kinds) > 1 or not kinds <= {list, dict, str}:
        return values
    return [
        None if _is_missing(value) and value != "" else read.get(value, value) for value in values
    ]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in MISSING)


def _may_be_value(value: Any) -> bool:
    text = value.strip() if isinstance(value, str) else ""
    if text.startswith("array("):
        return text.endswith(")")
    return len(text) > 1 and text[0] in _OPEN and text[-1] == _CLOSE[_OPEN.index(text[0])]


def value_of(text: str) -> Any:
    """Parse the text of a list, object or quoted string in the notation of JSON, Python or numpy.

    Tuples and sets are converted to lists. Raises ValueError for any other text.
    """
    if not _may_be_value(text):
        raise ValueError(text)
    word = _ARRAY.sub(r"\1", text.strip()) if "array(" in text else text.strip()
    if _NUMPY.fullmatch(word):
        return [ast.literal_eval(item) for item in re.findall(_ITEM, word)]
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(word)
    if found is None and (bare := _BARE.fullmatch(word)):
        found = [part.strip() for part in bare[1].split(",")]
    if found is None:
        found = _literal(word)
    if isinstance(found, set):
        return sorted(found, key=str)
    return list(found) if isinstance(found, tuple) else found


def _literal(word: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about invalid escapes in literals
        try:
            return ast.literal_eval(word)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            raise ValueError(word) from error


def _choices(value: Any) -> Any:
    """Return the list of Label Studio's choices in a cell, where a single choice is plain text."""
    try:
        found = json.loads(value) if isinstance(value, str) and value.startswith("{") else value
    except (ValueError, RecursionError):
        return value
    match found:
        case {"choices": list(names)}:
            return names
        case str() if found:
            return [found]
    return found


# Ticked boxes.

_TICKS = frozenset(("x", "✓", "✔", "☑", "yes", "true", "1", "checked", "selected", "ticked"))


def _read_ticks(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Convert columns of ticks and empty cells to booleans, if there are two or more such columns.

    A tick is a mark such as "x", or the name of the column, which SurveyMonkey writes if the option
    is chosen.
    """
    ticked = {name: values for name, values in columns.items() if _are_ticks(name, values)}
    if len(ticked) < 2:
        return {}
    return {name: [value not in ("", None) for value in v] for name, v in ticked.items()}


def _are_ticks(name: str, values: Sequence[Any]) -> bool:
    known = [value for value in values if value not in ("", None)]
    if len(known) == len(values) or not all(isinstance(value, str) for value in known):
        return False
    # This is a generator, because the first value already rules out most columns of texts.
    marks = (mark for value in known if (mark := value.strip().casefold()))
    first = next(marks, "")
    is_mark = first in _TICKS or (bool(first) and first == name.strip().casefold())
    return is_mark and all(mark == first for mark in marks)


# Columns of lists.


def _even(table: Table, name: str, values: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Split a column of lists of objects into a column per key, or wrap single texts in lists.

    Raises DataError if a row of a column of lists of objects is neither empty nor a list.
    """
    known = [value for value in values if value not in (None, "")]
    if not any(isinstance(value, list) for value in known):
        return {name: values}
    inner = [each for value in known if isinstance(value, list) for each in value]
    are_parts = bool(inner) and any(
        all(isinstance(e, dict) and key in e for e in inner) for key in ("text", "name")
    )
    # In a column of lists, a text is a list of one item: "Rome" next to ["Rome", "the capital"].
    if not are_parts and all(isinstance(value, str | list) for value in known):
        values = [[value] if isinstance(value, str) and value else value for value in values]
    if not are_parts or any("start" in each for each in inner):  # objects with a start are spans
        return {name: values}
    for row, value in enumerate(values):
        if not isinstance(value, list) and value not in (None, ""):
            raise DataError(
                f"{table.place(row)} has {_noun(value)} in the column {name!r}, but other rows "
                "have a list of objects: use the same form in all rows."
            )
    # "answers" of [{"text": "Rome", "answer_start": 3}] becomes "answers.text" of ["Rome"] and
    # "answers.answer_start" of [3], as the hub's SQuAD has them.
    keys = dict.fromkeys(key for each in inner for key in each)
    return {f"{name}.{key}": [_each(value, key) for value in values] for key in keys}


def _each(value: Any, key: str) -> list[Any] | None:
    return None if value in (None, "") else [each.get(key) for each in value]


def _noun(value: Any) -> str:
    nouns = {str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return nouns.get(type(value), "a value of another type")
