"""One job, from its rows to its Result."""

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchharness.encoder import Encoder, load_encoder
from benchharness.encoder.cpu_attention import use_cpu_attention
from benchharness.encoder.fast_dropout import use_fast_dropout
from benchharness.encoder.layers import use_first_token
from benchharness.encoder.load import set_dropout
from benchharness.heads import Head, Limits, head_for
from benchharness.heads.tokens import encode_once
from benchharness.kept_folders import EVERY_SECONDS
from benchharness.machine import collect, text_digest
from benchharness.models.spec import Trust
from benchharness.models.weights import hub_revision
from benchharness.progress import Progress, Reporter
from benchharness.recipes.recipe import Recipe
from benchharness.splits import evaluate_split, read_split
from benchharness.training.batching import Features
from benchharness.training.compute import Compute, Ranks
from benchharness.training.loop import Training
from benchharness.training.meter import Fit
from benchharness.training.predict import OutOfMemoryError, free_memory, is_out_of_memory, predict
from benchharness.training.snapshots import Snapshots
from benchharness.training.vocabulary import UsedRows, keep_used_rows
from benchharness.transfer.adapters import add_adapters, merge_adapters
from benchharness.transfer.frozen import freeze
from benchharness.worker.course import Course, Keeper, take_up
from leaderboard.job import Job
from leaderboard.result import Cost, Evaluation, Result
from tasks.errors import JobError
from tasks.read import SplitRows, count_repeats
from tasks.suites import find_task
from tasks.task import Task

__all__ = ["in_enough_parts", "run_job"]

# A job whose memory runs out is tried again in smaller micro-batches.


def in_enough_parts(attempt: Callable[[int], Result], job: Job, report: Reporter) -> Result:
    """What a job's attempt gives in as few parts to a batch as memory suffices for.

    The first number of parts is the recipe's; it doubles until micro-batches are half as large as
    the one that was too large. Each attempt begins anew from the same seed, so weights, order and
    batches are the same, and the result is that of `--set accumulation` with the last number.
    Dropout is drawn for each micro-batch, so with dropout it is not that of the recipe's number
    to the last bit, but another sample of the same. Raises JobError where one item is too large.
    """
    batch_size = int(job.settings["batch_size"].value)
    parts = int(job.settings["accumulation"].value)
    while True:
        result, too_large = _try(attempt, parts)
        if result is not None:
            return result
        if too_large == 1:
            raise JobError(
                "memory ran out in training, where every example is a micro-batch of its own "
                "already: run fewer --jobs at once, --set max_tokens to less, or lora_rank=8."
            )
        while math.ceil(batch_size / parts) > math.ceil(too_large / 2):
            parts *= 2
        free_memory()
        sentence = f"ran out of memory and starts anew with each batch in {parts} parts"
        report(Progress(phase="loading", note=sentence))


def _try(attempt: Callable[[int], Result], parts: int) -> tuple[Result | None, int]:
    """A result, or the items of the micro-batch that was too large."""
    try:
        return attempt(parts), 0
    except OutOfMemoryError as error:
        return None, error.items
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise JobError(
            f"memory ran out outside of batches, which no smaller batch can mend ({error}): run "
            "fewer --jobs at once, or --set lora_rank=8."
        ) from error


# What a job has taken: seconds, steps, memory.


def cost_of(parameters: int, fitted: Fit, course: Course) -> Cost:
    """The cost of a course that is over, in all processes that it took."""
    return Cost(
        seconds=course.seconds,
        train_seconds=fitted.seconds,
        predict_seconds=fitted.evaluation_seconds + course.predicting,
        steps=fitted.steps,
        train_examples_per_second=fitted.examples / fitted.seconds,
        train_tokens=fitted.tokens,
        parameters=parameters,
        peak_memory_bytes=_peak_memory(),
    )


def _peak_memory() -> int:
    """The most memory of the device that this process held at once, in bytes."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): kilobytes on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@dataclass(frozen=True, kw_only=True)
class _Setup:
    """A job's parts before its first step; `splits` and `features` are by "task:split"."""

    task: Task
    head: Head
    network: nn.Module
    recipe: Recipe
    compute: Compute
    splits: Mapping[str, SplitRows]
    features: Mapping[str, Features]
    provenance: Mapping[str, Any]
    parameters: int
    used_rows: UsedRows | None
    keeper: Keeper | None


def run_job(  # noqa: PLR0913  (the worker's options)
    job: Job,
    report: Reporter = lambda _: None,
    *,
    start_from: Path | None = None,
    keep: Path | None = None,
    snapshots: Path | None = None,
    checkpoint_every: float = EVERY_SECONDS,
) -> Result:
    """Fine-tunes an encoder, predicts and scores as the job says.

    `start_from` is the folder in which the run that the job starts from has left its encoder,
    `keep` the one in which this run leaves its own. In the folder `snapshots` it keeps its state
    every `checkpoint_every` seconds and before a signal ends it, and goes on from there where it
    was stopped. Raises DataError where a split is no longer what the job was planned with,
    ModelError for a checkpoint that cannot be used, JobError for such a folder or too little
    memory, and DivergedError where numbers stop being finite.

    Where this process is one of several that train together, all of them return the result, and
    the first alone writes files.
    """
    device = _find_device()
    ranks = Ranks.join(device)
    compute = Compute(device=device, precision=job.precision, ranks=ranks)
    keep = keep if ranks.is_first else None

    def attempt(parts: int) -> Result:
        began = time.monotonic()
        setup = _prepare(job, compute, report, start_from, keep)
        kept = None
        if snapshots is not None:
            kept = Snapshots(
                folder=snapshots,
                key=job.key,
                every=checkpoint_every,
                provenance=setup.provenance,
                accumulation=parts,
                report=report,
                is_writer=ranks.is_first,
            )
        recipe = replace(setup.recipe, accumulation=parts)
        return _finish(job, setup, _course(job, replace(setup, recipe=recipe), report, kept, began))

    return in_enough_parts(attempt, job, report)


def _finish(job: Job, setup: _Setup, course: Course) -> Result:
    """Trains and predicts from where the course is, and leaves what others start from."""
    fitted = course.run()
    if setup.keeper is not None:
        merge_adapters(setup.network)
        if setup.used_rows is not None:
            setup.used_rows.restore()
        setup.keeper.write()
    recipe = setup.provenance["recipe"] | {"accumulation": course.training.recipe.accumulation}
    return Result(
        job=job,
        evaluations=tuple(course.evaluations.values()),
        curve=fitted.curve,
        cost=cost_of(setup.parameters, fitted, course),
        provenance={**setup.provenance, "recipe": recipe, **course.record},
        finished=_now(),
    )


def _prepare(
    job: Job, compute: Compute, report: Reporter, start_from: Path | None, keep: Path | None
) -> _Setup:
    """Reads, loads and encodes; the same seed gives the same network."""
    started = _now()
    report(Progress(phase="loading"))
    task, recipe = find_task(job.task), Recipe.from_settings(job.settings)
    head = head_for(task)
    splits = {name: read_split(job, name) for name in job.fingerprints}
    trust = Trust(remote_code=job.trust_remote_code, pickle=job.allow_pickle)
    encoder = load_encoder(job.checkpoint, hub_revision(job.weights), job.seed, trust)
    keeper = Keeper.of(encoder, keep, job) if keep else None
    set_dropout(encoder, recipe.dropout, recipe.classifier_dropout)
    start = {"started_from": take_up(encoder, start_from, job)} if job.start_from else {}
    provenance = {**_provenance(job, splits, encoder, compute, started), **start}
    report(Progress(phase="encoding"))
    limits = _limits(recipe, encoder)
    network = _network(head, encoder, task, recipe, compute)
    identity = provenance["model"]["tokenizer"]
    features = {
        name: encode_once(head.encode, rows, encoder.tokenizer, identity, limits)
        for name, rows in splits.items()
    }
    if recipe.is_frozen:
        features = freeze(network, features, task.head, recipe, compute=compute, report=report)
    if recipe.lora_rank:
        provenance["adapters"] = add_adapters(network.encoder, recipe.lora_rank)
    parameters = sum(weight.numel() for weight in network.parameters())
    used_rows = None
    if not (recipe.is_frozen or recipe.lora_rank):
        features, used_rows = keep_used_rows(network.encoder, features)
    return _Setup(
        task=task,
        head=head,
        network=network,
        recipe=recipe,
        compute=compute,
        splits=splits,
        features=features,
        provenance=provenance,
        parameters=parameters,
        used_rows=used_rows if keeper else None,
        keeper=keeper,
    )


def _network(
    head: Head, encoder: Encoder, task: Task, recipe: Recipe, compute: Compute
) -> nn.Module:
    """The network of a task, with attention and dropout for CPUs where one computes."""
    if not compute.on_gpu:
        use_cpu_attention(encoder.network)
    network = head.network(encoder, task)
    if getattr(network, "reads_first_token", False) and not recipe.is_frozen:
        use_first_token(encoder.network)
    if not compute.on_gpu:
        use_fast_dropout(network)
    return network


def _training(job: Job) -> str:
    return f"{job.task}:train"


def _course(
    job: Job, setup: _Setup, report: Reporter, snapshots: Snapshots | None, began: float
) -> Course:
    """The course at its beginning, or where it was stopped."""
    state, recipe = None, setup.recipe
    if snapshots is not None:
        state = snapshots.newest()
        recipe = replace(recipe, accumulation=snapshots.accumulation)
    features, rows = setup.features[_training(job)], setup.splits[_training(job)]
    training = Training.begin(
        setup.network,
        features,
        setup.head.targets(features, rows.examples, setup.task),
        setup.head.loss,
        recipe,
        seed=job.seed,
        compute=setup.compute,
        report=report,
    )
    course = Course(
        training=training,
        splits=[name for name in setup.splits if name != _training(job)],
        evaluate=lambda name: _evaluate(setup, name, report),
        snapshots=snapshots,
        began=began,
    )
    if state is not None:
        course.restore(state)
    return course


def _evaluate(setup: _Setup, name: str, report: Reporter) -> Evaluation:
    rows, features = setup.splits[name], setup.features[name]
    logits = predict(setup.network, features, setup.compute, report)
    predictions = setup.head.decode(logits, features, rows.examples, setup.task)
    return evaluate_split(name, rows, predictions)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _limits(recipe: Recipe, encoder: Encoder) -> Limits:
    """The recipe's limits, within what the encoder takes."""
    max_tokens = min(recipe.max_tokens, encoder.max_tokens)
    if recipe.stride is None or recipe.max_question_tokens is None:
        return Limits(max_tokens=max_tokens)
    return Limits(
        max_tokens=max_tokens,
        stride=recipe.stride,
        max_question_tokens=recipe.max_question_tokens,
    )


def _provenance(
    job: Job, splits: Mapping[str, SplitRows], encoder: Encoder, compute: Compute, started: str
) -> Mapping[str, Any]:
    return collect(
        job,
        rows={name: len(rows.examples) for name, rows in splits.items()},
        left_out={name: rows.left_out for name, rows in splits.items()},
        repeats=count_repeats(splits),
        tokenizer=text_digest(_describe(encoder.tokenizer)),
        device=torch.cuda.get_device_name() if compute.on_gpu else "cpu",
        threads=torch.get_num_threads(),
        processes=compute.ranks.count,
        started=started,
    )


def _describe(tokenizer: Any) -> str:
    """A tokenizer as JSON; taken before its first use, because encoding leaves traces in it."""
    if tokenizer.is_fast:
        return str(tokenizer.backend_tokenizer.to_str())
    return json.dumps(tokenizer.get_vocab(), sort_keys=True)


def _find_device() -> torch.device:
    """The GPU that the engine left visible, the own one of several processes, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    number = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    torch.cuda.set_device(number)
    return torch.device("cuda", number)
