"""Runs on the packaged data with errors in given rows."""

from dataclasses import replace

from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.examples import PairPrediction
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data
from benchharness.tasks.suites import find_task
from tests.helpers.results import make_job, make_result

TASKS = {
    "glue/rte": ("train", "dev"),
    "glue/wnli": ("train", "dev"),
    "glue/cola": ("train", "dev"),
    "snli/snli": ("train", "dev", "test"),
}


def made(model, task, seed, wrong, digest=None, **fields):
    """Return a run with errors in rows `wrong`; `digest` is its fingerprint of the rows."""
    found = find_task(task)
    digests = {
        f"{task}:{split}": read(found, split, parse_data("mini")).fingerprint
        for split in TASKS[task]
    }
    job = make_job(
        model=model, task=task, seed=seed, fingerprints=digests, precision="fp32", recipe="paper"
    )
    evaluations = [evaluated(found, job, split, wrong) for split in TASKS[task][1:]]
    job = replace(job, **fields)
    told = (
        replace(evaluation, fingerprint=digest or job.fingerprints[evaluation.name])
        for evaluation in evaluations
    )
    return replace(make_result(job), evaluations=tuple(told))


def evaluated(task, job, split, wrong):
    rows = read_split(job, f"{task.name}:{split}")
    predictions = [
        PairPrediction(id=example.id, label=other(task, example) if n in wrong else example.label)
        for n, example in enumerate(rows.examples)
    ]
    return evaluate_split(f"{task.name}:{split}", rows, predictions)


def other(task, example):
    return next(label for label in task.labels if label != example.label)
