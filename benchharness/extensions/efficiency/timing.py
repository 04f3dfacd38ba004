"""Timing jobs, which measure the speed and memory of an encoder in training and in prediction.

A timing job uses the same code as other jobs: batches, packing, number format and optimizer are
those of its recipe. As in papers, all layers compute every token and the whole vocabulary is
trained, even if the head reads only some states and the documents contain only a part of the
vocabulary. The encoder and a reference model take turns, pass by pass, so that a slowdown of the
machine affects both.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean, stdev
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import BertConfig

from benchharness.encoder import Encoder, check_reach
from benchharness.encoder.network import draw_network
from benchharness.errors import JobError
from benchharness.extensions.efficiency.energy import EnergyMeter, gpu_counter, processor_counters
from benchharness.extensions.efficiency.hyperparameters import SHAPES, TimedOptions
from benchharness.extensions.efficiency.task import TimedExample, TimedPrediction
from benchharness.heads import Limits
from benchharness.heads.pair import encode
from benchharness.heads.tokens import Frame, join
from benchharness.leaderboard.job import MACHINE, Job
from benchharness.leaderboard.result import Cost, Result
from benchharness.machine import machine_name
from benchharness.progress import Progress, Reporter
from benchharness.recipes.recipe import Recipe, Schedule
from benchharness.splits import evaluate_split, read_split
from benchharness.training.batching import Features, Indices
from benchharness.training.compute import Compute
from benchharness.training.loop import TaskBatches, Training
from benchharness.training.predict import OutOfMemoryError, free_memory, predict
from benchharness.worker.job import find_compute, now, peak_memory, provenance_of
from benchharness.worker.task_setup import load_pretrained, load_run
from benchharness.worker.technique import Work

HEAD = "glue/sst2"
"""Task whose head is put on the encoder for timing: the head classifies a text into two classes."""

LOW, HIGH = 100, 16000
"""Range [LOW, HIGH) of the random token ids, as in efficiency/multiprocess_bench.py of
AnswerDotAI/ModernBERT."""

MOST_ALONE = 100
"""Maximum number of documents that are also predicted one by one in each pass."""

FAR_APART = 0.05
"""Limit for the relative standard deviation of the times of the passes. If a phase (training or
prediction) exceeds it, a note reports the variation."""

LARGEST = 4096
"""Upper limit in the search for the largest batch that fits into memory."""

PHASES = ("predict", "train")

Times = NDArray[np.float64]
"""Times and energy, `[..., 3]`. The last axis is wall-clock seconds, processor seconds (0 on a GPU)
and joules (0 if the energy cannot be measured)."""


def time_encoder(job: Job, report: Reporter) -> Result:
    """Measure the time and memory that an encoder needs for the documents of a task.

    The result stores the measurements in place of predictions, one per document.

    Raises:
        JobError: If the job was planned for a different machine.
        DataError: If the documents differ from those that the job was planned with.
        ModelError: If the checkpoint cannot be used.
    """
    began, started = time.monotonic(), now()
    recipe = Recipe.from_settings(job.settings)
    compute = find_compute(job.precision, deterministic=recipe.optim.deterministic)
    check_machine(str(job.settings[MACHINE].value), compute)
    report(Progress(phase="loading"))
    (name,) = job.fingerprints  # a timed task has one split
    rows = read_split(job, name)
    encoder = load_pretrained(job, recipe)
    provenance = provenance_of(job, {name: rows}, encoder.tokenizer, compute, started)
    features = documents(rows.examples, encoder, recipe.rows.max_tokens)  # type: ignore[arg-type]
    parameters = sum(weight.numel() for weight in encoder.network.parameters())
    side = partial(Side.of, Work(job=job, recipe=recipe, compute=compute))

    # ---- Run the encoder alone first, because the peak memory of a process never falls.
    ours = side(encoder, features)
    ours.predict()
    peak = peak_memory()
    ours.train()
    peaks, loaded = (peak, peak_memory()), time.monotonic()
    options: TimedOptions = recipe.of_head("timed")
    reference = side(*reference_of(options.reference, encoder, features))
    for warm_up in (reference.predict, reference.train):
        warm_up()

    # ---- Then time encoder and reference in turns.
    found, alone = _take_turns((ours, reference), options.passes, report)
    del reference
    whole = {"peaks": peaks, "largest": largest_batch(ours) if compute.on_gpu else 0}
    predictions = _predictions(rows.examples, features.lengths, found, alone, whole)
    end = time.monotonic()
    cost = Cost.without_network(end - began, 0.0, end - loaded)
    evaluation = evaluate_split(name, rows, predictions)
    return Result(
        job=job,
        evaluations=(replace(evaluation, flags=tuple(variations(found[0]))),),
        curve=(),
        cost=replace(cost, parameters=parameters, peak_memory_bytes=peaks[1]),
        provenance={**provenance, "passes": _passes(found)},
        finished=now(),
    )


def check_machine(planned: str, compute: Compute) -> None:
    """Raise JobError if a job was planned to be timed on another CPU or GPU.

    Args:
        planned: Beginning of the name of the CPU or GPU; "a GPU" stands for any GPU.
        compute: Device of this process.
    """
    found = machine_name(torch.get_num_threads())
    if compute.on_gpu:
        found = torch.cuda.get_device_name()
    if not (compute.on_gpu and planned == "a GPU") and not found.startswith(planned):
        raise JobError(
            f"this job was planned to be timed on {planned}, but this machine is {found}: start "
            "`bench run` on the machine that you want to time."
        )


def documents(examples: Sequence[TimedExample], encoder: Encoder, max_tokens: int) -> Features:
    """Encode the documents of a timing task.

    Args:
        examples: Documents. If the task specifies only their numbers of tokens, they consist of
            random tokens.
        encoder: Encoder whose tokenizer and vocabulary are used.
        max_tokens: Maximum number of tokens per document, including special tokens.

    Raises:
        ModelError: The documents are random tokens, and the encoder reads fewer than `max_tokens`
            tokens.
    """
    if not examples[0].tokens:
        return encode(examples, encoder.tokenizer, Limits(max_tokens=max_tokens))
    check_reach(max_tokens, encoder.max_tokens)
    network: Any = encoder.network
    high = min(HIGH, network.get_input_embeddings().num_embeddings)
    draw, frame = np.random.default_rng(0), Frame.of(encoder.tokenizer, texts=1)
    sizes = [example.tokens - frame.size for example in examples]  # without special tokens
    texts = [draw.integers(min(LOW, high // 2), high, size, dtype=np.int32) for size in sizes]
    return Features(**join([frame.row(text) for text in texts], frame, max_tokens))


def reference_of(shape: str, encoder: Encoder, features: Features) -> tuple[Encoder, Features]:
    """Create the reference model, a BERT with random weights, and adapt the documents to it.

    Args:
        shape: Size of the BERT, a key of `SHAPES`.
        encoder: Encoder that is compared with the BERT.
        features: Documents, encoded for `encoder`.

    Returns:
        The BERT, and the same documents with token ids that are in its vocabulary.
    """
    layers, size = SHAPES[shape]
    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=size,
        num_attention_heads=size // 64,
        intermediate_size=4 * size,
        max_position_embeddings=max(512, features.max_tokens),
    )
    made = replace(encoder, network=draw_network(config), config=config, family="bert")
    # Replace ids that are not in the reference's vocabulary by others. This does not change its
    # speed, because all tokens take the same time.
    ids = features.token_ids % config.vocab_size
    return made, replace(features, token_ids=ids, token_types=np.zeros_like(ids), pad_id=0)


@dataclass(kw_only=True)
class Side:
    """One of the two models that are timed (the encoder or the reference), with its documents.

    Attributes:
        network: The model with a classification head.
        batches: The documents, from which batches are made.
        work: The job with its recipe and device.
        meter: Meter of the device's energy.
        steps: Iterator that runs one training step whenever it is advanced. The training has a
            million steps, so it practically never ends.
    """

    network: nn.Module
    batches: TaskBatches
    work: Work
    meter: EnergyMeter = field(default_factory=lambda: EnergyMeter(counters=()))
    steps: Iterator[int] = field(default_factory=lambda: iter(()))

    @classmethod
    def of(cls, work: Work, encoder: Encoder, features: Features) -> Self:
        """Put a classification head on an encoder, and begin its training.

        The last layer computes the states of all tokens, although the head does not read them all.
        `features` are the documents, encoded for this encoder.
        """
        run = load_run(work, encoder, task=HEAD, every_state=True)
        batches = TaskBatches(
            network=run.network,
            features=features,
            targets=torch.zeros(len(features), dtype=torch.long),
            loss=run.setups[0].head.loss,
        )
        made = cls(
            network=run.network, batches=batches, work=work, meter=energy_meter(work.compute)
        )
        made.steps = made.training(work.recipe, batches)
        return made

    def training(self, recipe: Recipe, batches: TaskBatches) -> Iterator[int]:
        """Return an iterator that runs one training step whenever it is advanced.

        Args:
            recipe: Recipe of the training. Its number of steps is replaced by a million, so that
                the training practically never ends.
            batches: Documents to train on.
        """
        schedule: Schedule = replace(recipe.schedule, steps=10**6)
        selection = replace(recipe.selection, evaluations=1)
        training = Training.begin(
            self.network,
            [batches],
            replace(recipe, schedule=schedule, selection=selection),
            seed=self.work.job.seed,
            compute=self.work.compute,
            report=lambda _: None,
        )
        return iter(training)

    def train(self) -> Times:
        """Train on all documents once, and return the time and energy used (see `Times`)."""
        steps = -(-self.batches.items // self.work.recipe.optim.batch_size)  # rounded up
        self.network.train()
        return self._timed(lambda: [next(self.steps) for _ in range(steps)])

    def predict(self, rows: Indices | None = None) -> Times:
        """Predict documents, and return the time and energy used (see `Times`).

        Args:
            rows: Indices of the documents; None for all documents.
        """
        features = self.batches.features if rows is None else part(self.batches.features, rows)
        return self._timed(
            lambda: predict(self.network, features, self.work.compute, lambda _: None)
        )

    def _timed(self, call: Callable[[], object]) -> Times:
        before = self._clocks()
        call()
        return self._clocks() - before

    def _clocks(self) -> Times:
        """Return the present values of the clocks and of the energy meter (see `Times`)."""
        if not self.work.compute.on_gpu:
            return np.array([time.perf_counter(), time.process_time(), self.meter.joules()])
        torch.cuda.synchronize()  # wait for all queued kernels, so that their time counts
        return np.array([time.perf_counter(), 0.0, self.meter.joules()])


def energy_meter(compute: Compute) -> EnergyMeter:
    """Return a meter of the GPU's energy, or on a CPU of the energy of processors and memory."""
    if not compute.on_gpu:
        return EnergyMeter(counters=processor_counters())
    counter = gpu_counter(compute.device)
    return EnergyMeter(counters=[counter] if counter else [])


def part(features: Features, rows: Indices) -> Features:
    """Return the encoded documents with the indices `rows`.

    `features` must contain only tokens and token types, because nothing else is selected.
    """
    places, types = features.tokens_of(rows), features.token_types
    return replace(
        features,
        token_ids=features.token_ids[places],
        token_types=None if types is None else types[places],
        starts=np.cumsum([0, *features.lengths[rows]]),
        truncated=None,
    )


def largest_batch(side: Side) -> int:
    """Return the largest size of a micro-batch with which training fits into memory.

    The returned number may be up to an eighth too small, because the search stops at this accuracy.
    It is at most `LARGEST`, and 0 if not even one document fits.
    """

    def fits(count: int) -> bool:
        rows = np.arange(count) % side.batches.items
        features = part(side.batches.features, rows)
        targets = torch.zeros(count, dtype=torch.long)
        # `is_whole` prevents a batch with many tokens from being split into micro-batches.
        whole = replace(side.batches, features=features, targets=targets, is_whole=True)
        optim = replace(side.work.recipe.optim, batch_size=count, accumulation=1)
        try:
            next(side.training(replace(side.work.recipe, optim=optim), whole))
        except OutOfMemoryError:
            return False
        return True

    def try_it(count: int) -> bool:
        found = fits(count)
        free_memory()
        return found

    # Search first by doubling, then by bisection.
    most, too_many = 0, 1
    while too_many <= LARGEST and try_it(too_many):
        most, too_many = too_many, 2 * too_many
    while too_many <= LARGEST and too_many - most > max(1, most // 8):
        middle = (most + too_many) // 2
        most, too_many = (middle, too_many) if try_it(middle) else (most, middle)
    return most


def _take_turns(sides: Sequence[Side], passes: int, report: Reporter) -> tuple[Times, Times]:
    """Time the passes of both models, which take turns, and the encoder on single documents.

    If there are more than MOST_ALONE documents, only some of them are predicted alone. Each other
    document gets the time of the nearest of these in the order of the documents.

    Returns:
        Times of the passes `[models, phases, passes, 3]`, and the encoder's median times for single
        documents `[documents, 3]` (see `Times`).
    """
    count = sides[0].batches.items
    found = np.empty((len(sides), len(PHASES), passes, 3))
    chosen = np.linspace(0, count - 1, min(MOST_ALONE, count)).astype(np.int64)
    alone = np.empty((passes, len(chosen), 3))
    for turn in range(passes):
        for place in (0, 1) if turn % 2 else (1, 0):
            for number, phase in enumerate(PHASES):
                found[place, number, turn] = getattr(sides[place], phase)()
        # Time the encoder on single documents; the reference is not timed on them.
        alone[turn] = [sides[0].predict(np.array([row])) for row in chosen]
        report(Progress(phase="predicting", step=turn + 1, steps=passes))
    nearest = np.abs(chosen[:, None] - np.arange(count)).argmin(axis=0)  # (documents,)
    return found, np.median(alone, axis=0)[nearest]


def _predictions(
    examples: Sequence[Any],
    tokens: NDArray[np.int64],
    found: Times,
    alone: Times,
    whole: Mapping[str, Any],
) -> list[TimedPrediction]:
    """Return one prediction per document, with its share of the median pass's time and energy.

    `whole` contains facts about the whole split, which every prediction repeats.
    """
    took = {}
    for number, phase in enumerate(PHASES):
        clock, processor, joules = np.median(found[0, number], axis=0)
        counts = int(processor > 0)
        # Compare the models pass by pass, because both have equal conditions in the same pass.
        ratio = np.median(found[1, number, :, counts] / found[0, number, :, counts])
        used = np.array([clock, processor, ratio * (processor or clock), joules])
        took[phase] = (tokens[:, None] / tokens.sum() * used).tolist()  # (documents, 4)
    return [
        TimedPrediction(
            id=example.id,
            tokens=int(tokens[at]),
            train=tuple(took["train"][at][:3]),
            predict=tuple(took["predict"][at][:3]),
            alone=tuple(alone[at, :2].tolist()),
            joules=(took["predict"][at][3], took["train"][at][3]),
            **whole,
        )
        for at, example in enumerate(examples)
    ]


def variations(found: Times) -> Iterator[str]:
    """Yield a note about each phase (prediction or training) in which the times vary too much.

    The times vary too much if their relative standard deviation over the passes is above FAR_APART.
    Processor time is used if it was measured, else wall-clock time.

    Args:
        found: Times of the encoder, `[phases, passes, 3]`. The phases are in the order of PHASES.
    """
    for phase, passes in zip(PHASES, found, strict=True):
        seconds = passes[:, int(passes[0, 1] > 0)].tolist()
        if len(seconds) > 1 and (share := stdev(seconds) / fmean(seconds)) > FAR_APART:
            yield f"in the phase {phase!r}, times vary by {100 * share:.0f} % between passes"


def _passes(found: Times) -> dict[str, Any]:
    """Return the times and energy of every pass, keyed by phase, then by model (see `Times`)."""
    names = ("encoder", "reference")
    return {
        phase: {side: found[place, number].tolist() for place, side in enumerate(names)}
        for number, phase in enumerate(PHASES)
    }
