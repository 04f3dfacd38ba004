"""Read the cells of a table, before roles are found for its columns.

A cell may be a value that was written as text: a list or an object as JSON, as Python or numpy
print it. Objects become columns, and marked spans words and tags.
"""

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from benchharness.tasks.errors import DataError
from benchharness.tasks.own.annotations import with_words
from benchharness.tasks.own.columns import MISSING, Table
from benchharness.tasks.own.documents import rows_of_objects

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_ITEM = rf"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|{_NUMBER}|True|False)"
_NUMPY = re.compile(rf"\[\s*{_ITEM}(?:\s+{_ITEM})+\s*\]", re.DOTALL)
"""numpy's lists of two or more: "['a' 'b']" and "[1 2]", which Python would join or refuse."""

_BARE = re.compile(r"\[([^\[\]{}'\"]*)\]")
"""A list of words without quotes: "[billing, bug]"."""

_MARKED = re.compile(r"(?:<[^<>/\s][^<>\s]*>)+|\|[^|\n]+(?:\|[^|\n]+)*\|")
"""Stack Exchange's tags: "<python><pandas>", and "|python|pandas|" of later ones."""

_ARRAY = re.compile(
    rf"array\(\s*(\[\s*(?:{_ITEM}(?:,\s*{_ITEM})*)?\s*\])\s*(?:,\s*dtype=[^)]*)?\)", re.DOTALL
)
"""numpy's arrays as they are printed inside of others: "{'text': array(['a'], dtype=object)}"."""

_OPEN, _CLOSE = "[({'\"", "])}'\""


def read_cells(table: Table, *, is_part: bool = False) -> Table:
    """Replace text by the value that it writes, and give every key of an object its own column.

    Of a part of a file nothing is read that the rest of it might decide otherwise.
    Raises DataError, with the place, for a cell of another kind than the rest of its column.
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


# Values that were written as text.


def _values(values: Sequence[Any]) -> Sequence[Any]:
    """Read the values of a column if every cell writes one; else return it unchanged."""
    known = [value for value in values if not _is_missing(value)]
    if known and all(isinstance(v, str) and _MARKED.fullmatch(v) for v in known):
        return [None if _is_missing(v) else re.split(r"><|\|", v[1:-1]) for v in values]
    return _written(values, known)


def _written(values: Sequence[Any], known: Sequence[Any]) -> Sequence[Any]:
    if not known or not all(map(_may_be_value, known)):
        # Label Studio's CSV writes a single choice as it is, and several as an object.
        is_choice = any(isinstance(v, str) and v.startswith('{"choices"') for v in known)
        if not is_choice or not all(isinstance(v, str) for v in known):
            return values
        return [_choices(value) for value in values]
    try:
        read = {value: value_of(value) for value in dict.fromkeys(known)}
    except ValueError:
        return values
    # "[POS]" in every row is a name.
    if not any(re.search(r"""[,'"]""", value) or _NUMPY.fullmatch(value) for value in read):
        return values
    # Lists together with texts in quotes are no column of either.
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
    """Parse a list, object or quoted text of JSON, Python or numpy; raise ValueError for others."""
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
        warnings.simplefilter("ignore")  # of escapes in Python's texts
        try:
            return ast.literal_eval(word)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            raise ValueError(word) from error


def _choices(value: Any) -> Any:
    """Read Label Studio's choices in a cell; a single one is written as plain text."""
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


# Boxes that were ticked.

_TICKS = frozenset(("x", "✓", "✔", "☑", "yes", "true", "1", "checked", "selected", "ticked"))


def _read_ticks(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Read columns of ticks and empty cells, of which there are two or more, as true and false.

    A tick is a mark, or the name of its column, as SurveyMonkey writes the options of a question.
    """
    ticked = {name: values for name, values in columns.items() if _are_ticks(name, values)}
    if len(ticked) < 2:
        return {}
    return {name: [value not in ("", None) for value in v] for name, v in ticked.items()}


def _are_ticks(name: str, values: Sequence[Any]) -> bool:
    known = [value for value in values if value not in ("", None)]
    if len(known) == len(values) or not all(isinstance(value, str) for value in known):
        return False
    # Looked at one by one, since texts are told by their first.
    marks = (mark for value in known if (mark := value.strip().casefold()))
    first = next(marks, "")
    is_mark = first in _TICKS or (bool(first) and first == name.strip().casefold())
    return is_mark and all(mark == first for mark in marks)


# Columns of lists.


def _even(table: Table, name: str, values: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Split a column of lists of objects by their keys, and make single texts lists of one."""
    known = [value for value in values if value not in (None, "")]
    if not any(isinstance(value, list) for value in known):
        return {name: values}
    inner = [each for value in known if isinstance(value, list) for each in value]
    are_parts = bool(inner) and any(
        all(isinstance(e, dict) and key in e for e in inner) for key in ("text", "name")
    )
    # "Rome" beside ["Rome", "the capital"] is a list of one answer.
    if not are_parts and all(isinstance(value, str | list) for value in known):
        values = [[value] if isinstance(value, str) and value else value for value in values]
    if not are_parts or any("start" in each for each in inner):  # others are marked spans
        return {name: values}
    for row, value in enumerate(values):
        if not isinstance(value, list) and value not in (None, ""):
            raise DataError(
                f"{table.place(row)} has {_noun(value)} in the column {name!r}, where other rows "
                "have a list of objects: write all rows alike."
            )
    # "answers" of [{"text": "Rome", "answer_start": 3}] becomes "answers.text" of ["Rome"] and
    # "answers.answer_start" of [3], as the hub's SQuAD has them.
    keys = dict.fromkeys(key for each in inner for key in each)
    return {f"{name}.{key}": [_each(value, key) for value in values] for key in keys}


def _each(value: Any, key: str) -> list[Any] | None:
    return None if value in (None, "") else [each.get(key) for each in value]


def _noun(value: Any) -> str:
    nouns = {str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return nouns.get(type(value), "a value of another kind")
