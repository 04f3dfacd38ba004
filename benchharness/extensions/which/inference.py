"""What predicting with a job's encoder costs: python -P -m benchharness.extensions.which.inference.

Reads the job as JSON from stdin and prints, as the last line of stdout, what `measure_prediction`
gives as JSON, or {"error": sentence}. A process measures one encoder, so that its memory is that
one's. Who starts it gives it the variables of `QUIET`, which libraries read when they are imported.
"""

import json
import sys
import time

import torch

from benchharness.leaderboard.job import Job
from benchharness.plugins import plugins_for
from benchharness.splits import read_split
from benchharness.tasks.errors import BenchError
from benchharness.training.predict import predict
from benchharness.worker.job import find_compute, peak_memory
from benchharness.worker.task_setup import load_run
from benchharness.worker.technique import Work

FEW_ROWS = 16
"""Rows that are predicted first, so that nothing is measured that happens once."""


def measure_prediction(job: Job, seconds: float = 2.0) -> dict[str, float]:
    """How fast a job's network predicts its first dev split, and in how much memory.

    The weights are those that it is loaded with; fine-tuned ones take as long. Rows are predicted
    for about `seconds`, each once at most. Tokens are counted without padding; memory is the most
    that this process held at once, in bytes of its device.
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

    timed(FEW_ROWS)  # libraries make what they need
    first, _ = timed(FEW_ROWS)  # says how many rows take about `seconds`
    took, tokens = timed(max(FEW_ROWS, int(FEW_ROWS * seconds / first)))
    return {
        "tokens_per_second": tokens / took,
        "peak_memory_bytes": peak_memory(),
        "parameters": sum(weight.numel() for weight in run.network.parameters()),
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    """Measures, and says what was found."""
    job = Job.from_json(json.load(sys.stdin))
    try:
        plugins_for(job)
        found: object = measure_prediction(job)
    except BenchError as error:
        found = {"error": str(error)}
    print(f"\n{json.dumps(found)}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
