"""Tests of fault 16: SIGTERM and SIGINT save a snapshot first, and score no partial training."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchharness.engines.process import WORKER
from benchharness.leaderboard.result import Failure
from benchharness.worker.job import run_job
from tests.helpers import ROOT
from tests.helpers.stopped_jobs import deterministic, outcome_of, small_job, start

JOB = small_job(epochs="100")

IGNORES_SIGINT = ("sh", "-c", 'trap "" INT; exec "$0" "$@"')
"""Command prefix that ignores SIGINT, as POSIX does for `command &` in a script."""


@pytest.fixture(scope="module")
def whole() -> Mapping[str, Any]:
    """Return the result of the job without an interruption."""
    return deterministic(run_job(JOB))


@pytest.mark.parametrize(
    ("number", "code", "before"),
    [
        pytest.param(signal.SIGTERM, 143, IGNORES_SIGINT, marks=pytest.mark.soak),
        (signal.SIGINT, 130, ()),
    ],
    ids=["SIGTERM, and SIGINT ignored", "SIGINT"],
)
def test_16_interrupted_job_saves_a_snapshot_stores_no_scores_and_resumes(
    tmp_path: Path, whole: Mapping[str, Any], number: int, code: int, before: Sequence[str]
):
    """The default interval is long, so only the signal can have caused the snapshot."""
    kept = tmp_path / "kept"
    process = start(
        JOB, tmp_path / "result.json", "--snapshots", kept, pipe=True, command=(*before, *WORKER)
    )
    assert process.stdout
    with process.stdout as lines:
        next(line for line in lines if b'"training"' in line)
        process.send_signal(number)
        rest = lines.read()
    assert process.wait() == code
    assert b'"saving"' in rest, "the engine is told to wait"
    failure = outcome_of(tmp_path / "result.json")
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.exit_code) == ("interrupted", code)
    assert "evaluations" not in failure.to_json()
    (snapshot,) = kept.iterdir()
    assert 1 <= int(snapshot.name[5:]) < 200
    found = run_job(JOB, snapshots=kept)
    assert found.provenance["resumed"]["times"] == 1
    assert deterministic(found) == whole


PROGRAM = """
import sys
from functools import partial
sys.path.insert(0, {root!r})
from tests.helpers.fake_worker import COMMAND, make_job
import benchharness.engines.local as choice
import benchharness.driver.plan as plan
import benchharness.driver.session as session
from benchharness.cli.app import main
choice.LocalEngine = partial(choice.LocalEngine, command=COMMAND)
jobs = (make_job("slow:600", "glue/rte"), make_job("ok", "glue/cola"))
session.plan = lambda request: plan.Plan(jobs=jobs, rows={{}})
sys.argv = ["bench", "run", "--model", "tiny", "--suite", "glue", "--data", "mini", "--jobs", "2"]
sys.argv += ["--no-baselines"]
main()
"""

INTERRUPTED = "tests/benchharness/test_cli_interrupt.py"


def test_16_background_command_ignores_sigint_and_ends_on_sigterm(tmp_path: Path):
    process = subprocess.Popen(
        (*IGNORES_SIGINT, sys.executable, "-P", "-c", PROGRAM.format(root=str(ROOT))),
        cwd=tmp_path,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "BENCH_DB": "board.sqlite"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    next(line for line in process.stderr if line.startswith("[1/2]"))
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "bench: interrupted; 1 of 2 jobs are stored" in errors


@pytest.mark.soak
def test_16_interrupt_tests_pass_if_sigint_is_ignored_at_start(tmp_path: Path):
    """Regression test: `make test &` hung in the tests that send SIGINT."""
    words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    words += ("-k", "keeps and 130")
    ended = subprocess.run(
        (*IGNORES_SIGINT, *words, f"--basetemp={tmp_path / 'inner'}", INTERRUPTED),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "1 passed" in ended.stdout
