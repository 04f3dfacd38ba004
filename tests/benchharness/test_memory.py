"""Tests of out-of-memory errors: prediction continues in smaller batches, training restarts."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchharness.errors import JobError
from benchharness.leaderboard.result import Result
from benchharness.progress import Progress
from benchharness.training import predict as predict_module
from benchharness.training.predict import (
    FreedMemory,
    OutOfMemoryError,
    each_batch,
    is_out_of_memory,
    predict,
    trim_memory,
)
from benchharness.worker.job import in_enough_parts
from tests.helpers.mini_jobs import make_job
from tests.helpers.training import (
    CPU,
    RECIPE,
    begin,
    fit,
    having,
    make_data,
    make_network,
    weights_of,
)

pytestmark = pytest.mark.usefixtures("frozen_heap")

CPU_SENTENCE = "[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError(CPU_SENTENCE), True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate`"),
            True,
        ),
        (torch.AcceleratorError("CUDA error: out of memory"), True),
        (RuntimeError("could not create a primitive"), True),
        (RuntimeError("could not create a primitive descriptor for a matmul"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_out_of_memory_errors_are_recognized(error: Exception, expected: bool):
    assert is_out_of_memory(error) is expected


def test_exception_caused_by_an_out_of_memory_error_is_recognized():
    """For example, a failed CUDA graph capture ends with another error."""
    error = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    assert not is_out_of_memory(error)
    error.__context__ = torch.OutOfMemoryError("CUDA out of memory.")
    assert is_out_of_memory(error)


def test_allocation_error_of_torch_is_recognized_as_out_of_memory():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


def too_large_above(rows: int, seen: list[int]) -> Callable[[np.ndarray], list[int]]:
    def compute(batch: np.ndarray) -> list[int]:
        seen.append(len(batch))
        if len(batch) > rows:
            raise RuntimeError(CPU_SENTENCE)
        return batch.tolist()

    return compute


def test_prediction_after_out_of_memory_continues_in_smaller_batches_and_keeps_the_row_order():
    seen: list[int] = []
    batches = [np.arange(0, 8), np.arange(8, 13), np.arange(13, 14)]
    found = list(each_batch(batches, too_large_above(3, seen)))
    assert [row for batch in found for row in batch] == list(range(14))
    assert [len(batch) for batch in batches] == [2, 2, 2, 2, 2, 1, 1, 1, 1]
    assert seen == [8, 4, 2, 2, 2, 2, 2, 1, 1, 1, 1]


def test_prediction_row_that_does_not_fit_in_memory_is_an_error():
    with pytest.raises(JobError, match=r"a single row: run fewer jobs at once"):
        list(each_batch([np.arange(4)], too_large_above(0, [])))


def test_prediction_raises_errors_other_than_out_of_memory():
    def fail(_: np.ndarray) -> None:
        raise RuntimeError("shapes")

    with pytest.raises(RuntimeError, match="shapes"):
        list(each_batch([np.arange(4)], fail))


def limit_rows(network: torch.nn.Module, rows: int) -> None:
    """Make a network raise an out-of-memory error for more than this number of rows."""

    def check(_: Any, args: Any, inputs: dict[str, torch.Tensor]) -> None:
        if len(inputs["input_ids"]) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    network.register_forward_pre_hook(check, with_kwargs=True)


def test_predictions_in_smaller_batches_after_out_of_memory_are_unchanged():
    network, (features, _) = make_network(), make_data()
    expected = predict(network, features, CPU, lambda _: None)
    limit_rows(network, 3)
    lines: list[Progress] = []
    np.testing.assert_allclose(predict(network, features, CPU, lines.append), expected, atol=1e-6)
    assert lines[-1].step == lines[-1].steps >= 64 / 3


def test_training_out_of_memory_error_states_the_micro_batch_size():
    network = make_network()
    limit_rows(network, 10)
    with pytest.raises(OutOfMemoryError) as caught:
        fit(begin(network, having(RECIPE, accumulation=2)), dict)
    assert 10 < caught.value.items <= 16
    assert caught.value.__context__ is None, "its traceback would keep the tensors"


JOB = make_job("cola", batch_size="24", accumulation="2")


def attempts(too_large: dict[int, int]) -> tuple[list[int], list[str], Any]:
    """Return the numbers of parts that were tried, the notes, and the result."""
    tried: list[int] = []
    said: list[str] = []

    def attempt(parts: int, _: bool) -> Result:
        tried.append(parts)
        if parts in too_large:
            raise OutOfMemoryError(too_large[parts])
        return "a result"  # type: ignore[return-value]

    return tried, said, in_enough_parts(attempt, JOB, lambda progress: said.append(progress.note))


def test_activation_checkpointing_is_tried_before_smaller_micro_batches():
    tried: list[tuple[int, bool]] = []

    def attempt(parts: int, checkpointing: bool) -> Result:
        tried.append((parts, checkpointing))
        if parts < 4:
            raise OutOfMemoryError(12, can_spare=not checkpointing)
        return "a result"  # type: ignore[return-value]

    said: list[str] = []
    in_enough_parts(attempt, JOB, lambda progress: said.append(progress.note))
    assert tried == [(2, False), (2, True), (4, True)]
    assert "with activation_checkpointing" in said[0]


def test_each_out_of_memory_error_in_training_halves_the_micro_batches():
    assert attempts({}) == ([2], [], "a result")
    tried, said, result = attempts({2: 12, 4: 6})
    assert (tried, result) == ([2, 4, 8], "a result")
    assert "8 micro-batches per batch" in said[-1]
    tried, _, _ = attempts({2: 3})
    assert tried == [2, 16], "a micro-batch that was cut by its length is halved too"


def test_training_example_that_does_not_fit_in_memory_is_an_error():
    with pytest.raises(JobError, match=r"every micro-batch has only one example") as caught:
        attempts({2: 12, 4: 6, 8: 3, 16: 2, 32: 1})
    assert caught.value.exit_code == 1


def test_out_of_memory_outside_of_training_batches_is_an_error():
    def fail(*_: int) -> Result:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(JobError, match="outside of batches"):
        in_enough_parts(fail, JOB, lambda _: None)


def test_training_after_out_of_memory_gives_the_weights_of_gradient_accumulation():
    """Use dropout too, which a restarted training draws for the larger number of parts."""
    asked = make_network()
    tried: list[int] = []

    def attempt(parts: int, checkpointing: bool) -> Any:
        network = make_network()
        limit_rows(network, 8)
        recipe = having(RECIPE, accumulation=parts, activation_checkpointing=checkpointing)
        fit(begin(network, recipe), dict)
        tried.append(parts)
        return network

    job = make_job("cola", batch_size="32", accumulation="1")
    network: Any = in_enough_parts(attempt, job, lambda _: None)
    fit(begin(asked, having(RECIPE, accumulation=tried[0])), dict)
    assert tried[0] in (4, 8)
    assert torch.equal(weights_of(network), weights_of(asked))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc's allocator alone")
def test_trim_memory_returns_free_memory_to_the_system() -> None:
    # Allocate blocks below glibc's mmap threshold; one block above all others stays in use.
    blocks = [torch.ones(25_000) for _ in range(800)]
    above = blocks.pop()
    full = resident_bytes()
    blocks.clear()
    trim_memory()
    assert full - resident_bytes() > 40e6
    assert above.sum() == 25_000


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc's allocator alone")
def test_memory_is_trimmed_only_when_fragmentation_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tolerate 125 fragmented pages after a minimum of 100."""
    held, given = [0], []
    monkeypatch.setattr(Path, "read_text", lambda _: f"999 {held[0]} 9")
    monkeypatch.setattr(predict_module, "trim_memory", lambda: given.append(held[0]))
    freed = FreedMemory()
    for pages in (100, 90, 125, 126, 110, 137, 138, 80, 138):
        held[0] = pages
        freed.look()
    # After memory was trimmed at 126, the next measurement, 110, is the new reference.
    assert given == [126, 138, 138]


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
