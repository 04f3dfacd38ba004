"""Table entries of tests that depend on extensions, whose folders may be deleted."""

import re
from collections.abc import Mapping
from typing import TypeVar

import pytest

from benchharness.discovery import extensions
from tests.helpers import ROOT

Key = TypeVar("Key")
Value = TypeVar("Value")


def of_extensions(lines: Mapping[str, Mapping[Key, Value]]) -> dict[Key, Value]:
    """Return the entries of the extensions that exist; `lines` are by extension name."""
    there = {each.name for each in extensions()}
    return {key: value for name in lines if name in there for key, value in lines[name].items()}


_DRAWN = re.findall(
    r"(?m)^\| `(\w+)` \| .* (?:commands|calls): ",
    (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"),
)

with_all_extensions = pytest.mark.skipif(
    not {*_DRAWN} <= {each.name for each in extensions()},
    reason="the documentation is of all extensions, and a folder is deleted",
)
"""Mark for tests of pages that show the commands of every extension."""
