"""One job, from its rows to its Result: `run_job` tells all of it in order."""

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

from benchharness.heads.tokens import encode_once
from benchharness.kept_folders import EVERY_SECONDS
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Cost, Evaluation, Result, Selection
from benchharness.machine import collect, text_digest
from benchharness.models.folder import stated_pooling
from benchharness.progress import SIGNALS, Progress, Reporter
from benchharness.recipes.recipe import Recipe
from benchharness.splits import evaluate_split, headline
from benchharness.tasks.errors import BenchError, JobError, first_line
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
"""1 in this variable has a GPU's steps recorded once and replayed (training/cuda.py)."""


def run_job(job: Job, report: Reporter = lambda _: None, **folders: Unpack[Folders]) -> Result:
    """Fine-tunes an encoder, predicts and scores as the job says.

    Raises DataError where a split is no longer what the job was planned with, ModelError for a
    checkpoint that cannot be used, JobError for a folder that cannot, or too little memory, and
    DivergedError where numbers stop being finite.

    Where this process is one of several that train together, all of them return the result, and
    the first alone writes files.
    """
    recipe = Recipe.from_settings(job.settings)
    compute = find_compute(job.precision, deterministic=recipe.optim.deterministic)
    work = Work(job=job, recipe=recipe, compute=compute, report=report, folders=folders)

    def attempt(accumulation: int, checkpointing: bool) -> Result:  # again, where memory runs out
        began = time.monotonic()

        # ---- Make the network, and the features of the rows.
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
        newest = states.newest()  # may say how to need less: memory has run out there already
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

        # ---- Train, and evaluate now and then; a signal that ends the job leaves a snapshot.
        with states.saved_at_a_signal(done.state, training.meter.announce_saving):
            for step in training:
                if step in training.plan.evaluations:
                    with training.meter.paused():
                        evaluations = [prepared.evaluate(setup, setup.judged) for setup in setups]
                    done.judge(evaluations)
                states.save_when_due(done.state)

            # ---- Predict the other splits, by the weights that the training ended with.
            by_split = {name: setup for setup in setups for name in setup.predicted}
            for name in [name for name in by_split if name not in done.evaluations]:
                with training.meter.paused():
                    done.evaluations[name] = prepared.evaluate(by_split[name], name)
                states.save_when_due(done.state)

        # ---- Keep the network, where that was asked for or other jobs start from it.
        prepared.write(done)
        return _result(job, prepared, done)

    return in_enough_parts(attempt, job, report)


@dataclass(kw_only=True)
class _Job(Prepared):
    """What a job trains, and what is said of it.

    `parameters` counts all weights of the network, `writer` keeps it where somebody wants it, and
    `vocabulary` is the way back to a whole one there.
    """

    work: Work
    techniques: Sequence[Technique]
    provenance: dict[str, Any]
    writer: CheckpointWriter | None
    parameters: int = 0
    vocabulary: UsedVocabulary | None = None

    def cut_vocabulary(self) -> None:
        """Cuts the vocabulary down to what is used."""
        self.features, vocabulary = cut_vocabulary(self.network.encoder, self.features)
        for technique in self.techniques:
            technique.on_vocabulary(vocabulary)
        # Otherwise the whole embedding, most of XLM-R's weights, is not to stay in memory.
        self.vocabulary = None if self.writer is None else vocabulary

    def evaluate(self, setup: TaskSetup, name: str) -> Evaluation:
        """Predicts and scores a split of a task."""
        features, rows = self.features[name], self.rows[name]
        logits = predict(setup.network, features, self.work.compute, self.work.report)
        predictions = setup.head.decode(logits, features, rows.examples, setup.task)
        return evaluate_split(name, rows, predictions)

    def write(self, done: "JobState") -> None:
        """Writes the whole network, with what adapters have learned and all of its vocabulary."""
        if self.writer is None:
            return
        for technique in self.techniques:
            technique.before_writing(self.network)
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
    """Makes what a job trains."""
    started = now()
    job, recipe, compute, report = work.job, work.recipe, work.compute, work.report

    # ---- Read the rows, by "task:split".
    report(Progress(phase="loading"))
    rows = read_rows(job, recipe)

    # ---- Load the encoder, with the weights of the start.
    encoder = load_pretrained(job, recipe)
    keep = work.folders.get("keep") if compute.ranks.is_first else None  # one of them writes
    # Before a head takes the pooler away, and before the recipe changes the config.
    writer = None if keep is None else CheckpointWriter.of(encoder, keep, job)
    provenance = {
        **provenance_of(job, rows, encoder.tokenizer, compute, started),
        **load_start(encoder, work.folders.get("start_from"), job),
    }

    provenance["model"]["family"] = encoder.family

    # ---- Put the head on it, or those of several tasks, and encode the rows that each learns.
    run = load_run(work, encoder)
    techniques, setups = run.techniques, run.setups
    hold_rows_out(setups, rows, recipe, techniques)
    report(Progress(phase="encoding"))
    whole = any(technique.whole_vocabulary for technique in techniques)
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
    # Of the whole network: the vocabulary is cut after it.
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
    """What is said of each split, with how many rows have lost words and what nobody knows.

    Rows that are held out are of train. Rows count by their ids: one may be trained on in both
    orders, or with each of its answers.
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
    """What is stored of a split's texts, by Features' counts: the tokens, and what has none."""
    if counts is None:
        return {}
    tokens, unknown, lost, words = counts.tolist()
    return {"tokens": tokens, "unknown": unknown} | ({"lost": lost, "words": words} if lost else {})


def in_enough_parts(attempt: Callable[[int, bool], Result], job: Job, report: Reporter) -> Result:
    """What a job's attempt gives in as few parts to a batch as memory suffices for.

    The first number of parts is the recipe's. Where memory runs out, activations are computed again
    in as many parts, with the same result. Where it runs out once more, or an encoder does not
    allow that, the number doubles until micro-batches are half as large as the one that was too
    large. Each attempt begins anew from the same seed, so weights, order and
    batches are the same, and the result is that of `--set accumulation` with the last number.
    Dropout is drawn for each micro-batch, so with dropout it is not that of the recipe's number
    to the last bit, but another sample of the same. Raises JobError where one item is too large.
    """
    batch_size = int(job.settings["batch_size"].value)
    parts = int(job.settings["accumulation"].value)
    checkpointing = Recipe.from_settings(job.settings).optim.activation_checkpointing
    while True:
        result, too_large, can_spare = _try(attempt, parts, checkpointing)
        if result is not None:
            return result
        free_memory()  # no name here refers to the attempt, and its traceback is gone
        sentence = "ran out of memory and starts over"
        if can_spare:
            checkpointing = True
            report(Progress(phase="loading", note=f"{sentence} with activation_checkpointing"))
            continue
        if too_large == 1:
            raise MemoryRanOutError(
                "memory ran out in training, where every example is a micro-batch of its own "
                "already: run fewer --jobs at once, --set max_tokens to less, or lora_rank=8."
            )
        while math.ceil(batch_size / parts) > math.ceil(too_large / 2):
            parts *= 2  # so that items of a part are halved
        report(Progress(phase="loading", note=f"{sentence} with each batch in {parts} parts"))


def _try(
    attempt: Callable[[int, bool], Result], parts: int, checkpointing: bool
) -> tuple[Result | None, int, bool]:
    """A result, or the items of the micro-batch that was too large, and if it can spare memory."""
    try:
        return attempt(parts, checkpointing), 0, False
    except OutOfMemoryError as error:
        return None, error.items, error.can_spare
    except (MemoryError, RuntimeError) as error:
        if "deterministic implementation" in str(error):
            raise JobError(
                f"this GPU has no deterministic kernel for a part of the model ({error}): leave "
                "deterministic out."
            ) from error
        if not is_out_of_memory(error):
            raise
        raise MemoryRanOutError(
            f"memory ran out outside of batches, which no smaller batch can mend ({error}): run "
            "fewer --jobs at once, or --set lora_rank=8."
        ) from error


def find_compute(precision: str, *, deterministic: bool) -> Compute:
    """Where this process computes, with which others, and how."""
    device = _find_device(deterministic=deterministic)
    graphs = device.type == "cuda" and os.environ.get(GRAPHS) == "1"
    return Compute(device=device, precision=precision, ranks=Ranks.join(device), graphs=graphs)


def _find_device(*, deterministic: bool) -> torch.device:
    """The GPU that the engine left visible, the own one of several processes, or the CPU.

    A GPU computes with deterministic kernels from here on where they are asked for. Raises
    BenchError where this torch cannot use it, MemoryRanOutError where it takes no other process.
    """
    if not torch.cuda.is_available():
        told = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        if re.match(r"\d|GPU-|MIG-", told):  # a CPU would take hours, and emulate bf16
            raise BenchError(
                f"torch {torch.__version__} (CUDA: {torch.version.cuda}) cannot use GPU {told}: "
                "install the one for its driver (https://pytorch.org), or use --device cpu."
            )
        return torch.device("cpu")
    # More processes than GPUs share them, as on a machine with one.
    number = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    try:
        torch.cuda.set_device(number)  # makes a context, of some hundred megabytes
    except RuntimeError as error:
        # The latter where an administrator lets a GPU have one process at a time.
        if not (is_out_of_memory(error) or "busy or unavailable" in str(error)):
            raise
        raise MemoryRanOutError(
            f"the GPU takes no other process ({first_line(error)}): run fewer --jobs at once."
        ) from error
    device = torch.device("cuda", number)
    choose_kernels(device, deterministic=deterministic)
    return device


def now() -> str:
    """The time, UTC in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def provenance_of(
    job: Job, splits: Mapping[str, SplitRows], tokenizer: Any, compute: Compute, started: str
) -> Mapping[str, Any]:
    """What a result says of how it was made; `started` is UTC in ISO 8601."""
    repeats = count_repeats(splits)  # rows that are there before, or in train
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
    if stated := stated_pooling(Path(job.checkpoint)):  # of sentence-transformers, for its vectors
        found["model"]["stated_pooling"] = stated
    return {**found, "graphs": True} if compute.graphs else found


def _describe(tokenizer: Any) -> str:
    """A tokenizer as JSON; taken before its first use, because encoding leaves traces in it."""
    if tokenizer.is_fast:
        return str(tokenizer.backend_tokenizer.to_str())
    return json.dumps(tokenizer.get_vocab(), sort_keys=True)


def _read_by(
    provenance: Mapping[str, Any], task: Task, techniques: Iterable[Technique], job: Job
) -> str:
    """What makes features of rows, besides their head: a tokenizer, and the words around a row."""
    tokenizer = str(provenance["model"]["tokenizer"])
    if job.documents:
        return f"{tokenizer} {sorted(job.documents.items())}"
    return "".join((tokenizer, *(technique.feature_key(task) for technique in techniques)))


@dataclass(kw_only=True)
class JobState:
    """What a job has done so far: all that a snapshot of it holds.

    `began` is when this process began the job, `earlier` how many seconds others before it have
    spent, and `resumed` the steps from which it was resumed. `evaluations` are by split, each the
    last one of it.
    """

    training: Training
    began: float
    earlier: float = 0.0
    resumed: list[int] = field(default_factory=list)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)

    def judge(self, evaluations: Sequence[Evaluation]) -> None:
        """Marks evaluations, and keeps their predictions where the job may end with its weights.

        Of several tasks the curve has each one's headline by its title, and their mean decides.
        """
        training, meter, choice = self.training, self.training.meter, self.training.recipe.selection
        with SIGNALS.held_back():  # a state has an evaluation and its weights, or neither
            training.mark(*_marked(evaluations))

            if choice.held_out or choice.average_last > 1:
                return  # dev is predicted by the weights that the training ends with
            if not choice.best_checkpoint or meter.best in (None, len(meter.values) - 1):
                self.evaluations |= {each.name: each for each in evaluations}

    def restore(self, state: State) -> None:
        """Goes to a state of the same job."""
        self.training.restore(state)
        numbers = state.numbers["job"]
        self.earlier = numbers["seconds"]
        self.resumed = [*numbers["resumed"], self.training.meter.step]
        kept = map(Evaluation.from_json, numbers["evaluations"])
        self.evaluations = {evaluation.name: evaluation for evaluation in kept}

    def state(self) -> State:
        """All that `restore` needs; the evaluations only where a later one may not replace them."""
        state = self.training.state()
        stays = self.training.is_over or self.training.recipe.selection.best_checkpoint
        # A later evaluation replaces them otherwise, so they need not be written.
        final = self.evaluations.values() if stays else ()
        job = {
            "seconds": self.seconds,
            "resumed": self.resumed,
            "evaluations": [asdict(evaluation) for evaluation in final],
        }
        return replace(state, numbers={**state.numbers, "job": job})

    @property
    def seconds(self) -> float:
        """What the job has taken so far, without the time in which it did not run."""
        return self.earlier + time.monotonic() - self.began

    @property
    def record(self) -> dict[str, Any]:
        """What a result says of how its weights were chosen, and the job stopped and resumed."""
        found: dict[str, Any] = {}
        if self.selection is not None:
            found["selection"] = asdict(self.selection)
        if self.resumed:
            found["resumed"] = {"times": len(self.resumed), "steps": list(self.resumed)}
        return found

    @property
    def selection(self) -> Selection | None:
        """How evaluations chose the weights; None where they are those of the last step planned."""
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
    """The scores that a curve has of evaluations of one step, and the value that they go by."""
    values = {each.task: headline(each.name, each.scores) for each in evaluations}
    if len(evaluations) == 1:
        return evaluations[0].scores, values[evaluations[0].task]
    known = {task: value for task, value in values.items() if value is not None}
    shown = {distinct_title(task): value for task, value in known.items()}
    return shown, fmean(known.values()) if len(known) == len(values) else None


def _result(job: Job, prepared: _Job, done: JobState) -> Result:
    """What a job that is over gives; its cost counts all processes that it took."""
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
    """The most memory of the device that this process held at once, in bytes."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): kilobytes on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
