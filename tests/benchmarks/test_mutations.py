"""Mutation testing: the mutations of a source file, and a test run with one of them."""

import ast
import os

import pytest

from benchmarks.mutations import ROOT, TARGETS, mutated, mutations_of, passes

TEXT = """
@dataclass(frozen=True)
class Pair:
    count: Literal[1] = 2

def larger(a: int, b: int) -> bool:
    return not a <= b + 1
"""


def test_mutations_change_each_operator_and_number_once():
    found = mutations_of("pair.py", TEXT)
    assert {(each.line, each.before, each.after) for each in found} == {
        (4, "2", "3"),
        (7, "not a <= b + 1", "a <= b + 1"),
        (7, "a <= b + 1", "a < b + 1"),
        (7, "b + 1", "b - 1"),
        (7, "1", "2"),
    }
    for each in found:
        assert ast.unparse(mutated(TEXT, each)) != ast.unparse(ast.parse(TEXT))


@pytest.mark.slow
def test_mutation_test_process_imports_the_mutated_source(tmp_path):
    (tmp_path / "changed_sum.py").write_text("def add(a, b):\n    return a + b\n")
    test = tmp_path / "test_sum.py"
    test.write_text("from changed_sum import add\n\ndef test_sum():\n    assert add(2, 3) == 5\n")
    source = tmp_path / "changed_sum.py"
    (change,) = mutations_of("changed_sum.py", source.read_text())
    words = (str(test), "-c", os.devnull, "-o", f"pythonpath={tmp_path}")
    assert passes(words)
    assert not passes(words, source, mutated(source.read_text(), change))


def test_mutation_targets_and_their_tests_exist():
    for source, tests in TARGETS.items():
        assert all((ROOT / path).exists() for path in (source, *tests))
