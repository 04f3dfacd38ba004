"""Tests of fault 1: a job killed during training resumes to bit-identical results."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from benchharness.engines.fork_server import ForkServer
from benchharness.progress import SIGNALS, Interrupted
from benchharness.training.loop import Training
from benchharness.worker.job import run_job
from tests.helpers.soak import in_part
from tests.helpers.stopped_jobs import (
    EVERY_STEP,
    deterministic,
    forked,
    small_job,
    stop,
    wait_for_step,
)

BEST = {"evaluations": "6", "best_checkpoint": "true"}

ROADS = {
    "a number, in parts": ("stsb", {"accumulation": "2"}),
    "options": ("copa", {}),
    "spans": ("squad/v2.0", {}),
    "tags": ("conll2003/ner", {}),
    "frozen features": ("cola", {"features": "mix"}),
    "adapters, layer by layer": ("cola", {"lora_rank": "2", "unfreeze": "gradual"}),
    "roles": ("conll2012/srl", {}),
    "clusters": ("conll2012/coref", {"max_tokens": "24", "training_segments": "2", "limit": 4}),
    "the best of a number": ("stsb", BEST | {"early_stopping": "2"}),
    "the best of options": ("copa", BEST | {"select_on": "train:0.25"}),
    "the best of spans": ("squad/v2.0", BEST),
    "ends beside beginnings": ("squad/v2.0", {"answerable_weight": "0.5", "beam_size": "4"}),
    "the best of tags": ("conll2003/ner", BEST),
    "the best of adapters": ("cola", BEST | {"lora_rank": "2"}),
    "an average": ("cola", {"evaluations": "6", "average_last": "5", "schedule": "cosine"}),
}


@pytest.mark.parametrize(
    "settings",
    [pytest.param({}, marks=pytest.mark.soak), BEST | {"select_on": "train:0.25"}],
    ids=["last", "best"],
)
def test_01_job_resumed_after_sigkill_has_identical_weights_and_scores(
    tmp_path: Path, shared_forks: ForkServer, settings: dict[str, str]
):
    job, snapshots = small_job(**settings), tmp_path / "snapshots"
    expected = run_job(job, keep=tmp_path / "whole")
    options = ("--snapshots", snapshots, "--checkpoint-every", EVERY_STEP)
    with forked(shared_forks, job, tmp_path / "killed.json", *options) as (killed, _):
        wait_for_step(snapshots, 3, killed)
        os.kill(killed.pid, signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
    assert not (tmp_path / "killed.json").exists()
    found = run_job(job, snapshots=snapshots, keep=tmp_path / "again")
    assert deterministic(found) == deterministic(expected)
    assert found.provenance["resumed"]["times"] == 1
    assert found.provenance["resumed"]["steps"][0] >= 3
    assert "resumed" not in expected.provenance
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "again")]
    assert files[0].read_bytes() == files[1].read_bytes()


IN_CI = ("options", "spans", "tags", "adapters, layer by layer", "the best of a number")


@pytest.mark.parametrize("name", in_part(ROADS, IN_CI))
def test_01_resumed_job_has_identical_result_for_every_head_and_setting(
    tmp_path: Path, monkeypatch, name: str
):
    task, settings = ROADS[name]
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    job = small_job(task, **settings)
    expected = run_job(job)
    stop(job, tmp_path / "snapshots", step=5)
    found = run_job(job, snapshots=tmp_path / "snapshots")
    assert deterministic(found) == deterministic(expected)
    assert found.provenance["resumed"] == {"times": 1, "steps": [5]}


@pytest.mark.parametrize(("phase", "step"), [("predicting", 1), ("saving", 7)])
def test_01_job_stopped_in_evaluation_or_saving_resumes_identically(
    tmp_path: Path, phase: str, step: int
):
    """The first prediction belongs to the evaluation after step 6."""
    job = small_job()
    expected = run_job(job)
    stop(job, tmp_path / "snapshots", step, phase, checkpoint_every=EVERY_STEP)
    found = run_job(job, snapshots=tmp_path / "snapshots")
    assert deterministic(found) == deterministic(expected)
    assert found.provenance["resumed"]["times"] == 1


def test_01_job_stopped_four_times_resumes_identically(tmp_path: Path):
    job = small_job()
    expected = run_job(job)
    for step in (2, 3, 8, 12):
        stop(job, tmp_path / "snapshots", step)
    found = run_job(job, snapshots=tmp_path / "snapshots")
    assert deterministic(found) == deterministic(expected)
    assert found.provenance["resumed"] == {"times": 4, "steps": [2, 3, 8, 12]}


def test_01_snapshot_waits_until_best_weights_and_predictions_are_of_the_same_evaluation(
    tmp_path: Path, monkeypatch
):
    """A snapshot must not combine weights and predictions of different evaluations."""
    job = small_job("stsb", **BEST | {"learning_rate": "3e-3"})
    expected = run_job(job)
    assert expected.provenance["selection"]["step"] > 2, "this test needs a later best one"
    mark = Training.mark

    def mark_and_be_told(training: Training, *scores: Any) -> None:
        mark(training, *scores)
        if training.meter.step == expected.provenance["selection"]["step"] and scores[1:]:
            SIGNALS.take(signal.SIGTERM)

    monkeypatch.setattr(Training, "mark", mark_and_be_told)
    with pytest.raises(Interrupted):
        run_job(job, snapshots=tmp_path / "snapshots")
    monkeypatch.undo()
    found = run_job(job, snapshots=tmp_path / "snapshots")
    assert deterministic(found) == deterministic(expected)
    assert found.provenance["resumed"]["times"] == 1
