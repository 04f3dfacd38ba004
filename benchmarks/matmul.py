"""Measure the peak rate of matrix products on this machine, in sizes of encoders.

    python -m benchmarks.matmul

Prints GFLOP/s in fp32 and bf16 as JSON. If there is a GPU, it is measured instead of the CPU, and
also in tf32. The rate is the best of several shapes and several tries.
"""

import json
import time

import torch

__all__ = ["SHAPES", "peak_gflops"]

SHAPES = {
    "cpu": ((2048, 384, 1536), (2048, 1536, 384), (1024, 768, 3072), (2048, 2048, 2048)),
    "cuda": ((16384, 768, 3072), (16384, 1024, 4096), (8192, 8192, 8192)),
}
"""Rows, inner size and columns of feed-forward layers of MiniLM and BERT, and of a large square."""

TRIES, SECONDS = 5, 0.15


def main() -> None:
    peaks = {name: peak_gflops(dtype) for name, dtype in DTYPES.items()}
    if torch.cuda.is_available():
        torch.set_float32_matmul_precision("high")
        peaks["tf32"] = peak_gflops(torch.float32)
    print(json.dumps(peaks))


DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def peak_gflops(dtype: torch.dtype) -> float:
    """Return the best rate of any shape, in 10^9 floating point operations per second."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return round(max(_rate(shape, dtype, device) for shape in SHAPES[device]) / 1e9, 1)


def _rate(shape: tuple[int, int, int], dtype: torch.dtype, device: str) -> float:
    rows, inner, columns = shape
    a = torch.randn(rows, inner, device=device, dtype=dtype)
    b = torch.randn(columns, inner, device=device, dtype=dtype)
    _seconds(a, b, 2)  # the first products prepare the kernel
    once = _seconds(a, b, 2)
    times = max(1, int(SECONDS / once))
    return 2.0 * rows * inner * columns / min(_seconds(a, b, times) for _ in range(TRIES))


def _seconds(a: torch.Tensor, b: torch.Tensor, times: int) -> float:
    """Return the seconds of one product, averaged over `times` products."""
    start = time.perf_counter()
    for _ in range(times):
        torch.nn.functional.linear(a, b)
    if a.is_cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


if __name__ == "__main__":
    main()
