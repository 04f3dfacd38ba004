"""JSON in official files, with errors that name the place."""

import json
from typing import Any

from tasks.errors import DataError

__all__ = ["items", "parse_object", "value"]


def parse_object(text: str, place: str) -> dict[str, Any]:
    """The JSON object that a text is; DataError where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not JSON ({error}): get the official file.") from error
    if not isinstance(found, dict):
        raise DataError(f"{place} is JSON, but no object: found {type(found).__name__}.")
    return found


def value(document: Any, key: str, place: str) -> Any:
    """What an object has under `key`; DataError where it is no object or lacks it."""
    if not isinstance(document, dict) or key not in document:
        found = ", ".join(document) if isinstance(document, dict) else type(document).__name__
        raise DataError(f"{place} has no {key!r}: found {found or 'an empty object'}.")
    return document[key]


def items(document: Any, key: str, place: str) -> list[Any]:
    """The list that an object has under `key`."""
    found = value(document, key, place)
    if not isinstance(found, list):
        raise DataError(f"{place} has no list {key!r}: found {type(found).__name__}.")
    return found
