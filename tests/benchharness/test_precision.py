import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from benchharness.driver.options import RunOptions
from benchharness.driver.plan import plan, resolve_precision
from benchharness.driver.request import Request
from benchharness.engines.local import LocalEngine, Placement
from benchharness.engines.slots import Slot
from benchharness.errors import BenchError, JobError
from benchharness.leaderboard.result import Result
from benchharness.machine import cpu_flags, cpu_has_bf16, main_memory
from benchharness.models import find_model
from benchharness.tasks.suites import find_task
from benchharness.training.compute import Compute, choose_kernels
from benchharness.training.predict import MemoryRanOutError
from benchharness.worker.job import find_compute, in_enough_parts
from tests.helpers.plans import plan_jobs
from tests.helpers.stopped_jobs import small_job

CPU = torch.device("cpu")


@pytest.mark.parametrize("precision", ["auto", "fp16", ""])
def test_job_with_precision_auto_or_an_unknown_precision_is_an_error(precision: str):
    with pytest.raises(BenchError, match="no precision is called"):
        Compute(device=CPU, precision=precision)


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_matrix_products_use_the_requested_precision_and_weights_are_fp32(
    precision: str, dtype: torch.dtype
):
    layer = torch.nn.Linear(4, 4)
    with Compute(device=CPU, precision=precision).autocast():
        assert layer(torch.randn(2, 4)).dtype == dtype
    with Compute(device=CPU, precision=precision, graphs=True).autocast():
        assert not torch.is_autocast_cache_enabled(), "a record would lack its casts"
    assert layer.weight.dtype == torch.float32


def test_bf16_precision_on_a_gpu_without_bf16_is_an_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla K80")
    with pytest.raises(BenchError, match="Tesla K80 does not support bf16: use --precision fp32"):
        Compute(device=torch.device("cuda"), precision="bf16")
    assert Compute(device=torch.device("cuda"), precision="fp32").on_gpu


def test_precision_tf32_requires_a_gpu(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BenchError, match="a CPU does not support tf32: use --precision fp32"):
        Compute(device=CPU, precision="tf32")
    with pytest.raises(BenchError, match="tf32 needs a GPU"):
        resolve_precision("tf32", gpu=False)
    assert resolve_precision("tf32", gpu=True) == "tf32"
    assert resolve_precision("auto", gpu=True) == "bf16"
    monkeypatch.setattr(torch.cuda, "is_tf32_supported", lambda: True)
    compute = Compute(device=torch.device("cuda"), precision="tf32")
    cudnn: Any = torch.backends.cudnn
    kinds = (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn)
    before = [kind.fp32_precision for kind in kinds]
    with compute.autocast():
        assert {kind.fp32_precision for kind in kinds} == {"tf32"}
        assert not torch.is_autocast_enabled("cuda")
    with Compute(device=CPU, precision="fp32").autocast():
        assert {kind.fp32_precision for kind in kinds} == {"ieee"}, "cuDNN's default is tf32"
    assert [kind.fp32_precision for kind in kinds] == before


@pytest.mark.parametrize(
    ("name", "on", "off"), [("allow_tf32", True, False), ("fp32_precision", "tf32", "none")]
)
def test_tf32_setting_of_another_library_is_overridden_in_a_job_and_then_restored(
    name: str, on: bool | str, off: bool | str
):
    """torch raises an error if the old name is read after a process has set the new one."""
    products = torch.backends.cuda.matmul
    setattr(products, name, on)
    try:
        with Compute(device=CPU, precision="fp32").autocast():
            assert products.fp32_precision == "ieee"
        assert getattr(products, name) == on
    finally:
        setattr(products, name, off)


def test_a_gpu_that_torch_cannot_use_is_an_error(monkeypatch: pytest.MonkeyPatch):
    """With an old driver or a CPU build of torch, the job must not run on a CPU."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for told in ("0", "3,5", "GPU-1a2b", "MIG-1a2b"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", told)
        with pytest.raises(BenchError, match=f"use GPU {told}: "):
            find_compute("fp32", deterministic=False)
    for told in ("", "-1", "NoDevFiles"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", told)
        assert find_compute("fp32", deterministic=False).device == CPU


@pytest.mark.parametrize(
    "said", ["out of memory", "CUDA-capable device(s) is/are busy or unavailable"]
)
def test_gpu_that_accepts_no_further_process_raises_an_out_of_memory_error(
    said: str, monkeypatch: pytest.MonkeyPatch
):
    """This error makes `--jobs auto` run the job again alone."""

    def refuse(_: int) -> None:
        raise torch.AcceleratorError(f"CUDA error: {said}\nCompile with TORCH_USE_CUDA_DSA")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", refuse)
    with pytest.raises(
        MemoryRanOutError, match=r"accepts no further process \(CUDA error: [^\n]*\): run"
    ):
        find_compute("fp32", deterministic=False)


@pytest.mark.parametrize(("has_bf16", "precision"), [(True, "bf16"), (False, "fp32")])
def test_auto_precision_is_bf16_if_the_gpus_of_the_slots_support_it(
    has_bf16: bool, precision: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("benchharness.driver.plan.have_bf16", lambda _: has_bf16)
    places = Placement(slots=(Slot(device="cuda:0", environment={}),), engine=LocalEngine)
    options = RunOptions(data="mini", limit=8, baselines=False)
    request = Request(
        options=options,
        models=(find_model("tiny"),),
        tasks=(find_task("glue/rte"),),
        seeds=(1,),
        overrides={},
        placement=places,
    )
    as_bf16 = replace(request, options=replace(options, precision="bf16"))
    assert [job.precision for job in plan(request).jobs] == [precision]
    assert [job.precision for job in plan(as_bf16).jobs] == ["bf16"]


def test_precision_tf32_is_part_of_the_job_key():
    planned = partial(
        plan_jobs, [find_model("tiny")], [find_task("glue/rte")], "mini", [1], limit=8
    )
    jobs = [*planned(precision="fp32").jobs, *planned(precision="tf32", gpu=True).jobs]
    assert [job.precision for job in jobs] == ["fp32", "tf32"]
    assert jobs[0].key != jobs[1].key


def test_deterministic_kernels_are_requested_only_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    asked: list[bool] = []
    monkeypatch.setattr(torch, "use_deterministic_algorithms", asked.append)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: asked[-1:] == [True])
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    choose_kernels(CPU, deterministic=True)
    choose_kernels(torch.device("cuda"), deterministic=False)
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    # So that monkeypatch restores the variable after the test.
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    choose_kernels(torch.device("cuda", 0), deterministic=True)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    choose_kernels(torch.device("cuda", 0), deterministic=False)
    assert asked == [True, False], "only what changes: it imports a compiler"


def test_an_operation_without_a_deterministic_kernel_is_an_error():
    def attempt(*_: int) -> Result:
        raise RuntimeError("cumsum_cuda_kernel does not have a deterministic implementation, but")

    with pytest.raises(JobError, match=r"cumsum_cuda_kernel .* omit the setting deterministic"):
        in_enough_parts(attempt, small_job(), lambda _: None)


@pytest.mark.parametrize(
    ("flags", "able"),
    [("fpu avx512f amx_bf16 amx_tile", True), ("avx512_bf16", True), ("avx2 avx512f", False)],
)
def test_bf16_support_is_read_from_processor_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, able: bool
):
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\nprocessor\t: 1\nflags\t\t: none\n")
    assert cpu_has_bf16(cpuinfo) is able
    assert cpu_flags(cpuinfo) == set(flags.split())


@pytest.mark.parametrize(
    ("kernels", "able"), [("avx2", False), ("default", False), ("avx512", True)]
)
def test_bf16_is_not_chosen_if_torch_is_limited_to_kernels_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: str, able: bool
):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags\t\t: avx512f avx512_bf16\n")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", kernels)
    assert cpu_has_bf16(cpuinfo) is able


def test_flags_of_arm_processors_are_read_from_the_line_features(tmp_path: Path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd bf16\n")
    assert cpu_flags(cpuinfo) == {"fp", "asimd", "bf16"}


def test_processor_flags_are_empty_without_cpuinfo(tmp_path: Path):
    assert cpu_flags(tmp_path / "absent") == frozenset()
    assert not cpu_has_bf16(tmp_path / "absent")


def test_detected_main_memory_is_limited_by_the_container(tmp_path: Path):
    physical = main_memory(tmp_path / "none")
    assert physical > 1 << 28
    limit = tmp_path / "memory.max"
    for text, expected in (("max\n", physical), ("1048576\n", 1 << 20), (f"{1 << 60}", physical)):
        limit.write_text(text)
        assert main_memory(limit) == expected
