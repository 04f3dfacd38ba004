"""Facts about this machine, and estimates of a job's time and memory on it, without torch."""

import hashlib
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from platformdirs import user_cache_path

from benchharness import __version__
from benchharness.leaderboard.job import Job, recipe_digest
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.text import counted
from benchharness.models import find_model
from benchharness.models.weights import hub_revision

CPUINFO = Path("/proc/cpuinfo")
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")


@cache
def cpu_flags(cpuinfo: Path = CPUINFO) -> frozenset[str]:
    """Return the instruction sets that Linux lists for the first processor, none elsewhere."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def cpu_has_bf16(cpuinfo: Path = CPUINFO) -> bool:
    """Return whether bf16 training is faster than fp32 on this processor.

    It is with AMX tiles (2,600 and more GFLOP/s against 430, measured on two cores) and with
    AVX-512's dot product (403 against 174). Elsewhere torch emulates bf16, which is slower.
    """
    return not cpu_flags(cpuinfo).isdisjoint({"amx_bf16", "avx512_bf16"})


def is_instance(gpu: str) -> bool:
    """Return whether a name in CUDA_VISIBLE_DEVICES is a MIG instance, a part of a GPU."""
    return gpu.startswith("MIG-")


def main_memory(limit: Path = MEMORY_LIMIT) -> int:
    """Return the memory of the machine, or the limit of its container if it is lower, in bytes."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(limit.read_text()))
    except (OSError, ValueError):  # no container, or a container without a limit ("max")
        return physical


# Cache of data that can be computed again. All of it may be deleted.


def cache_folder(name: str) -> Path:
    """Return the folder of that name in $BENCH_CACHE, or in the user's cache."""
    home = os.environ.get("BENCH_CACHE")
    return (Path(home).expanduser() if home else user_cache_path("benchharness")) / name


# Provenance of a result: its code, weights, rows, library versions and machine.
#
# It has no user data: no token, no user name, no path, and the host only as a digest.

LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "datasets", "numpy", "triton")

OF_GPUS = "triton"
"""Library that only runs on a GPU need or use."""

OF_FILES = ("safetensors", "datasets")
"""Libraries that read files whose digests are part of a job's key, so that their version does not
affect results."""

CPU_CAPABILITIES = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "asimd")
"""Instruction sets, from the widest to the narrowest. They determine torch's kernels, and thus the
last bits of results."""


def collect(
    job: Job,
    *,
    splits: Mapping[str, Mapping[str, Any]],
    tokenizer: str,
    machine: Mapping[str, Any],
    started: str,
) -> dict[str, Any]:
    """Return the provenance of a result, as plain data that allow to judge and to reproduce it.

    Args:
        job: The job.
        splits: Facts by the names in `job.fingerprints`: the number of examples ("rows"), the
            number that the benchmark's convention leaves out ("left_out", such as SNLI's without a
            gold label), oddities by sentence ("odd"), and repeats within the split or of train
            (`count_repeats`).
        tokenizer: The digest of the loaded tokenizer (`text_digest` of its JSON).
        machine: Facts from torch: the "device", the name of the processor that trained ("cpu",
            "NVIDIA H200"), and the "threads" of each of the "processes" that trained together.
        started: The start time in UTC, in ISO 8601.
    """
    # Permissions that the user gave the checkpoint; only those that are set are recorded.
    given = job.trust.to_json()
    return {
        "code": {"version": __version__, "method": job.method, **source_commit()},
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


def source_commit(folder: Path = Path(__file__).parent) -> dict[str, Any]:
    """Return the commit of the source checkout, and whether files differ from it.

    Both are None for an installed package, even if its environment is inside some other repository:
    the checkout must track the package's `__init__.py`.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None or _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return {"commit": None, "dirty": None}
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": bool(changes)}


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the libraries."""
    return {"python": platform.python_version(), **library_versions()}


def library_versions() -> dict[str, str | None]:
    """Return the installed version of each relevant library, without importing it."""
    return {name: _version(name) for name in LIBRARIES}


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name as Linux reports it, else the platform's name."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"(?m)^model name\s*:\s*(.+)$", text)
    return found[1].strip() if found else platform.processor() or platform.machine()


def machine_name(threads: int) -> str:
    """Return the processor's name with the number of threads of a process."""
    return f"{cpu_model()}, {counted(threads, 'thread')}"


def text_digest(text: str) -> str:
    """Return the SHA-256 (hex) of a text."""
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
    """Return the widest of this processor's CPU_CAPABILITIES; empty if it has none."""
    flags = cpu_flags()
    return next((name for name in CPU_CAPABILITIES if name in flags), "")


def what_differs(kept: Mapping[str, Any], now: Mapping[str, str]) -> str:
    """Describe the changed values, "torch (2.11 then, 2.13 now)"; return "" if none changed."""
    names = [name for name in {**kept, **now} if kept.get(name) != now.get(name)]
    return ", ".join(f"{name} ({kept.get(name)} then, {now.get(name)} now)" for name in names)


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of git; None if it fails or is not installed."""
    try:
        done = subprocess.run(  # noqa: S603  (our own arguments, no shell)
            ("git", "-C", str(folder), *arguments),  # noqa: S607  (the user's git)
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


LOADED = time.time()
"""Time at which this process loaded, or began to load, benchharness's code."""


SOURCES = {
    "benchharness": "**/*.py",
    "benchharness.leaderboard": "*.py",
    "benchharness.tasks": "**/*.py",
}
"""benchharness's Python files by package, without pages and plots."""


NOT_IN_WORKERS = ("cli", "driver", "engines", "leaderboard", "pytest_plugin.py", "tasks")
"""Parts of the first package that workers do not use; two of them are packages of SOURCES."""


def source_digest() -> str:
    """Return the SHA-256 (hex) of the Python files that a job may use; an edit counts at once.

    If a file was edited after this process loaded it, the running code is unknown: the digest is
    then unique to this state.
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
"""Environment variable with the file in which benchharness's launcher lets its processes meet."""


def count_processes() -> int:
    """Return how many processes train together; 1 by default."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def own_rank() -> int:
    """Return the rank of this process among the processes that train together, from 0."""
    return int(os.environ.get("RANK", "0")) if count_processes() > 1 else 0


def forget_others() -> None:
    """Make this process work alone, even if torchrun has started `bench run`.

    Otherwise the workers would inherit the variable and wait for processes that never come.
    """
    os.environ.pop("WORLD_SIZE", None)


# Estimates of a job's time, from similar stored runs or from its size, and of its memory.

BERT_BASE = 110.0
"""Number of BERT-base's parameters, in millions."""


class Estimate(NamedTuple):
    """Estimated time of a job; `rough` means that no stored run is similar to it."""

    seconds: float
    rough: bool


def estimate_seconds(
    job: Job, history: Iterable[RunRow], rows: Mapping[str, int], *, gpu: bool = False
) -> Estimate:
    """Estimate the time of a job: the median of similar runs, or a rough figure from its size.

    Similar runs are finished runs of the same model, task, rows, recipe and precision, with any
    seed.

    Args:
        job: The job.
        history: Stored runs.
        rows: The number of examples by the fingerprint of a split.
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


# The CPU's figure was measured with MiniLM on MRPC: 583,000 tokens in 3 epochs take 110 s on two
# cores, with all of its 22.7 million parameters. A GPU's is an eighth of an H200's bf16 peak.
_CPU_FLOPS = 7e11
_GPU_FLOPS = 1e14
_TOKENS_PER_ROW = 50
_MASKED_COPIES = 5
_START_SECONDS = 5.0
_BASELINE_SECONDS = 0.5
_BASELINE_SECONDS_PER_ROW = 3e-4  # between the majority's time and the bag of words'


def _rough_seconds(job: Job, rows: Mapping[str, int], *, gpu: bool) -> float:
    """Estimate 6 operations per parameter and token of training, and 2 per token of prediction."""
    trained = predicted = 0
    for split, fingerprint in job.fingerprints.items():
        if split.endswith(":train"):
            trained += rows.get(fingerprint, 0)
        else:
            predicted += rows.get(fingerprint, 0)
    if job.kind == "baseline":
        return _BASELINE_SECONDS + _BASELINE_SECONDS_PER_ROW * (trained + predicted)
    # The encoder's parameters; BERT-base's if the model is not in the table.
    parameters = (_parameters(job) or BERT_BASE) * 1e6
    if job.is_zero_shot:
        # Each text is read about once per scored token.
        trained, predicted = 0, _MASKED_COPIES * predicted
    epochs = 0.0 if job.is_zero_shot else float(job.settings["epochs"].value)
    if shots := job.settings.get("shots"):
        trained = min(trained, int(shots.value))
    learned = trained * epochs
    # If there are steps, they replace epochs; each has a batch of examples.
    if "steps" in job.settings:
        learned = float(job.settings["steps"].value) * float(job.settings["batch_size"].value)
    if "layer_epochs" in job.settings:
        learned += trained * float(job.settings["layer_epochs"].value)
    # The forward pass has a multiplication and an addition per weight and token, the backward pass
    # twice that.
    tokens = _TOKENS_PER_ROW * (6 * learned + 2 * predicted)
    return _START_SECONDS + tokens * parameters / (_GPU_FLOPS if gpu else _CPU_FLOPS)


def _parameters(job: Job) -> float | None:
    """Return the millions of parameters of a job's checkpoint; None if unknown."""
    return find_model(job.checkpoint, job.trust).parameters


_PROCESS_BYTES = 2e9
_TRAINED_BYTES = 16
_LOADED_BYTES = 8
_KEPT_BYTES = 4
_ACTIVATIONS = 2


def estimate_memory(job: Job, *, gpu: bool = False) -> int:
    """Estimate the largest main memory that a job needs, in bytes; a GPU's memory is not counted.

    The best weights so far, or the sum of several, are kept in main memory in fp32, on a GPU too.
    """
    if job.kind == "baseline":
        return int(_PROCESS_BYTES)
    parameters = _parameters(job)
    keeps = not {"best_checkpoint", "average_last"}.isdisjoint(job.settings)
    kept = _KEPT_BYTES * (parameters or BERT_BASE) * 1e6 if keeps else 0.0
    return memory_of(parameters, gpu=gpu) + int(kept)


def memory_of(parameters: float | None, *, gpu: bool = False) -> int:
    """Estimate the main memory for an encoder of `parameters` million parameters, in bytes.

    Unknown parameters are taken to be BERT-base's. Libraries and rows take 2 GB. On a CPU a
    parameter takes 16 bytes (weight, gradient and Adam's two moments, in fp32), and activations
    about as much again; for a GPU the weights exist twice while they are loaded.
    """
    each = _LOADED_BYTES if gpu else _TRAINED_BYTES * _ACTIVATIONS
    return int(_PROCESS_BYTES + each * (parameters or BERT_BASE) * 1e6)
