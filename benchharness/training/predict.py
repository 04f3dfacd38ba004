"""Predicting: features go into a trained network, logits come out. Knows neither task nor head.

Where memory runs out, predictions go on in smaller batches, and a training says how large its was.
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
from benchharness.progress import Progress, Reporter
from benchharness.tasks.errors import JobError
from benchharness.training.batching import Features, Indices, length_batches
from benchharness.training.compute import Compute, Layout, Part
from benchharness.training.meter import DivergedError

T = TypeVar("T")

SIGNS = re.compile(
    "out of memory|can't allocate memory|ALLOC_FAILED|cublasCreate|std::bad_alloc|"
    "could not create a (primitive|memory)(?! descriptor)"
)
"""What CUDA, torch's CPU allocator, CUDA's libraries, C++ and oneDNN say in a plain RuntimeError.

CUDA's own is no torch.OutOfMemoryError: a full GPU has no room for a context, a graph or a kernel.
cuBLAS calls itself not initialized then.
"""

PREDICTION_TOKENS = {"cpu": 2048, "cuda": 65536}
"""Padded tokens of a batch in prediction; the CPU's measured (MiniLM), the GPU's an estimate."""


def predict(
    network: nn.Module, features: Features, compute: Compute, report: Reporter
) -> NDArray[np.float32]:
    """The logits of every row in its order, without dropout; DivergedError where one is NaN.

    A network that has logits for every token, (rows, tokens, outputs), gives them end to end
    without padding, as `token_ids` stand in the features. One that `reads_items` is given all rows
    of an item at once. Where memory runs out, the rest is
    computed in smaller batches.
    """
    network.to(compute.device).eval()
    layout: Layout = "packed" if is_packed(network) else "padded"
    if not getattr(network, "reads_items", False):
        features = replace(features, items=None)  # what is not taken apart are rows
    lengths = np.add.reduceat(features.lengths, features.item_starts[:-1])  # (rows,) -> (items,)

    def logits_of(batch: Indices) -> Tensor:
        part = Part.of(features, batch, compute.device, layout=layout)
        logits: Tensor = network(**part.inputs).float()  # bf16 under autocast
        # (rows, outputs), or (rows, tokens, outputs) -> (real tokens, outputs)
        return logits.flatten(0, 1)[part.tensors["places"]] if logits.ndim == 3 else logits

    batches = length_batches(lengths, PREDICTION_TOKENS[compute.device.type])
    # A process without a batch would not know the shape of the logits: then each computes all.
    if is_shared := len(batches) >= compute.ranks.count > 1:
        batches = batches[compute.ranks.rank :: compute.ranks.count]  # dealt out by length
    with torch.inference_mode(), compute.autocast():
        outputs = list(reported(batches, logits_of, report, "predicting"))
    # each_batch may have halved batches, so what they are now is what was computed.
    rows = features.rows_of(np.concatenate(batches))
    logits = torch.cat(outputs).cpu()  # (rows or tokens, outputs)
    # As many as rows: of each row, or of the one token that each row has, which is the same.
    each_row = len(logits) == len(rows)
    places = rows if each_row else features.tokens_of(rows)
    total = len(features) if each_row else len(features.token_ids)
    ordered = logits.new_zeros((total, *logits.shape[1:]))
    ordered[torch.from_numpy(places)] = logits
    if is_shared:  # what others have computed is zero here
        ordered = compute.ranks.add_up(ordered)
    if not ordered.isfinite().all():
        raise DivergedError("the trained model predicts NaN: try a lower --set learning_rate.")
    return ordered.numpy()


# What is done where memory runs out.


class MemoryRanOutError(JobError):
    """A job needs more memory than there was for it, in however small parts."""

    kind = "memory"


class OutOfMemoryError(JobError):
    """Memory ran out while a micro-batch of `items` was computed in training.

    It `can_spare` some where layers keep their activations that could be computed again.
    """

    def __init__(self, items: int, *, can_spare: bool = False) -> None:
        super().__init__(f"memory ran out in training, at a micro-batch of {items}.")
        self.items, self.can_spare = items, can_spare


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, of the GPU or of the machine.

    Or came of one that does: where it runs out while a step is recorded, the record's end raises
    another error.
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, RuntimeError) and SIGNS.search(str(error)):
        return True
    return error.__context__ is not None and is_out_of_memory(error.__context__)


def free_memory() -> None:
    """Gives back what nothing refers to any more.

    To be called outside of `except`: an exception's traceback refers to all that it went through.
    """
    gc.collect()  # cycles, as tracebacks with frames are
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


_LIBC: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
_HAS_TRIM = hasattr(_LIBC, "malloc_trim")  # not musl, on Alpine

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""mallopt(3): how much freed memory stays, and which blocks have pages of their own, 32 MB at most.
"""

HOLES = 1.25
"""How many times the memory of a training without holes is held before all is given back."""


def trim_memory() -> None:
    """Gives the system back what the C library has kept of freed memory (glibc alone does)."""
    if _HAS_TRIM:
        _LIBC.malloc_trim(0)


class FreedMemory:
    """What the C library keeps of the memory that steps have freed (glibc).

    By itself it gives large blocks back in every step and asks for their pages anew: a tenth of a
    small encoder's step. So it keeps them here. But batches of ever other lengths leave holes that
    no later one fills: RACE's at 256 tokens held 6 GB after some steps, of which a step uses half.
    So all goes back where more is held than at the look after the last time.
    """

    def __init__(self) -> None:
        self._settled, self._was_trimmed = 0, True
        if _HAS_TRIM:
            _LIBC.mallopt(MMAP_THRESHOLD, 32 << 20)
            _LIBC.mallopt(TRIM_THRESHOLD, -1)

    def look(self) -> None:
        """To be called now and then, between two steps."""
        held = int(Path("/proc/self/statm").read_text().split()[1]) if _HAS_TRIM else 0  # pages
        if self._was_trimmed:  # no holes yet: longer rows may be all that is more
            self._settled = max(self._settled, held)
        self._was_trimmed = held > HOLES * self._settled
        if self._was_trimmed:
            trim_memory()


def each_batch(batches: list[Indices], compute: Callable[[Indices], T]) -> Iterator[T]:
    """What is computed of each batch, in their order.

    Where memory runs out, that batch and all that are left are halved in place. Raises JobError
    where memory does not suffice for a single row.
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
                "memory ran out in the prediction of a single row: run fewer --jobs at once, or "
                "--set max_tokens to less."
            )
        # The later batches too: of like size, they would run out one by one.
        halves = (np.array_split(batch, min(2, len(batch))) for batch in batches[at:])
        batches[at:] = [half for pair in halves for half in pair]


def reported(
    batches: list[Indices], compute: Callable[[Indices], T], report: Reporter, phase: str
) -> Iterator[T]:
    """What `each_batch` gives, with a report after each batch."""
    start, done = time.monotonic(), 0
    for step, found in enumerate(each_batch(batches, compute)):
        done += len(batches[step])
        speed = done / max(time.monotonic() - start, 1e-9)
        report(Progress(phase=phase, step=step + 1, steps=len(batches), examples_per_second=speed))
        yield found
