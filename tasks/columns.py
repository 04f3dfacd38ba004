"""The columns of a row by type; TypeError where a row holds something else."""

from collections.abc import Iterable

from tasks.sources import Row

__all__ = ["label_of", "number", "numbers", "text", "texts"]


def text(row: Row, column: str) -> str:
    """A text column."""
    value = row[column]
    if not isinstance(value, str):
        raise TypeError(f"its {column} is {value!r}, expected a text")
    return value


def texts(row: Row, column: str) -> tuple[str, ...]:
    """A column of several texts."""
    values = _several(row, column, "texts")
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"its {column} is {values!r}, expected texts")
    return tuple(str(value) for value in values)


def number(row: Row, column: str) -> int:
    """A column that counts something."""
    return _whole(row[column], column)


def numbers(row: Row, column: str) -> tuple[int, ...]:
    """A column of several counts."""
    return tuple(_whole(value, column) for value in _several(row, column, "numbers"))


def label_of(row: Row, column: str = "label") -> str | float | None:
    """A class name, a number, or None where the label is hidden."""
    value = row[column]
    if not isinstance(value, str | float | None):
        raise TypeError(f"its {column} is {value!r}, expected a name or a number")
    return value


def _several(row: Row, column: str, kind: str) -> list[object]:
    value = row[column]
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"its {column} is {value!r}, expected {kind}")
    return list(value)


def _whole(value: object, column: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"its {column} is {value!r}, expected a whole number")
    return value
