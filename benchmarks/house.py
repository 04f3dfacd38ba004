"""Measure the size of the core and of each extension, and check their limits (`make house`).

The core is all code outside `benchharness/extensions`. Only Python files are measured; lines are
counted as by `wc -l`. With `--check` the exit code is 1 if a limit is exceeded.
"""

import argparse
import ast
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("benchharness", "leaderboard", "tasks")
EXTENSIONS = ("benchharness", "extensions")
CORE = "core"


LINES = "lines"
FILES = "files"
STRING_IMPORTS = "string imports"  # strings that name a module of benchharness
ANY_KEYWORDS = "**x: Any"
ANY = "Any"
CIRCULAR = "modules in import circles"  # including imports by strings and under TYPE_CHECKING

FIGURES = (LINES, FILES, STRING_IMPORTS, ANY_KEYWORDS, ANY, CIRCULAR)

_LIMITS = {
    CORE: (58_654, 192, 30, 33, 1_019, 20),
    "extensions/kept_models": (4_406, 18, 0, 1, 90, 0),
    "extensions/run_file": (528, 4, 0, 1, 24, 0),
    "extensions/demo": (49, 2, 0, 0, 0, 0),
    "extensions/doctor": (202, 2, 0, 0, 0, 0),
    "extensions/database": (507, 3, 0, 0, 0, 0),
    "extensions/xtreme": (658, 5, 0, 1, 8, 0),
    "extensions/watch": (300, 2, 0, 1, 3, 0),
    "extensions/reading": (1_388, 5, 0, 0, 13, 0),
    "extensions/lexglue": (147, 2, 0, 1, 3, 0),
    "extensions/curves": (1_158, 5, 0, 0, 6, 0),
    "extensions/gate": (2_718, 8, 0, 3, 29, 0),
    "extensions/ensemble": (297, 3, 0, 0, 2, 0),
    "extensions/custom_data": (9_038, 28, 0, 0, 244, 0),
    "extensions/efficiency": (979, 7, 0, 0, 17, 0),
    "extensions/exports": (2_159, 8, 0, 1, 14, 0),
    "extensions/paper": (812, 6, 1, 1, 1, 0),
    "extensions/prediction_pages": (1_016, 5, 0, 0, 3, 0),
    "extensions/retrieval": (1_206, 11, 0, 1, 25, 0),
    "extensions/explanation": (2_385, 9, 0, 0, 42, 0),
    "extensions/clusters": (962, 4, 0, 0, 28, 0),
    "extensions/needle": (129, 2, 0, 0, 0, 0),
    "extensions/cloze": (995, 6, 0, 0, 24, 0),
    "extensions/sst": (189, 2, 0, 0, 0, 0),
    "extensions/fetch": (228, 2, 0, 0, 3, 0),
    "extensions/which": (1_343, 7, 0, 1, 5, 0),
    "extensions/mending": (254, 3, 0, 0, 6, 0),
    "extensions/minimal_pairs": (466, 2, 0, 0, 0, 0),
    "extensions/trackers": (244, 2, 0, 0, 12, 0),
    "extensions/distillation": (920, 5, 0, 0, 20, 0),
    "extensions/frozen": (637, 3, 0, 1, 18, 0),
    "extensions/search": (493, 2, 0, 0, 0, 0),
    "extensions/multi_task": (215, 3, 0, 0, 1, 0),
    "extensions/text_to_text": (785, 5, 0, 0, 15, 0),
    "extensions/adapters": (178, 3, 0, 0, 3, 0),
    "extensions/decoders": (323, 5, 0, 0, 4, 0),
    "extensions/estimator": (541, 4, 0, 0, 16, 0),
    "extensions/frozen_layers": (114, 3, 0, 0, 1, 0),
    "extensions/submission": (3_735, 15, 0, 2, 63, 0),
    "extensions/reproduce": (2_309, 11, 0, 0, 19, 0),
    "extensions/share": (2_322, 11, 0, 0, 5, 0),
    "extensions/conll2012": (2_260, 12, 0, 1, 41, 0),
    "extensions/robustness": (1_990, 11, 0, 0, 16, 0),
    "extensions/calibration": (2_050, 13, 0, 0, 33, 0),
    "extensions/groups": (1_311, 7, 0, 0, 11, 0),
    "extensions/plots": (2_399, 9, 0, 0, 0, 0),
    "extensions/sheet": (674, 4, 0, 0, 3, 0),
    "extensions/hub_results": (1_426, 13, 0, 0, 26, 0),
}
LIMITS: Mapping[str, Mapping[str, int]] = {
    part: dict(zip(FIGURES, limits, strict=True)) for part, limits in _LIMITS.items()
}
"""Limits of the core and of each extension. When a limit is set, it is a tenth above the figure.
Documentation has no limits."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A module: its import name, its part of the package, its text and its syntax nodes.

    The part is "core" or the path of an extension.
    """

    module: str
    part: str
    text: str
    nodes: tuple[ast.AST, ...]
    is_package: bool


def read_sources(root: Path) -> dict[str, Source]:
    """Read all Python files of the packages, keyed by module; links to folders are not followed."""
    found = {}
    for package in PACKAGES:
        for folder, _, names in os.walk(root / package):
            for path in sorted(Path(folder, name) for name in names if name.endswith(".py")):
                source = _read(path, path.relative_to(root))
                found[source.module] = source
    return found


def _read(path: Path, place: Path) -> Source:
    parts = place.with_suffix("").parts
    is_package = parts[-1] == "__init__"
    words = parts[:-1] if is_package else parts
    name = ".".join(words if words[0] == "benchharness" else ("benchharness", *words))
    inside = parts[: len(EXTENSIONS)] == EXTENSIONS and len(words) > len(EXTENSIONS)
    text = path.read_text(encoding="utf-8")
    return Source(
        module=name,
        part=f"extensions/{words[len(EXTENSIONS)]}" if inside else CORE,
        text=text,
        nodes=tuple(ast.walk(ast.parse(text))),
        is_package=is_package,
    )


# Imports.

_READERS = ("files", "PackageLoader")
"""Functions that read files of a given package without importing it."""

_PACKAGE = re.compile(r"(benchharness(?:\.\w+)*)\.(?:[{%].*)?")
"""Pattern of strings to which the name of a module is appended."""


def imports(source: Source, known: Set[str]) -> Iterator[str]:
    """Yield the modules of benchharness that import statements name, at any place in the file."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                yield from {whole if whole in known else node.module} & known


def string_imports(source: Source, known: Set[str]) -> Iterator[set[str]]:
    """Yield, for each string that names modules of benchharness, the modules that it may name.

    A string names a module ("benchharness.cli.run") or something in it ("benchharness.cli:run"). A
    string that ends after a package ("benchharness.cli.") names the modules of the package whose
    own names are strings in the same file, or all if none is.
    """
    skipped = set(_not_imported(source))
    nodes = [node for node in source.nodes if id(node) not in skipped]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    words = {text.partition(":")[0] for text in texts if isinstance(text, str)}
    for node in nodes:
        name, package = _named(node, source)
        inside = {each for each in known if each.rpartition(".")[0] == package} if package else ()
        if name in known and name != "benchharness":
            yield {name}
        elif inside:
            yield {each for each in inside if each.rpartition(".")[2] in words} or set(inside)


def _named(node: ast.AST, source: Source) -> tuple[str, str]:
    """Return the module that a string node names, and the package whose modules it may name."""
    match node:
        case ast.Constant(value=str(text)):
            package = _PACKAGE.fullmatch(text)
            return text.partition(":")[0], package[1] if package else ""
        case ast.JoinedStr(values=[ast.FormattedValue(value=ast.Name(id="__name__")), *_]):
            return "", source.module
        case ast.JoinedStr(values=[ast.FormattedValue(value=ast.Name(id="__package__")), *_]):
            return "", source.module if source.is_package else source.module.rpartition(".")[0]
    return "", ""


def _not_imported(source: Source) -> Iterator[int]:
    """Yield the ids of string nodes that import nothing.

    They are docstrings, modules after "-m", and packages in calls that only read files.
    """
    for node in source.nodes:
        match node:
            case ast.Expr(value=ast.Constant() as text):
                yield id(text)
            case ast.Call(func=ast.Name(id=name), args=args) if name in _READERS:
                yield from map(id, args)
            case ast.Tuple(elts=words) | ast.List(elts=words):
                for flag, word in pairwise(words):
                    if isinstance(flag, ast.Constant) and flag.value == "-m":
                        yield id(word)


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the groups of modules that import one another, directly or through others."""
    reached = {module: _reach(module, edges) for module in edges}
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached.get(other, ())))
        for module in edges
    }
    return sorted(list(group) for group in groups if len(group) > 1)


def _reach(module: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    ahead = [*edges[module]]
    while ahead:
        if (each := ahead.pop()) not in found:
            found.add(each)
            ahead += edges.get(each, ())
    return found


# Figures.


def measure(root: Path = ROOT) -> tuple[dict[str, Counter[str]], list[list[str]]]:
    """Measure the core, then each extension; return the figures, and the import circles."""
    sources = read_sources(root)
    strings = {name: list(string_imports(one, sources.keys())) for name, one in sources.items()}
    edges = {
        name: {*imports(one, sources.keys())}.union(*strings[name]) for name, one in sources.items()
    }
    edges["benchharness"] = set()  # the package imports its public names when they are first used
    found = circles(edges)
    circular = {module for circle in found for module in circle}
    parts: dict[str, Counter[str]] = {CORE: Counter()}
    for name, source in sources.items():
        parts.setdefault(source.part, Counter()).update(
            {
                LINES: source.text.count("\n"),
                FILES: 1,
                STRING_IMPORTS: len(strings[name]),
                ANY_KEYWORDS: sum(map(_is_any_keyword, source.nodes)),
                ANY: sum(map(_is_any, source.nodes)),
                CIRCULAR: name in circular,
            }
        )
    return parts, found


def _is_any(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "Any"


def _is_any_keyword(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.arguments)
        and node.kwarg is not None
        and _is_any(node.kwarg.annotation)
    )


def faults(
    parts: Mapping[str, Mapping[str, int]], limits: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    """Check the figures; yield a message for each exceeded limit and each part without limits."""
    for part, figures in parts.items():
        if part not in limits:
            tenth = tuple(map(_with_a_tenth, figures.values()))
            yield f"{part} has no limits: add `{part!r}: {tenth}` to _LIMITS in benchmarks/house.py"
            continue
        for name, value in figures.items():
            if value > (limit := limits[part][name]):
                yield (
                    f"{part}: {value:,} {name}, more than the limit of {limit:,}. Remove some, or "
                    f"raise the limit to {_with_a_tenth(value):,} in _LIMITS in "
                    "benchmarks/house.py and give the reason in a line of CHANGELOG.md."
                )


def _with_a_tenth(value: int) -> int:
    return value * 11 // 10


def main() -> int:
    """Print the figures and the exceeded limits; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is exceeded")
    is_check = parser.parse_args().check
    parts, found = measure()
    over = list(faults(parts, LIMITS))
    if is_check and not over:
        return 0
    for part, figures in parts.items():
        for name, value in figures.items():
            limit = LIMITS.get(part, {}).get(name, 0)
            print(f"{part:24} {name:26} {value:>8,}  at most {limit:>8,}")
    for circle in found:
        print(f"circle: {', '.join(circle)}")
    for line in over:
        print(line)
    return int(is_check)


if __name__ == "__main__":
    raise SystemExit(main())
