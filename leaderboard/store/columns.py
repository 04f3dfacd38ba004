"""Predictions as columns, which take a third of the space of rows in a compressed archive.

    rows      [{"id": "0", "label": "yes", "scores": [0.9, 0.1]}, {"id": "1", ...}]
    columns   {"rows": 2, "columns": {"id": "numbers", "label": ["yes", "no"],
                                      "scores": {"digits": 1, "parts": [[9, 2]], "rest": [0, 0]}}}

The ids "0", "1", ... are not written. Probabilities that were rounded to a few decimals are written
as integers, without the last one if they add up to 1. Rows that are read back are equal to the bit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from benchharness.errors import DataError

MOST_ROWS = 2**20
"""Largest number of predictions of a run that are read from columns, because a column of a few
bytes may be a decompression bomb."""

_NUMBERS = "numbers"
_DIGITS = range(1, 7)


def to_columns(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the data of a run (`StoredRun.data`) with its predictions as columns.

    Predictions stay rows if they do not all have the same fields, or if there are too many.
    """
    every = data.get("evaluations", ())
    if not every or sum(len(each["predictions"]) for each in every) > MOST_ROWS:
        return data
    return {
        **data,
        "evaluations": [{**e, "predictions": _columns(e["predictions"])} for e in every],
    }


def to_rows(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the data of a run with its predictions as rows; the inverse of `to_columns`.

    Raises:
        DataError: The columns are damaged, or have more than 2^20 rows.
    """
    every = data.get("evaluations")
    if not isinstance(every, list) or not any(map(_has_columns, every)):
        return data
    try:
        packed = [each["predictions"] for each in every if _has_columns(each)]
        for each in packed:
            if type(each["rows"]) is not int or each["rows"] < 1:
                raise ValueError("no number of rows")
        if sum(each["rows"] for each in packed) > MOST_ROWS:
            raise ValueError(f"more than {MOST_ROWS:,} rows")
        return {
            **data,
            "evaluations": [
                {**each, "predictions": _rows(each["predictions"])} if _has_columns(each) else each
                for each in every
            ],
        }
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"the predictions of a run are damaged columns ({error}): export the run again."
        ) from error


def _has_columns(evaluation: Any) -> bool:
    return isinstance(evaluation, dict) and isinstance(evaluation.get("predictions"), dict)


def _columns(rows: Sequence[Mapping[str, Any]]) -> Any:
    if not rows or any(row.keys() != rows[0].keys() for row in rows):
        return rows
    values = {name: [row[name] for row in rows] for name in rows[0]}
    if not values.keys() - {"id"}:  # a reader finds the number of rows in another column
        return rows
    columns = {name: _numbers(some) or some for name, some in values.items() if name != "id"}
    plain = values.get("id") == [str(place) for place in range(len(rows))]
    ids = {"id": _NUMBERS if plain else values["id"]} if "id" in values else {}
    return {"rows": len(rows), "columns": {**ids, **columns}}


def _numbers(values: Sequence[Any]) -> dict[str, Any] | None:
    """Return lists of rounded probabilities as integers; None for other values."""
    width = len(values[0]) if isinstance(values[0], list) else 0
    for row in values:
        if not isinstance(row, list) or len(row) != width or width < 2:
            return None
        # -0.0 cannot be an integer.
        if not all(type(each) is float and (0 < each <= 1 or repr(each) == "0.0") for each in row):
            return None
    digits = next(
        (d for d in _DIGITS if all(round(each, d) == each for row in values for each in row)), None
    )
    if digits is None:
        return None
    unit = 10**digits
    whole = [[round(each * unit) for each in row] for row in values]
    if any(n / unit != each for row, ns in zip(values, whole, strict=True)
           for each, n in zip(row, ns, strict=True)):  # fmt: skip
        return None
    *parts, _ = (list(part) for part in zip(*whole, strict=True))
    return {"digits": digits, "parts": parts, "rest": [unit - sum(row) for row in whole]}


def _rows(packed: Mapping[str, Any]) -> list[dict[str, Any]]:
    count, columns = packed["rows"], packed["columns"]
    read = {name: _values(name, column, count) for name, column in columns.items()}
    if not any(columns[name] != _NUMBERS for name in read):
        raise ValueError("no column")
    names = list(read)
    return [dict(zip(names, row, strict=True)) for row in zip(*read.values(), strict=True)]


def _values(name: str, column: Any, count: int) -> list[Any]:
    if name == "id" and column == _NUMBERS:
        return [str(place) for place in range(count)]
    found = _probabilities(column) if isinstance(column, dict) else column
    if not isinstance(found, list) or len(found) != count:
        raise ValueError(f"{count} rows are expected in every column")
    return found


def _probabilities(column: Mapping[str, Any]) -> list[list[float]]:
    digits, parts, rest = column["digits"], column["parts"], column["rest"]
    if digits not in _DIGITS or not parts:
        raise ValueError("no decimals")
    unit = 10**digits
    found = []
    for *some, over in zip(*parts, rest, strict=True):
        if any(type(each) is not int for each in (*some, over)):
            raise TypeError("a probability is not an integer")
        found.append([each / unit for each in (*some, unit - over - sum(some))])
    return found
