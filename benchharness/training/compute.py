"""Where a network is computed: in which processes, on which device, in which number format.

The precision "auto" is resolved where jobs are planned, because the answer is part of a job's key.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from benchharness.machine import STORE, count_processes, own_rank
from benchharness.tasks.errors import BenchError

# Processes that train one network together, each on its share of every batch.
#
# Each holds the whole network. A step's gradients are those of the whole batch's mean loss: every
# process adds up the terms of its share, divided by the terms of all, and then all processes add
# up theirs. So the weights stay the same everywhere, and are those of a single process but for
# rounding and for the draws of dropout.

BUCKET_NUMBERS = 16 * 2**20
"""How many gradients are sent at once: 64 MB in fp32, so that no second copy of all is made."""


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """The process with number `rank` of `count`; with one, everything here does nothing.

    `device` is where what they exchange has to lie.
    """

    rank: int = 0
    count: int = 1
    device: str = "cpu"

    @classmethod
    def join(cls, device: torch.device) -> Self:
        """Meets the others that torchrun, accelerate or our launcher has started, if any.

        They are told by RANK and WORLD_SIZE. GPUs exchange by NCCL where each has its own.
        """
        count, rank = count_processes(), own_rank()
        if count == 1:
            return cls()
        # NCCL refuses two processes on one GPU; gloo carries their numbers through main memory.
        own_gpu = device.type == "cuda" and torch.cuda.device_count() >= count
        file = os.environ.get(STORE)
        dist.init_process_group(
            "nccl" if own_gpu else "gloo",
            store=None if file is None else dist.FileStore(file, count),  # type: ignore[attr-defined]
            rank=rank,
            world_size=count,
        )
        return cls(rank=rank, count=count, device=str(device) if own_gpu else "cpu")

    @property
    def is_first(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self.rank == 0

    def share(self, items: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """This process's part of a batch, about as much work as that of the others."""
        if self.count == 1:
            return items
        # Dealt out by length, as cards are: no two shares differ by more than the longest row.
        order = np.argsort(-lengths[items], kind="stable")
        return items[order][self.rank :: self.count]

    def own_seed(self, seed: int, step: int) -> int:
        """A seed that no other process has, and that follows from the step alone."""
        # Hashed together: a sum would give rank 1 of step 2 the draws of rank 2 of step 1.
        return int(np.random.SeedSequence([seed, step, self.rank]).generate_state(1)[0])

    def greatest(self, number: int) -> int:
        """The greatest of the numbers that the processes have."""
        if self.count == 1:
            return number
        found = torch.tensor(number, device=self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def same(self, number: float | None) -> float | None:
        """The number that the first process has, for all of them to decide by."""
        if self.count == 1:
            return number
        found = torch.tensor(math.nan if number is None else number, dtype=torch.float64)
        found = found.to(self.device)
        dist.broadcast(found, 0)
        value = float(found)
        return None if math.isnan(value) else value

    def add_up(self, values: Tensor) -> Tensor:
        """The sum of what the processes have, which all of them get."""
        if self.count == 1:
            return values
        total = values.to(self.device, copy=True)  # all_reduce writes in place
        dist.all_reduce(total)
        return total.to(values.device)

    def add_gradients(self, weights: Sequence[nn.Parameter]) -> None:
        """Puts the sum of all processes' gradients in the place of each one's.

        A weight that none of them has reached keeps no gradient, which AdamW takes for "leave it".
        """
        if self.count == 1:
            return
        # A process without a share of a small batch has no gradients, but all must send the same.
        reached = torch.tensor([w.grad is not None for w in weights], device=self.device).int()
        dist.all_reduce(reached, dist.ReduceOp.MAX)
        flags = reached.tolist()
        for bucket in _buckets([w for w, flag in zip(weights, flags, strict=True) if flag]):
            gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in bucket]
            # One message of all numbers, (numbers,): hundreds of small ones would wait for each.
            total = self.add_up(torch.cat([gradient.flatten() for gradient in gradients]))
            sizes = [weight.numel() for weight in bucket]
            parts = total.split(sizes)  # type: ignore[no-untyped-call]
            for weight, part in zip(bucket, parts, strict=True):
                weight.grad = part.view_as(weight)


ALONE = Ranks()


def _buckets(weights: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """The weights in their order, together as many as are sent at once."""
    bucket: list[nn.Parameter] = []
    for weight in weights:
        if bucket and sum(w.numel() for w in bucket) + weight.numel() > BUCKET_NUMBERS:
            yield bucket
            bucket = []
        bucket.append(weight)
    if bucket:
        yield bucket


@dataclass(frozen=True, kw_only=True)
class Compute:
    """A device and the precision of its matrix products; weights and optimizer stay in fp32.

    `ranks` are the processes among which the rows are divided.

    Raises BenchError for a precision that is neither "fp32" nor "bf16", or a GPU without bf16.
    """

    device: torch.device
    precision: str
    ranks: Ranks = ALONE

    def __post_init__(self) -> None:
        if self.precision not in ("fp32", "bf16"):
            raise BenchError(f"no precision is called {self.precision!r}: use auto, fp32 or bf16.")
        if self.precision == "bf16" and self.on_gpu and not torch.cuda.is_bf16_supported():
            name = torch.cuda.get_device_name(self.device)
            raise BenchError(f"{name} has no bf16: use --precision fp32.")

    @property
    def on_gpu(self) -> bool:
        """True where work is queued and the host runs ahead of it."""
        return self.device.type == "cuda"

    def autocast(self) -> torch.autocast:
        """The context in which the precision holds; each weight is cast once within it."""
        # bf16 has fp32's range, so losses need no scaling as fp16's do.
        bf16 = self.precision == "bf16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=bf16)


def choose_kernels(device: torch.device, *, deterministic: bool) -> None:
    """Has a GPU give the same bits for the same work, or be as fast as it can.

    For the whole process, before its first product. An operation without such a kernel raises
    RuntimeError then. A CPU gives the same bits anyway.
    """
    if device.type != "cuda":
        return
    if deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # cuBLAS reads it when it begins
    torch.use_deterministic_algorithms(deterministic)
    # It would write into all fresh memory, which nothing here reads before it was written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def in_fp32(layer: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
    """What a layer makes of some states, in fp32 whatever the precision around it.

    For the last layer where many logits compete: bf16 has three digits, in which the best answers
    of a passage, or the options of a question, are often equal.
    """
    with torch.autocast(states.device.type, enabled=False):
        return layer(states.float())
