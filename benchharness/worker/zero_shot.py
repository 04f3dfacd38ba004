"""One job in which nothing is trained, from its rows to its Result.

A module of its own, because jobs that train load no language model and no cloze.
"""

import time
from dataclasses import replace

from benchharness.encoder.language_model import load_language_model
from benchharness.heads.cloze import Asked, predict_untrained
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Cost, Evaluation, Result
from benchharness.models.weights import hub_revision
from benchharness.progress import Progress, Reporter
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.suites import find_task
from benchharness.worker.job import find_compute, now, peak_memory, provenance_of


def run_zero_shot(job: Job, report: Reporter = lambda _: None) -> Result:
    """Scores the candidates of every split by a language model as it is.

    Raises DataError where a split is no longer what the job was planned with, and ModelError for a
    checkpoint that is no language model.
    """
    began, started = time.monotonic(), now()
    compute = find_compute(job.precision, deterministic=False)
    report(Progress(phase="loading"))
    rows = {name: read_split(job, name) for name in job.fingerprints}
    model = load_language_model(job.checkpoint, hub_revision(job.weights), job.seed, job.trust)
    provenance = provenance_of(job, rows, model.tokenizer, compute, started)
    model.prepare(compute.device)
    loaded, done = time.monotonic(), 0  # what comes before is no prediction
    total = sum(len(split.examples) for split in rows.values())

    def tell(count: int) -> None:
        speed = (done + count) / max(time.monotonic() - loaded, 1e-9)
        report(
            Progress(phase="predicting", step=done + count, steps=total, examples_per_second=speed)
        )

    evaluations = list[Evaluation]()
    for name, split in rows.items():
        task = find_task(name.rpartition(":")[0])
        shortened = list[str]()
        asked = Asked(model=model, task=task, values=job.values, compute=compute)
        predictions = predict_untrained(asked, split.examples, tell, shortened.append)
        provenance["data"][name]["truncated"] = len(shortened)
        # Without flags: that an untrained model always says the same is what it is.
        evaluations.append(replace(evaluate_split(name, split, predictions), flags=()))
        done += len(split.examples)
    end = time.monotonic()
    cost = Cost.without_network(end - began, 0.0, end - loaded)
    parameters = sum(weight.numel() for weight in model.network.parameters())
    return Result(
        job=job,
        evaluations=tuple(evaluations),
        curve=(),
        cost=replace(cost, parameters=parameters, peak_memory_bytes=peak_memory()),
        provenance=provenance,
        finished=now(),
    )
