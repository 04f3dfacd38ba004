"""Prediction: computing the logits of encoded rows with a trained network, for any task and head.

The module also handles exhausted memory: prediction continues in smaller batches, and training
raises OutOfMemoryError with the size of its micro-batch.
"""

import ctypes
import gc
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchharness.encoder.packing import is_packed
from benchharness.errors import JobError
from benchharness.progress import Progress, Reporter
from benchharness.training.batching import Features, Indices, length_batches
from benchharness.training.compute import Compute, Layout, Part
from benchharness.training.meter import DivergedError

T = TypeVar("T")

SIGNS = re.compile(
    "out of memory|can't allocate memory|ALLOC_FAILED|cublasCreate|std::bad_alloc|"
    "could not create a (primitive|memory)(?! descriptor)"
)
"""Pattern of the messages of RuntimeErrors that mean that memory is exhausted.

Such errors come from CUDA, torch's CPU allocator, CUDA's libraries, C++ and oneDNN. If a full GPU
has no room for a context, a graph or a kernel, torch does not raise torch.OutOfMemoryError, and
cuBLAS reports that it is not initialized.
"""

PREDICTION_TOKENS = {"cpu": 2048, "cuda": 65536}
"""Maximum number of padded tokens per batch in prediction, keyed by device type; a single item may
have more. The CPU's value was the fastest in measurements (MiniLM), the GPU's is an estimate."""


def predict(
    network: nn.Module, features: Features, compute: Compute, report: Reporter
) -> NDArray[np.float32]:
    """Return the logits of all rows, in the order of the features, without dropout.

    If memory runs out, the remaining rows are computed in smaller batches.

    Args:
        network: Trained network. If it has an attribute `reads_items` that is true, it gets all
            rows of an item in the same batch.
        features: Encoded rows of a split.
        compute: Device, precision and processes.
        report: Function that is called with the progress.

    Returns:
        Logits `[rows, outputs]`. If the network returns logits for every token, they are
        `[tokens, outputs]`: the rows are concatenated without padding, like `token_ids` in the
        features.

    Raises:
        DivergedError: A logit is not finite.
        MemoryRanOutError: Memory does not suffice for a single item (which is a row, unless the
            network reads items).
    """
    network.to(compute.device).eval()
    layout: Layout = "packed" if is_packed(network) else "padded"
    if not getattr(network, "reads_items", False):
        features = replace(features, items=None)  # rows are independent of each other
    lengths = np.add.reduceat(features.lengths, features.item_starts[:-1])  # (rows,) -> (items,)

    def logits_of(batch: Indices) -> Tensor:
        part = Part.of(features, batch, compute.device, layout=layout)
        logits: Tensor = network(**part.inputs).float()  # bf16 under autocast
        # (rows, outputs), or (rows, tokens, outputs) -> (real tokens, outputs)
        return logits.flatten(0, 1)[part.tensors["places"]] if logits.ndim == 3 else logits

    batches = length_batches(lengths, PREDICTION_TOKENS[compute.device.type])
    # If there are too few batches for all processes, each computes all of them, because a process
    # without a batch would not know the shape of the logits.
    if is_shared := len(batches) >= compute.ranks.count > 1:
        # The batches are sorted by length, so each process gets long and short ones.
        batches = batches[compute.ranks.rank :: compute.ranks.count]
    with torch.inference_mode(), compute.autocast():
        outputs = list(reported(batches, logits_of, report, "predicting"))
    # Concatenate the batches only now, because each_batch may have halved some of them in place.
    rows = features.rows_of(np.concatenate(batches))
    logits = torch.cat(outputs).cpu()  # (rows or tokens, outputs)
    # If there are as many logits as rows, there is one per row. This is also true of logits per
    # token, because each row then has a single token.
    each_row = len(logits) == len(rows)
    places = rows if each_row else features.tokens_of(rows)
    total = len(features) if each_row else len(features.token_ids)
    ordered = logits.new_zeros((total, *logits.shape[1:]))
    ordered[torch.from_numpy(places)] = logits
    if is_shared:  # the logits of other processes are zero here
        ordered = compute.ranks.add_up(ordered)
    if not ordered.isfinite().all():
        raise DivergedError(
            "the trained model predicts NaN or infinity: try a lower learning rate (--set "
            "learning_rate=...)."
        )
    return ordered.numpy()


# Handling of exhausted memory.


class MemoryRanOutError(JobError):
    """Error raised if memory does not suffice for a job, and smaller batches would not help."""

    kind = "memory"


class OutOfMemoryError(JobError):
    """Error raised if memory runs out in a training step.

    Attributes:
        items: Number of items of the micro-batch that was too large.
        can_spare: Whether activation checkpointing is off and could save memory.
    """

    def __init__(self, items: int, *, can_spare: bool = False) -> None:
        super().__init__(f"memory ran out in training with a micro-batch of {items} items.")
        self.items, self.can_spare = items, can_spare


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception means that the GPU or the machine ran out of memory.

    The exceptions that were being handled when this one was raised (`__context__`) are checked too,
    because if memory runs out while a CUDA graph is recorded, the end of the recording raises
    another error.
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, RuntimeError) and SIGNS.search(str(error)):
        return True
    return error.__context__ is not None and is_out_of_memory(error.__context__)


def free_memory() -> None:
    """Release the memory of objects that are no longer used, in main memory and on the GPU.

    Call this outside of `except` blocks: inside, the exception's traceback still refers to the
    local variables of all functions that it passed through.
    """
    gc.collect()  # tracebacks and frames refer to each other in cycles
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


_LIBC: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
_HAS_TRIM = hasattr(_LIBC, "malloc_trim")  # not in musl, the C library of Alpine

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Numbers of two parameters of mallopt(3): the amount of freed memory that glibc keeps, and the
size from which blocks are mapped separately. The latter can be set to at most 32 MB."""

HOLES = 1.25
"""Factor by which the memory of a process may grow, compared with its memory right after freed
memory was returned to the system, before freed memory is returned again."""


def trim_memory() -> None:
    """Make the C library return freed memory, which it has kept, to the operating system.

    This works only with glibc; with other C libraries, nothing is done.
    """
    if _HAS_TRIM:
        _LIBC.malloc_trim(0)


class FreedMemory:
    """Controller of the freed memory that glibc, the C library, keeps between training steps.

    By default, glibc returns large blocks to the system in every step and requests new ones, which
    takes a tenth of a small encoder's step. Therefore this class makes glibc keep them.
    However, batches of varying lengths leave holes that no later batch fills: on RACE with 256
    tokens, the process held 6 GB after some steps, twice as much as a step uses. Therefore all
    freed memory is returned when the memory of the process has grown by the factor HOLES since
    the last return. With other C libraries, this class does nothing.
    """

    def __init__(self) -> None:
        self._settled, self._was_trimmed = 0, True
        if _HAS_TRIM:
            _LIBC.mallopt(MMAP_THRESHOLD, 32 << 20)
            _LIBC.mallopt(TRIM_THRESHOLD, -1)

    def look(self) -> None:
        """Return freed memory to the system if glibc keeps too much of it.

        Call this every few steps.
        """
        # Number of memory pages.
        held = int(Path("/proc/self/statm").read_text().split()[1]) if _HAS_TRIM else 0
        if self._was_trimmed:  # there are no holes yet: an increase may be due to longer rows
            self._settled = max(self._settled, held)
        self._was_trimmed = held > HOLES * self._settled
        if self._was_trimmed:
            trim_memory()


def each_batch(batches: list[Indices], compute: Callable[[Indices], T]) -> Iterator[T]:
    """Yield the result of `compute` for each batch, in order.

    If memory runs out, the current batch and all later ones are halved, and each half has its own
    result.

    Args:
        batches: Indices of the items of each batch. The list is changed in place when batches are
            halved.
        compute: Function that gets a batch and returns its result.

    Raises:
        MemoryRanOutError: Memory does not suffice for a single item.
    """
    at = 0
    while at < len(batches):
        try:
            found = compute(batches[at])
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        else:
            yield found
            at += 1
            continue
        free_memory()
        if len(batches[at]) == 1:
            raise MemoryRanOutError(
                "memory ran out in the prediction of a single row: run fewer jobs at once "
                "(--jobs), or set a lower max_tokens (--set max_tokens=...)."
            )
        # Halve the later batches too: they have similar sizes and would run out one by one.
        halves = (np.array_split(batch, min(2, len(batch))) for batch in batches[at:])
        batches[at:] = [half for pair in halves for half in pair]


def reported(
    batches: list[Indices], compute: Callable[[Indices], T], report: Reporter, phase: str
) -> Iterator[T]:
    """Yield the results of `each_batch`, and report the progress after each batch.

    The arguments `batches` and `compute` are the same as for `each_batch`. `report` is called with
    the progress, whose phase has the name `phase`, such as "predicting".
    """
    start, done = time.monotonic(), 0
    for step, found in enumerate(each_batch(batches, compute)):
        done += len(batches[step])
        speed = done / max(time.monotonic() - start, 1e-9)
        report(Progress(phase=phase, step=step + 1, steps=len(batches), examples_per_second=speed))
        yield found
