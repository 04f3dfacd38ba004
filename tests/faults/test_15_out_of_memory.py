"""Tests of fault 15: out of memory, a job checkpoints activations, then halves micro-batches."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from benchharness.errors import JobError
from benchharness.training import loop as training
from benchharness.training import predict as prediction
from benchharness.training.compute import Part
from benchharness.worker.job import run_job
from tests.helpers.stopped_jobs import EVERY_STEP, Reporter, deterministic, small_job, stop

pytestmark = pytest.mark.usefixtures("frozen_heap")


def limit_micro_batches(
    monkeypatch: pytest.MonkeyPatch, items: int, after: int = 0, *, kept: bool = False
) -> None:
    """Raise the GPU's error for micro-batches larger than `items`, after `after` calls.

    With `kept`, raise it only if the layers keep their activations.
    """
    made = 0
    part = training._backward_part

    def backward(*args: Any, **options: Any) -> torch.Tensor:
        nonlocal made
        made += 1
        computes_again = any(getattr(m, "gradient_checkpointing", False) for m in args[0].modules())
        if made > after and len(options["part"]) > items and not (kept and computes_again):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        return part(*args, **options)

    monkeypatch.setattr(training, "_backward_part", backward)


def without_recipe(result: Any) -> dict[str, Any]:
    found = dict(deterministic(result))
    return {name: found[name] for name in found if name not in ("job", "recipe")}


def test_15_halved_micro_batches_give_the_result_of_accumulation_2(monkeypatch: pytest.MonkeyPatch):
    expected = run_job(small_job(accumulation="2"))
    limit_micro_batches(monkeypatch, 4, after=3)
    reporter = Reporter()
    found = run_job(small_job(), reporter)
    assert without_recipe(found) == without_recipe(expected), "dropout's draws too"
    assert found.provenance["recipe"]["accumulation"] == 2
    assert found.provenance["recipe"]["batch_size"] == 8
    assert found.job.settings["accumulation"].value == 1
    again, note = reporter.notes
    assert "with activation_checkpointing" in again
    assert "2 micro-batches per batch" in note


def test_15_activation_checkpointing_after_oom_keeps_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Check that no micro-batch is halved, also if the job is stopped and resumed."""
    expected = run_job(small_job())
    assert "activation_checkpointing" not in expected.provenance["recipe"]
    limit_micro_batches(monkeypatch, 4, kept=True)
    folder = tmp_path / "snapshots"
    stop(small_job(), folder, 5, checkpoint_every=EVERY_STEP)
    reporter = Reporter()
    found = run_job(small_job(), reporter, snapshots=folder)
    assert not any("ran out" in note for note in reporter.notes), "its snapshot says it already"
    assert without_recipe(found) == without_recipe(expected)
    recipe = found.provenance["recipe"]
    assert (recipe["accumulation"], recipe["activation_checkpointing"]) == (1, True)


def test_15_job_resumed_after_oom_keeps_the_smaller_micro_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    expected = run_job(small_job(accumulation="2"))
    with monkeypatch.context() as limited:
        limit_micro_batches(limited, 4)
        stop(small_job(), tmp_path / "snapshots", 5, checkpoint_every=EVERY_STEP)
    found = run_job(small_job(), snapshots=tmp_path / "snapshots")
    assert without_recipe(found) == without_recipe(expected)
    assert found.provenance["recipe"]["accumulation"] == 2
    assert found.provenance["resumed"]["steps"] == [5]


def test_15_oom_with_micro_batches_of_one_row_fails_the_job(monkeypatch: pytest.MonkeyPatch):
    limit_micro_batches(monkeypatch, 0)
    reporter = Reporter()
    with pytest.raises(JobError, match=r"every micro-batch has only one example") as caught:
        run_job(small_job(), reporter)
    assert (caught.value.kind, caught.value.exit_code) == ("memory", 1)
    again, *halved = reporter.notes
    assert "activation_checkpointing" in again
    assert [re.findall(r"(\d+) micro-batches", note)[-1] for note in halved] == ["2", "4", "8"]


def test_15_oom_in_evaluation_shrinks_only_evaluation_batches(monkeypatch: pytest.MonkeyPatch):
    expected = run_job(small_job())

    class SmallPart(Part):
        @classmethod
        def of(cls, features: Any, items: Any, *where: Any, **how: Any) -> Any:
            if len(items) > 5:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return super().of(features, items, *where, **how)

    monkeypatch.setattr(prediction, "Part", SmallPart)
    found = run_job(small_job())
    assert found.provenance["recipe"] == expected.provenance["recipe"]
    assert [point.loss for point in found.curve] == [point.loss for point in expected.curve]
    labels = [[row["label"] for row in e.predictions] for e in found.evaluations]
    assert labels == [[row["label"] for row in e.predictions] for e in expected.evaluations]


@pytest.mark.gpu
def test_15_job_on_a_full_gpu_finishes_with_smaller_micro_batches():
    """Limit the GPU to 80 % of the peak memory, so that only smaller micro-batches fit."""
    job = small_job(batch_size="512", limit=None, max_tokens="128")
    torch.cuda.reset_peak_memory_stats()
    run_job(job)
    needed, (_, total) = torch.cuda.max_memory_allocated(), torch.cuda.mem_get_info()
    prediction.free_memory()
    torch.cuda.set_per_process_memory_fraction(0.8 * needed / total)
    try:
        found = run_job(job)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert found.provenance["recipe"]["accumulation"] > 1


def test_15_onednn_primitive_error_counts_as_out_of_memory(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any, **__: Any) -> torch.Tensor:
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr(training, "_backward_part", refuse)
    with pytest.raises(JobError, match="memory ran out") as raised:
        run_job(small_job())
    assert raised.value.kind == "memory"
