"""Lines of tests' tables that are about extensions, whose folders may be deleted."""

from collections.abc import Mapping
from typing import TypeVar

from benchharness.discovery import extensions

Key = TypeVar("Key")
Value = TypeVar("Value")


def of_extensions(lines: Mapping[str, Mapping[Key, Value]]) -> dict[Key, Value]:
    """The lines, by an extension's name, of those extensions that are there."""
    there = {each.name for each in extensions()}
    return {key: value for name in there & lines.keys() for key, value in lines[name].items()}
