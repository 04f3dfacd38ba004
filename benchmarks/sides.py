"""Run and measure the compared commands: benchharness, and the Trainer with several flags."""

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.record import ROOT
from benchmarks.trainer.flags import FLAGS
from benchmarks.whole_process import Ended, run_whole
from benchmarks.workloads import Workload

if TYPE_CHECKING:
    from benchharness.leaderboard.result import Result

__all__ = ["SIDES", "USUAL", "Run", "bench", "machine", "measure_peak", "run_ours"]

ENVIRONMENT = {
    # The user's folders come after it, because they may have libraries that cannot be installed.
    "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "true",
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """Measurements of the processes of one side that train a task with one or more seeds.

    benchharness trains all seeds in one process, and the Trainer trains each seed in its own.

    Attributes:
        side: The name of the side.
        seeds: The seeds.
        seconds: The time of all processes.
        cpu_seconds: The CPU time of all processes.
        peak_bytes: The largest memory of a process tree.
        train_seconds: The time of training, as the side reports it.
        predict_seconds: The time of prediction, as the side reports it.
        scores: The scores of each seed, keyed by metric.
        details: Other facts, summed over the seeds. For the Trainer they are counts: rows, real
            tokens, and sums of squared row lengths. `device_bytes` is not a sum, but the largest
            GPU memory of a seed.
    """

    side: str
    seeds: Sequence[int]
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    train_seconds: float
    predict_seconds: float
    scores: Sequence[Mapping[str, float]]
    details: Mapping[str, Any]


Side = Callable[[Workload, str, Path, Sequence[int]], Run]


def run_ours(
    workload: Workload, checkpoint: str, data: Path, seeds: Sequence[int], *options: str
) -> Run:
    """Run `bench run` with further options as a process, up to stored results and the report."""
    values = asdict(workload.values) | {"evaluations": 1}
    with TemporaryDirectory(prefix="benchmark-") as folder:
        database = Path(folder) / "runs.sqlite"
        ended = run_whole(
            [
                *bench("run", "--model", checkpoint, "--task", workload.task),
                *("--data", str(data), "--no-baselines", "--json", *options),
                *(part for seed in seeds for part in ("--seed", str(seed))),
                *(part for name, value in values.items() for part in ("--set", f"{name}={value}")),
                *("--db", str(database), "--out", str(Path(folder) / "leaderboard.html")),
            ],
            ENVIRONMENT,
        )
        results = _stored(database, seeds)
    costs = [result.cost for result in results]
    return Run(
        side="ours",
        seeds=tuple(seeds),
        **_outside(ended),
        train_seconds=round(sum(cost.train_seconds for cost in costs), 2),
        predict_seconds=round(sum(cost.predict_seconds for cost in costs), 2),
        scores=[_rounded(result.evaluations[0].scores) for result in results],
        details={
            "job_seconds": round(sum(cost.seconds for cost in costs), 2),
            "train_tokens": sum(cost.train_tokens for cost in costs),
            "precision": results[0].job.precision,
            "device_bytes": max(cost.peak_memory_bytes for cost in costs),
        },
    )


def bench(*arguments: str) -> list[str]:
    """Return the command line of this source tree's `bench`, even if another one is installed."""
    return [sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()", *arguments]


def _stored(database: Path, seeds: Sequence[int]) -> "list[Result]":
    """Return the results in a database, in the order of the seeds."""
    from benchharness.leaderboard.result import Failure
    from benchharness.leaderboard.store.store import open_store

    found = {}
    with open_store(database, create=False) as store:
        for row in store.runs():
            result = store.result(row.key)
            if isinstance(result, Failure):
                raise RuntimeError(f"benchharness's run failed: {result.error}")
            found[row.seed] = result
    return [found[seed] for seed in seeds]


def _trainer(flags: str) -> Side:
    def run(workload: Workload, checkpoint: str, data: Path, seeds: Sequence[int]) -> Run:
        values = asdict(workload.values)
        command = [
            *(sys.executable, "-m", "benchmarks.trainer", checkpoint, str(data)),
            *("--task", workload.task, "--flags", flags),
            *(
                part
                for name, value in values.items()
                for part in (f"--{name.replace('_', '-')}", str(value))
            ),
        ]
        ended = [run_whole([*command, "--seed", str(seed)], ENVIRONMENT) for seed in seeds]
        told = [json.loads(one.stdout.splitlines()[-1]) for one in ended]
        return Run(
            side=flags,
            seeds=tuple(seeds),
            **_outside(*ended),
            train_seconds=round(sum(one["train_seconds"] for one in told), 2),
            predict_seconds=round(sum(one["predict_seconds"] for one in told), 2),
            scores=[_rounded(one["scores"]) for one in told],
            details={name: sum(one[name] for one in told) for name in COUNTS}
            | {"device_bytes": max(one["device_bytes"] for one in told)},
        )

    return run


COUNTS = ("train_rows", "train_tokens", "train_squares", "dev_tokens")


def _rounded(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: round(score, 5) for name, score in scores.items()}


def _outside(*ended: Ended) -> dict[str, Any]:
    """Add up the times of processes that ran one after another; of memory, return the largest."""
    return {
        "seconds": round(sum(one.seconds for one in ended), 2),
        "cpu_seconds": round(sum(one.cpu_seconds for one in ended), 2),
        "peak_bytes": max(one.peak_bytes for one in ended),
    }


SIDES: Mapping[str, Side] = {"ours": run_ours} | {flags: _trainer(flags) for flags in FLAGS}
"""The compared programs ("sides"): benchharness, and the Trainer with each entry of FLAGS."""

USUAL = ("ours", "best", "default")
"""Programs that are measured by default, in the order in which they take turns."""


def measure_peak() -> dict[str, float]:
    """Measure the GFLOP/s of matrix products per precision, with the sides' number of threads."""
    ended = run_whole([sys.executable, "-m", "benchmarks.matmul"], ENVIRONMENT)
    peaks: dict[str, float] = json.loads(ended.stdout)
    return peaks


def machine() -> dict[str, Any]:
    """Return the facts that the figures depend on, without names of hosts or folders."""
    from importlib.metadata import version

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "matrix_units": [flag for flag in ("avx512f", "avx512_bf16", "amx_bf16") if flag in flags],
        "load_before": round(os.getloadavg()[0], 1),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "versions": {name: version(name) for name in ("torch", "transformers", "accelerate")},
    }
