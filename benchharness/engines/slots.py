"""Where jobs run at the same time: a GPU each, or a share of the CPU's cores."""

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

from benchharness.machine import is_instance, machine_name
from benchharness.tasks.errors import BenchError


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place for one job at a time: its device's name and what its process's environment says.

    One that `is_shared` is used only while its GPU has room beside the jobs that run there.
    """

    device: str
    environment: Mapping[str, str]
    is_shared: bool = False

    @property
    def is_gpu(self) -> bool:
        """True where the slot has a GPU."""
        return self.device != "cpu"

    @property
    def gpus(self) -> tuple[str, ...]:
        """Its GPUs as CUDA_VISIBLE_DEVICES names them; a cluster's, not known yet, are "cuda"."""
        return tuple(self.device.removeprefix("cuda:").split(",")) if self.is_gpu else ()


AT_ONCE = 8
"""How many jobs share a CPU unless told otherwise: with fewer cores each, the longest of a suite
would run alone at the end."""


AMPERE = 8.0
"""The compute capability from which on a GPU has bf16; before, it is emulated."""

DEVICES = Path("/dev")
"""Where the driver has a file for each GPU, numbered from 0."""

WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""The variables that say how the threads of a job wait for each other."""

SPINS = "500"
"""How often libgomp's threads look before they sleep, where the user does not say it.

They spin for milliseconds by themselves: where another process has one of the cores, training was
3 to 14 times slower. With no spinning at all it is 1.4 times slower on an idle machine
(docs/log.md)."""


def find_slots(
    device: str = "auto",
    jobs: int | None = None,
    *,
    fit: int = 1,
    processes: int = 1,
    small: bool = False,
) -> tuple[Slot, ...]:
    """The slots of this machine for `jobs` processes at once on `device`.

    `device` is "auto", "cpu", "cuda" (every visible GPU) or "cuda:N" (the N-th visible one).
    Without `jobs` there is one process per core, as long as that many jobs `fit` there and AT_ONCE
    is not passed: threads of one job wait for each other. That many share the GPUs, where there are
    any, as far as these have room; an instance of MIG, whose memory cannot be read, takes one. With
    `jobs`, they share them in turn. The cores are divided evenly unless OMP_NUM_THREADS is set; a
    `small` job has one thread on a CPU, since its products are over before a second has begun. A
    job in several `processes` has as many GPUs, or a part of its cores for each.
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
    # A job takes the next GPUs, counted around: of 2, 4 jobs of one process have 0, 1, 0 and 1.
    turns = itertools.cycle(gpus)
    places = [",".join(itertools.islice(turns, processes)) for _ in range(count)]
    # With a GPU for each job nothing is shared, and no memory has to be read.
    is_shared = shared and count > len(gpus) > 0
    return tuple(make_slot(place, threads, is_shared=is_shared) for place in places)


def make_slot(gpus: str, threads: int | str, *, is_shared: bool = False) -> Slot:
    """A slot with some GPUs, as CUDA_VISIBLE_DEVICES names them, or none; and so many threads."""
    waiting = {name: os.environ[name] for name in WAITING if name in os.environ}
    environment = {
        # nvidia-smi counts by PCI address, CUDA by speed unless it is told otherwise.
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
    """The GPUs that a process may use, as CUDA_VISIBLE_DEVICES names them; none without a driver.

    CUDA_VISIBLE_DEVICES decides where it is set, even to nothing; otherwise `nvidia-smi -L` does,
    or the driver's files where there is no such command.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = re.split(r"\s*,\s*", visible.strip())
        # As CUDA reads it: what is no device hides those behind it.
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
    """What slots are on, for a person: "the CPU", "GPU 0", "2 GPUs", or "GPUs" of a cluster."""
    names = {name for slot in slots for name in slot.gpus}
    if not names:
        return "the CPU"
    if "cuda" in names:
        return "GPUs"
    return f"GPU {names.pop()}" if len(names) == 1 else f"{len(names)} GPUs"


def have_bf16(slots: Sequence[Slot]) -> bool:
    """Whether the GPUs of some slots compute bf16 themselves, as all do from Ampere on.

    True where `nvidia-smi` does not tell: of a cluster's GPUs, and of instances of MIG.
    """
    with suppress(ValueError):  # "[N/A]"
        names = dict.fromkeys(name for slot in slots for name in slot.gpus)
        return all(float(told) >= AMPERE for told in _ask(names, "compute_cap"))
    return True


def machine_of(slots: Sequence[Slot]) -> str:
    """What a slot computes on: a GPU's name, or the processor's with the threads of a job."""
    if slots[0].is_gpu:
        return next(iter(_ask(slots[0].gpus[:1], "name")), "a GPU")
    return machine_name(int(slots[0].environment.get("OMP_NUM_THREADS", "1")))


def _ask(gpus: Iterable[str], *facts: str) -> list[str]:
    """What the driver's tool tells of some GPUs, a line for each; nothing where it fails."""
    query = (f"--id={','.join(gpus)}", f"--query-gpu={','.join(facts)}")
    try:
        return _nvidia_smi(*query, "--format=csv,noheader,nounits").strip().splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def _nvidia_smi(*arguments: str) -> str:
    """What the driver's tool prints; OSError or SubprocessError where it is not there or fails."""
    command = ("nvidia-smi", *arguments)  # where the driver put it
    return subprocess.run(  # noqa: S603  (our own arguments, no shell)
        command, capture_output=True, text=True, timeout=10, check=True
    ).stdout


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# How many of the slots that share a GPU are used: as many as its memory has room for.
#
# Jobs of small encoders leave a GPU idle most of the time, and those that fill it take turns on it.

ROOM = 1.5
"""How much memory is to be free for another job, in those that run: what one takes still grows."""

SETTLING_SECONDS = 2.0
"""How long all jobs on a GPU make steps before its memory says what they hold."""


def memory_of(device: str) -> tuple[float, float] | None:
    """The memory of a slot's device, "cuda:0", that is used and that is free, in MiB.

    None without a driver, and for an instance of MIG.
    """
    for told in _ask([device.removeprefix("cuda:")], "memory.used", "memory.free"):
        with suppress(ValueError):  # "[N/A], [N/A]"
            used, free = map(float, told.split(","))
            return used, free
    return None


class Sharing:
    """Decides for slots that share a GPU whether another job may begin in one.

    `is_over` has each GPU take one at a time: memory ran out where several shared one.
    """

    def __init__(self) -> None:
        self._next: dict[str, float] = {}  # by device, when it is read
        self.is_over = False

    def has_room(self, slot: Slot, settled: Sequence[bool]) -> bool:
        """Whether a job may begin beside others; `settled` says which of these make steps."""
        if not slot.is_shared or not settled:
            return True
        now = monotonic()
        due = self._next.get(slot.device, now)
        if not all(settled):
            due = self._next[slot.device] = max(due, now + SETTLING_SECONDS)
        if self.is_over or now < due:
            return False
        memory = memory_of(slot.device)
        # What could not be read is not read again: asking may take seconds.
        self._next[slot.device] = now + SETTLING_SECONDS if memory else math.inf
        return memory is not None and memory[1] > ROOM * memory[0] / len(settled)
