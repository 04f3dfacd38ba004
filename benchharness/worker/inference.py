"""What predicting with a job's encoder costs: python -P -m benchharness.worker.inference.

Reads the job as JSON from stdin and prints, as the last line of stdout, what `measure_prediction`
gives as JSON, or {"error": sentence}. A process measures one encoder, so that its memory is that
one's. Who starts it gives it the variables of `QUIET`, which libraries read when they are imported.
"""

import json
import sys
import time
from dataclasses import replace

import torch

from benchharness.leaderboard.job import Job, define_task
from benchharness.plugins import load_plugins
from benchharness.recipes.recipe import Recipe
from benchharness.splits import read_split
from benchharness.tasks.errors import BenchError
from benchharness.training.predict import predict
from benchharness.worker.job import find_compute, peak_memory
from benchharness.worker.task_setup import TaskSetup, limits_of, load_pretrained, network_of
from benchharness.worker.technique import Work, techniques_of

FEW_ROWS = 16
"""Rows that are predicted first, so that nothing is measured that happens once."""


def measure_prediction(job: Job, seconds: float = 2.0) -> dict[str, float]:
    """How fast a job's network predicts its first dev split, and in how much memory.

    The weights are those that it is loaded with; fine-tuned ones take as long. Rows are predicted
    for about `seconds`, each once at most. Tokens are counted without padding; memory is the most
    that this process held at once, in bytes of its device.
    """
    compute = find_compute(job.precision, deterministic=False)
    recipe = Recipe.from_settings(job.settings)
    encoder = load_pretrained(job, recipe)
    alone = replace(job, teacher=None)  # who is not asked any more
    work = Work(job=alone, recipe=recipe, compute=compute, report=lambda _: None, folders={})
    techniques = techniques_of(work)
    setup = TaskSetup.of(job.task, job.fingerprints, recipe, encoder, techniques)
    network = network_of([setup], encoder, compute.device, techniques)
    examples = read_split(job, setup.judged).examples
    limits = limits_of(recipe, encoder)

    def timed(count: int) -> tuple[float, int]:
        features = setup.head.encode(examples[:count], encoder.tokenizer, limits)
        start = time.monotonic()
        predict(network, features, compute, lambda _: None)
        return max(time.monotonic() - start, 1e-6), len(features.token_ids)

    timed(FEW_ROWS)  # libraries make what they need
    first, _ = timed(FEW_ROWS)  # says how many rows take about `seconds`
    took, tokens = timed(max(FEW_ROWS, int(FEW_ROWS * seconds / first)))
    return {
        "tokens_per_second": tokens / took,
        "peak_memory_bytes": peak_memory(),
        "parameters": sum(weight.numel() for weight in network.parameters()),
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    """Measures, and says what was found."""
    job = Job.from_json(json.load(sys.stdin))
    try:
        define_task(job.definition)
        if job.plugins:
            load_plugins()
        found: object = measure_prediction(job)
    except BenchError as error:
        found = {"error": str(error)}
    print(f"\n{json.dumps(found)}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
