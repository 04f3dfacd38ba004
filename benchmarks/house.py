"""Measures the source tree: `make house` prints the figures and the limit for each.

All figures are of tracked files; lines are those of `wc -l`. `--check` exits with 1 where a limit
is exceeded.
"""

import argparse
import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent

PACKAGES = ("benchharness", "leaderboard", "tasks")
TORCH = ("encoder", "heads", "training", "worker")
TORCH_CODE = tuple(f"benchharness/{name}/" for name in TORCH)

ANSWER_MODULES = ("tasks/examples.py", "tasks/task.py", "tasks/answers/", "benchharness/heads/")
"""Where code may tell kinds of answers apart."""

ANSWERS = re.compile(
    r"(Pair|Span|Choice|Tag|Role|Coref|Document|Cluster|Text|Class|Number)(Example|Prediction|Task)$"
)

RUN_OPTIONS = frozenset(
    """model models suite suites task tasks together data data_file hf columns metric seeds seed
    recipe set settings overrides shots start_from teacher limit test splits precision device jobs
    engine timeout db out log force halving baselines no_baselines trust_remote_code allow_pickle
    trust skip_missing dry_run encoding""".split()  # noqa: SIM905
)
OPTIONS_IN_A_LIST = 12
"""So many of them in one signature or class are a list of a run's options."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured number; `limit` is what it must stay under, None where it is only shown."""

    name: str
    value: float
    limit: float | None = None
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the value keeps to its limit."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value < self.limit


def measure() -> list[Figure]:
    """The figures of the tree, in the order in which they are printed."""
    source = _texts(*(f"{package}/*.py" for package in PACKAGES))
    tests = _texts("tests/*.py")
    helpers = {name: text for name, text in tests.items() if name.startswith("tests/helpers/")}
    torch = {name: text for name, text in source.items() if name.startswith(TORCH_CODE)}
    trees = {name: ast.parse(text) for name, text in source.items()}
    return [
        Figure(name="source files", value=len(source), limit=226),
        Figure(name="source lines", value=_lines(source), limit=50_000),
        Figure(name="lists of a run's options", value=_count(trees, _option_lists), limit=2),
        Figure(name="noqa: PLR0913", value=_occurrences(source, "noqa: PLR0913"), limit=10),
        Figure(name="dispatches on answers", value=_count(_outside(trees), _dispatches), limit=25),
        Figure(name="imports in functions", value=_count(trees, _late_imports), limit=30),
        Figure(name="comments in 100 lines", value=_comments(source), limit=4, at_least=True),
        Figure(name="of them in torch code", value=_comments(torch), limit=8, at_least=True),
        Figure(name="functions over 60 lines", value=_count(trees, _long_functions)),
        Figure(name="lines of tests", value=_lines(tests), limit=52_000),
        Figure(name="of them helpers", value=_lines(helpers), limit=7_000),
        Figure(name="words of documentation", value=_words(_texts("*.md")), limit=45_000),
    ]


def _texts(*patterns: str) -> dict[str, str]:
    """The tracked files that match, by name."""
    names = subprocess.run(
        ("git", "ls-files", "--", *patterns), cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    return {name: (ROOT / name).read_text() for name in names if (ROOT / name).is_file()}


def _lines(texts: Mapping[str, str]) -> int:
    return sum(text.count("\n") for text in texts.values())


def _words(texts: Mapping[str, str]) -> int:
    return sum(len(text.split()) for text in texts.values())


def _occurrences(texts: Mapping[str, str], words: str) -> int:
    return sum(text.count(words) for text in texts.values())


def _count(trees: Mapping[str, ast.AST], found_in: Callable[[ast.AST], Iterator[ast.AST]]) -> int:
    return sum(1 for tree in trees.values() for _ in found_in(tree))


def _outside(trees: Mapping[str, ast.Module]) -> dict[str, ast.Module]:
    return {name: tree for name, tree in trees.items() if not name.startswith(ANSWER_MODULES)}


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _long_functions(tree: ast.AST) -> Iterator[ast.AST]:
    return (node for node in _functions(tree) if (node.end_lineno or 0) - node.lineno >= 60)


def _late_imports(tree: ast.AST) -> Iterator[ast.AST]:
    found = {
        node
        for function in _functions(tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    return iter(found)


def _option_lists(tree: ast.AST) -> Iterator[ast.AST]:
    for function in _functions(tree):
        names = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
        if len(names & RUN_OPTIONS) >= OPTIONS_IN_A_LIST:
            yield function
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            names = {field.id for field in fields if isinstance(field, ast.Name)}
            if len(names & RUN_OPTIONS) >= OPTIONS_IN_A_LIST:
                yield node


def _dispatches(tree: ast.AST) -> Iterator[ast.AST]:
    """`isinstance`, `case` and comparisons of a head's name that tell answers apart."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]) if _is_answer(kinds):
                yield node
            case ast.MatchClass(cls=kind) if _is_answer(kind):
                yield node
            case ast.Compare(left=ast.Attribute(attr="head")):
                yield node
            case ast.Match(subject=ast.Attribute(attr="head"), cases=cases):
                yield from cases


def _is_answer(kinds: ast.AST) -> bool:
    names = (n.id if isinstance(n, ast.Name) else getattr(n, "attr", "") for n in ast.walk(kinds))
    return any(ANSWERS.match(name) for name in names)


def _comments(texts: Mapping[str, str]) -> float:
    comments = sum(
        token.type == tokenize.COMMENT
        for text in texts.values()
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    )
    return round(100 * comments / _lines(texts), 1)


def main() -> int:
    """Prints the table; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 over a limit")
    arguments = parser.parse_args()
    figures = measure()
    for each in figures:
        bound = "at least" if each.at_least else "under"
        limit = "" if each.limit is None else f"{bound} {each.limit:,}"
        print(f"{each.name:26} {each.value:>9,} {limit:>16} {'' if each.holds else '!'}".rstrip())
    return int(arguments.check and not all(each.holds for each in figures))


if __name__ == "__main__":
    raise SystemExit(main())
