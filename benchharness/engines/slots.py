"""Where jobs run at the same time: a GPU each, or a share of the CPU's cores."""

import csv
import itertools
import math
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
    any, as far as these have room; an instance of MIG, whose load cannot be read, takes one. With
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
    threads = os.environ.get("OMP_NUM_THREADS") or str(cores)
    # Job i takes the next `processes` GPUs, counted around: of 2 GPUs, 4 jobs of one process have
    # 0, 1, 0 and 1.
    numbers = [range(i * processes, (i + 1) * processes) for i in range(count)]
    places = [[gpus[n % len(gpus)] for n in own] if gpus else [] for own in numbers]
    # With a GPU for each job nothing is shared, and no load has to be measured.
    is_shared = shared and count > len(gpus) > 0
    return tuple(_slot(",".join(place), threads, is_shared=is_shared) for place in places)


def waiting() -> dict[str, str]:
    """The variables of WAITING for a job: the user's, or our number of spins."""
    told = {name: os.environ[name] for name in WAITING if name in os.environ}
    return told or {"GOMP_SPINCOUNT": SPINS}


def _slot(gpu: str, threads: str, *, is_shared: bool) -> Slot:
    # nvidia-smi counts by PCI address, CUDA by speed unless it is told otherwise.
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": gpu}
    return Slot(
        device=f"cuda:{gpu}" if gpu else "cpu",
        environment=environment | waiting() | {"OMP_NUM_THREADS": threads},
        is_shared=is_shared,
    )


def _choose_gpus(device: str) -> tuple[str, ...]:
    kind, colon, index = device.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (colon and not (kind == "cuda" and index.isdigit())):
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
    devices: list[str] = []
    # GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5a1c...)
    #   MIG 1g.10gb     Device  0: (UUID: MIG-77e0...)
    for gpu in re.split(r"(?m)^(?=GPU \d+:)", listing):
        index = re.match(r"GPU (\d+):", gpu)
        instances = re.findall(r"UUID: (MIG-[^)\s]+)", gpu)
        devices += instances or ([index[1]] if index else [])
    return tuple(devices)


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
    names = dict.fromkeys(name for slot in slots for name in slot.gpus)
    query = (f"--id={','.join(names)}", "--query-gpu=compute_cap", "--format=csv,noheader")
    try:
        listed = _nvidia_smi(*query)
        return all(float(capability) >= AMPERE for capability in listed.split())
    except (OSError, subprocess.SubprocessError, ValueError):
        return True


def machine_of(slots: Sequence[Slot]) -> str:
    """What a slot computes on: a GPU's name, or the processor's with the threads of a job."""
    if slots[0].is_gpu:
        try:
            return _nvidia_smi(f"--id={slots[0].gpus[0]}", *GPU_NAME).strip()
        except (OSError, subprocess.SubprocessError):
            return "a GPU"
    return machine_name(int(slots[0].environment.get("OMP_NUM_THREADS", "1")))


GPU_NAME = ("--query-gpu=name", "--format=csv,noheader")


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


# How many of the slots that share a GPU are used: as many as fill it, by what it is measured at.
#
# Processes take turns on a GPU, so the share of time in which any of them computes says how full it
# is. One job begins alone. When all on a GPU have come to their steps, it is measured for a while;
# then as many more begin as its time and its free memory suffice for, at most as many as run there.

FULL = 0.95
"""The share of time in which a GPU computes that counts as all of it."""

ROOM = 1.5
"""How much memory is to be free for another job, in those that run: what one takes still grows."""

READINGS, READING_SECONDS = 4, 0.5
"""How often a GPU is read before it is judged, and how long after the last time."""

QUERY = ("index", "uuid", "utilization.gpu", "memory.used", "memory.free")


@dataclass(frozen=True, kw_only=True)
class Load:
    """A GPU at a time: the share of the last moments in which it computed, and memory in MiB."""

    busy: float
    used: float
    free: float


def read_loads() -> dict[str, Load]:
    """The load of each GPU by its index and by its UUID; of those that tell it.

    A GPU that is split into MIG instances does not, and without a driver there is none.
    """
    try:
        listed = _nvidia_smi(f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits")
    except (OSError, subprocess.SubprocessError):
        return {}
    found = {}
    for row in csv.reader(listed.splitlines(), skipinitialspace=True):
        try:
            # "0, GPU-5a1c..., 37, 15012, 66547": percent, and MiB.
            index, uuid, (busy, used, free) = row[0], row[1], map(float, row[2:])
        except (IndexError, ValueError):  # "[N/A]"
            continue
        found[index] = found[uuid] = Load(busy=busy / 100, used=used, free=free)
    return found


def load_of(device: str, loads: Mapping[str, Load]) -> Load | None:
    """The load of a slot's device, "cuda:0" or "cuda:GPU-..."; the UUID may be cut short."""
    name = device.removeprefix("cuda:")
    if name in loads:
        return loads[name]
    alike = [uuid for uuid in loads if name.startswith("GPU-") and uuid.startswith(name)]
    return loads[alike[0]] if len(alike) == 1 else None


@dataclass(kw_only=True)
class Sharing:
    """Decides for slots that share a GPU whether another job may begin in one.

    `most` is by device how many jobs it has been found to take, `readings` what was measured since
    their number changed last, `seen` how many ran at the last reading and when that was. `is_over`
    has each GPU take one at a time: memory ran out where several shared one.
    """

    read: Callable[[], Mapping[str, Load]] = read_loads
    clock: Callable[[], float] = time.monotonic
    most: dict[str, int] = field(default_factory=dict)
    readings: dict[str, list[Load]] = field(default_factory=dict)
    seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    is_over: bool = False

    def has_room(self, slot: Slot, settled: Sequence[bool]) -> bool:
        """Whether a job may begin beside others; `settled` says which of these make steps."""
        count = len(settled)
        if not slot.is_shared or not count:
            return True
        if self.is_over or not all(settled):
            return False
        load = self._next(slot.device, count)
        if load is None:
            return False
        if count < self.most.get(slot.device, 1):  # measured before
            return load.free > ROOM * load.used / count
        readings = self.readings[slot.device]
        if len(readings) < READINGS:
            return False
        busy = sum(one.busy for one in readings) / len(readings)
        # Where two jobs keep it busy for 30 % of the time, six would fill it. Four readings are
        # believed for twice as many at most.
        by_time = 2 * count if busy <= FULL / 2 else int(count * FULL / busy)
        # By the worst of the readings, because a job that runs out of memory starts over.
        used, free = max(one.used for one in readings), min(one.free for one in readings)
        by_memory = count + int(free / max(ROOM * used / count, 1.0))
        self.most[slot.device] = max(count, min(by_time, by_memory))
        return count < self.most[slot.device]

    def _next(self, device: str, count: int) -> Load | None:
        """A new reading of a device; None where it is too early for one, or there is none."""
        before, read = self.seen.get(device, (0, -READING_SECONDS))
        if self.clock() - read < READING_SECONDS:
            return None
        load = load_of(device, self.read())
        # What could not be read is not read again: asking may take seconds.
        self.seen[device] = count, self.clock() if load else math.inf
        kept = self.readings.get(device, []) if before == count else []
        self.readings[device] = [*kept, load][-READINGS:] if load else []
        return load
