"""Run zero-shot jobs with a language model: read the rows, predict them, and create the result."""

import time
from dataclasses import replace

from benchharness.extensions.cloze.language_model import load_language_model
from benchharness.extensions.cloze.scoring import Asked, predict_untrained
from benchharness.heads.tokens import counting
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Evaluation, Result
from benchharness.models.weights import hub_revision
from benchharness.progress import Progress, Reporter
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.suites import find_task
from benchharness.worker.job import counted, find_compute, now, provenance_of
from benchharness.worker.zero_shot import cost_of, result_of


def run_language_model(job: Job, report: Reporter) -> Result:
    """Run a zero-shot job: predict all examples of its splits with a pretrained language model.

    Raises:
        DataError: If a split differs from the one that the job was planned with.
        ModelError: If the checkpoint cannot be loaded as a language model, or reads too few tokens
            for the job.
        JobError: If the candidates of an example do not fit into the maximum number of tokens.
    """
    began, started = time.monotonic(), now()
    compute = find_compute(job.precision, deterministic=False)
    report(Progress(phase="loading"))
    rows = {name: read_split(job, name) for name in job.fingerprints}
    model = load_language_model(job.checkpoint, hub_revision(job.weights), job.seed, job.trust)
    provenance = provenance_of(job, rows, model.tokenizer, compute, started)
    model.prepare(compute.device)
    loaded, done = time.monotonic(), 0  # `loaded` is the time at which prediction begins
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
        with counting(model.tokenizer) as count:
            predictions = predict_untrained(asked, split.examples, tell, shortened.append)
        provenance["data"][name] |= {"truncated": len(shortened), **counted(count.numbers())}
        # Drop the flags, because an untrained model that predicts only one class is not suspicious.
        evaluations.append(replace(evaluate_split(name, split, predictions), flags=()))
        done += len(split.examples)
    return result_of(job, evaluations, provenance, cost_of(model.network, began, loaded))
