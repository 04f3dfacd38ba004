"""`make house`: counts of lines and imports per part of the source, and their limits."""

import sys
from pathlib import Path

import pytest

from benchmarks import house
from benchmarks.house import ANY, ANY_KEYWORDS, CIRCULAR, FILES, LINES, STRING_IMPORTS


@pytest.fixture
def tree(tmp_path: Path):
    """Write modules by path, and measure them."""

    def measure(**texts: str):
        for name in ("benchharness/__init__", *texts):
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts.get(name, ""))
        return house.measure(tmp_path)

    return measure


@pytest.mark.parametrize(
    ("text", "strings"),
    [
        ("import benchharness.b", 0),
        ("from benchharness import b", 0),
        ("from benchharness.b import ANYTHING", 0),
        ("def f():\n    from benchharness.b import ANYTHING", 0),
        ("if TYPE_CHECKING:\n    from benchharness.b import ANYTHING", 0),
        ("f = resolve_name('benchharness.b:ANYTHING')", 1),
        ("TABLE = {'name': 'benchharness.b'}", 1),
        ("f = import_module(f'benchharness.{name}')", 1),
        ("NAMES = ('b',)\nf = import_module(f'benchharness.{name}')", 1),
        ("f = import_module(f'{__package__}.{name}')", 1),
        ("f = import_module('benchharness.%s' % name)", 1),
        ("f = import_module('benchharness.' + name)", 1),
    ],
)
def test_every_form_of_import_can_form_an_import_cycle(tree, text: str, strings: int) -> None:
    parts, circles = tree(
        **{"benchharness/a": text, "benchharness/b": "from benchharness.c import x"},
        **{"benchharness/c": "from benchharness.a import y", "benchharness/d": ""},
    )
    assert circles == [["benchharness.a", "benchharness.b", "benchharness.c"]]
    assert (parts["core"][CIRCULAR], parts["core"][STRING_IMPORTS]) == (3, strings)


@pytest.mark.parametrize(
    "text",
    [
        '"""benchharness.b"""',
        "# benchharness.b",
        "COMMAND = (sys.executable, '-m', 'benchharness.b')",
        "FILE = files('benchharness.b') / 'table.toml'",
        "NAME = 'benchharness'",
        "NAME = 'benchharness.json'",
        "NAMES = ('c',)\nf = import_module(f'benchharness.other.{name}')",
    ],
)
def test_strings_that_are_not_imported_do_not_count_as_imports(tree, text: str) -> None:
    parts, circles = tree(
        **{"benchharness/a": text, "benchharness/b": "from benchharness.a import x"}
    )
    assert (circles, parts["core"][STRING_IMPORTS]) == ([], 0)


def test_code_size_of_each_extension_is_measured_separately_from_the_core(tree) -> None:
    parts, _ = tree(
        **{
            "benchharness/extensions/__init__": "\n",
            "benchharness/extensions/gate/__init__": "",
            "benchharness/extensions/gate/hold": "def f(x: Any, **values: Any) -> None:\n    x\n",
            "tasks/glue": "A = 1\nB: Any = 2\n",
        }
    )
    assert {name: (part[LINES], part[FILES]) for name, part in parts.items()} == {
        "core": (3, 3),
        "extensions/gate": (2, 2),
    }
    assert (parts["core"][ANY], parts["extensions/gate"][ANY]) == (1, 2)
    assert (parts["core"][ANY_KEYWORDS], parts["extensions/gate"][ANY_KEYWORDS]) == (0, 1)


def test_import_cycle_between_extension_and_core_is_counted_in_both(tree) -> None:
    parts, _ = tree(
        **{
            "benchharness/a": "x = resolve_name('benchharness.extensions.gate:HOLD')",
            "benchharness/extensions/gate/__init__": "from benchharness.a import x",
        }
    )
    assert [part[CIRCULAR] for part in parts.values()] == [1, 1]


def test_error_for_an_exceeded_size_limit_suggests_a_new_limit_and_a_changelog_entry() -> None:
    limits = {"core": {LINES: 100, ANY: 5}}
    assert not list(house.faults({"core": {LINES: 100, ANY: 5}}, limits))
    (fault,) = house.faults({"core": {LINES: 1_000, ANY: 5}}, limits)
    assert fault.startswith("core: 1,000 lines, more than the limit of 100.")
    assert "raise the limit to 1,100" in fault
    assert "a line of CHANGELOG.md" in fault
    (fault,) = house.faults({"extensions/new": {LINES: 20}}, limits)
    assert fault.startswith("extensions/new has no limits: add `'extensions/new': (22,)`")


@pytest.mark.parametrize(
    ("words", "lines", "code"), [((), 9, 0), (("--check",), 9, 1), (("--check",), 10, 0)]
)
def test_size_report_exits_with_1_for_an_exceeded_limit_only_with_option_check(
    monkeypatch, capsys, words, lines: int, code: int
) -> None:
    monkeypatch.setattr(house, "measure", lambda: ({"core": {LINES: 10}}, []))
    monkeypatch.setattr(house, "LIMITS", {"core": {LINES: lines}})
    monkeypatch.setattr(sys, "argv", ["house", *words])
    assert house.main() == code
    assert ("more than the limit" in capsys.readouterr().out) == (lines < 10)
