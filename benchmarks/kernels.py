"""Count the kernels that a training step launches on a GPU, without a GPU.

    python -m benchmarks.kernels

The step trains an encoder of BERT-base's depth in bf16 on 32 packaged rows of MRPC. Views and empty
tensors do not count. Attention counts as one kernel in the forward pass and three in the backward
pass, and an operation on a list of tensors as one. The last line of the output ends with the number
of kernels.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchharness.encoder import cuda
from benchharness.training import cuda as training_cuda
from benchharness.training import fused
from benchharness.training.loop import Training
from benchharness.worker.job import run_job
from tests.helpers.families import save_family
from tests.helpers.mini_jobs import make_job
from tests.helpers.pretend_gpu import pretended_gpu

NONE = ("empty", "new_empty", "_unsafe_view", "lift_fresh", "bernoulli_", "div_")
"""Operations that need no kernel. The last two are parts of a CPU's dropout, which is a single
kernel on a GPU."""

TWICE = ("select_backward", "slice_backward")
"""Operations that need two kernels: they fill with zeros and copy."""


class Kernels(TorchDispatchMode):
    """Dispatch mode that counts kernels by the names of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        is_none = func.is_view or name.startswith("_record") or name.removesuffix("_like") in NONE
        if not is_none:
            self.found[name] += 2 if name in TWICE else 1
        return func(*args, **(kwargs or {}))


class _Attention(torch.autograd.Function):
    """Stand-in for a GPU's attention, with as many operations as the GPU has kernels."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, _formula: Any) -> Tensor:
        ctx.save_for_backward(query, key, value)
        return query.clone()

    @staticmethod
    def backward(ctx: Any, _gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return *(states.clone() for states in ctx.saved_tensors), None


def _launch(_kernel: Any, _given: Any, made: Sequence[Tensor], *_: Any, **_options: bool) -> None:
    """Stand-in for the launch of a kernel of benchharness: one operation that writes zeros."""
    torch._foreach_zero_(made)


def count(family: str, sizes: Mapping[str, int]) -> tuple[Counter[str], int]:
    """Return the kernels of a job's third step, and how often the host waits for the GPU in it."""
    step, waits = Training._step, 0
    kernels = Kernels()

    def counted(training: Training) -> None:
        nonlocal waits
        if training.meter.step != 2:
            return step(training)
        before = gpu.waits.total()
        with kernels:
            step(training)
        waits = gpu.waits.total() - before
        return None

    with TemporaryDirectory() as folder:
        save_family(Path(folder) / family, family, **sizes)
        settings = {"batch_size": "32", "epochs": "3", "evaluations": "1"}
        job = make_job("mrpc", model=str(Path(folder) / family), **settings)
        with (
            pretended_gpu() as gpu,
            patch.object(Training, "_step", counted),
            patch.object(cuda, "_has_kernel", lambda *_: True),
            patch.object(cuda, "_by_kernel", _Attention.apply),
            patch.object(training_cuda, "fuse_norms", fused.fuse_norms),
            patch.object(fused, "_fault_of", lambda _: ""),
            patch.object(fused, "launch", _launch),
        ):
            run_job(replace(job, precision="bf16"))
    return kernels.found, waits


def main() -> None:
    found, waits = count("bert", {"num_hidden_layers": 12})
    for name, number in found.most_common():
        print(f"{number:5} {name}")
    print(f"a bf16 step of BERT-base's depth: {waits} waits, kernels: {found.total()}")


if __name__ == "__main__":
    main()
