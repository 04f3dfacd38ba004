"""Zero-shot jobs, in which a pretrained model is scored without training.

This is a separate module so that training jobs import neither language models nor cloze scoring.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from benchharness.heads.tokens import encode_once
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Cost, Evaluation, Result
from benchharness.progress import Progress, Reporter
from benchharness.recipes.recipe import Recipe
from benchharness.recipes.zero_shot import zero_shot_scoring
from benchharness.splits import evaluate_split, read_split
from benchharness.tasks.suites import find_task
from benchharness.training.predict import predict
from benchharness.worker.job import counted, find_compute, now, peak_memory, provenance_of
from benchharness.worker.task_setup import load_pretrained, load_run
from benchharness.worker.technique import Work


def run_zero_shot(job: Job, report: Reporter = lambda _: None) -> Result:
    """Predict and score every split of a job with a pretrained model, without training.

    If the task's head has no weights, the predictions are made by the encoder and this head.
    Otherwise an extension makes them: a language model scores the candidate answers.

    Args:
        job: Job to run.
        report: Function that is called with the progress.

    Raises:
        DataError: A split has changed since the job was planned.
        ModelError: The checkpoint cannot be used, or it lacks the language model that is needed.
    """
    if find_task(job.task).has_weights:
        return zero_shot_scoring().run(job, report)
    return _predict_with_head(job, report)


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
    return result_of(job, evaluations, provenance, cost_of(network, began, loaded))


def cost_of(network: nn.Module, began: float, loaded: float) -> Cost:
    """Return the time and memory that a job without training has taken until now.

    Args:
        network: Network of the job, whose parameters are counted.
        began: Time of the monotonic clock at which the job began.
        loaded: Time of the monotonic clock at which the model was loaded.
    """
    end = time.monotonic()
    cost = Cost.without_network(end - began, 0.0, end - loaded)
    parameters = sum(weight.numel() for weight in network.parameters())
    return replace(cost, parameters=parameters, peak_memory_bytes=peak_memory())


def result_of(
    job: Job, evaluations: Sequence[Evaluation], provenance: Mapping[str, Any], cost: Cost
) -> Result:
    """Return the result of a job without training, with the current time as its end.

    Args:
        job: Job that was run.
        evaluations: Predictions and scores of each split.
        provenance: Facts about the run that help to judge and to reproduce the result.
        cost: Time and memory that the job has taken.
    """
    return Result(
        job=job,
        evaluations=tuple(evaluations),
        curve=(),
        cost=cost,
        provenance=provenance,
        finished=now(),
    )
