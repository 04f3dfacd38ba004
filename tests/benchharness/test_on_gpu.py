"""Tests of whole jobs on a GPU: head types, exact restarts, several processes, device names."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchharness.engines.process import WORKER
from benchharness.engines.slots import find_gpus, memory_of
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result
from benchharness.leaderboard.store.store import open_store
from benchharness.worker import job as job_module
from benchharness.worker.job import run_job
from tests.helpers.stopped_jobs import (
    EVERY_STEP,
    deterministic,
    outcome_of,
    small_job,
    start,
    wait_for_step,
)

pytestmark = pytest.mark.gpu

HEADS = ("cola", "stsb", "superglue/wic", "copa", "squad/v2.0", "conll2003/ner")
WAYS = ({"features": "mix"}, {"lora_rank": "2"}, {"frozen_layers": "1"}, {"accumulation": "2"})
THREADS = {"OMP_NUM_THREADS": "1"}
LAUNCHER = (sys.executable, "-P", "-m", "benchharness.worker.ranks", "2")


def result_of(job: Job, file: Path, *options: object, command: Sequence[str] = WORKER) -> Result:
    """Return the result of a job that runs in a separate process on the GPU of this one."""
    start(job, file, *options, command=command, environment=THREADS).wait()
    result = outcome_of(file)
    assert isinstance(result, Result), result
    return result


def losses(result: Result) -> list[float]:
    return [point.loss for point in result.curve]


@pytest.mark.parametrize("graphs", ["0", "1"])
@pytest.mark.parametrize("task", HEADS)
def test_losses_of_every_head_on_a_gpu_match_those_on_a_cpu(
    task: str, graphs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Disable dropout, which differs between devices; include steps of CUDA graphs."""
    monkeypatch.setenv(job_module.GRAPHS, graphs)
    job = small_job(task, dropout="0.0", classifier_dropout="0.0", epochs="2")
    found = run_job(job)
    monkeypatch.setattr(job_module, "_find_device", lambda **_: torch.device("cpu"))
    expected = run_job(job)
    assert found.provenance["machine"]["device"] != expected.provenance["machine"]["device"]
    np.testing.assert_allclose(losses(found), losses(expected), atol=2e-3)


@pytest.mark.parametrize(
    ("task", "precision", "settings"),
    [
        *((task, precision, {}) for task in HEADS for precision in ("bf16", "tf32")),
        *(("cola", "fp32", way) for way in WAYS),
    ],
)
def test_gpu_jobs_train_in_bf16_and_tf32_and_with_various_settings(
    task: str, precision: str, settings: dict[str, str]
) -> None:
    job = replace(small_job(task, **settings), precision=precision)
    assert np.isfinite(losses(run_job(job))).all()


@pytest.mark.parametrize("task", HEADS)
def test_killed_gpu_job_resumes_bit_for_bit(task: str, tmp_path: Path) -> None:
    """Use dropout and deterministic kernels."""
    job, snapshots = small_job(task, deterministic="true"), tmp_path / "snapshots"
    expected = result_of(job, tmp_path / "whole.json")
    options = ("--snapshots", snapshots, "--checkpoint-every", EVERY_STEP)
    killed = start(job, tmp_path / "killed.json", *options, environment=THREADS)
    wait_for_step(snapshots, 3, killed)
    killed.kill()
    killed.wait()
    found = result_of(job, tmp_path / "again.json", *options)
    assert deterministic(found) == deterministic(expected)
    assert found.provenance["resumed"]["steps"][0] >= 3


def test_two_processes_on_one_gpu_give_the_result_of_one_process(tmp_path: Path) -> None:
    """Use gloo on one GPU, because NCCL refuses two processes per GPU, otherwise NCCL."""
    job = small_job(dropout="0.0", classifier_dropout="0.0")
    together = result_of(job, tmp_path / "two.json", command=LAUNCHER)
    alone = result_of(job, tmp_path / "one.json")
    assert together.provenance["machine"]["processes"] == 2
    np.testing.assert_allclose(losses(together), losses(alone), atol=2e-3)


def test_used_and_free_gpu_memory_are_read() -> None:
    (gpu, *_) = find_gpus()
    before = memory_of(f"cuda:{gpu}")
    assert before is not None, "a GPU whose memory cannot be read takes one job at a time"
    held = torch.empty(2**28, dtype=torch.float32, device="cuda").normal_()  # 1 GiB
    torch.cuda.synchronize()
    now = memory_of(f"cuda:{gpu}")
    assert now is not None
    assert (now[0] > before[0] + 900, now[1] < before[1] - 900) == (True, True)
    del held


@pytest.mark.parametrize("by_uuid", [False, True], ids=["by number", "by UUID"])
def test_several_jobs_share_a_gpu_given_by_number_or_uuid(by_uuid: bool, tmp_path: Path) -> None:
    """Use `--jobs auto`, and a CUDA_VISIBLE_DEVICES that is a number or a UUID."""
    environment = dict(os.environ)
    if by_uuid:
        listing = subprocess.run(("nvidia-smi", "-L"), capture_output=True, text=True, check=True)
        uuid = re.search(r"UUID: (GPU-[^)]+)", listing.stdout)
        assert uuid
        environment["CUDA_VISIBLE_DEVICES"] = uuid[1]
    words = "run --model tiny --data mini --task cola --seeds 4 --limit 32 --no-baselines"
    subprocess.run(
        (sys.executable, "-P", "-m", "benchharness", *words.split(), "--device", "cuda"),
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    with open_store(tmp_path / "results" / "leaderboard.sqlite", create=False) as store:
        found = [store.result(row.key) for row in store.runs()]
    assert len(found) == 4
    assert {one.provenance["machine"]["device"] for one in found} == {torch.cuda.get_device_name()}
