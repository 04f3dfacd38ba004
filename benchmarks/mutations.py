"""Check that the tests nearest to some sources detect changed operators (`make mutations`).

One operator or number of a source is changed at a time, in memory, and the tests of that source run
until one fails. The changes are drawn at random with a seed. A change that no test detects either
does not matter or is untested; the reader has to decide which.
"""

import argparse
import ast
import copy
import gc
import importlib
import importlib.machinery
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def _tests(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/test_{name}.py" for name in names)


TARGETS: Mapping[str, tuple[str, ...]] = {
    "tasks/metrics/__init__.py": _tests(
        "tasks/metrics",
        *("choices", "classification", "correlation", "groups", "label_f1", "flags", "no_label"),
    ),
    "tasks/metrics/entities.py": (
        *_tests("tasks/metrics", "entities", "entities_seqeval"),
        *_tests("extensions/conll2012", "roles"),
    ),
    "benchharness/extensions/conll2012/metrics.py": _tests("extensions/conll2012", "coreference"),
    "benchharness/extensions/retrieval/metrics.py": _tests(
        "extensions/retrieval", "ranking_metrics"
    ),
    "benchharness/extensions/reading/metrics.py": _tests(
        "extensions/reading", "quac", "coqa", "hotpotqa"
    ),
    "tasks/metrics/squad.py": _tests("tasks/metrics", "squad_scores"),
    "leaderboard/statistics.py": ("tests/leaderboard/statistics",),
    "leaderboard/job.py": (*_tests("leaderboard", "job"), *_tests("leaderboard/boards", "naming")),
    "benchharness/training/batching.py": _tests("benchharness", "batching"),
    "benchharness/recipes/resolve.py": _tests(
        "benchharness",
        *(f"recipes{part}" for part in ("", "_choice", "_sweep", "_transfer", "_upstream")),
        "cli_request",
        "plan_starts",
    ),
}
"""Sources, mapped to the tests nearest to them."""

LIBRARIES = ("numpy", "scipy.stats", "sklearn.metrics", "sqlalchemy", "torch")
"""Libraries that are imported once; every trial is a fork that inherits them."""

_BOTH_WAYS: Mapping[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
    ast.And: ast.Or,
    ast.Add: ast.Sub,
    ast.Mult: ast.Div,
}
OTHER = {
    **_BOTH_WAYS,
    **{other: operator for operator, other in _BOTH_WAYS.items()},
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
"""Operators, mapped to the operators that replace them."""

ENDLESS = 120
"""Seconds after which a trial counts as endless."""


@dataclass(frozen=True)
class Mutation:
    """A change of one operator or number in a source.

    `node` is the index of the syntax node in `ast.walk`, and `operator` is the index of the
    operator in that node.
    """

    source: str
    line: int
    node: int
    operator: int
    before: str
    after: str


def mutations_of(source: str, text: str) -> list[Mutation]:
    """Return all changes of a source, sorted by line."""
    tree = ast.parse(text)
    left_out = set(_left_out(tree))
    found = []
    for place, node in enumerate(ast.walk(tree)):
        if node in left_out:
            continue
        for operator in range(_operators(node)):
            before, after = ast.unparse(node), ast.unparse(_changed(copy.deepcopy(node), operator))
            found.append(Mutation(source, node.lineno, place, operator, before, after))
    return sorted(found, key=lambda each: (each.line, each.node, each.operator))


def _left_out(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes of types, decorators and `strict=True`, which are never changed.

    A change of these nodes would be harmless or fatal.
    """
    for node in ast.walk(tree):
        kept: list[ast.AST | None] = []
        match node:
            case ast.FunctionDef():
                kept = [*node.decorator_list, node.returns]
            case ast.ClassDef():
                kept = [*node.decorator_list]
            case ast.AnnAssign() | ast.arg():
                kept = [node.annotation]
            case ast.keyword(arg="strict"):
                kept = [node.value]
        for part in filter(None, kept):
            yield from ast.walk(part)


def _operators(node: ast.AST) -> int:
    """Return how many different changes a node allows."""
    match node:
        case ast.Compare():
            return len(node.ops)
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign():
            return int(type(node.op) in OTHER)
        case ast.UnaryOp(op=ast.Not()):
            return 1
        case ast.Constant(value=int() | float()):
            return 1
    return 0


def _changed(node: ast.AST, operator: int) -> ast.AST:
    """Return the node with one of its operators changed."""
    match node:
        case ast.Compare():
            node.ops[operator] = OTHER[type(node.ops[operator])]()
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign():
            node.op = OTHER[type(node.op)]()
        case ast.UnaryOp():
            return node.operand
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant():
            node.value += 1
    return node


class _Swap(ast.NodeTransformer):
    def __init__(self, target: ast.AST, operator: int) -> None:
        self.target, self.operator = target, operator

    def visit(self, node: ast.AST) -> ast.AST:
        return _changed(node, self.operator) if node is self.target else super().visit(node)


def mutated(text: str, mutation: Mutation) -> ast.Module:
    """Return the syntax tree of the source with one change."""
    tree = ast.parse(text)
    target = list(ast.walk(tree))[mutation.node]
    return ast.fix_missing_locations(_Swap(target, mutation.operator).visit(tree))


def passes(
    tests: tuple[str, ...], path: Path | None = None, tree: ast.Module | None = None
) -> bool:
    """Return whether the tests pass in a process in which `path` is imported from `tree`."""
    if not (child := os.fork()):
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        if path and tree:
            _import_as(path, tree)
        # Asserts stay plain: to rewrite them, pytest would load the modules with its own loader.
        words = ("-x", "-q", "--assert=plain", "-p", "no:cacheprovider", f"--timeout={ENDLESS}")
        os._exit(int(pytest.main([*words, *tests])))
    deadline = time.monotonic() + 5 * ENDLESS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _import_as(path: Path, tree: ast.Module) -> None:
    loader, usual = (
        importlib.machinery.SourceFileLoader,
        importlib.machinery.SourceFileLoader.get_code,
    )

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> object:
        is_it = os.path.realpath(self.path) == os.path.realpath(path)
        return compile(tree, self.path, "exec") if is_it else usual(self, fullname)

    loader.get_code = get_code  # type: ignore[method-assign, assignment]


def main() -> None:
    """Print "caught" or "SURVIVED" for each trial, and the number of caught changes per source."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=6, help="mutants to test per file; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--source",
        action="append",
        choices=TARGETS,
        help="file to mutate (repeatable; default: all)",
    )
    parser.add_argument("--at-least", type=float, default=0.0, help="exit with 1 below this score")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.freeze()
    caught = tried = 0
    for source in options.source or TARGETS:
        tests, text = TARGETS[source], Path(source).read_text(encoding="utf-8")
        if not passes(tests):
            sys.exit(f"{source}: its tests fail without a change")
        drawn = mutations_of(source, text)
        if options.sample:
            count = min(options.sample, len(drawn))
            drawn = random.Random(f"{options.seed} {source}").sample(drawn, count)
        survived = 0
        for each in sorted(drawn, key=lambda each: each.line):
            alive = passes(tests, Path(source), mutated(text, each))
            survived += alive
            verdict = "SURVIVED" if alive else "caught"
            print(f"{verdict:8}  {source}:{each.line}  {each.before}  ->  {each.after}", flush=True)
        caught, tried = caught + len(drawn) - survived, tried + len(drawn)
        print(f"{source}: {len(drawn) - survived} of {len(drawn)} caught", flush=True)
    print(f"all: {caught} of {tried} caught")
    sys.exit(caught < options.at_least * tried)


if __name__ == "__main__":
    main()
