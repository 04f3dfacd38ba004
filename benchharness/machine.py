"""What this machine is and can do, and about what a job takes of it; found out without torch."""

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
    """The instruction sets that Linux lists for the first processor; none on other systems."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())


def cpu_has_bf16(cpuinfo: Path = CPUINFO) -> bool:
    """Whether bf16 training is faster than fp32 on this processor.

    True with AMX tiles (2,600 and more GFLOP/s against 430 measured on two cores) and with
    AVX-512's dot product (403 against 174). Elsewhere torch emulates bf16, which is slower.
    """
    return not cpu_flags(cpuinfo).isdisjoint({"amx_bf16", "avx512_bf16"})


def is_instance(gpu: str) -> bool:
    """Whether a name in CUDA_VISIBLE_DEVICES is that of a part of a GPU (MIG)."""
    return gpu.startswith("MIG-")


def main_memory(limit: Path = MEMORY_LIMIT) -> int:
    """The bytes of memory that this process may have: the machine's, or its container's."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(physical, int(limit.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return physical


# Where what can be computed again is kept between runs. All of it may be deleted.


def cache_folder(name: str) -> Path:
    """The folder of that name in $BENCH_CACHE, or in the user's cache."""
    home = os.environ.get("BENCH_CACHE")
    return (Path(home).expanduser() if home else user_cache_path("benchharness")) / name


# Where a result comes from: which code, weights, rows, library versions and machine made it.
#
# Nothing of the user is in it: no token, no user name, no path, and the host only as a digest.

LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "datasets", "numpy", "triton")

OF_GPUS = "triton"
"""The library that no run on a CPU needs or uses."""

OF_FILES = ("safetensors", "datasets")
"""Those that read bytes, whose digests a job's key has: their release changes no result."""

CPU_CAPABILITIES = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "asimd")
"""From the widest to the narrowest; they decide which kernels torch takes, and so the last bits."""


def collect(
    job: Job,
    *,
    splits: Mapping[str, Mapping[str, Any]],
    tokenizer: str,
    machine: Mapping[str, Any],
    started: str,
) -> dict[str, Any]:
    """Everything that a reader needs to judge a result or to get it again, as plain data.

    `splits` count, by the names of `job.fingerprints`, the examples of each ("rows"), those that
    the benchmark's convention leaves out ("left_out": SNLI's without a gold label), what is odd
    about it ("odd", by sentence), and those that are there before or in train (`count_repeats`).
    `tokenizer` is the digest of the tokenizer as it was loaded (`text_digest` of its JSON).
    `machine` says what torch knows of it: the "device", the name of the processor that trained
    ("cpu", "NVIDIA H200"), and the "threads" in each of the "processes" that trained together.
    `started` is UTC in ISO 8601.
    """
    # What the user allowed the checkpoint to do, where it is anything.
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
    """The commit of the source checkout and whether files differ from it.

    Both are None for an installed package, also where its environment lies inside some other
    repository: the checkout must track this very file.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None or _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return {"commit": None, "dirty": None}
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": bool(changes)}


def versions() -> dict[str, str | None]:
    """The version of Python, and those of the libraries."""
    return {"python": platform.python_version(), **library_versions()}


def library_versions() -> dict[str, str | None]:
    """The installed version of each library that takes part, without importing it."""
    return {name: _version(name) for name in LIBRARIES}


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as Linux gives it, else the platform's."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"(?m)^model name\s*:\s*(.+)$", text)
    return found[1].strip() if found else platform.processor() or platform.machine()


def machine_name(threads: int) -> str:
    """A processor and how many threads of it a process has."""
    return f"{cpu_model()}, {counted(threads, 'thread')}"


def text_digest(text: str) -> str:
    """The SHA-256 (hex) of a text."""
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
    """The widest instructions of this processor that torch has kernels for; empty for others."""
    flags = cpu_flags()
    return next((name for name in CPU_CAPABILITIES if name in flags), "")


def what_differs(kept: Mapping[str, Any], now: Mapping[str, str]) -> str:
    """What is not as it was, "torch (2.11 then, 2.13 now)"; empty where all of it is."""
    names = [name for name in {**kept, **now} if kept.get(name) != now.get(name)]
    return ", ".join(f"{name} ({kept.get(name)} then, {now.get(name)} now)" for name in names)


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, None where it fails or is not installed."""
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
"""When this process has loaded our code, or begun to."""


SOURCES = {
    "benchharness": "**/*.py",
    "benchharness.leaderboard": "*.py",
    "benchharness.tasks": "**/*.py",
}
"""Our Python files by package, without pages and plots."""


NOT_IN_WORKERS = ("cli", "driver", "engines", "leaderboard", "pytest_plugin.py", "tasks")
"""What the first pattern leaves out; two of these are packages of their own above."""


def source_digest() -> str:
    """The SHA-256 (hex) of the Python files that a job may use: an edit counts at once.

    Where a file was edited after this process has loaded it, what runs is not known: the digest is
    then of no code.
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
"""The variable by which our launcher names the file in which its processes meet."""


def count_processes() -> int:
    """How many processes train together; one where nobody said anything."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def own_rank() -> int:
    """The number of this process among them, from 0."""
    return int(os.environ.get("RANK", "0")) if count_processes() > 1 else 0


def forget_others() -> None:
    """Makes this process work alone, whatever it was told: `bench run` may be started by torchrun.

    Its workers inherit the variables, and would wait for others that never come.
    """
    os.environ.pop("WORLD_SIZE", None)


# About how long a job takes, by stored runs of its kind or by its size, and how much memory.

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
    # Steps count instead of epochs, each with a batch of examples.
    if "steps" in job.settings:
        learned = float(job.settings["steps"].value) * float(job.settings["batch_size"].value)
    if "layer_epochs" in job.settings:
        learned += trained * float(job.settings["layer_epochs"].value)
    # Forward a weight is multiplied and added once for each token; backward takes twice that.
    tokens = _TOKENS_PER_ROW * (6 * learned + 2 * predicted)
    return _START_SECONDS + tokens * parameters / (_GPU_FLOPS if gpu else _CPU_FLOPS)


def _parameters(job: Job) -> float | None:
    """The millions of its checkpoint; None where nothing says them."""
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
