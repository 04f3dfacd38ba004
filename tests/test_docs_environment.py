"""Tests that docs/environment.md lists every environment variable that the source reads."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

from tests.helpers import ROOT
from tests.helpers.doc_blocks import DOCS

PACKAGES = ("benchharness", "leaderboard", "tasks")
METHODS = ("get", "pop", "setdefault")

READS = re.compile(r"\b(?:environ|getenv|variable|envvar)\b")
"""A word in every file that reads the environment."""

Scope = dict[str, list[ast.expr]]
"""Expressions that a file assigns to a name, or over which it iterates with this name."""


def sources() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in sorted((ROOT / package).resolve().rglob("*.py"))
        if not {"tasks", "leaderboard"} & {*path.relative_to(ROOT).parts[1:2]}
    }


def scope_of(nodes: Iterable[ast.AST]) -> Scope:
    found: Scope = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found.setdefault(name, []).append(value)
            case ast.comprehension(target=ast.Name(id=name), iter=value):
                found.setdefault(name, []).append(value)
            case ast.For(target=ast.Name(id=name), iter=value):
                found.setdefault(name, []).append(value)
    return found


def texts(node: ast.expr, own: Scope, constants: Scope) -> Iterator[str]:
    """Yield the texts that an expression may be, if they are written in the source."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name):
            for each in own.get(name) or (constants.get(name, []) if name.isupper() else []):
                yield from texts(each, own, constants)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from texts(part, own, constants)
        case ast.Starred(value=value):
            yield from texts(value, own, constants)


def is_environment(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def keys_read(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield the expressions by which a file reads variables of the environment."""
    for node in nodes:
        match node:
            case ast.Subscript(value=value, slice=key, ctx=ast.Load()) if is_environment(value):
                yield key
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=[key, *_]) if (
                is_environment(value) and name in METHODS
            ):
                yield key
            case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[value]) if (
                is_environment(value)
            ):
                yield key
            case ast.Call(func=ast.Attribute(attr="getenv"), args=[key, *_]):
                yield key
            case ast.keyword(arg="variable" | "envvar", value=key):
                yield key


@cache
def variables_read() -> frozenset[str]:
    constants: Scope = {}
    readers: dict[str, list[ast.AST]] = {}
    for name, text in sources().items():
        tree = ast.parse(text)
        for constant, values in scope_of(tree.body).items():
            constants.setdefault(constant, []).extend(values)
        if READS.search(text):
            readers[name] = [*ast.walk(tree)]
    found: set[str] = set()
    for name, nodes in readers.items():
        scope = scope_of(nodes)
        for key in keys_read(nodes):
            read = {*texts(key, scope, constants)}
            # An attribute such as Option.variable, whose values are found elsewhere.
            is_field = isinstance(key, ast.Attribute)
            assert read or is_field, f"{name}:{key.lineno}: which variable is read?"
            found |= read
    return frozenset(found)


def variables_of(*tables: int) -> Iterable[str]:
    """Return the variables in the first column of some tables of the page."""
    parts = re.split(r"(?m)^## ", (DOCS / "environment.md").read_text(encoding="utf-8"))[1:]
    for number in tables:
        for line in parts[number].splitlines():
            if line.startswith("| `"):
                yield from re.findall(r"`([A-Z_]+)`", line.split("|")[1])


def test_page_lists_every_environment_variable_that_the_source_reads():
    found = variables_read()
    assert {"BENCH_DB", "BENCH_PLUGINS", "BENCH_CACHE", "GOMP_SPINCOUNT", "RANK"} <= found
    assert found == {*variables_of(0, 1)}


def test_variables_of_libraries_are_not_read_by_the_source():
    assert not variables_read() & {*variables_of(2)}


def test_readme_and_site_have_a_link_to_the_page():
    assert "(docs/environment.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "- environment.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
