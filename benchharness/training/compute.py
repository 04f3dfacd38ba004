"""Environment of a computation: processes, device and number format.

The precision "auto" never occurs here: it is replaced with a concrete one when a job is planned,
because the precision is part of the job's key.
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
from benchharness.errors import BenchError
from benchharness.machine import STORE, count_processes, own_rank
from benchharness.training.batching import Features, Indices, expand, pad, tail_of

# Data-parallel training: several processes train one network, each on its share of every batch.
#
# Each process has the whole network. The gradients of a step are computed from the batch's mean
# loss: every process divides the losses of its share by the number of terms of the whole batch, and
# the gradients of all processes are summed. So the weights stay equal in all processes, and differ
# from those of a single process only by rounding and by the random numbers of dropout.

BUCKET_NUMBERS = 16 * 2**20
"""Maximum number of gradient values that are sent at once: 64 MB in fp32. Sending all at once would
need a second copy of all gradients."""


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Communication of this process with the other processes that train the same network.

    With a single process, nothing is exchanged, and a sum or maximum over the processes is the
    process's own value.

    Attributes:
        rank: Number of this process, from 0.
        count: Number of processes.
        device: Device to which tensors are copied before they are exchanged.
    """

    rank: int = 0
    count: int = 1
    device: str = "cpu"

    @classmethod
    def join(cls, device: torch.device) -> Self:
        """Connect to the other processes that torchrun, accelerate or benchharness has started.

        The environment variables RANK and WORLD_SIZE contain the number of this process and the
        number of all processes. With one process, there is no connection. Otherwise, the processes
        communicate through NCCL if each has its own GPU, else through gloo.

        Args:
            device: Device on which this process trains.
        """
        count, rank = count_processes(), own_rank()
        if count == 1:
            return cls()
        # NCCL refuses two processes on one GPU; gloo communicates through main memory.
        on_node = int(os.environ.get("LOCAL_WORLD_SIZE", count))  # set by torchrun
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
        """True for the process that reports progress and writes files for all processes."""
        return self.rank == 0

    def share(self, items: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the items of this process's share of a batch.

        The shares have about equal numbers of tokens.

        Args:
            items: Indices of the items of the batch.
            lengths: Number of tokens of every item in the data.
        """
        if self.count == 1:
            return items
        # Deal the items out by length, like cards. The numbers of tokens of two shares then differ
        # by at most the length of the longest item.
        order = np.argsort(-lengths[items], kind="stable")
        return items[order][self.rank :: self.count]

    def own_seed(self, seed: int, step: int) -> int:
        """Return a seed, derived from `seed`, that differs between processes and between steps."""
        # Hash the numbers: with a sum, rank 1 at step 2 would draw the same as rank 2 at step 1.
        return int(np.random.SeedSequence([seed, step, self.rank]).generate_state(1)[0])

    def greatest(self, number: int) -> int:
        """Return, in every process, the maximum of the numbers that the processes pass."""
        if self.count == 1:
            return number
        found = torch.tensor(number, device=self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)

    def same(self, number: float | None) -> float | None:
        """Return, in every process, the number that the first process passes."""
        if self.count == 1:
            return number
        found = [number]
        dist.broadcast_object_list(found, 0, device=torch.device(self.device))
        return found[0]

    def add_up(self, values: Tensor) -> Tensor:
        """Return, in every process, the sum of the tensors that the processes pass."""
        if self.count == 1:
            return values
        total = values.to(self.device, copy=True)  # all_reduce writes in place
        dist.all_reduce(total)
        return total.to(values.device)

    def add_gradients(self, weights: Sequence[nn.Parameter]) -> None:
        """Replace the gradients of each process with their sums over all processes.

        The gradient of a weight that has none in any process stays None, so that AdamW leaves the
        weight unchanged.
        """
        if self.count == 1:
            return
        # A process without a share of a small batch has no gradients, but must send equal shapes.
        reached = torch.tensor([w.grad is not None for w in weights], device=self.device).int()
        dist.all_reduce(reached, dist.ReduceOp.MAX)
        flags = reached.tolist()
        for bucket in _buckets([w for w, flag in zip(weights, flags, strict=True) if flag]):
            gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in bucket]
            # Send one message with all values, (numbers,), instead of hundreds of small messages.
            total = self.add_up(torch.cat([gradient.flatten() for gradient in gradients]))
            parts = parts_of(total, [weight.shape for weight in bucket])
            for weight, part in zip(bucket, parts, strict=True):
                weight.grad = part


ALONE = Ranks()


def _buckets(weights: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Yield the weights in order, in groups that are small enough to be sent at once."""
    bucket: list[nn.Parameter] = []
    for weight in weights:
        if bucket and sum(w.numel() for w in bucket) + weight.numel() > BUCKET_NUMBERS:
            yield bucket
            bucket = []
        bucket.append(weight)
    if bucket:
        yield bucket


PRECISIONS = ("fp32", "tf32", "bf16")
"""Number formats in which matrix products are computed. With tf32, values are stored in fp32, but a
GPU multiplies only the first ten bits of the mantissa, at half of bf16's peak speed."""


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Device and number format of a computation; weights and optimizer stay in fp32.

    Raises BenchError for a precision that is unknown or that the device does not support.

    Attributes:
        device: Device of the computation.
        precision: Number format of the computation, one of PRECISIONS.
        ranks: Processes that share the rows of every batch.
        graphs: Whether steps are recorded as CUDA graphs and replayed.
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
            raise BenchError(f"{name} does not support {self.precision}: use --precision fp32.")

    @property
    def on_gpu(self) -> bool:
        """True if the device is a GPU, which computes asynchronously."""
        return self.device.type == "cuda"

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Context manager in which matrix products are computed with `precision`.

        Convolutions and LSTMs are computed with it, too.
        """
        # bf16 has fp32's range, so losses are not scaled, unlike with fp16. Graphs must not use the
        # cache of casts: a cast that is found in the cache would be missing in the recorded graph.
        options = {"enabled": self.precision == "bf16", "cache_enabled": not self.graphs}
        # cuDNN computes convolutions (ConvBERT, SqueezeBERT) and LSTMs, by default in tf32.
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
    """Make computation on a GPU deterministic, or as fast as possible, for the whole process.

    This must be called before the first matrix product. If `deterministic` is true, operations
    without a deterministic kernel raise RuntimeError. On a CPU nothing is changed, because
    computation is always deterministic there.
    """
    if device.type != "cuda":
        return
    if deterministic:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # read when cuBLAS is initialized
    # Call this function only if needed, because it imports a compiler.
    if deterministic != torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(deterministic)
    # Filling fresh memory costs time, and nothing here reads memory before writing it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def in_fp32(layer: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
    """Apply a layer to states in fp32, even under autocast.

    Output layers with many competing logits need this: with bf16's three digits, the best answers
    in a passage, or the options of a question, would often have equal logits.
    """
    with torch.autocast(states.device.type, enabled=False):
        return layer(states.float())


# Micro-batches on their device: inputs, and indices of tokens and items.
#
# All data that a step needs from the host is copied asynchronously together with its batch. So the
# host does not wait for a GPU until it reads a loss.

Layout = Literal["padded", "packed", "bucket"]
"""Form in which the rows of a batch are computed: "padded"; "packed", i.e. concatenated without
padding; or "bucket", i.e. packed and then padded at the end to one of a few sizes."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Micro-batch: some items of a batch, with their tensors on the device.

    Attributes:
        terms: Number of losses of the whole batch, by which the sum of losses is divided. It is a
            tensor if the micro-batch is recorded as a CUDA graph.
        tensors: Tensors on the device, keyed by name: the padded inputs; the fields of the packing
            in OF_PACKING; "items", the indices of the items in the data; "terms", the attribute
            `terms` (only for the layout "bucket"); and "slots", the index of each row's logits in a
            flattened array `[items, options]` (only if items have several rows).
        named: Names of the padded inputs in `tensors`.
        packs: Whether the network computes packed rows.
        lengths: Number of tokens of each row without padding.
        width: Number of tokens of each padded row.
        tail: Number of padding tokens at the end of the packed row (see encoder/packing.py).
        options: Number of rows of the largest item; 0 if every item is one row.
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
        """Create a micro-batch from some items, and start copying it to the device.

        Args:
            features: Encoded rows of a split.
            items: Indices of the items in the features.
            device: Device of the computation.
            terms: Number of losses of the whole batch; not used in prediction.
            layout: Form in which the rows are computed (see Layout).
        """
        rows = features.rows_of(items)
        lengths, sizes = features.lengths[rows], features.item_sizes[items]  # (rows,), (items,)
        # Use one width and few tail sizes, so that there are few layouts.
        in_buckets = layout == "bucket"
        tail = tail_of(int(lengths.sum()), features.width) if in_buckets else 0
        arrays = pad(features, rows, features.width if in_buckets else None)
        named, width = tuple(arrays), arrays["input_ids"].shape[1]
        arrays |= zip(OF_PACKING, Packing.indices(lengths, width, tail), strict=True)
        arrays["items"] = items
        if in_buckets:
            arrays["terms"] = np.asarray(terms)  # a graph would record a number as a constant
        options = 0
        if features.items is not None:
            options = int(sizes.max())  # number of rows of the largest item
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
        """Keyword arguments for the network's forward pass."""
        inputs: dict[str, Any] = {name: self.tensors[name] for name in self.named}
        if self.packs:
            indices: dict[str, Any] = {name: self.tensors[name] for name in OF_PACKING}
            inputs["packing"] = Packing(
                lengths=self.lengths, width=self.width, tail=self.tail, **indices
            )
        return inputs

    @property
    def layout(self) -> tuple[Any, ...]:
        """Key that is equal for micro-batches that differ only in the values of their tensors.

        One CUDA graph can compute all micro-batches with the same key.
        """
        shapes = tuple((name, tensor.shape) for name, tensor in self.tensors.items())
        return (shapes, self.packs, self.width, self.tail > 0, self.options)

    def in_place(self, tensors: dict[str, Tensor]) -> Self:
        """Return a micro-batch of the same layout that reads the given tensors.

        A CUDA graph is recorded with such a micro-batch. Before each replay, the values of another
        micro-batch are copied into these tensors.
        """
        return replace(self, tensors=tensors, terms=tensors["terms"])

    def side_by_side(self, logits: Tensor) -> Tensor:
        """Arrange logits `[rows, ...]` by items: `[items, options, ...]`.

        An item with fewer rows than the largest item gets -inf for the missing rows. If every item
        is one row, the logits are returned unchanged.
        """
        if not self.options:
            return logits
        rest = logits.shape[1:]
        table = logits.new_full((len(self) * self.options, *rest), -torch.inf)
        filled = table.index_copy(0, self.tensors["slots"], logits)  # (items * options, ...)
        return filled.view(len(self), self.options, *rest)
