"""Training jobs. The function `run_job` computes a job, and shows all of its steps in order."""

import json
import math
import os
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from benchharness.errors import BenchError, JobError, first_line
from benchharness.heads.tokens import encode_once
from benchharness.kept_folders import EVERY_SECONDS
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Cost, Evaluation, Result, Selection
from benchharness.machine import collect, text_digest
from benchharness.models.folder import stated_pooling
from benchharness.progress import SIGNALS, Progress, Reporter
from benchharness.recipes.recipe import Recipe
from benchharness.splits import evaluate_split, headline
from benchharness.tasks.read import SplitRows, count_repeats, counts_of
from benchharness.tasks.suites import distinct_title
from benchharness.tasks.task import Task
from benchharness.training.batching import Features
from benchharness.training.compute import Compute, Ranks, choose_kernels
from benchharness.training.loop import Training
from benchharness.training.optimizer import UsedVocabulary, can_be_cut, cut_vocabulary
from benchharness.training.predict import (
    MemoryRanOutError,
    OutOfMemoryError,
    free_memory,
    is_out_of_memory,
    predict,
)
from benchharness.training.snapshots import Snapshots, State
from benchharness.worker.checkpoint import CheckpointWriter, KeptRun, load_start
from benchharness.worker.task_setup import (
    TaskSetup,
    hold_rows_out,
    load_pretrained,
    load_run,
    read_rows,
)
from benchharness.worker.technique import Folders, Prepared, Technique, Work

GRAPHS = "BENCH_CUDA_GRAPHS"
"""Environment variable that makes training steps use CUDA graphs (training/cuda.py) if it is 1."""


def run_job(job: Job, report: Reporter = lambda _: None, **folders: Unpack[Folders]) -> Result:
    """Fine-tune an encoder, predict the job's splits and score the predictions.

    If several processes train together, all of them return the result, and only the first writes
    files.

    Args:
        job: Job to run.
        report: Function that is called with the progress.
        **folders: Folders that are read and written (see Folders).

    Raises:
        DataError: A split has changed since the job was planned.
        ModelError: The checkpoint cannot be used.
        JobError: A folder cannot be used, memory does not suffice, or a GPU that should compute
            deterministically has no deterministic kernel for a part of the network.
        DivergedError: A loss, a gradient or a prediction is not finite.
        BenchError: The GPU cannot be used, or does not support the job's precision.
    """
    recipe = Recipe.from_settings(job.settings)
    compute = find_compute(job.precision, deterministic=recipe.optim.deterministic)
    work = Work(job=job, recipe=recipe, compute=compute, report=report, folders=folders)

    def attempt(accumulation: int, checkpointing: bool) -> Result:  # repeated if memory runs out
        began = time.monotonic()

        # ---- Create the network, and encode the rows as features.
        prepared = _prepare(work)
        setups = prepared.setups

        # ---- Begin, or resume from the newest snapshot.
        states = Snapshots(
            folder=folders.get("snapshots"),
            key=job.key,
            every=folders.get("checkpoint_every", EVERY_SECONDS),
            provenance=prepared.provenance,
            accumulation=accumulation,
            report=report,
            is_writer=compute.ranks.is_first,
            checkpointing=checkpointing,
        )
        newest = states.newest()  # may change accumulation and checkpointing of `states`
        optim = replace(
            recipe.optim,
            accumulation=states.accumulation,
            activation_checkpointing=states.checkpointing,
        )
        training = Training.begin(
            prepared.network,
            [setup.batches(prepared.features, prepared.rows) for setup in setups],
            replace(recipe, optim=optim),
            seed=job.seed,
            compute=compute,
            report=report,
        )
        done = JobState(training=training, began=began)
        if newest is not None:
            done.restore(newest)

        # ---- Train, and evaluate at the planned steps; a signal that ends the job saves its state.
        with states.saved_at_a_signal(done.state, training.meter.announce_saving):
            for step in training:
                if step in training.plan.evaluations:
                    with training.meter.paused():
                        evaluations = [prepared.evaluate(setup, setup.judged) for setup in setups]
                    done.judge(evaluations)
                states.save_when_due(done.state)

            prepared.finish(done)
            # ---- Predict the other splits, with the final weights of the training.
            by_split = {name: setup for setup in setups for name in setup.predicted}
            for name in [name for name in by_split if name not in done.evaluations]:
                with training.meter.paused():
                    done.evaluations[name] = prepared.evaluate(by_split[name], name)
                states.save_when_due(done.state)

        # ---- Write the network if it is kept, or if other jobs start from it.
        prepared.write(done)
        return _result(job, prepared, done)

    return in_enough_parts(attempt, job, report)


@dataclass(kw_only=True)
class _Job(Prepared):
    """Network, data and provenance of a training job.

    Attributes:
        work: The job with its recipe and device.
        techniques: Techniques of the job.
        provenance: Facts about the run for its result.
        writer: Writer of the trained network; None if the network is not kept.
        parameters: Number of parameters of the network before its vocabulary is cut.
        vocabulary: Full vocabulary for the writer; None if the vocabulary was not cut or there is
            no writer.
    """

    work: Work
    techniques: Sequence[Technique]
    provenance: dict[str, Any]
    writer: CheckpointWriter | None
    parameters: int = 0
    vocabulary: UsedVocabulary | None = None

    def cut_vocabulary(self) -> None:
        """Cut the network's vocabulary to the tokens that occur in the features."""
        self.features, vocabulary = cut_vocabulary(self.network.encoder, self.features)
        for technique in self.techniques:
            technique.on_vocabulary(vocabulary)
        # Without a writer, free the full embedding, which has most of XLM-R's weights.
        self.vocabulary = None if self.writer is None else vocabulary

    def evaluate(self, setup: TaskSetup, name: str) -> Evaluation:
        """Predict a split of a task and score the predictions."""
        features, rows = self.features[name], self.rows[name]
        logits = predict(setup.network, features, self.work.compute, self.work.report)
        predictions = setup.head.decode(logits, features, rows.examples, setup.task)
        return evaluate_split(name, rows, predictions)

    def finish(self, done: "JobState") -> None:
        """Let techniques change the trained network; all splits are then predicted again."""
        for technique in self.techniques:
            if technique.on_trained(self):
                done.evaluations.clear()
                self.provenance |= technique.provenance

    def write(self, done: "JobState") -> None:
        """Write the whole network, with merged adapters and the full vocabulary, if it is kept."""
        if self.writer is None:
            return
        for technique in self.techniques:
            technique.before_writing(self.network)
            self.writer.config.update(technique.config)
        if self.vocabulary is not None:
            self.vocabulary.restore()
        run = KeptRun.of(
            self.work.job,
            self.limits,
            done.evaluations.values(),
            done.training.meter.curve,
            self.provenance,
        )
        self.writer.write(self.network, run)


def _prepare(work: Work) -> _Job:
    """Create and return the network, features and provenance of a job."""
    started = now()
    job, recipe, compute, report = work.job, work.recipe, work.compute, work.report

    # ---- Read the rows of every split, keyed by "task:split".
    report(Progress(phase="loading"))
    rows = read_rows(job, recipe)

    # ---- Load the encoder, with the weights that the job starts from.
    encoder = load_pretrained(job, recipe)
    keep = work.folders.get("keep") if compute.ranks.is_first else None  # only the first writes
    # Create the writer before a head removes the pooler and before the recipe changes the config.
    writer = None if keep is None else CheckpointWriter.of(encoder, keep, job)
    provenance = {
        **provenance_of(job, rows, encoder.tokenizer, compute, started),
        **load_start(encoder, work.folders.get("start_from"), job),
    }

    provenance["model"]["family"] = encoder.family

    # ---- Put the heads of all tasks on the encoder, and encode the rows of each task.
    run = load_run(work, encoder)
    techniques, setups = run.techniques, run.setups
    hold_rows_out(setups, rows, recipe, techniques)
    report(Progress(phase="encoding"))
    has_language_model = recipe.pair is not None and recipe.pair.lm_weight > 0
    whole = has_language_model or any(each.whole_vocabulary for each in techniques)
    features = {
        name: encode_once(setup.head.encode, rows[name], encoder.tokenizer, read_by, run.limits)
        for setup in setups
        for read_by in [_read_by(provenance, setup.task, techniques, job)]
        for name in setup.splits
    }
    provenance["data"] = _with_counts(provenance["data"], setups, rows, features)
    prepared = _Job(
        setups=setups,
        network=run.network,
        rows=rows,
        features=features,
        limits=run.limits,
        work=work,
        techniques=techniques,
        provenance=provenance,
        writer=writer,
    )
    for technique in techniques:
        technique.on_network(prepared)
        provenance |= technique.provenance
    # Count the weights of the whole network, before its vocabulary is cut.
    prepared.parameters = sum(weight.numel() for weight in run.network.parameters())
    if not whole and can_be_cut(run.network.encoder):
        prepared.cut_vocabulary()
    return prepared


def _with_counts(
    splits: Mapping[str, Mapping[str, Any]],
    setups: Iterable[TaskSetup],
    rows: Mapping[str, SplitRows],
    features: Mapping[str, Features],
) -> dict[str, Mapping[str, Any]]:
    """Add counts of truncated rows, tokens, unknown tokens and lost words to each split's facts.

    Held-out rows count as rows of train. Rows are counted by id, because a row may be trained on
    several times: in both orders, or with each of its answers.
    """
    lost: dict[str, int] = {}
    known: dict[str, Counter[str]] = {}
    for setup in setups:
        for name in setup.splits:
            examples, truncated = rows[name].examples, features[name].truncated
            flags = [False] * len(examples) if truncated is None else truncated
            ids = {e.id for e, is_cut in zip(examples, flags, strict=True) if is_cut}
            split = name if name in (setup.trained, *setup.predicted) else setup.trained
            lost[split] = lost.get(split, 0) + len(ids)
            known.setdefault(split, Counter()).update(counted(features[name].counts))
    return {n: {**facts, "truncated": lost[n], **known[n]} for n, facts in splits.items()}


def counted(counts: NDArray[np.int64] | None) -> dict[str, int]:
    """Return the token counts of encoded texts (`Features.counts`) as a dict.

    The keys are "tokens" (the number of tokens) and "unknown" (the number of unknown tokens). If
    there are lost words (words of which no character has a token), "lost" is their number, and
    "words" is the number of all words. The dict is empty if nothing was counted (None).
    """
    if counts is None:
        return {}
    tokens, unknown, lost, words = counts.tolist()
    return {"tokens": tokens, "unknown": unknown} | ({"lost": lost, "words": words} if lost else {})


def in_enough_parts(attempt: Callable[[int, bool], Result], job: Job, report: Reporter) -> Result:
    """Run a job, and repeat it in a way that needs less memory whenever memory runs out.

    The first attempt uses the recipe's number of micro-batches per batch (parts). If memory runs
    out, the next attempt recomputes activations in the backward pass, with the same number of parts
    and the same result. If memory runs out again, or if the encoder does not support recomputation,
    the number of parts is doubled until a micro-batch is at most half as large as the one that was
    too large.

    Each attempt starts with the same seed, so initial weights, order and batches are the same.
    If the last attempt had N parts, the result is the same as with `--set accumulation=N`.
    Dropout is drawn per micro-batch, so with dropout another number of parts has the same effect as
    other random numbers.

    Args:
        attempt: Function that runs the job. Its arguments are the number of parts, and whether
            activations are recomputed.
        job: Job to run.
        report: Function that is called with notes about repetitions.

    Raises:
        JobError: Memory does not suffice for micro-batches of a single item, or it runs out outside
            of training steps; or a deterministic kernel is required, but there is none.
    """
    batch_size = int(job.settings["batch_size"].value)
    parts = int(job.settings["accumulation"].value)
    checkpointing = Recipe.from_settings(job.settings).optim.activation_checkpointing
    while True:
        result, too_large, can_spare = _try(attempt, parts, checkpointing)
        if result is not None:
            return result
        free_memory()  # at this point, no traceback refers to the attempt any more
        sentence = "ran out of memory and starts over"
        if can_spare:
            checkpointing = True
            report(Progress(phase="loading", note=f"{sentence} with activation_checkpointing"))
            continue
        if too_large == 1:
            raise MemoryRanOutError(
                "memory ran out in training, although every micro-batch has only one example: run "
                "fewer --jobs at once, or pass --set lora_rank=8 or a smaller --set max_tokens=N."
            )
        while math.ceil(batch_size / parts) > math.ceil(too_large / 2):
            parts *= 2  # halves the items per part
        report(Progress(phase="loading", note=f"{sentence} with {parts} micro-batches per batch"))


def _try(
    attempt: Callable[[int, bool], Result], parts: int, checkpointing: bool
) -> tuple[Result | None, int, bool]:
    """Return the result of an attempt, or the size of the micro-batch that ran out of memory.

    The third value is True if memory ran out and recomputing activations can save some.
    """
    try:
        return attempt(parts, checkpointing), 0, False
    except OutOfMemoryError as error:
        return None, error.items, error.can_spare
    except (MemoryError, RuntimeError) as error:
        if "deterministic implementation" in str(error):
            raise JobError(
                f"this GPU has no deterministic kernel for a part of the model ({error}): omit "
                "the setting deterministic."
            ) from error
        if not is_out_of_memory(error):
            raise
        raise MemoryRanOutError(
            f"memory ran out outside of batches, so a smaller batch would not help ({error}): run "
            "fewer --jobs at once, or pass --set lora_rank=8."
        ) from error


def find_compute(precision: str, *, deterministic: bool) -> Compute:
    """Return the device, number format and processes with which a job is computed.

    This also sets up the GPU, and connects to the other processes, if there are any.

    Args:
        precision: Number format, one of PRECISIONS.
        deterministic: Whether the GPU must use deterministic kernels.

    Raises:
        BenchError: The GPU cannot be used, or the device does not support the precision.
        MemoryRanOutError: The GPU accepts no further process.
    """
    device = _find_device(deterministic=deterministic)
    graphs = device.type == "cuda" and os.environ.get(GRAPHS) == "1"
    return Compute(device=device, precision=precision, ranks=Ranks.join(device), graphs=graphs)


def _find_device(*, deterministic: bool) -> torch.device:
    """Return this process's GPU among those that the engine made visible, or the CPU.

    A GPU is also configured to use deterministic kernels, or the fastest ones. Raises BenchError if
    this torch cannot use the GPU, and MemoryRanOutError if the GPU accepts no further process.
    """
    if not torch.cuda.is_available():
        told = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        if re.match(r"\d|GPU-|MIG-", told):  # do not fall back to a CPU, which would take hours
            raise BenchError(
                f"torch {torch.__version__} (CUDA: {torch.version.cuda}) cannot use GPU {told}: "
                "install a torch built for the GPU's driver (https://pytorch.org), or pass "
                "--device cpu."
            )
        return torch.device("cpu")
    # If there are more processes than GPUs, several processes share a GPU.
    number = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    try:
        torch.cuda.set_device(number)  # creates a context, which takes some hundred megabytes
    except RuntimeError as error:
        # "busy or unavailable": an administrator allows only one process at a time on the GPU.
        if not (is_out_of_memory(error) or "busy or unavailable" in str(error)):
            raise
        raise MemoryRanOutError(
            f"the GPU accepts no further process ({first_line(error)}): run fewer --jobs at once."
        ) from error
    device = torch.device("cuda", number)
    choose_kernels(device, deterministic=deterministic)
    return device


def now() -> str:
    """Return the current time in UTC, to the second, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def provenance_of(
    job: Job, splits: Mapping[str, SplitRows], tokenizer: Any, compute: Compute, started: str
) -> Mapping[str, Any]:
    """Return the provenance of a run: facts that help to judge and to reproduce its result.

    Args:
        job: Job of the run.
        splits: Rows of each split, keyed by the name of the split.
        tokenizer: Tokenizer of the encoder. It must not have been used before, because its first
            use changes the state from which its digest is computed.
        compute: Device, precision and processes.
        started: Time at which the run began, in UTC and ISO 8601.
    """
    repeats = count_repeats(splits)  # rows that repeat an earlier row, or a row of train
    found = collect(
        job,
        splits={
            name: {**counts_of(rows), **repeats.get(name, {})} for name, rows in splits.items()
        },
        tokenizer=text_digest(_describe(tokenizer)),
        machine={
            "device": torch.cuda.get_device_name() if compute.on_gpu else "cpu",
            "threads": torch.get_num_threads(),
            "processes": compute.ranks.count,
        },
        started=started,
    )
    found["model"]["tokenizer_source"] = tokenizer.source.to_json()
    if stated := stated_pooling(Path(job.checkpoint)):  # only in sentence-transformers checkpoints
        found["model"]["stated_pooling"] = stated
    return {**found, "graphs": True} if compute.graphs else found


def _describe(tokenizer: Any) -> str:
    """Return a tokenizer as JSON; call this before its first use, which changes its state."""
    if tokenizer.is_fast:
        return str(tokenizer.backend_tokenizer.to_str())
    return json.dumps(tokenizer.get_vocab(), sort_keys=True)


def _read_by(
    provenance: Mapping[str, Any], task: Task, techniques: Iterable[Technique], job: Job
) -> str:
    """Return a cache key for everything except the head that affects the features."""
    tokenizer = str(provenance["model"]["tokenizer"])
    if job.documents:
        return f"{tokenizer} {sorted(job.documents.items())}"
    return "".join((tokenizer, *(technique.feature_key(task) for technique in techniques)))


@dataclass(kw_only=True)
class JobState:
    """Progress of a job, which can be stored in a snapshot and restored from it.

    Attributes:
        training: Training of the job.
        began: Time of the monotonic clock at which this process began the job.
        earlier: Seconds that earlier processes have spent on the job, if it was resumed.
        resumed: Numbers of the steps after which the job was resumed, once per resumption.
        evaluations: Predictions and scores of each split that the result may contain, keyed by the
            name of the split.
    """

    training: Training
    began: float
    earlier: float = 0.0
    resumed: list[int] = field(default_factory=list)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)

    def judge(self, evaluations: Sequence[Evaluation]) -> None:
        """Record the evaluations after a step, one per task.

        The scores are added to the learning curve. With several tasks, the curve contains the main
        score of each task, and evaluations are compared by the mean of these scores.

        The predictions are kept if the weights after this step may become the final weights. They
        are not kept if the final weights will be averaged, or if the evaluated rows were held out
        of train, because dev is then predicted after the training.
        """
        training, meter, choice = self.training, self.training.meter, self.training.recipe.selection
        with SIGNALS.held_back():  # a snapshot must have an evaluation and its weights, or neither
            training.mark(*_marked(evaluations))

            if choice.held_out or choice.average_last > 1:
                return  # dev will be predicted with the final weights
            if not choice.best_checkpoint or meter.best in (None, len(meter.values) - 1):
                self.evaluations |= {each.name: each for each in evaluations}

    def restore(self, state: State) -> None:
        """Load the state that a snapshot of the same job contains."""
        self.training.restore(state)
        numbers = state.numbers["job"]
        self.earlier = numbers["seconds"]
        self.resumed = [*numbers["resumed"], self.training.meter.step]
        kept = map(Evaluation.from_json, numbers["evaluations"])
        self.evaluations = {evaluation.name: evaluation for evaluation in kept}

    def state(self) -> State:
        """Return the state of the job, with everything that `restore` needs."""
        state = self.training.state()
        stays = self.training.is_over or self.training.recipe.selection.best_checkpoint
        # Evaluations that will be replaced by later ones need not be written.
        final = self.evaluations.values() if stays else ()
        job = {
            "seconds": self.seconds,
            "resumed": self.resumed,
            "evaluations": [asdict(evaluation) for evaluation in final],
        }
        return replace(state, numbers={**state.numbers, "job": job})

    @property
    def seconds(self) -> float:
        """Seconds that the job has taken so far; the time while it was stopped does not count."""
        return self.earlier + time.monotonic() - self.began

    @property
    def record(self) -> dict[str, Any]:
        """Facts for the provenance of the result, as plain data.

        "selection" describes how the final weights were selected (see the property `selection`).
        "resumed" contains how often ("times") and after which "steps" the job was resumed. A key is
        absent if no weights were selected, or if the job was not resumed.
        """
        found: dict[str, Any] = {}
        if self.selection is not None:
            found["selection"] = asdict(self.selection)
        if self.resumed:
            found["resumed"] = {"times": len(self.resumed), "steps": list(self.resumed)}
        return found

    @property
    def selection(self) -> Selection | None:
        """Description of how evaluations determined the final weights; None if they did not.

        Evaluations determine the final weights if the weights of the best of several evaluations
        are selected, or if early stopping ends the training.
        """
        training, meter, choice = self.training, self.training.meter, self.training.recipe.selection
        is_best = choice.best_checkpoint and meter.best is not None and len(meter.values) > 1
        if not is_best and not training.is_stopped:
            return None
        steps = [point.step for point in meter.curve if point.step in training.plan.evaluations]
        return Selection(
            evaluations=len(meter.values),
            step=steps[meter.best if is_best and meter.best is not None else -1],
            is_best=is_best,
            held_out=choice.held_out,
        )


def _marked(evaluations: Sequence[Evaluation]) -> tuple[Mapping[str, float], float | None]:
    """Return a step's scores for the curve, and the value by which evaluations are compared."""
    values = {each.task: headline(each.name, each.scores) for each in evaluations}
    if len(evaluations) == 1:
        return evaluations[0].scores, values[evaluations[0].task]
    known = {task: value for task, value in values.items() if value is not None}
    shown = {distinct_title(task): value for task, value in known.items()}
    return shown, fmean(known.values()) if len(known) == len(values) else None


def _result(job: Job, prepared: _Job, done: JobState) -> Result:
    """Return the result of a finished job.

    If the job was resumed, the cost includes the time of earlier processes.
    """
    training, meter, provenance = done.training, done.training.meter, prepared.provenance
    seconds, optim = meter.seconds, training.recipe.optim
    how: dict[str, Any] = {"accumulation": optim.accumulation}
    if optim.activation_checkpointing:
        how["activation_checkpointing"] = True
    return Result(
        job=job,
        evaluations=tuple(done.evaluations.values()),
        curve=tuple(meter.curve),
        cost=Cost(
            seconds=done.seconds,
            train_seconds=seconds,
            predict_seconds=meter.evaluating,
            steps=meter.step,
            train_examples_per_second=meter.examples / seconds,
            train_tokens=meter.tokens,
            parameters=prepared.parameters,
            peak_memory_bytes=peak_memory(),
        ),
        provenance={
            **provenance,
            "recipe": provenance["recipe"] | how,
            **done.record,
        },
        finished=now(),
    )


def peak_memory() -> int:
    """Return the peak memory of this process in bytes: GPU memory, or main memory without a GPU."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2) returns kilobytes on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
