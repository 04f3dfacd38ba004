"""About how long a job takes, by stored runs of its kind or by its size, and how much memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from benchharness.driver.plan import used_rows
from benchharness.models import ModelSpec, find_model
from benchharness.recipes import ResolvedRecipe, resolve_sweep
from benchharness.recipes.resolve import start_task, with_start
from leaderboard.job import Job
from leaderboard.result import RunRow
from leaderboard.store.schema import recipe_digest
from tasks.suites import find_task
from tasks.task import Task

__all__ = [
    "PEAK_TFLOPS",
    "SIZES",
    "UTILISATION",
    "Estimate",
    "SweepCost",
    "estimate_memory",
    "estimate_seconds",
    "memory_of",
    "sweep_cost",
]

BERT_BASE = 110.0
"""Its parameters in millions."""


class Estimate(NamedTuple):
    """About how long a job takes; `rough` where no stored run of its kind says so."""

    seconds: float
    rough: bool


def estimate_seconds(job: Job, history: Iterable[RunRow], *, gpu: bool = False) -> Estimate:
    """The median of stored runs like this job, or a rough figure from its size.

    Alike are finished runs of the same model, task, rows, recipe and precision, whatever their
    seed.
    """
    alike = [row.seconds for row in history if _is_alike(job, row)]
    if alike:
        return Estimate(median(alike), rough=False)
    return Estimate(_rough_seconds(job, gpu=gpu), rough=True)


def _is_alike(job: Job, row: RunRow) -> bool:
    return (
        row.status == "finished"
        and (row.model, row.task, row.precision) == (job.model, job.task, job.precision)
        and row.fingerprints == job.fingerprints
        and row.recipe_digest == recipe_digest(job)
    )


# Measured with MiniLM on MRPC: 583,000 tokens in 3 epochs take 110 s on two cores, counting all of
# its 22.7 million parameters. A GPU's figure is an eighth of an H200's bf16 peak.
_CPU_FLOPS = 7e11
_GPU_FLOPS = 1e14
_TOKENS_PER_ROW = 50
_START_SECONDS = 5.0
_FLOOR_SECONDS = 2.0


def _rough_seconds(job: Job, *, gpu: bool) -> float:
    """Six operations for each parameter and token trained on, two for each predicted."""
    if job.kind == "floor":
        return _FLOOR_SECONDS
    parameters = _parameters(job)
    epochs = float(job.settings["epochs"].value)
    trained = predicted = 0
    for split, fingerprint in job.fingerprints.items():
        if split.endswith(":train"):
            trained += used_rows(fingerprint)
        else:
            predicted += used_rows(fingerprint)
    tokens = _TOKENS_PER_ROW * (6 * trained * epochs + 2 * predicted)
    return _START_SECONDS + tokens * parameters / (_GPU_FLOPS if gpu else _CPU_FLOPS)


def _parameters(job: Job) -> float:
    """Those of its encoder; of BERT-base where the model is not in the table."""
    return (find_model(job.checkpoint).parameters or BERT_BASE) * 1e6


_PROCESS_BYTES = 2e9
_TRAINED_BYTES = 16
_LOADED_BYTES = 8
_ACTIVATIONS = 2


def estimate_memory(job: Job, *, gpu: bool = False) -> int:
    """The bytes of main memory that a job needs at most, roughly; a GPU's are not counted."""
    if job.kind == "floor":
        return int(_PROCESS_BYTES)
    return memory_of(find_model(job.checkpoint).parameters, gpu=gpu)


def memory_of(parameters: float | None, *, gpu: bool = False) -> int:
    """The same for an encoder of so many million parameters; BERT-base's where that is not known.

    Libraries and rows take 2 GB. On a CPU a parameter takes 16 bytes (weight, gradient and the two
    moments of Adam, in fp32), and activations about as much again; for a GPU the weights are there
    twice while they are loaded.
    """
    each = _LOADED_BYTES if gpu else _TRAINED_BYTES * _ACTIVATIONS
    return int(_PROCESS_BYTES + each * (parameters or BERT_BASE) * 1e6)


# What a sweep costs before a row of data or a weight is there: jobs, GPU hours and storage.
#
# Reckoned from published sizes: six operations for each parameter of the backbone and token that is
# trained on, two for each that is predicted (Kaplan et al., arXiv:2001.08361, section 2.1), which
# leaves out attention over long texts and the embeddings.

PEAK_TFLOPS = 312.0
"""An A100's bf16 matrix products (NVIDIA's data sheet)."""

UTILISATION = 0.3
"""The share of the peak that fine-tuning reaches: a guess, low because texts are short."""


class TaskSize(NamedTuple):
    """Examples to train on, examples that a run predicts, and about how many tokens each has.

    A token here is one that the encoder reads: those of every option and window are counted.
    """

    train: int
    predicted: int
    tokens: int


# Rows as published with the data; tokens of MRPC, RTE, SST-2 and SQuAD are counted with BERT's
# vocabulary, the others estimated from texts of like length. MNLI's include AX.
SIZES: Mapping[str, TaskSize] = {
    "glue/cola": TaskSize(8551, 1043, 11),
    "glue/sst2": TaskSize(67349, 872, 13),
    "glue/mrpc": TaskSize(3668, 408, 53),
    "glue/stsb": TaskSize(5749, 1500, 31),
    "glue/qqp": TaskSize(363846, 40430, 30),
    "glue/mnli": TaskSize(392702, 20751, 40),
    "glue/qnli": TaskSize(104743, 5463, 50),
    "glue/rte": TaskSize(2490, 277, 70),
    "glue/wnli": TaskSize(635, 71, 37),
    "superglue/boolq": TaskSize(9427, 3270, 150),
    "superglue/cb": TaskSize(250, 56, 80),
    "superglue/copa": TaskSize(400, 100, 40),
    "superglue/multirc": TaskSize(27243, 4848, 330),
    "superglue/rte": TaskSize(2490, 1737, 70),
    "superglue/wic": TaskSize(5428, 638, 25),
    "superglue/wsc": TaskSize(554, 104, 30),
    "squad/v1.1": TaskSize(87599, 10570, 160),
    "squad/v2.0": TaskSize(130319, 11873, 160),
    "race/all": TaskSize(87866, 4887, 1500),
}

DOWNLOAD_BYTES = 4
ENCODER_BYTES = 4
STATE_BYTES = 24
"""Of each parameter: a checkpoint in fp32, the encoder that others start from, and the two states
that a running job keeps, of its weights and Adam's two moments."""

JOB_BYTES = 40_000
PREDICTION_BYTES = 60
"""In the database: a job with its curve, and each prediction, compressed."""


@dataclass(frozen=True, kw_only=True)
class SweepCost:
    """What one model's part of a sweep costs; `unknown` are tasks whose size is not known."""

    model: str
    jobs: int
    gpu_hours: float
    longest_hours: float
    download_bytes: int
    encoder_bytes: int
    state_bytes: int
    database_bytes: int
    unknown: tuple[str, ...]


class _Run(NamedTuple):
    """One job of each seed."""

    task: str
    recipe: ResolvedRecipe


def sweep_cost(  # noqa: PLR0913  (the options of `bench plan`)
    model: ModelSpec,
    tasks: Sequence[Task],
    seeds: int,
    *,
    recipe: str | None = None,
    overrides: Mapping[str, str] | None = None,
    peak_tflops: float = PEAK_TFLOPS,
    utilisation: float = UTILISATION,
) -> SweepCost:
    """The cost of a model's runs on all of the tasks and those that they start from."""
    runs, started = _runs(model, tasks, recipe, overrides or {})
    known = [run for run in runs if run.task in SIZES]
    parameters = (model.parameters or 110) * 1e6
    speed = peak_tflops * 1e12 * utilisation
    backbone = (model.backbone or model.parameters or 85) * 1e6
    hours = [_operations(run, backbone) / speed / 3600 for run in known]
    predicted = sum(SIZES[run.task].predicted for run in known)
    return SweepCost(
        model=model.name,
        jobs=len(runs) * seeds,
        gpu_hours=sum(hours) * seeds,
        longest_hours=max(hours, default=0.0),
        download_bytes=int(DOWNLOAD_BYTES * parameters),
        encoder_bytes=int(ENCODER_BYTES * parameters * len(started) * seeds),
        state_bytes=int(STATE_BYTES * parameters),
        database_bytes=seeds * (JOB_BYTES * len(runs) + PREDICTION_BYTES * predicted),
        unknown=tuple(sorted({run.task for run in runs} - set(SIZES))),
    )


def _operations(run: _Run, backbone: float) -> float:
    size, epochs = SIZES[run.task], float(run.recipe.settings["epochs"].value)
    return backbone * size.tokens * (6 * size.train * epochs + 2 * size.predicted)


def _runs(
    model: ModelSpec, tasks: Iterable[Task], recipe: str | None, overrides: Mapping[str, str]
) -> tuple[list[_Run], set[str]]:
    """What is trained for each seed, and the tasks among it whose encoders others start from."""
    waiting = [find_task(task.trained_on) if task.trained_on else task for task in tasks]
    runs: dict[str, list[_Run]] = {}
    started: set[str] = set()
    for task in waiting:
        if task.name in runs:
            continue
        points = resolve_sweep(model, task.name, recipe, overrides, task.head)
        started_points = [with_start(point, model, task, recipe=recipe) for point in points]
        runs[task.name] = [_Run(task.name, point) for point in started_points]
        if start := start_task(started_points[0]):
            started.add(start)
            waiting.append(find_task(start))
    return [run for found in runs.values() for run in found], started
