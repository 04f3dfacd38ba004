"""Tests that no module of tests/ imports a test or a conftest; tests/helpers has shared code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))

SUSPECT = re.compile(
    r"""(?mx) ^\s* (?:from|import) (?:
        \s+ (?: \. | tests\b (?! \.(?:helpers|extensions)\b) )
        | .* (?: \btest_ | \bconftest\b )
    )"""
)
"""Line that may import a test or a conftest."""


def imported(path: Path) -> Iterator[str]:
    """Yield the full names that a file imports, inside functions too.

    Files without a suspect line are not parsed.
    """
    text = path.read_text(encoding="utf-8")
    if not SUSPECT.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_of_tests(name: str) -> bool:
    first, _, rest = name.partition(".")
    if first == "tests":
        names = rest.split(".")
        is_one = any(each == "conftest" or each.startswith("test_") for each in names)
        return is_one or names[0] not in ("helpers", "extensions")
    return not first or first == "conftest" or first.startswith("test_")


def test_no_module_imports_a_test_or_a_conftest() -> None:
    assert len(FILES) > 200
    found = {path: list(filter(is_of_tests, imported(path))) for path in FILES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from tests.leaderboard.test_report import Page",
        "from tests import conftest",
        "import tests.test_wheel",
        "from tests.extensions.gate.test_cli_check import BENCH",
        "from test_packing import LENGTHS",
        "def late():\n    from conftest import Ended",
        "from .test_wheel import ROOT",
    ],
)
def test_import_of_a_test_or_conftest_is_detected(line: str, tmp_path: Path) -> None:
    file = tmp_path / "test_made.py"
    file.write_text(line)
    assert list(filter(is_of_tests, imported(file)))
