"""Whether the plain fields of a plugin's objects have the types that they are declared with."""

from collections.abc import Hashable
from dataclasses import fields
from functools import cache
from typing import Any, cast, get_type_hints

__all__ = ["mistyped_field"]

PLAIN: dict[Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    str | None: (str, type(None)),
    int | None: (int, type(None)),
    float | None: (int, float, type(None)),
}
"""What Python lets pass: a field's declaration, and the types of what may stand in it."""


def mistyped_field(item: Any) -> str:
    """A clause about the first field of a dataclass object that has another type; empty for none.

    Fields that hold functions or objects are left alone.
    """
    hints = _hints(cast("Hashable", type(item)))
    for name in (field.name for field in fields(item)):
        if not _fits(getattr(item, name), hints[name]):
            return f"{name} is {getattr(item, name)!r}"
    return ""


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: object, declared: Any) -> bool:
    if declared == tuple[str, ...]:
        return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)
    return isinstance(value, PLAIN.get(declared, object))
