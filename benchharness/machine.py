"""Facts about this machine, and estimates of the time and memory of a job, without importing torch.

This module also collects the provenance of a result.
"""

import hashlib
import os
import platform
import re
import time
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from platformdirs import user_cache_path

from benchharness.leaderboard.job import Job, recipe_digest
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.text import counted
from benchharness.models import find_model
from benchharness.models.weights import hub_revision
from benchharness.version import package_version, source_commit

CPUINFO = Path("/proc/cpuinfo")
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")


@cache
def cpu_flags(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """Return the instruction sets of the processor, from Linux's `cpuinfo`.

    They are in the line "flags", or on ARM processors in the line "Features". The set is empty if
    there is no such line, or if the file does not exist, for example on another operating system.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(flags.partition(":")[2].split())


def cpu_has_bf16(cpuinfo: Path = CPUINFO) -> bool:
    """Return whether training in bf16 is faster than in fp32 on this processor.

    It is faster if the processor has AMX (measured on two cores: at least 2,600 GFLOP/s in bf16 and
    430 GFLOP/s in fp32) or the bf16 dot product of AVX-512 (403 and 174 GFLOP/s). On all other
    processors torch emulates bf16, which is slower than fp32. It does so too if the environment
    variable ATEN_CPU_CAPABILITY limits it to the kernels of AVX2 or of every processor. `cpuinfo`
    is the file of Linux that describes the processor.
    """
    if os.environ.get("ATEN_CPU_CAPABILITY") in ("default", "avx2"):
        return False
    return not cpu_flags(cpuinfo).isdisjoint({"amx_bf16", "avx512_bf16"})


def is_instance(gpu: str) -> bool:
    """Return whether a name in CUDA_VISIBLE_DEVICES denotes a MIG instance, a part of a GPU."""
    return gpu.startswith("MIG-")


def main_memory(limit: Path = MEMORY_LIMIT) -> int:
    """Return the main memory of the machine in bytes, or the container's limit if it is lower.

    `limit` is the file that contains the limit of the container.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(limit.read_text()))
    except (OSError, ValueError):  # not in a container, or no limit is set ("max")
        return physical


# A cache for data that can be computed again. All of its files may be deleted.


def cache_folder(name: str) -> Path:
    """Return the folder `name` in the cache, which need not exist yet.

    The cache is the folder in the environment variable BENCH_CACHE. If this variable is not set, it
    is the user's cache folder for benchharness, such as ~/.cache/benchharness.
    """
    home = os.environ.get("BENCH_CACHE")
    return (Path(home).expanduser() if home else user_cache_path("benchharness")) / name


# Collecting the provenance of a result: its code, weights, data, library versions and machine.
#
# The provenance contains no private data: no tokens, user names or paths. The host name is hashed.

LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "datasets", "numpy", "triton")

OF_GPUS = "triton"
"""Name of the library in LIBRARIES that is used only if a job runs on a GPU."""

OF_FILES = ("safetensors", "datasets")
"""Names of libraries whose versions do not affect results. They only read files, and the contents
of these files are part of a job's key."""

CPU_CAPABILITIES = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "asimd")
"""Instruction sets, from the widest to the narrowest. They determine which kernels torch uses, and
therefore the last bits of results."""


def collect(
    job: Job,
    *,
    splits: Mapping[str, Mapping[str, Any]],
    tokenizer: str,
    machine: Mapping[str, Any],
    started: str,
) -> dict[str, Any]:
    """Return the provenance of a result as JSON data.

    Provenance is everything that a reader needs to judge and reproduce the result.

    Args:
        job: Job that was run.
        splits: Facts about each split, with the same keys as `job.fingerprints` ("task:split"): the
            number of examples ("rows"), the number of examples that the benchmark's convention
            leaves out ("left_out"; in SNLI, examples without a gold label), the number of examples
            with each known irregularity of the data ("odd"), and the counts of texts that are
            repeated in the split or also occur in train (see `count_repeats`).
        tokenizer: The digest of the loaded tokenizer (`text_digest` of its JSON).
        machine: Hardware facts that torch reports: the device that trained ("device", such as "cpu"
            or "NVIDIA H200"), the number of processes that trained together ("processes"), and the
            number of threads of each process ("threads").
        started: The start time in UTC, in ISO 8601 format.
    """
    # These are the user's permissions for the checkpoint. Only granted ones are recorded.
    given = job.trust.to_json()
    return {
        "code": {"version": package_version(), "method": job.method, **source_commit()},
        "model": {
            "name": job.model,
            "revision": hub_revision(job.weights),
            "weights": job.weights,
            "tokenizer": tokenizer,
            **{name: value for name, value in given.items() if value},
        },
        "data": {
            split: {**splits[split], "fingerprint": fingerprint}
            for split, fingerprint in job.fingerprints.items()
        },
        "recipe": {
            "name": job.recipe_label,
            **{
                name: job.settings[name].value
                for name in ("batch_size", "accumulation")
                if name in job.settings
            },
            "precision": job.precision,
        },
        "versions": versions(),
        **({"plugins": dict(job.plugins)} if job.plugins else {}),
        "machine": {**_machine(), **machine},
        "started": started,
    }


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the libraries in LIBRARIES, keyed by name.

    The version of a library that is not installed is None.
    """
    return {"python": platform.python_version(), **library_versions()}


def library_versions() -> dict[str, str | None]:
    """Return the installed versions of LIBRARIES without importing them; None if not installed."""
    return {name: _version(name) for name in LIBRARIES}


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the processor, as in the file `cpuinfo` or else in Python's `platform`."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"(?m)^model name\s*:\s*(.+)$", text)
    return found[1].strip() if found else platform.processor() or platform.machine()


def machine_name(threads: int) -> str:
    """Return the name of the processor and a number of threads, such as "NAME, 4 threads"."""
    return f"{cpu_model()}, {counted(threads, 'thread')}"


def text_digest(text: str) -> str:
    """Return the SHA-256 digest of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _machine() -> dict[str, Any]:
    return {
        "os": f"{platform.system()} {platform.release()}",
        "cpu": cpu_model(),
        "capability": capability(),
        "cores": os.cpu_count(),
        "host": text_digest(platform.node())[:12],
    }


def capability() -> str:
    """Return the widest instruction set in CPU_CAPABILITIES that this processor has, or ""."""
    flags = cpu_flags()
    return next((name for name in CPU_CAPABILITIES if name in flags), "")


def what_differs(kept: Mapping[str, Any], now: Mapping[str, str]) -> str:
    """Describe which values have changed, such as "torch (2.11 then, 2.13 now)".

    Args:
        kept: The earlier values, keyed by name.
        now: The current values, keyed by name.

    Returns:
        The description, or "" if no value has changed.
    """
    names = [name for name in {**kept, **now} if kept.get(name) != now.get(name)]
    return ", ".join(f"{name} ({kept.get(name)} then, {now.get(name)} now)" for name in names)


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


LOADED = time.time()
"""Time in seconds since the epoch at which this process imported this module. Files of benchharness
that were modified later may differ from the running code."""


SOURCES = {
    "benchharness": "**/*.py",
    "benchharness.leaderboard": "*.py",
    "benchharness.tasks": "**/*.py",
}
"""Patterns for the Python files of benchharness that may affect results, keyed by package. Files
that make pages and plots are not included."""


NOT_IN_WORKERS = ("cli", "driver", "engines", "leaderboard", "pytest_plugin.py", "tasks")
"""Files and folders of the package benchharness that worker processes do not use, or that SOURCES
lists separately (leaderboard and tasks)."""


def source_digest() -> str:
    """Return a SHA-256 digest (hex) of the Python files that may affect the result of a job.

    If one of the files was edited after this process started, it is unknown which version of the
    file is running. The digest then also depends on the time of the edit and on the start time.
    """
    digest, edited = hashlib.sha256(), 0.0
    for package, pattern in SOURCES.items():
        root = Path(str(files(package)))
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root)
            if package == __package__ and name.parts[0] in NOT_IN_WORKERS:
                continue
            digest.update(f"{package}/{name}\0".encode())
            digest.update(path.read_bytes())
            edited = max(edited, path.stat().st_mtime)
    if edited > LOADED:
        digest.update(f"edited at {edited}, loaded at {LOADED}".encode())
    return digest.hexdigest()


STORE = "BENCH_RANKS_FILE"
"""Environment variable with the path of a file, through which the processes of a distributed
training find each other."""


def count_processes() -> int:
    """Return the number of processes that train a job together; 1 without distributed training."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def own_rank() -> int:
    """Return the rank of this process, from 0, among the processes that train a job together.

    Without distributed training, the rank is 0.
    """
    return int(os.environ.get("RANK", "0")) if count_processes() > 1 else 0


def forget_others() -> None:
    """Remove WORLD_SIZE from the environment, so that workers do not inherit it.

    torchrun sets this variable if it starts `bench run`. Workers that inherited it would wait
    forever for other processes.
    """
    os.environ.pop("WORLD_SIZE", None)


# Estimating the time of a job, from similar stored runs or from its size, and its memory.

BERT_BASE = 110.0
"""Number of parameters of BERT-base, in millions."""


class Estimate(NamedTuple):
    """Estimated duration of a job in seconds; `rough` is True if there is no similar stored run."""

    seconds: float
    rough: bool


def estimate_seconds(
    job: Job, history: Iterable[RunRow], rows: Mapping[str, int], *, gpu: bool = False
) -> Estimate:
    """Estimate the duration of a job.

    The estimate is the median duration of similar runs: finished runs that differ at most in the
    seed. If there are none, it is a rough estimate from the sizes of the model and the data.

    Args:
        job: Job to estimate.
        history: Stored runs.
        rows: The number of examples of each split, keyed by the fingerprint of the split (the
            digest of its examples).
        gpu: Whether the job runs on a GPU.
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


# Floating-point operations per second in training. The value for CPUs was measured with MiniLM
# (22.7 million parameters) on MRPC: 3 epochs with 583,000 tokens in total took 110 s on two cores.
# The value for GPUs is an eighth of the bf16 peak of an H200.
_CPU_FLOPS = 7e11
_GPU_FLOPS = 1e14
_TOKENS_PER_ROW = 50
_MASKED_COPIES = 5
_START_SECONDS = 5.0
_BASELINE_SECONDS = 0.5
_BASELINE_SECONDS_PER_ROW = 3e-4  # between the measured values of the two baselines


def _rough_seconds(job: Job, rows: Mapping[str, int], *, gpu: bool) -> float:
    """Estimate the duration of a job in seconds from its number of floating-point operations.

    There are 6 operations per parameter and token in training, and 2 in prediction.
    """
    trained = predicted = 0
    for split, fingerprint in job.fingerprints.items():
        if split.endswith(":train"):
            trained += rows.get(fingerprint, 0)
        else:
            predicted += rows.get(fingerprint, 0)
    if job.kind == "baseline":
        return _BASELINE_SECONDS + _BASELINE_SECONDS_PER_ROW * (trained + predicted)
    # If the number of parameters is unknown, use that of BERT-base.
    parameters = (_parameters(job) or BERT_BASE) * 1e6
    if job.is_zero_shot:
        # Zero-shot scoring reads each text several times, about once per scored token.
        trained, predicted = 0, _MASKED_COPIES * predicted
    epochs = 0.0 if job.is_zero_shot else float(job.settings["epochs"].value)
    if shots := job.settings.get("shots"):
        trained = min(trained, int(shots.value))
    learned = trained * epochs
    # If a number of steps is set, it replaces the number of epochs. Each step trains on one batch.
    if "steps" in job.settings:
        learned = float(job.settings["steps"].value) * float(job.settings["batch_size"].value)
    if "layer_epochs" in job.settings:
        learned += trained * float(job.settings["layer_epochs"].value)
    # The forward pass has a multiplication and an addition per weight and token, and the backward
    # pass has twice as many operations.
    tokens = _TOKENS_PER_ROW * (6 * learned + 2 * predicted)
    return _START_SECONDS + tokens * parameters / (_GPU_FLOPS if gpu else _CPU_FLOPS)


def _parameters(job: Job) -> float | None:
    """Return the number of parameters of a job's checkpoint in millions, or None if unknown."""
    return find_model(job.checkpoint, job.trust).parameters


_PROCESS_BYTES = 2e9
_WEIGHT_BYTES = 4
_TRAINED_BYTES = 4 * _WEIGHT_BYTES  # the weight, its gradient and two moments of Adam
_LOADED_BYTES = 8
_KEPT_BYTES = 4
_ACTIVATION_BYTES = 16


def estimate_memory(job: Job, *, gpu: bool = False) -> int:
    """Estimate the largest amount of main memory that a job needs, in bytes.

    GPU memory is not included. If the job selects its best checkpoint or averages checkpoints, a
    copy of the weights in fp32 is included, because this copy is kept in main memory even if the
    job runs on a GPU.

    Args:
        job: Job to estimate.
        gpu: Whether the job runs on a GPU.
    """
    if job.kind == "baseline":
        return int(_PROCESS_BYTES)
    parameters, each = _parameters(job), bytes_per_weight(job)
    keeps = not {"best_checkpoint", "average_last"}.isdisjoint(job.settings)
    kept = _KEPT_BYTES * (parameters or BERT_BASE) * 1e6 if keeps else 0.0
    return memory_of(parameters, each, gpu=gpu) + int(kept)


def estimate_states(job: Job) -> int:
    """Estimate the memory in bytes without which a job cannot train, even with short rows.

    It is the memory of the libraries, the data and the training state (see `bytes_per_weight`).
    """
    return int(_PROCESS_BYTES + bytes_per_weight(job) * (_parameters(job) or BERT_BASE) * 1e6)


def bytes_per_weight(job: Job) -> int:
    """Return the bytes of the training state per weight of the encoder.

    A weight in fp32 takes 4 bytes, also if the computation is in bf16. In training, its gradient
    takes 4 bytes, and each moment of Adam 4 bytes. Adafactor's moments take almost nothing, because
    they are stored per row and column. If the encoder is frozen, or low-rank adapters are trained
    instead, only the weights count.
    """
    settings = job.settings
    if "lora_rank" in settings or "features" in settings:
        return _WEIGHT_BYTES
    has_moments = "optimizer" not in settings or settings["optimizer"].value == "adamw"
    return _TRAINED_BYTES if has_moments else 2 * _WEIGHT_BYTES


def memory_of(parameters: float | None, each: int = _TRAINED_BYTES, *, gpu: bool = False) -> int:
    """Estimate the main memory in bytes that is needed to train an encoder.

    Libraries and data take 2 GB. On a CPU, each parameter takes `each` bytes, and activations take
    about as much as 16 bytes per parameter. With a GPU, each parameter takes 8 bytes, because two
    copies of the weights in fp32 exist in main memory while the model is loaded.

    Args:
        parameters: The number of parameters in millions. If it is None, the number of BERT-base is
            used.
        each: Bytes of the training state per parameter, by default those of AdamW (see
            `bytes_per_weight`).
        gpu: Whether the encoder is trained on a GPU.
    """
    each = _LOADED_BYTES if gpu else each + _ACTIVATION_BYTES
    return int(_PROCESS_BYTES + each * (parameters or BERT_BASE) * 1e6)


def cache_folders() -> dict[str, Path]:
    """Return the folders of the Hugging Face caches.

    The keys are "checkpoint cache" and "data cache". The libraries of Hugging Face are not
    imported.
    """
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return {
        "checkpoint cache": Path(os.environ.get("HF_HUB_CACHE") or home / "hub"),
        "data cache": Path(os.environ.get("HF_DATASETS_CACHE") or home / "datasets"),
    }
