"""Slots, in which jobs run at the same time: each has a GPU or a share of the CPU's cores."""

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
    """A slot for one job at a time: the device's name, and environment variables of its process.

    A slot that `is_shared` is used only while its GPU has room for a job next to the running ones.
    """

    device: str
    environment: Mapping[str, str]
    is_shared: bool = False

    @property
    def is_gpu(self) -> bool:
        """True if the slot has a GPU."""
        return self.device != "cpu"

    @property
    def gpus(self) -> tuple[str, ...]:
        """GPUs of the slot, as in CUDA_VISIBLE_DEVICES.

        A slot of a cluster, whose GPUs are not known yet, has ("cuda",).
        """
        return tuple(self.device.removeprefix("cuda:").split(",")) if self.is_gpu else ()


AT_ONCE = 8
"""Default for the most jobs that share a CPU: with fewer cores per job, the longest job of a suite
would run alone at the end."""


AMPERE = 8.0
"""Lowest compute capability with native bf16; older GPUs emulate it."""

DEVICES = Path("/dev")
"""Folder in which the driver has a file per GPU, numbered from 0."""

WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Environment variables that control how the threads of a job wait for each other."""

SPINS = "500"
"""Default number of times that libgomp's threads spin before they sleep.

libgomp's own default is to spin for milliseconds: if another process uses one of the cores,
training was 3 to 14 times slower. Without any spinning it is 1.4 times slower on an idle machine
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

    Without `jobs` there is one job at a time per core, but at most `fit` jobs and at most AT_ONCE,
    because the threads of a job wait for each other. If there are GPUs, these jobs share them as
    far as their memory allows; a MIG instance, whose memory cannot be read, takes one job. With
    `jobs`, the jobs are assigned to the GPUs in turn. The cores are divided evenly unless
    OMP_NUM_THREADS is set.

    Args:
        device: "auto", "cpu", "cuda" (every visible GPU) or "cuda:N" (the N-th visible GPU).
        jobs: The number of jobs at once.
        fit: The number of jobs that are there and fit into memory.
        processes: The number of processes of a job; each has a GPU or a part of the job's cores.
        small: Whether jobs are so small that each needs only one thread on a CPU.

    Raises:
        BenchError: The device does not exist, or there are fewer GPUs than `processes`.
    """
    gpus = _choose_gpus(device)
    if gpus and len(gpus) < processes:
        raise BenchError(
            f"--processes-per-job {processes} needs as many GPUs, and {len(gpus)} can be used here."
        )
    most = max(1, min(fit, AT_ONCE * max(1, len(gpus)), _count_cores() // processes))
    shared = not jobs and processes == 1 and not any(is_instance(gpu) for gpu in gpus)
    count = jobs or (len(gpus) // processes if gpus and not shared else max(most, len(gpus)))
    cores = 1 if small and not gpus else max(1, _count_cores() // (count * processes))
    threads = os.environ.get("OMP_NUM_THREADS") or cores
    # Jobs take GPUs in a cycle: with 2 GPUs, 4 jobs of one process have GPU 0, 1, 0 and 1.
    turns = itertools.cycle(gpus)
    places = [",".join(itertools.islice(turns, processes)) for _ in range(count)]
    # With a GPU for each job nothing is shared, so no memory has to be read.
    is_shared = shared and count > len(gpus) > 0
    return tuple(make_slot(place, threads, is_shared=is_shared) for place in places)


def make_slot(gpus: str, threads: int | str, *, is_shared: bool = False) -> Slot:
    """Build a slot with `threads` threads and the GPUs named as in CUDA_VISIBLE_DEVICES, if any."""
    waiting = {name: os.environ[name] for name in WAITING if name in os.environ}
    environment = {
        # nvidia-smi numbers GPUs by PCI address; CUDA's default is by speed.
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
            f"--device {device} needs a GPU and `nvidia-smi -L` lists none: use --device cpu."
        )
    if not colon:
        return gpus
    if int(index) >= len(gpus):
        raise BenchError(f"there is no {device}: the visible GPUs are 0 to {len(gpus) - 1}.")
    return (gpus[int(index)],)


def find_gpus() -> tuple[str, ...]:
    """Return the usable GPUs as CUDA_VISIBLE_DEVICES names them; none without a driver.

    CUDA_VISIBLE_DEVICES determines them if it is set, even if it is empty; otherwise `nvidia-smi
    -L` does, or the driver's device files if there is no such command.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = re.split(r"\s*,\s*", visible.strip())
        # As in CUDA, an entry that is no device hides the entries after it.
        return tuple(itertools.takewhile(lambda name: name not in ("", "-1"), names))
    try:
        listing = _nvidia_smi("-L")
    except FileNotFoundError:  # a container may have a driver without its tools
        return tuple(str(n) for n, _ in enumerate(DEVICES.glob("nvidia[0-9]*")))
    except (OSError, subprocess.SubprocessError):
        return ()
    # The devices of `nvidia-smi -L`: a GPU's index, or the UUIDs of its MIG instances.
    # GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a1c...)
    #   MIG 1g.10gb     Device  0: (UUID: MIG-77e0...)
    listed = re.findall(r"(?ms)^GPU (\d+):(.*?)(?=^GPU \d|\Z)", listing)
    instances = [(index, re.findall(r"UUID: (MIG-[^)\s]+)", gpu)) for index, gpu in listed]
    return tuple(name for index, names in instances for name in names or [index])


def place_of(slots: Sequence[Slot]) -> str:
    """Describe the devices of slots: "the CPU", "GPU 0", "2 GPUs", or "GPUs" for a cluster."""
    names = {name for slot in slots for name in slot.gpus}
    if not names:
        return "the CPU"
    if "cuda" in names:
        return "GPUs"
    return f"GPU {names.pop()}" if len(names) == 1 else f"{len(names)} GPUs"


def have_bf16(slots: Sequence[Slot]) -> bool:
    """Return whether the GPUs of slots have native bf16, as all have since Ampere.

    Returns True if `nvidia-smi` does not report it, as for a cluster's GPUs and MIG instances.
    """
    with suppress(ValueError):  # "[N/A]"
        names = dict.fromkeys(name for slot in slots for name in slot.gpus)
        return all(float(told) >= AMPERE for told in _ask(names, "compute_cap"))
    return True


def machine_of(slots: Sequence[Slot]) -> str:
    """Describe the hardware of a slot: the GPU's name, or the processor and a job's threads."""
    if slots[0].is_gpu:
        return next(iter(_ask(slots[0].gpus[:1], "name")), "a GPU")
    return machine_name(int(slots[0].environment.get("OMP_NUM_THREADS", "1")))


def _ask(gpus: Iterable[str], *facts: str) -> list[str]:
    """Query nvidia-smi for facts about GPUs; return a line per GPU, or nothing if it fails."""
    query = (f"--id={','.join(gpus)}", f"--query-gpu={','.join(facts)}")
    try:
        return _nvidia_smi(*query, "--format=csv,noheader,nounits").strip().splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def _nvidia_smi(*arguments: str) -> str:
    """Return the output of nvidia-smi; raise OSError or SubprocessError if it fails."""
    command = ("nvidia-smi", *arguments)  # found on PATH, where the driver put it
    return subprocess.run(  # noqa: S603  (our own arguments, no shell)
        command, capture_output=True, text=True, timeout=10, check=True
    ).stdout


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Sharing of a GPU: as many of its slots are used as its memory has room for.
#
# Jobs of small encoders leave a GPU idle most of the time; large jobs take turns on it.

ROOM = 1.5
"""Free memory that another job needs, relative to a running job's memory, which still grows."""

SETTLING_SECONDS = 2.0
"""Time that all jobs on a GPU must have been training before its memory shows their needs."""


def memory_of(device: str) -> tuple[float, float] | None:
    """Return the used and the free memory of a slot's device ("cuda:0"), in MiB.

    Returns None without a driver, and for a MIG instance.
    """
    for told in _ask([device.removeprefix("cuda:")], "memory.used", "memory.free"):
        with suppress(ValueError):  # "[N/A], [N/A]"
            used, free = map(float, told.split(","))
            return used, free
    return None


class Sharing:
    """Decides whether another job may begin in a slot that shares its GPU.

    If `is_over` is True, each GPU takes one job at a time, because memory ran out while jobs shared
    it.
    """

    def __init__(self) -> None:
        self._next: dict[str, float] = {}  # time of the next reading, by device
        self.is_over = False

    def has_room(self, slot: Slot, settled: Sequence[bool]) -> bool:
        """Return whether a job may begin next to others.

        `settled` states which of them already compute.
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
        # Memory that could not be read is not read again, because a query may take seconds.
        self._next[slot.device] = now + SETTLING_SECONDS if memory else math.inf
        return memory is not None and memory[1] > ROOM * memory[0] / len(settled)
