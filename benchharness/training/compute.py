"""Where a network is computed: in which processes, on which device, in which number format.

The precision "auto" is resolved where jobs are planned, because the answer is part of a job's key.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from benchharness.encoder.packing import OF_PACKING, Packing, parts_of, send
from benchharness.machine import STORE, count_processes, own_rank
from benchharness.tasks.errors import BenchError
from benchharness.training.batching import Features, Indices, expand, pad, tail_of

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
        on_node = int(os.environ.get("LOCAL_WORLD_SIZE", count))  # torchrun's: those of this node
        own_gpu = device.type == "cuda" and torch.cuda.device_count() >= on_node
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
        found = [number]
        dist.broadcast_object_list(found, 0, device=torch.device(self.device))
        return found[0]

    def add_up(self, values: Tensor) -> Tensor:
        """The sum of what the processes have, which all of them get."""
        if self.count == 1:
            return values
        total = values.to(self.device, copy=True)  # all_reduce writes in place
        dist.all_reduce(total)
        return total.to(values.device)

    def add_gradients(self, weights: Sequence[nn.Parameter]) -> None:
        """Puts the sum of all processes' gradients instead of each one's.

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
            parts = parts_of(total, [weight.shape for weight in bucket])
            for weight, part in zip(bucket, parts, strict=True):
                weight.grad = part


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


PRECISIONS = ("fp32", "tf32", "bf16")
"""Number formats of matrix products. tf32 is fp32 of which a GPU multiplies the first ten bits of
the mantissa, at half of bf16's peak; nothing is stored in it."""


@dataclass(frozen=True, kw_only=True)
class Compute:
    """A device and the precision of its matrix products; weights and optimizer stay in fp32.

    `ranks` are the processes among which the rows are divided. `graphs` says whether steps are
    recorded and replayed on a GPU.

    Raises BenchError for a precision that is none of PRECISIONS, or that the device has not.
    """

    device: torch.device
    precision: str
    ranks: Ranks = ALONE
    graphs: bool = False

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise BenchError(f"no precision is called {self.precision!r}: use auto, {known}.")
        has_bf16 = not self.on_gpu or torch.cuda.is_bf16_supported()
        has_tf32 = self.on_gpu and torch.cuda.is_tf32_supported()
        if not {"fp32": True, "bf16": has_bf16, "tf32": has_tf32}[self.precision]:
            name = torch.cuda.get_device_name(self.device) if self.on_gpu else "a CPU"
            raise BenchError(f"{name} has no {self.precision}: use --precision fp32.")

    @property
    def on_gpu(self) -> bool:
        """True where work is queued and the host runs ahead of it."""
        return self.device.type == "cuda"

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """The context in which the precision holds; each weight is cast once within it."""
        # bf16 has fp32's range, so losses need no scaling as fp16's do. A cast that was kept would
        # not be in what is recorded after it.
        options = {"enabled": self.precision == "bf16", "cache_enabled": not self.graphs}
        # cuDNN's are convolutions (ConvBERT, SqueezeBERT) and LSTMs, in tf32 unless told otherwise.
        cudnn: Any = torch.backends.cudnn
        kinds = (torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn)
        before = [kind.fp32_precision for kind in kinds]
        for kind in kinds:
            kind.fp32_precision = "tf32" if self.precision == "tf32" else "ieee"
        try:
            with torch.autocast(self.device.type, dtype=torch.bfloat16, **options):
                yield
        finally:
            for kind, precision in zip(kinds, before, strict=True):
                kind.fp32_precision = precision


def choose_kernels(device: torch.device, *, deterministic: bool) -> None:
    """Has a GPU give the same bits for the same work, or be as fast as it can.

    For the whole process, before its first product. An operation without such a kernel raises
    RuntimeError then. A CPU gives the same bits anyway.
    """
    if device.type != "cuda":
        return
    if deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # cuBLAS reads it when it begins
    if deterministic != torch.are_deterministic_algorithms_enabled():  # it imports a compiler
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


# What is computed at once, on its device: inputs, where their tokens stand, and what they are of.
#
# All that a step needs of the host goes with its batch, in one copy that nothing waits for. So on a
# GPU the host does not stop before it reads a loss.

Layout = Literal["padded", "packed", "bucket"]
"""How rows are computed: with padding, end to end, or end to end in one of a few sizes."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some items of a batch that has `terms` losses in all: a micro-batch.

    `tensors` are on the device: the padded inputs, named in `inputs`; those of the packing; the
    `items`' numbers; and, where items have several rows, in which of the `slots` of a table (items,
    options) each row's logit stands. `packs` says whether the network computes packed rows.
    """

    terms: int | Tensor
    tensors: dict[str, Tensor]
    named: tuple[str, ...]
    packs: bool
    lengths: NDArray[np.int64]
    width: int
    tail: int
    options: int

    @classmethod
    def of(
        cls,
        features: Features,
        items: Indices,
        device: torch.device,
        *,
        terms: int = 1,
        layout: Layout,
    ) -> Self:
        """The rows of some items."""
        rows = features.rows_of(items)
        lengths, sizes = features.lengths[rows], features.item_sizes[items]  # (rows,), (items,)
        # One width and few tails, so that few layouts recur.
        in_buckets = layout == "bucket"
        tail = tail_of(int(lengths.sum()), features.width) if in_buckets else 0
        arrays = pad(features, rows, features.width if in_buckets else None)
        named, width = tuple(arrays), arrays["input_ids"].shape[1]
        arrays |= zip(OF_PACKING, Packing.indices(lengths, width, tail), strict=True)
        arrays["items"] = items
        if in_buckets:
            arrays["terms"] = np.asarray(terms)  # a number would stay in the record
        options = 0
        if features.items is not None:
            options = int(sizes.max())  # of the item with the most rows
            arrays["slots"] = expand(np.arange(len(items)) * options, sizes)
        return cls(
            terms=terms,
            tensors=dict(zip(arrays, send([*arrays.values()], device), strict=True)),
            named=named,
            packs=layout != "padded",
            lengths=lengths,
            width=width,
            tail=tail,
            options=options,
        )

    def __len__(self) -> int:
        return len(self.tensors["items"])

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """What the network is called with."""
        inputs: dict[str, Any] = {name: self.tensors[name] for name in self.named}
        if self.packs:
            indices: dict[str, Any] = {name: self.tensors[name] for name in OF_PACKING}
            inputs["packing"] = Packing(
                lengths=self.lengths, width=self.width, tail=self.tail, **indices
            )
        return inputs

    @property
    def layout(self) -> tuple[Any, ...]:
        """All that shapes what is computed: two parts of one layout differ in tensors alone."""
        shapes = tuple((name, tensor.shape) for name, tensor in self.tensors.items())
        return (shapes, self.packs, self.width, self.tail > 0, self.options)

    def in_place(self, tensors: dict[str, Tensor]) -> Self:
        """The part of other tensors of the same layout, whatever will be written to them."""
        return replace(self, tensors=tensors, terms=tensors["terms"])

    def side_by_side(self, logits: Tensor) -> Tensor:
        """Logits (rows, ...) of items of several rows as (items, options, ...), -inf for none."""
        if not self.options:
            return logits
        rest = logits.shape[1:]
        table = logits.new_full((len(self) * self.options, *rest), -torch.inf)
        filled = table.index_copy(0, self.tensors["slots"], logits)  # (items * options, ...)
        return filled.view(len(self), self.options, *rest)
