"""Tests that docs/architecture.md shows the checked layers, and functions that exist."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def contracts():
    """Return the layer contracts of pyproject.toml, that of the packages first."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return [contract for contract in found if contract["type"] == "layers"]


def drawn(heading):
    """Return the first words of each indented line below a heading, up to two spaces."""
    section = PAGE.split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
    return [re.split(" {2,}", line)[0] for line in re.findall(r"(?m)^    (\S.*)$", section)]


def definitions(node, prefix=""):
    """Yield the names of all functions and classes of a module, "Class.method" too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield f"{prefix}{child.name}"
            yield from definitions(child, f"{prefix}{child.name}.")


def test_architecture_page_shows_the_packages_in_layer_order():
    whole, *_ = contracts()
    assert drawn("## Three packages") == ["benchharness", *whole["layers"][-5:-3]]


@pytest.mark.parametrize("contract", contracts(), ids=lambda each: each["containers"][0])
def test_architecture_page_shows_the_checked_layers(contract):
    assert contract["exhaustive"]
    (package,) = contract["containers"]
    assert drawn(f"### {package.removeprefix('benchharness.')}") == contract["layers"]


def test_architecture_page_lists_at_most_25_existing_functions_of_a_run():
    road = drawn("## The calls of `bench run`")
    assert 0 < len(road) <= 25
    for step in road:
        file, _, name = step.partition(":")
        assert name in definitions(ast.parse((ROOT / file).read_text(encoding="utf-8"))), step


def test_files_named_on_the_architecture_page_exist():
    there = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("[blt]*/**/*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    assert len(named) > 10
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in there)] == []


def callers(name):
    """Return the modules of the package that call a function of this name."""
    package, found = ROOT / "benchharness", []
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(text)) if f"{name}(" in text else ()
        called = (node.func for node in nodes if isinstance(node, ast.Call))
        if any(name in (getattr(f, "id", ""), getattr(f, "attr", "")) for f in called):
            found.append(path.relative_to(package).as_posix())
    return found


@pytest.mark.parametrize("name", ["head_for", "network_of", "limits_of", "set_dropout"])
def test_only_one_module_creates_the_networks_of_jobs(name):
    assert callers(name) == ["worker/task_setup.py"]


def test_only_one_function_loads_the_plugins_of_a_job():
    """Check that other callers load only plugins that a command names."""
    found = {place.partition("/")[0] for place in callers("load_plugins")}
    assert found == {"plugins.py", "api.py", "cli", "extensions"}


def test_links_between_documentation_pages_have_existing_targets():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    broken = [
        (page.name, link)
        for page in pages
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not link.startswith("http") and not (page.parent / link.partition("#")[0]).exists()
    ]
    assert broken == []
