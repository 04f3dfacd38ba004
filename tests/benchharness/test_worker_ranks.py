"""Tests of several worker processes per job, which start and end together and give one result."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchharness.kept_folders import Holds
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.machine import STORE, count_processes, forget_others, own_rank
from benchharness.worker import ranks
from benchharness.worker.job import run_job
from tests.helpers import ROOT
from tests.helpers.fake_worker import make_job as make_fake_job
from tests.helpers.mini_jobs import make_job

LAUNCHER = (sys.executable, "-P", "-m", "benchharness.worker.ranks")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
QUIET = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo"}

FAKE = """
import json, os, signal, sys, time
sys.path.insert(0, sys.argv.pop(1))
from tests.helpers.fake_worker import keep, make_failure, make_result
from benchharness.worker.__main__ import rank_file
from benchharness.leaderboard.job import Job
from pathlib import Path
file, rank = Path(sys.argv[1]), int(os.environ["RANK"])
job = Job.from_json(json.load(sys.stdin))
if rank == 0:
    print(json.dumps({"phase": "training"}), flush=True)
if job.recipe == "fails" and rank == 1:
    keep(rank_file(file, 1), make_failure(job, "rank 1 has diverged.", 1, "diverged"))
    sys.exit(1)
if job.recipe == "fails":
    while not rank_file(file, 1).exists():  # what it misses has ended
        time.sleep(0.02)
    keep(file, make_failure(job, "RuntimeError: gloo: Connection closed by peer"))
    sys.exit(1)
if job.recipe == "dies" and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if job.recipe == "dies":
    time.sleep(600)
facts = {"told": dict(os.environ), "words": sys.argv[2:], "held": os.fstat(int(job.seed)).st_ino}
keep(rank_file(file, rank), make_result(job, facts))
"""


def launch(
    job: Job, file: Path, command: Sequence[str], *words: str, held: Sequence[int] = ()
) -> tuple[int, str]:
    ended = subprocess.run(
        (*command, str(file), *words),
        check=False,
        input=json.dumps(job.to_json()).encode(),
        stdout=subprocess.PIPE,
        env=os.environ | QUIET,
        pass_fds=held,
        timeout=250,
    )
    return ended.returncode, ended.stdout.decode()


def launch_fake(recipe: str, file: Path, held: int = 0) -> tuple[int, str]:
    """Run fake workers; the job's seed is the file descriptor that they must inherit."""
    code = (
        "import sys; from pathlib import Path; from benchharness.worker import ranks; "
        "ranks.GRACE_SECONDS = 1.0; "
        f"sys.exit(ranks.main(2, Path(sys.argv[1]), ['--keep', 'x'], "
        f"(sys.executable, '-c', {FAKE!r}, {str(ROOT)!r})))"
    )
    job = make_fake_job(recipe, seed=held)
    return launch(job, file, (sys.executable, "-c", code), held=[held] if held else [])


def test_each_process_of_a_job_gets_the_job_and_its_rank(tmp_path):
    file = tmp_path / "result.json"
    status, output = launch_fake("ok", file)
    assert (status, output) == (0, '{"phase": "training"}\n')
    found = Result.from_json(json.loads(file.read_text())).provenance
    assert found["words"] == ["--keep", "x"]
    told: dict[str, Any] = found["told"]
    assert (told["RANK"], told["LOCAL_RANK"], told["WORLD_SIZE"]) == ("0", "0", "2")
    assert told["LOCAL_WORLD_SIZE"] == "2", "not that of a torchrun around us"
    assert told["GLOO_SOCKET_IFNAME"] == "lo"
    assert not Path(told[STORE]).parent.exists()


def test_each_process_of_a_job_gets_its_own_mig_instance(monkeypatch):
    """CUDA shows a process only one MIG instance, but all whole GPUs."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-aa,MIG-bb")
    told = [ranks._told(rank, 2, "folder") for rank in range(2)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in told] == ["MIG-aa", "MIG-bb"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert "CUDA_VISIBLE_DEVICES" not in ranks._told(1, 2, "folder")


def test_each_process_of_a_job_inherits_the_lock_of_the_launcher(tmp_path):
    """The lock of a job is then free only after its last process has ended."""
    file, holds = tmp_path / "result.json", Holds(tmp_path / "locks")
    assert holds.take("job")
    held = holds.descriptor("job")
    assert held is not None
    assert launch_fake("ok", file, held)[0] == 0
    found = Result.from_json(json.loads(file.read_text())).provenance
    assert found["held"] == os.fstat(held).st_ino
    holds.close()


@pytest.mark.soak
def test_failure_of_a_job_is_the_failure_of_its_first_process_to_fail(tmp_path):
    file = tmp_path / "result.json"
    status, _ = launch_fake("fails", file)
    failure = Failure.from_json(json.loads(file.read_text()))
    assert (status, failure.kind, failure.error) == (1, "diverged", "rank 1 has diverged.")


def test_killed_process_ends_the_other_processes_and_its_signal_is_returned(tmp_path):
    file = tmp_path / "result.json"
    status, _ = launch_fake("dies", file)
    assert status == -9
    assert not file.exists()


def test_forget_others_makes_a_process_count_as_the_only_one(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    assert (count_processes(), own_rank()) == (4, 3)
    forget_others()
    assert (count_processes(), own_rank()) == (1, 0)


@pytest.fixture(scope="module")
def job() -> Job:
    return make_job("glue/rte", limit=33, dropout="0.0", classifier_dropout="0.0")


@pytest.fixture(scope="module")
def alone(job: Job) -> Result:
    return run_job(job)


def assert_alike(result: Result, alone: Result) -> None:
    """Assert equality within rounding: losses, scores, and the scores of each prediction."""
    assert result.job == alone.job
    for ours, theirs in zip(result.curve, alone.curve, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, abs=1e-5)
    for ours, theirs in zip(result.evaluations, alone.evaluations, strict=True):
        assert ours.scores == pytest.approx(theirs.scores, abs=1e-9)
        for one, other in zip(ours.predictions, theirs.predictions, strict=True):
            np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-5)
    assert result.provenance["machine"]["processes"] == 2
    assert (result.cost.steps, result.cost.train_tokens) == (
        alone.cost.steps,
        alone.cost.train_tokens,
    )


@pytest.mark.soak
def test_job_in_two_processes_gives_the_result_of_one(job, alone, tmp_path):
    file = tmp_path / "result.json"
    status, output = launch(job, file, (*LAUNCHER, "2"))
    assert status == 0
    assert_alike(Result.from_json(json.loads(file.read_text())), alone)
    phases = [json.loads(line)["phase"] for line in output.splitlines()]
    assert list(dict.fromkeys(phases)) == ["loading", "encoding", "training", "predicting"]
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.slow
@pytest.mark.soak
def test_job_in_two_torchrun_processes_gives_the_result_of_one(job, alone, tmp_path):
    described, file = tmp_path / "job.json", tmp_path / "result.json"
    described.write_text(json.dumps(job.to_json()))
    command = (*TORCHRUN, "-m", "benchharness.worker", str(file), "--job")
    status, _ = launch(job, described, command)
    assert status == 0
    assert_alike(Result.from_json(json.loads(file.read_text())), alone)
