"""Slots for concurrent jobs: each runs one job at a time, on GPUs or on some of the CPU cores."""

import itertools
import math
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from benchharness.errors import BenchError
from benchharness.machine import is_instance, machine_name


@dataclass(frozen=True, kw_only=True)
class Slot:
    """Place for one job at a time: a device, and the environment variables of the job's process.

    Attributes:
        device: "cpu", or "cuda:" followed by the GPUs, as in "cuda:0,1".
        environment: The environment variables that the job's process gets.
        is_shared: Whether the slot shares its GPU with other slots. While jobs run in the other
            slots, such a slot is used only if the GPU has enough free memory.
    """

    device: str
    environment: Mapping[str, str]
    is_shared: bool = False

    @property
    def is_gpu(self) -> bool:
        """True if the slot has GPUs."""
        return self.device != "cpu"

    @property
    def gpus(self) -> tuple[str, ...]:
        """Names of the slot's GPUs, as in CUDA_VISIBLE_DEVICES.

        For a slot on a cluster, whose GPUs are not known yet, the value is ("cuda",).
        """
        return tuple(self.device.removeprefix("cuda:").split(",")) if self.is_gpu else ()


AT_ONCE = 8
"""Maximum number of concurrent jobs by default, on the CPU or per GPU. With more jobs, each would
have so few cores that the longest job of a suite would still run long after the others have ended.
"""


AMPERE = 8.0
"""Lowest compute capability of GPUs that compute in bf16 natively; older GPUs emulate bf16."""

DEVICES = Path("/dev")
"""Folder in which the GPU driver creates one file per GPU (nvidia0, nvidia1)."""

WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Environment variables that control how the threads of a job wait for each other."""

SPINS = "500"
"""Default number of times that libgomp's threads spin before they sleep.

By default, libgomp spins for milliseconds, which made training 3 to 14 times slower when another
process used one of the cores. Without spinning, training is 1.4 times slower on an idle machine
(docs/log.md).
"""


def find_slots(
    device: str = "auto",
    jobs: int | None = None,
    *,
    fit: int = 1,
    processes: int = 1,
    small: bool = False,
) -> tuple[Slot, ...]:
    """Return the slots of this machine.

    If `jobs` is given, there are exactly `jobs` slots, to which the GPUs are assigned in turn.
    Otherwise, there is one slot per core, but at most `fit` slots, at most AT_ONCE on the CPU or
    per GPU, and at least one per GPU. Several slots may share a GPU, and are used as far as its
    memory allows. There are two exceptions. On MIG instances (parts of a GPU), whose memory cannot
    be read, there is one slot per instance. If a job has several processes, no GPU belongs to two
    slots: each slot has one GPU or, on the CPU, at least one core per process.

    Each process gets an equal share of the cores as threads, unless OMP_NUM_THREADS is set.

    Args:
        device: "auto" (all visible GPUs, or the CPU if there are none), "cpu", "cuda" (all visible
            GPUs) or "cuda:N" (the visible GPU with index N).
        jobs: The number of concurrent jobs; None to determine it.
        fit: The largest number of jobs that can run concurrently, because there are no more jobs or
            because no more fit into memory.
        processes: The number of processes that train one job together. Each process has its own
            GPU or, on the CPU, a part of the job's cores.
        small: Whether jobs are so small that each needs only one thread on a CPU.

    Raises:
        BenchError: The device does not exist, or there are fewer GPUs than `processes`.
    """
    gpus = _choose_gpus(device)
    if gpus and len(gpus) < processes:
        raise BenchError(
            f"--processes-per-job {processes} needs as many GPUs, but only {len(gpus)} can be used "
            "on this machine."
        )
    most = max(1, min(fit, AT_ONCE * max(1, len(gpus)), _count_cores() // processes))
    shared = not jobs and processes == 1 and not any(is_instance(gpu) for gpu in gpus)
    count = jobs or (len(gpus) // processes if gpus and not shared else max(most, len(gpus)))
    cores = 1 if small and not gpus else max(1, _count_cores() // (count * processes))
    threads = os.environ.get("OMP_NUM_THREADS") or cores
    # Assign GPUs in a cycle: with 2 GPUs, four slots with one process each get GPU 0, 1, 0 and 1.
    turns = itertools.cycle(gpus)
    places = [",".join(itertools.islice(turns, processes)) for _ in range(count)]
    # If each slot has its own GPU, nothing is shared, and the GPUs' free memory does not matter.
    is_shared = shared and count > len(gpus) > 0
    return tuple(make_slot(place, threads, is_shared=is_shared) for place in places)


def make_slot(gpus: str, threads: int | str, *, is_shared: bool = False) -> Slot:
    """Build a slot.

    Args:
        gpus: The names of the slot's GPUs in the form of CUDA_VISIBLE_DEVICES, such as "0,1"; empty
            for a slot on the CPU.
        threads: The number of CPU threads of the job's process.
        is_shared: Whether the slot shares its GPU with other slots.
    """
    waiting = {name: os.environ[name] for name in WAITING if name in os.environ}
    environment = {
        # Make CUDA number the GPUs by PCI address, as nvidia-smi does, instead of by speed.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": gpus,
        "OMP_NUM_THREADS": str(threads),
        **(waiting or {"GOMP_SPINCOUNT": SPINS}),
    }
    device = f"cuda:{gpus}" if gpus else "cpu"
    return Slot(device=device, environment=environment, is_shared=is_shared)


def _choose_gpus(device: str) -> tuple[str, ...]:
    kind, colon, index = device.partition(":")
    is_numbered = kind == "cuda" and index.isdecimal()
    if kind not in ("auto", "cpu", "cuda") or (colon and not is_numbered):
        raise BenchError(f"no device is called {device!r}: use auto, cpu, cuda or cuda:N.")
    gpus = () if kind == "cpu" else find_gpus()
    if kind == "cuda" and not gpus:
        raise BenchError(
            f"--device {device} needs a GPU, but `nvidia-smi -L` lists none: use --device cpu."
        )
    if not colon:
        return gpus
    if int(index) >= len(gpus):
        known = (
            f"the visible GPUs are cuda:0 to cuda:{len(gpus) - 1}"
            if len(gpus) > 1
            else "the only visible GPU is cuda:0"
        )
        raise BenchError(f"there is no {device}: {known}.")
    return (gpus[int(index)],)


def find_gpus() -> tuple[str, ...]:
    """Return the names of the usable GPUs, in the form of CUDA_VISIBLE_DEVICES.

    If CUDA_VISIBLE_DEVICES is set, even to an empty value, the names are read from it. Otherwise
    they come from `nvidia-smi -L`, or from the driver's device files if there is no such command.
    The result is empty if the command fails.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = re.split(r"\s*,\s*", visible.strip())
        # As in CUDA, an empty name or "-1" hides all GPUs that follow it.
        return tuple(itertools.takewhile(lambda name: name not in ("", "-1"), names))
    try:
        listing = _nvidia_smi("-L")
    except FileNotFoundError:  # a container may have the driver but not nvidia-smi
        return tuple(str(n) for n, _ in enumerate(DEVICES.glob("nvidia[0-9]*")))
    except (OSError, subprocess.SubprocessError):
        return ()
    # Find the index of each GPU, or the UUIDs of its MIG instances, in the output of
    # `nvidia-smi -L`:
    # GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a1c...)
    #   MIG 1g.10gb     Device  0: (UUID: MIG-77e0...)
    listed = re.findall(r"(?ms)^GPU (\d+):(.*?)(?=^GPU \d|\Z)", listing)
    instances = [(index, re.findall(r"UUID: (MIG-[^)\s]+)", gpu)) for index, gpu in listed]
    return tuple(name for index, names in instances for name in names or [index])


def place_of(slots: Sequence[Slot]) -> str:
    """Describe the devices of the slots, such as "the CPU", "GPU 0" or "2 GPUs".

    On a cluster, where the GPUs are not known yet, the description is "GPUs".
    """
    names = {name for slot in slots for name in slot.gpus}
    if not names:
        return "the CPU"
    if "cuda" in names:
        return "GPUs"
    return f"GPU {names.pop()}" if len(names) == 1 else f"{len(names)} GPUs"


def have_bf16(slots: Sequence[Slot]) -> bool:
    """Return whether all GPUs of the slots compute in bf16 natively, as GPUs since Ampere do.

    The result is also True if `nvidia-smi` does not report the compute capability, for example for
    MIG instances or for GPUs on a cluster.
    """
    with suppress(ValueError):  # nvidia-smi prints "[N/A]" if the value is unknown
        names = dict.fromkeys(name for slot in slots for name in slot.gpus)
        return all(float(told) >= AMPERE for told in _ask(names, "compute_cap"))
    return True


def machine_of(slots: Sequence[Slot]) -> str:
    """Return the name of the first GPU of the first slot, or "a GPU" if its name is unknown.

    If the slot is on the CPU, return the processor and the number of threads ("NAME, 4 threads").
    """
    if slots[0].is_gpu:
        return next(iter(_ask(slots[0].gpus[:1], "name")), "a GPU")
    return machine_name(int(slots[0].environment.get("OMP_NUM_THREADS", "1")))


def _ask(gpus: Iterable[str], *facts: str) -> list[str]:
    """Query nvidia-smi for facts about GPUs; return a line per GPU, or [] if the query fails."""
    query = (f"--id={','.join(gpus)}", f"--query-gpu={','.join(facts)}")
    try:
        return _nvidia_smi(*query, "--format=csv,noheader,nounits").strip().splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def _nvidia_smi(*arguments: str) -> str:
    """Return the output of nvidia-smi; raise OSError or SubprocessError if it fails."""
    command = ("nvidia-smi", *arguments)  # the GPU driver installs it on PATH
    return subprocess.run(  # noqa: S603  (our own arguments, no shell)
        command, capture_output=True, text=True, timeout=10, check=True
    ).stdout


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Sharing a GPU: several jobs run on a GPU at the same time if its memory is large enough.
#
# A single job with a small encoder leaves a GPU idle most of the time. Large jobs run one by one.

ROOM = 1.5
"""Free GPU memory that is needed to start another job, as a multiple of the average memory of the
running jobs. It is greater than 1 because the memory of running jobs may still grow."""

SETTLING_SECONDS = 2.0
"""Number of seconds that all jobs on a GPU must have been computing before its used memory is read.
"""


def memory_of(device: str) -> tuple[float, float] | None:
    """Return the used and the free memory of a GPU such as "cuda:0", in MiB.

    The result is None if they are unknown, for example for a MIG instance or without a GPU driver.
    """
    for told in _ask([device.removeprefix("cuda:")], "memory.used", "memory.free"):
        with suppress(ValueError):  # nvidia-smi prints "[N/A], [N/A]" if the values are unknown
            used, free = map(float, told.split(","))
            return used, free
    return None


class Sharing:
    """Policy that decides whether another job may start on a GPU that slots share.

    If a shared GPU runs out of memory, the engine sets `is_over` to True, and from then on each GPU
    runs one job at a time.
    """

    def __init__(self) -> None:
        self._next: dict[str, float] = {}  # time of the next memory query, keyed by device
        self.is_over = False

    def has_room(self, slot: Slot, settled: Sequence[bool]) -> bool:
        """Return whether another job may start in a slot.

        It may if the slot does not share its GPU, or if no job runs on the GPU. Otherwise, it may
        only if all jobs on the GPU have been computing for SETTLING_SECONDS, the GPU has enough
        free memory (see ROOM), and `is_over` is False.

        Args:
            slot: Slot to check.
            settled: For each job that runs on the same device, whether it already computes, so that
                the GPU memory that it uses is known.
        """
        if not slot.is_shared or not settled:
            return True
        now = monotonic()
        due = self._next.get(slot.device, now)
        if not all(settled):
            due = self._next[slot.device] = max(due, now + SETTLING_SECONDS)
        if self.is_over or now < due:
            return False
        memory = memory_of(slot.device)
        # If the memory cannot be read, do not try again, because a query may take seconds.
        self._next[slot.device] = now + SETTLING_SECONDS if memory else math.inf
        return memory is not None and memory[1] > ROOM * memory[0] / len(settled)
