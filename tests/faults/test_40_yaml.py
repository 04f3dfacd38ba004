"""Tests of fault 40: YAML tags, alias bombs and repeated keys.

YAML is read in one module only, the results that models publish on the hub. Its tests are in
tests/extensions/hub_results/test_hub_files.py.
"""

import ast
import re
from pathlib import Path

import pytest

from benchharness.errors import BenchError
from benchharness.models import find_model
from benchharness.recipes.resolve import resolve_sweep

ROOT = Path(__file__).parents[2]
READER = ROOT / "benchharness" / "extensions" / "hub_results" / "layout.py"


def test_40_no_other_source_file_imports_a_yaml_library():
    for package in ("tasks", "leaderboard", "benchharness"):
        for path in {*(ROOT / package).rglob("*.py")} - {READER}:
            text = path.read_text(encoding="utf-8")
            nodes = list(ast.walk(ast.parse(text))) if re.search("yaml|ruamel", text) else []
            modules = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
            modules |= {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom)}
            assert not {m for m in modules if m.partition(".")[0] in ("yaml", "ruamel")}, path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("default: {epochs: !!python/object/apply:os.system ['true']}", "is not valid TOML"),
        ("[default]\nepochs = 3\nepochs = 4\n", "is not valid TOML"),
        ("[default]\nepochs = 3\n[default]\nepochs = 4\n", "is not valid TOML"),
        (f"[default]\nepochs = {'[' * 5000}", "is not valid TOML"),
    ],
    ids=["tags", "a key twice", "a table twice", "deep"],
)
def test_40_yaml_repeated_keys_and_deep_nesting_are_invalid_toml(
    tmp_path: Path, text: str, words: str
):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(BenchError, match=words):
        resolve_sweep(find_model("bert"), "glue/rte", str(path), {})


def test_40_sweep_with_too_many_combinations_of_values_is_an_error(tmp_path: Path):
    """Five settings with a hundred values each are 10^10 recipes; none is built."""
    names = ("learning_rate", "epochs", "weight_decay", "adam_epsilon", "max_grad_norm")
    lines = [f"{name} = {[n / 1000 for n in range(1, 101)]}" for name in names]
    path = tmp_path / "mine.toml"
    path.write_text("[default]\n" + "\n".join(lines))
    with pytest.raises(BenchError, match=r"10,000,000,000 combinations of values; expected"):
        resolve_sweep(find_model("bert"), "glue/rte", str(path), {})
