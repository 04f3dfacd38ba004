"""Tests that `bench check` finds bugs planted in a copy of the training code, each with one run.

Most are too small for scores: the tiny encoder hardly needs token types, and a smoothed label costs
no accuracy. The first losses of the same seed show them at once (docs/regression.md).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchharness.leaderboard.job import METHOD

ROOT = Path(__file__).parent.parent
BENCH = (sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()")
WHAT = ("--model", "tiny", "--suite", "glue", "--task", "rte", "--limit", "100")
SETTINGS = ("batch_size=8", "epochs=2", "warmup_ratio=0")
HOW = (*(word for each in SETTINGS for word in ("--set", each)), "--device", "cpu", "--jobs", "1")

PAIR, BATCHING = "benchharness/heads/pair.py", "benchharness/training/batching.py"
LOSS = 'cross_entropy(logits.float(), targets, reduction="none"'
TYPES = "np.where(mask, features.token_types[places], 0)"
BUGS = {
    "label smoothing": (PAIR, LOSS, f"{LOSS}, label_smoothing=0.1"),
    "the labels off by one": (PAIR, LOSS, LOSS.replace("targets", "1 - targets")),
    "a wrong maximum length": (PAIR, "room = limits.max_tokens - frame.size", "room = 8"),
    "shuffled token types": (
        BATCHING,
        TYPES,
        TYPES.replace("features.token_types[places]", "np.random.permutation(mask.T).T"),
    ),
}
"""File, original code and replacement of each bug."""


def planted(folder, file, right, wrong):
    """Copy the code, plant the bug in the copy, and return its folder."""
    for package in ("benchharness", "leaderboard", "tasks"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignore, symlinks=True)
    source = (folder / file).read_text()
    assert source.count(right) == 1
    (folder / file).write_text(source.replace(right, wrong))
    return folder


def check_planted(folder, bug, words):
    """Run `bench check` with a bug in the code."""
    code = planted(folder / "code", *BUGS[bug])
    return subprocess.run(
        (*BENCH, *words),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(code), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


SOAK = tuple(pytest.param(bug, marks=pytest.mark.soak) for bug in list(BUGS)[1:])
"""Bugs of the soak run: each costs as much time as the one that is always tested."""


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("bug", [next(iter(BUGS)), *SOAK])
def test_bench_check_exits_with_3_if_a_bug_is_planted_and_otherwise_with_0(bench, tmp_path, bug):
    made = ("--db", "x.sqlite", "--out", "x.html", "--data", "mini", "--no-baselines")
    assert bench("run", *WHAT, *HOW, *made, "--seeds", "2").code == 0
    assert bench("check", "--write", *WHAT, "--allow-weak", "--db", "x.sqlite").code == 0
    check = ("check", *WHAT, *HOW, "--seeds", "1", "--json")
    clean = bench(*check)
    assert clean.code == 0, clean.out + clean.err
    ended = check_planted(tmp_path, bug, check)
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert json.loads(ended.stdout)["tasks"]["glue/rte"]["change"]["step"] <= 10


@pytest.mark.slow
@pytest.mark.soak
def test_wrong_maximum_length_is_reported_as_a_regression(tmp_path):
    """Keep four tokens of each text, which also lowers the scores."""
    baseline = json.loads((ROOT / "results" / "baseline.json").read_text())
    for sample in baseline["tasks"].values():  # accept a baseline of an older training method
        sample["conditions"]["method"] = METHOD
    (tmp_path / "baseline.json").write_text(json.dumps(baseline))
    check = ("check", *WHAT[:-2], "--set", "batch_size=8", "--seeds", "1", "--device", "cpu")
    found = ("--jobs", "1", "--baseline", "baseline.json", "--json")
    ended = check_planted(tmp_path, "a wrong maximum length", (*check, *found))
    assert ended.returncode == 3, ended.stdout + ended.stderr
    rte = json.loads(ended.stdout)["tasks"]["glue/rte"]
    assert rte["drop"] > rte["tolerated_drop"]
    assert sum(flip["now"] < flip["before"] for flip in rte["flips"]) > 10
