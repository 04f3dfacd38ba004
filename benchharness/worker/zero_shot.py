"""Zero-shot jobs, in which nothing is trained, from reading the rows to the Result.

This is a separate module so that training jobs import neither language models nor cloze scoring.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from benchharness.encoder.language_model import load_language_model
from benchharness.heads.cloze import Asked, predict_untrained
from benchharness.heads.tokens import counting, encode_once
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Cost, Evaluation, Result
from benchharness.models.weights import hub_revision
from benchharness.progress import Progress, Reporter
from benchharness.recipes.recipe import Recipe
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.suites import find_task
from benchharness.training.predict import predict
from benchharness.worker.job import counted, find_compute, now, peak_memory, provenance_of
from benchharness.worker.task_setup import load_pretrained, load_run
from benchharness.worker.technique import Work


def run_zero_shot(job: Job, report: Reporter = lambda _: None) -> Result:
    """Predict and score every split with a pretrained model, without training.

    A language model scores the candidate answers. If the task's head has no weights, the encoder
    predicts with that head instead.

    Raises:
        DataError: If a split differs from the one that the job was planned with.
        ModelError: If the checkpoint is not a language model.
    """
    if not find_task(job.task).has_weights:
        return _predict_with_head(job, report)
    began, started = time.monotonic(), now()
    compute = find_compute(job.precision, deterministic=False)
    report(Progress(phase="loading"))
    rows = {name: read_split(job, name) for name in job.fingerprints}
    model = load_language_model(job.checkpoint, hub_revision(job.weights), job.seed, job.trust)
    provenance = provenance_of(job, rows, model.tokenizer, compute, started)
    model.prepare(compute.device)
    loaded, done = time.monotonic(), 0  # the time at which prediction begins
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
    return _result(job, evaluations, provenance, _cost(model.network, began, loaded))


def _predict_with_head(job: Job, report: Reporter) -> Result:
    """Predict every split with a pretrained encoder and a head that has no weights."""
    began, started = time.monotonic(), now()
    compute = find_compute(job.precision, deterministic=False)
    report(Progress(phase="loading"))
    rows = {name: read_split(job, name) for name in job.fingerprints}
    recipe = Recipe.untrained(job.values)
    encoder = load_pretrained(job, recipe)
    provenance = provenance_of(job, rows, encoder.tokenizer, compute, started)
    run = load_run(Work(job=job, recipe=recipe, compute=compute, trains=False), encoder)
    (setup,), network = run.setups, run.network
    loaded = time.monotonic()
    tokenizer, evaluations = str(provenance["model"]["tokenizer"]), list[Evaluation]()
    for name, split in rows.items():
        report(Progress(phase="encoding"))
        features = encode_once(setup.head.encode, split, encoder.tokenizer, tokenizer, run.limits)
        vectors = predict(network, features, compute, report)
        predictions = setup.head.decode(vectors, features, split.examples, setup.task)
        cut = features.truncated  # (queries,)
        lost = 0 if cut is None else int(cut.sum())
        provenance["data"][name] |= {"truncated": lost, **counted(features.counts)}
        evaluations.append(replace(evaluate_split(name, split, predictions), flags=()))
    return _result(job, evaluations, provenance, _cost(network, began, loaded))


def _cost(network: nn.Module, began: float, loaded: float) -> Cost:
    """Return the cost of the job up to now.

    `began` and `loaded` are the times, by the monotonic clock, when the job began and when its
    model was loaded.
    """
    end = time.monotonic()
    cost = Cost.without_network(end - began, 0.0, end - loaded)
    parameters = sum(weight.numel() for weight in network.parameters())
    return replace(cost, parameters=parameters, peak_memory_bytes=peak_memory())


def _result(
    job: Job, evaluations: Sequence[Evaluation], provenance: Mapping[str, Any], cost: Cost
) -> Result:
    return Result(
        job=job,
        evaluations=tuple(evaluations),
        curve=(),
        cost=cost,
        provenance=provenance,
        finished=now(),
    )
