"""Tests that whole jobs on a simulated GPU have the results of a CPU.

Kernels and speed are tested with `pytest -m gpu`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from benchharness.extensions.conll2012 import head as coref
from benchharness.leaderboard.job import Job
from benchharness.training.loop import Training
from benchharness.worker.job import GRAPHS, run_job
from benchharness.worker.zero_shot import run_zero_shot
from tests.helpers.families import FAMILIES, save_family
from tests.helpers.mini_jobs import QUICK, make_job, make_shared_job
from tests.helpers.plans import plan_job, plan_jobs
from tests.helpers.pretend_gpu import CPU, GPU, pretended_gpu
from tests.helpers.soak import in_part
from tests.helpers.stopped_jobs import EVERY_STEP, deterministic, small_job, stop
from tests.helpers.text_models import save_text_model, text_job

SHORT = {"dropout": "0.0", "classifier_dropout": "0.0", "epochs": "2", "batch_size": "8"}
"""Settings of short jobs without dropout, which differs between a CPU and a GPU."""

TASKS = (
    *("cola", "stsb", "superglue/wic", "superglue/wsc", "superglue/copa", "superglue/multirc"),
    *("superglue/record", "race/all", "squad/v2.0", "quac/quac", "coqa/coqa"),
    *("hotpotqa/distractor", "conll2003/ner", "conll2012/srl", "conll2012/coref"),
)
"""One task per head type and per way to encode its rows."""

COLA = partial(make_job, "cola", limit=8, **SHORT)

JOBS: dict[str, Callable[[], Job]] = {
    **{task: partial(make_job, task, limit=8, **SHORT) for task in TASKS},
    "features": partial(COLA, features="mix"),
    "LoRA": partial(COLA, lora_rank="2"),
    "frozen layers": partial(COLA, frozen_layers="1"),
    "the best": partial(COLA, best_checkpoint="true"),
    "an average": partial(COLA, average_last="2"),
    "Adafactor": partial(COLA, optimizer="adafactor", weight_decay="0.0"),
    "deterministic": partial(COLA, deterministic="true"),
    "micro-batches": partial(COLA, accumulation="2"),
    "bf16": lambda: replace(COLA(accumulation="2"), precision="bf16"),
    "together": partial(make_shared_job, "cola", "stsb", "squad/v2.0", limit=8, **SHORT),
}

WAITING_JOBS = {
    "conll2012/coref",  # its network needs the number of spans on the host
    "features",  # the states of frozen encoders are on disk; those of each batch are fetched
}

WAITING_FAMILIES = {
    # Rows of each length are computed separately, so every step reads the lengths.
    "convbert",
    "funnel",
    # In each step, transformers checks whether the mask hides any token.
    "longformer",  # also reads which tokens have global attention
    "xlnet",  # one_hot reads the maximum of its input on a CPU, but not on a GPU
}


def compare(job: Job, **options: Path) -> Counter[str]:
    """Run a job on both devices; return the synchronizations of all steps after the first."""
    waits: Counter[str] = Counter()
    step = Training._step

    def counted(training: Training) -> None:
        before, is_first = Counter(gpu.waits), training.meter.step == 0
        step(training)
        if not is_first:
            waits.update(gpu.waits - before)

    with pretended_gpu() as gpu, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_step", counted)
        found = run_job(job, **options)
    expected = run_job(job, **options)
    assert found.provenance["machine"]["device"] == "Pretended H100"
    assert len(found.curve) > 1
    losses = ([point.loss for point in result.curve] for result in (found, expected))
    np.testing.assert_allclose(*losses, rtol=2e-4, atol=2e-4)
    return waits


RECORDED = [(job, graphs) for job in JOBS for graphs in ("computed", "recorded")]
LONG = {"conll2012/coref", "conll2012/srl", "hotpotqa/distractor", "superglue/record"}
IN_CI = {(job, graphs) for job, graphs in RECORDED if graphs == "recorded" and job not in LONG}


@pytest.mark.parametrize(("job", "graphs"), in_part(RECORDED, IN_CI))
def test_job_on_a_simulated_gpu_has_the_result_of_a_cpu(
    job: str, graphs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(GRAPHS, "1" if graphs == "recorded" else "0")
    monkeypatch.setattr(coref, "DROPOUT", 0.0)
    waits = compare(JOBS[job]())
    assert (job in WAITING_JOBS) == bool(waits), waits


@pytest.mark.parametrize("family", in_part(FAMILIES, [*FAMILIES][::3]))
def test_every_family_on_a_simulated_gpu_has_the_result_of_a_cpu(
    family: str, tmp_path: Path
) -> None:
    save_family(tmp_path / family, family)
    waits = compare(make_job("cola", limit=8, model=str(tmp_path / family), **SHORT))
    assert (family in WAITING_FAMILIES) == bool(waits), waits


@pytest.mark.parametrize("task", in_part(["glue/cola", "squad/v1.1"], ["glue/cola"]))
def test_text_to_text_job_on_a_simulated_gpu_has_the_result_of_a_cpu(
    task: str, tmp_path: Path
) -> None:
    waits = compare(text_job(save_text_model(tmp_path / "t5"), task, limit=4, dropout="0"))
    # Each of the five steps reads two masks and the length of the longest answer.
    assert waits == {"aten._local_scalar_dense": 15}


def test_zero_shot_job_on_a_simulated_gpu_has_the_result_of_a_cpu() -> None:
    job = plan_job("tiny", "copa", shots=[0], limit=4, precision="fp32")
    with pretended_gpu() as gpu:
        found = run_zero_shot(job)
    chosen = [p["option"] for p in found.evaluations[0].predictions]
    assert chosen == [p["option"] for p in run_zero_shot(job).evaluations[0].predictions]
    # The scores of the whole split are copied once, at the end.
    assert gpu.waits["a copy to cpu"] == 1


@pytest.mark.parametrize("task", ["stsb", "squad/v2.0"])
def test_student_job_on_a_simulated_gpu_has_the_result_of_a_cpu(task: str, tmp_path: Path) -> None:
    teacher = make_job(task, limit=8, **SHORT)
    (_, student) = plan_jobs(
        "tiny",
        task,
        overrides=QUICK | SHORT | {"layers": "1", "layer_weight": "0.5"},
        limit=8,
        precision="fp32",
        teacher=(teacher,),
    ).jobs
    run_job(teacher, keep=tmp_path)
    compare(student, teacher=tmp_path)


def test_interrupted_job_on_a_simulated_gpu_resumes_bit_for_bit(tmp_path: Path) -> None:
    """Use dropout, whose random generators on a GPU are stored in snapshots by device name."""
    job = small_job(limit=8)
    with pretended_gpu():
        expected = run_job(job)
        stop(job, tmp_path, checkpoint_every=EVERY_STEP)
        found = run_job(job, snapshots=tmp_path)
    assert found.provenance["resumed"]["steps"]
    assert deterministic(found) == deterministic(expected)


def test_simulated_gpu_tensors_refuse_cpu_tensors_and_numpy() -> None:
    with pretended_gpu() as gpu:
        there, here = torch.ones(3, device=GPU), torch.ones(3)
        assert (there.device, (there + 1).device, here.device) == (GPU, GPU, CPU)
        # A tensor without dimensions may be on either device.
        assert (there * torch.tensor(2.0)).is_cuda
        with pytest.raises(RuntimeError, match="same device"):
            there + here
        with pytest.raises(TypeError, match="numpy"):
            there.numpy()
        assert not gpu.waits


def test_the_simulated_gpu_counts_synchronizations() -> None:
    with pretended_gpu() as gpu:
        values, ones = torch.arange(4).to(GPU), torch.ones(2, requires_grad=True).to(GPU)
        for waiting in (
            values[0].item,
            values.nonzero,
            values.tolist,
            values.cpu,
            lambda: values[values > 1],
            lambda: values[torch.tensor([1])],
            lambda: bool((values > 1).all()),
            lambda: values.float().masked_scatter(values > 1, ones).sum().backward(),
        ):
            gpu.waits.clear()
            waiting()
            assert gpu.waits
