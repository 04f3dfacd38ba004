"""Program that measures prediction speed: python -P -m benchharness.extensions.which.inference.

The program reads a job as JSON from stdin. The last line of its output is JSON: the result of
`measure_prediction`, or {"error": sentence}. A process measures only one encoder, so that no other
encoder contributes to its peak memory. The caller must set the environment variables in `QUIET`,
which libraries read during import.
"""

import json
import sys
import time

import torch

from benchharness.errors import BenchError
from benchharness.leaderboard.job import Job
from benchharness.plugins import plugins_for
from benchharness.splits import read_split
from benchharness.training.predict import predict
from benchharness.worker.job import find_compute, peak_memory
from benchharness.worker.task_setup import load_run
from benchharness.worker.technique import Work

FEW_ROWS = 16
"""Number of rows that are predicted before the measurement, so that costs which occur only once are
not measured."""


def measure_prediction(job: Job, seconds: float = 2.0) -> dict[str, float]:
    """Measure the speed and the peak memory with which a job's network predicts a dev split.

    The network has pretrained weights; fine-tuned weights would take the same time.

    Args:
        job: Job with the encoder, the task and the precision.
        seconds: Approximate duration of the measurement. It is shorter if the split is small,
            because each row is predicted at most once.

    Returns:
        Values of the fields of `Inference`, keyed by their names.
    """
    compute = find_compute(job.precision, deterministic=False)
    run = load_run(Work.to_predict(job, compute), task=job.task)
    run.to_predict()
    (setup,) = run.setups
    examples = read_split(job, setup.judged).examples

    def timed(count: int) -> tuple[float, int]:
        features = setup.head.encode(examples[:count], run.encoder.tokenizer, run.limits)
        start = time.monotonic()
        predict(setup.network, features, compute, lambda _: None)
        return max(time.monotonic() - start, 1e-6), len(features.token_ids)

    timed(FEW_ROWS)  # warm up the libraries
    first, _ = timed(FEW_ROWS)  # to estimate how many rows take about `seconds` seconds
    took, tokens = timed(max(FEW_ROWS, int(FEW_ROWS * seconds / first)))
    return {
        "tokens_per_second": tokens / took,
        "peak_memory_bytes": peak_memory(),
        "parameters": sum(weight.numel() for weight in run.network.parameters()),
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    """Read a job from stdin, measure its speed and memory, and print the result as JSON."""
    job = Job.from_json(json.load(sys.stdin))
    try:
        plugins_for(job)
        found: object = measure_prediction(job)
    except BenchError as error:
        found = {"error": str(error)}
    print(f"\n{json.dumps(found)}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
