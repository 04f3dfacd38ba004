"""About how long a job takes, by stored runs of its kind or by its size, and how much memory."""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store.schema import recipe_digest
from benchharness.models import find_model

BERT_BASE = 110.0
"""Its parameters in millions."""


class Estimate(NamedTuple):
    """About how long a job takes; `rough` where no stored run of its kind says so."""

    seconds: float
    rough: bool


def estimate_seconds(
    job: Job, history: Iterable[RunRow], rows: Mapping[str, int], *, gpu: bool = False
) -> Estimate:
    """The median of stored runs like this job, or a rough figure from its size.

    Alike are finished runs of the same model, task, rows, recipe and precision, whatever their
    seed. `rows` are the numbers of examples by a split's fingerprint.
    """
    alike = [row.seconds for row in history if _is_alike(job, row)]
    if alike:
        return Estimate(median(alike), rough=False)
    return Estimate(_rough_seconds(job, rows, gpu=gpu), rough=True)


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
_MASKED_COPIES = 5
_START_SECONDS = 5.0
_BASELINE_SECONDS = 0.5
_BASELINE_SECONDS_PER_ROW = 3e-4  # between the majority's and those of a bag of words


def _rough_seconds(job: Job, rows: Mapping[str, int], *, gpu: bool) -> float:
    """Six operations for each parameter and token trained on, two for each predicted."""
    trained = predicted = 0
    for split, fingerprint in job.fingerprints.items():
        if split.endswith(":train"):
            trained += rows.get(fingerprint, 0)
        else:
            predicted += rows.get(fingerprint, 0)
    if job.kind == "baseline":
        return _BASELINE_SECONDS + _BASELINE_SECONDS_PER_ROW * (trained + predicted)
    # Those of its encoder; of BERT-base where the model is not in the table.
    parameters = (_parameters(job) or BERT_BASE) * 1e6
    if job.is_zero_shot:
        # Each text is read about once for each of the tokens that are scored in it.
        trained, predicted = 0, _MASKED_COPIES * predicted
    epochs = 0.0 if job.is_zero_shot else float(job.settings["epochs"].value)
    if shots := job.settings.get("shots"):
        trained = min(trained, int(shots.value))
    learned = trained * epochs
    if "steps" in job.settings:
        learned = float(job.settings["steps"].value) * float(job.settings["batch_size"].value)
    if "layer_epochs" in job.settings:
        learned += trained * float(job.settings["layer_epochs"].value)
    tokens = _TOKENS_PER_ROW * (6 * learned + 2 * predicted)
    return _START_SECONDS + tokens * parameters / (_GPU_FLOPS if gpu else _CPU_FLOPS)


def _parameters(job: Job) -> float | None:
    """The millions of its checkpoint; None where they are not known, as of pickled weights."""
    return find_model(job.checkpoint, job.trust).parameters


_PROCESS_BYTES = 2e9
_TRAINED_BYTES = 16
_LOADED_BYTES = 8
_KEPT_BYTES = 4
_ACTIVATIONS = 2


def estimate_memory(job: Job, *, gpu: bool = False) -> int:
    """The bytes of main memory that a job needs at most, roughly; a GPU's are not counted.

    The best weights so far, or the sum of several, are kept there on a GPU too, in fp32.
    """
    if job.kind == "baseline":
        return int(_PROCESS_BYTES)
    parameters = _parameters(job)
    keeps = not {"best_checkpoint", "average_last"}.isdisjoint(job.settings)
    kept = _KEPT_BYTES * (parameters or BERT_BASE) * 1e6 if keeps else 0.0
    return memory_of(parameters, gpu=gpu) + int(kept)


def memory_of(parameters: float | None, *, gpu: bool = False) -> int:
    """The same for an encoder of so many million parameters; BERT-base's where that is not known.

    Libraries and rows take 2 GB. On a CPU a parameter takes 16 bytes (weight, gradient and the two
    moments of Adam, in fp32), and activations about as much again; for a GPU the weights are there
    twice while they are loaded.
    """
    each = _LOADED_BYTES if gpu else _TRAINED_BYTES * _ACTIVATIONS
    return int(_PROCESS_BYTES + each * (parameters or BERT_BASE) * 1e6)
