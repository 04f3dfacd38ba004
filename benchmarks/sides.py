"""The commands that are measured: ours, and the Trainer with its defaults and its best flags."""

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.record import ROOT
from benchmarks.trainer.flags import FLAGS
from benchmarks.whole_process import Ended, run_whole
from benchmarks.workloads import Workload

__all__ = ["SIDES", "USUAL", "Run", "machine", "measure_peak"]

ENVIRONMENT = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One side's whole process for one task; of several seeds only the first one's scores.

    `seconds` and `cpu_seconds` are the process's, `train_seconds` and `predict_seconds` what it
    says of itself. `details` are the peer's counts: rows, real tokens, and sums of their squares.
    """

    side: str
    seed: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    train_seconds: float
    predict_seconds: float
    scores: Mapping[str, float]
    details: Mapping[str, Any]


Side = Callable[[Workload, str, Path, Sequence[int]], Run]


def _ours(workload: Workload, checkpoint: str, data: Path, seeds: Sequence[int]) -> Run:
    """`bench run` from nothing to the stored results and the report."""
    values = asdict(workload.values) | {"evaluations": 1}
    with TemporaryDirectory(prefix="benchmark-") as folder:
        database = Path(folder) / "runs.sqlite"
        ended = run_whole(
            [
                *_bench("run", "--model", checkpoint, "--task", workload.task),
                *("--data", str(data), "--no-floors", "--json"),
                *(part for seed in seeds for part in ("--seed", str(seed))),
                *(part for name, value in values.items() for part in ("--set", f"{name}={value}")),
                *("--db", str(database), "--out", str(Path(folder) / "leaderboard.html")),
            ],
            ENVIRONMENT,
        )
        stored = _stored(database)
    evaluation = stored["evaluations"][0]
    cost = stored["cost"]
    return Run(
        side="ours",
        seed=seeds[0],
        **_outside(ended),
        train_seconds=round(cost["train_seconds"], 2),
        predict_seconds=round(cost["predict_seconds"], 2),
        scores=_rounded(evaluation["scores"]),
        details={
            "job_seconds": round(cost["seconds"], 2),
            "train_tokens": cost["train_tokens"],
            "precision": stored["job"]["precision"],
        },
    )


def _bench(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-c", "from benchharness.cli.app import main; main()", *arguments]


def _stored(database: Path) -> Mapping[str, Any]:
    """The first run of a database."""
    from leaderboard.result import Failure
    from leaderboard.store import open_store

    with open_store(database, create=False) as store:
        result = store.result(store.runs()[0].key)
    if isinstance(result, Failure):
        raise RuntimeError(f"our run failed: {result.error}")
    return result.to_json()


def _trainer(flags: str) -> Side:
    def run(workload: Workload, checkpoint: str, data: Path, seeds: Sequence[int]) -> Run:
        (seed,) = seeds
        values = asdict(workload.values)
        ended = run_whole(
            [
                *(sys.executable, "-m", "benchmarks.trainer", checkpoint, str(data)),
                *("--task", workload.task, "--flags", flags, "--seed", str(seed)),
                *(
                    part
                    for name, value in values.items()
                    for part in (f"--{name.replace('_', '-')}", str(value))
                ),
            ],
            ENVIRONMENT,
        )
        told = json.loads(ended.stdout.splitlines()[-1])
        return Run(
            side=flags,
            seed=seed,
            **_outside(ended),
            train_seconds=round(told["train_seconds"], 2),
            predict_seconds=round(told["predict_seconds"], 2),
            scores=_rounded(told["scores"]),
            details={n: told[n] for n in ("train_rows", *TOKENS)},
        )

    return run


TOKENS = ("train_tokens", "train_squares", "dev_tokens")


def _rounded(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: round(score, 5) for name, score in scores.items()}


def _outside(ended: Ended) -> dict[str, Any]:
    return {
        "seconds": round(ended.seconds, 2),
        "cpu_seconds": round(ended.cpu_seconds, 2),
        "peak_bytes": ended.peak_bytes,
    }


SIDES: Mapping[str, Side] = {"ours": _ours} | {flags: _trainer(flags) for flags in FLAGS}
"""Ours, and the Trainer with each of its flags."""

USUAL = ("ours", "best", "default")
"""In the order in which they take turns."""


def measure_peak() -> dict[str, float]:
    """GFLOP/s of matrix products by precision, with the threads that the sides have."""
    ended = run_whole([sys.executable, "-m", "benchmarks.matmul"], ENVIRONMENT)
    peaks: dict[str, float] = json.loads(ended.stdout)
    return peaks


def machine() -> dict[str, Any]:
    """What the figures depend on, without names of hosts or folders."""
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
