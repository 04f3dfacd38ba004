"""What is done where memory runs out."""

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch

from benchharness.training.batching import Indices
from tasks.errors import JobError

__all__ = ["OutOfMemoryError", "each_batch", "free_memory", "is_out_of_memory", "trim_memory"]

T = TypeVar("T")

SIGNS = ("can't allocate memory", "ALLOC_FAILED", "std::bad_alloc")
"""What torch's CPU allocator, CUDA's libraries and C++ say in a plain RuntimeError."""


class OutOfMemoryError(JobError):
    """Memory ran out while a micro-batch of so many `items` was computed in training."""

    def __init__(self, items: int) -> None:
        super().__init__(f"memory ran out in training, at a micro-batch of {items}.")
        self.items = items


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, of the GPU or of the machine."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def free_memory() -> None:
    """Gives back what nothing refers to any more.

    To be called outside of `except`: an exception's traceback refers to all that it went through.
    """
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def trim_memory() -> None:
    """Gives the system back what the C library has kept of freed memory (glibc; elsewhere nothing).

    Batches of ever other lengths leave holes that no later one fills: RACE's at 256 tokens held
    6 GB after some steps, of which a step uses half.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def each_batch(batches: list[Indices], compute: Callable[[Indices], T]) -> Iterator[T]:
    """What is computed of each batch, in their order.

    Where memory runs out, that batch and all that are left are halved in place. Raises JobError
    where memory does not suffice for a single row.
    """
    at = 0
    while at < len(batches):
        done, found = _try(compute, batches[at])
        if done:
            yield found  # type: ignore[misc]
            at += 1
            continue
        free_memory()
        if len(batches[at]) == 1:
            raise JobError(
                "memory ran out in the prediction of a single row: run fewer --jobs at once, or "
                "--set max_tokens to less."
            )
        halves = (np.array_split(batch, min(2, len(batch))) for batch in batches[at:])
        batches[at:] = [half for pair in halves for half in pair]


def _try(compute: Callable[[Indices], T], batch: Indices) -> tuple[bool, T | None]:
    """Whether memory sufficed for a batch, and what was computed of it."""
    try:
        return True, compute(batch)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    return False, None
