"""Measure the share of a job's time per kind of operation, with torch's profiler.

    python -m benchmarks.step_profile --model CHECKPOINT --data FOLDER --task glue/mrpc

The job runs in this process, from reading the files to the scores. Profiling costs time, mostly in
small operations, so their shares come out slightly too large. On a GPU the shares refer to the
GPU's time and the time that it waits for the host, and launches and waits are counted.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.record import begin, load, write
from benchmarks.sample import draw_sample
from benchmarks.sides import machine
from benchmarks.workloads import Workload, find_workload

__all__ = ["KINDS", "OTHER", "kind_of", "shares"]

KINDS = {
    "attention": (
        *("_Attention", "_FirstToken", "aten::_scaled_dot_product"),
        *("aten::_flash_attention", "aten::_efficient_attention"),
    ),
    "optimizer": ("Optimizer.step", "aten::_foreach_norm", "aten::linalg_vector_norm"),
    "dropout": ("dropout", "aten::random_", "aten::bitwise", "MulBackward"),
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "mkldnn::"),
    "layer norm": ("aten::native_layer_norm", "aten::layer_norm"),
    "GELU": ("aten::gelu",),
    "embeddings, packing": ("aten::embedding", "aten::index", "aten::gather", "aten::nonzero"),
    "casts, copies": (
        *("aten::copy_", "aten::_to_copy", "aten::clone", "aten::cat", "aten::fill_"),
        "aten::_foreach_copy_",
    ),
}
"""Parts of operation names, keyed by kind. Kinds whose operations contain other operations come
first: everything that an attention function computes counts as attention, including its matrix
products."""

FIRST = "aten::embedding"
"""First operation of each batch. It is not called before the first batch."""

OTHER = "other operations"
OUTSIDE = "Python, waiting"

LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
"""Prefixes of the names of CUDA calls that launch work or wait for it."""


def main() -> None:
    options = _parse()
    record = load(options.out) or {}
    record = begin(options.model, options.note) | {
        "machine": machine(),
        "profiles": record.get("profiles", {}),
    }
    for name in options.task:
        workload = find_workload(name)
        if options.limit:
            workload = replace(
                workload, train_rows=options.limit, dev_rows=max(1, options.limit // 4)
            )
        with TemporaryDirectory(prefix="benchmark-") as folder:
            data = draw_sample(workload, options.data, Path(folder))
            record["profiles"][name] = _profile(workload, options.model, data)
        write(options.out, record)
        print(name, record["profiles"][name])


def _profile(workload: Workload, checkpoint: str, data: Path) -> dict[str, Any]:
    """Run a job, and return its seconds per kind of operation and per phase."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from benchharness.encoder.cpu import FastDropout
    from benchharness.worker.job import run_job

    FastDropout.forward = _named("dropout", FastDropout.forward)  # type: ignore[method-assign]
    on_gpu = torch.cuda.is_available()
    (job,) = _plan(workload, checkpoint, data, gpu=on_gpu)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as profiled:
        cost = run_job(job).cost
    events = profiled.events()
    seconds = shares(events, on_gpu=on_gpu)
    computed = sum(seconds.values())
    seconds[OUTSIDE] = max(0.0, cost.train_seconds + cost.predict_seconds - computed)
    return {
        "rows": workload.train_rows,
        "steps": cost.steps,
        "launches": count_calls(events, LAUNCHES),
        "waits": count_calls(events, WAITS),
        "seconds": {kind: round(value, 3) for kind, value in seconds.items()},
        "job_seconds": round(cost.seconds, 3),
        "train_seconds": round(cost.train_seconds, 3),
        "predict_seconds": round(cost.predict_seconds, 3),
    }


def _named(name: str, forward: Any) -> Any:
    """Wrap a module's forward pass under a name that the profiler shows."""
    from torch.profiler import record_function

    def named(*inputs: Any) -> Any:
        with record_function(name):
            return forward(*inputs)

    return named


def _plan(workload: Workload, checkpoint: str, data: Path, *, gpu: bool) -> Any:
    from benchharness.models import find_model
    from benchharness.tasks.suites import find_task
    from tests.helpers.plans import plan_jobs

    values = asdict(workload.values) | {"evaluations": 1}
    return plan_jobs(
        [find_model(checkpoint)],
        [find_task(workload.task)],
        data=str(data),
        seeds=[1],
        overrides={name: str(value) for name, value in values.items()},
        precision="auto",
        gpu=gpu,
    ).jobs


def shares(events: Any, *, on_gpu: bool = False) -> Counter[str]:
    """Return the seconds per kind of operation, from the first batch on.

    The time of nested operations does not count for the operation that contains them. On a GPU the
    seconds are those of the kernels that an operation has launched.
    """
    from torch.autograd import DeviceType

    seconds: Counter[str] = Counter()
    for event in _from_the_first_batch(events):
        if event.device_type == DeviceType.CPU:
            own = event.self_device_time_total if on_gpu else event.self_cpu_time_total
            seconds[kind_of(_names(event))] += own / 1e6
    return seconds


def count_calls(events: Any, beginnings: tuple[str, ...]) -> int:
    """Count the CUDA calls that begin with these prefixes, from the first batch on.

    Hundreds of earlier calls move the weights to the GPU.
    """
    return sum(event.name.startswith(beginnings) for event in _from_the_first_batch(events))


def _from_the_first_batch(events: Any) -> list[Any]:
    begin = min(event.time_range.start for event in events if event.name == FIRST)
    return [event for event in events if event.time_range.start >= begin]


def _names(event: Any) -> Iterator[str]:
    """Yield the names of an operation and of the operations around it, from the inside out."""
    while event is not None:
        yield event.name
        event = event.cpu_parent


def kind_of(names: Iterator[str]) -> str:
    """Return the first kind in KINDS that has a part of any of these operation names."""
    names = list(names)
    for kind, beginnings in KINDS.items():
        if any(beginning in name for name in names for beginning in beginnings):
            return kind
    return OTHER


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of the encoder's checkpoint")
    parser.add_argument("--data", type=Path, required=True, help="as for `python -m benchmarks`")
    parser.add_argument("--task", action="append", required=True)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", default="profile", help="name of the record in benchmarks/results")
    parser.add_argument("--note", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
