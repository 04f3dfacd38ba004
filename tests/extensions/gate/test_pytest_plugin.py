"""`@pytest.mark.bench(...)` in another project: a regression fails the test."""

import os
import subprocess
import sys
from collections import defaultdict

import pytest

from benchharness.cli.app import main
from benchharness.extensions.gate.gate import failure_of_marked
from tests.helpers import ROOT
from tests.helpers.learned_engine import LearnedEngine
from tests.helpers.own_files import GOOD

CONFTEST = """
from collections import defaultdict

from tests.helpers.learned_engine import LearnedEngine

import benchharness.engines.local

shares = defaultdict(lambda: 0.9, {"glue/rte": 0.8})
benchharness.engines.local.LocalEngine = LearnedEngine(shares, world=1)
"""
TESTS = """
import pytest

@pytest.mark.bench(model="tiny", task="glue/sst2", limit=100, set=["epochs=2"], seeds=1)
def test_sst2():
    print("the body runs too")

@pytest.mark.bench(model="tiny", task=["glue/rte"], limit=100, set=["epochs=2"], seeds=2)
def test_rte():
    raise AssertionError("the body of a failed check does not run")

@pytest.mark.bench(
    model="tiny", data_file="reviews.csv", columns="text=text,label=label", metric="accuracy",
    baseline="own.json", set=["epochs=2"], seeds=1,
)
def test_own_rows():
    pass

@pytest.mark.bench(model="tiny", task="glue/rte", limit=7)
def test_another_limit():
    pass
"""


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    """Project with a baseline that RTE cannot reach, and tests with the marker."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_DB", raising=False)
    engine = LearnedEngine(defaultdict(lambda: 0.9, {"glue/rte": 0.98}))
    monkeypatch.setattr("benchharness.engines.local.LocalEngine", engine)
    GOOD["comma"].write(tmp_path)
    words = "--model tiny --task glue/rte --task glue/sst2 --data mini"
    options = "--limit 100 --set epochs=2 --precision fp32 --no-baselines --device cpu"
    own = "--model tiny --data-file reviews.csv --metric accuracy"
    for command in (
        f"run {words} {options}",
        f"check --write {words}",
        f"run {own} {options}",
        "check --write --model tiny --suite reviews --out own.json",
    ):
        monkeypatch.setattr(sys, "argv", ["bench", *command.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (tmp_path / "test_project.py").write_text(TESTS)
    return tmp_path


def test_pytest_marker_runs_a_check_that_fails_at_a_regression(project):
    command = (sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTEST_ADDOPTS", None)
    ended = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert "2 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "2 failed" in ended.stdout
    assert "the body runs too" in ended.stdout
    assert "the body of a failed check" not in ended.stdout
    assert "| RTE |" in ended.stdout
    assert "this check uses limit=7" in ended.stdout
    assert "Traceback" not in ended.stdout


@pytest.mark.parametrize(
    ("words", "arguments", "sentence"),
    [
        (
            (),
            {"model": "tiny", "limt": 100},
            "@pytest.mark.bench: got an unexpected keyword argument 'limt'. It accepts ",
        ),
        (("tiny",), {"model": "tiny"}, "@pytest.mark.bench: too many positional arguments"),
        (
            (),
            {"task": "glue/rte"},
            tuple(  # the latter since Python 3.13
                f"@pytest.mark.bench: missing a required {what}: 'model'"
                for what in ("argument", "keyword-only argument")
            ),
        ),
        (
            (),
            {"model": "tiny", "task": "glue/rte", "limit": "100"},
            "limit= must be a whole number from 1 up, got '100'.",
        ),
    ],
)
def test_invalid_pytest_marker_arguments_are_an_error(project, words, arguments, sentence):
    assert failure_of_marked(project, *words, **arguments).startswith(sentence)
