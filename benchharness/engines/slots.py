"""Where jobs run at the same time: a GPU each, or a share of the CPU's cores."""

import itertools
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from benchharness.machine import is_instance
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


AT_ONCE = 8
"""How many jobs share a CPU unless told otherwise: with fewer cores each, the longest of a suite
would run alone at the end."""


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
    numbers = [range(i * processes, (i + 1) * processes) for i in range(count)]
    places = [[gpus[n % len(gpus)] for n in own] if gpus else [] for own in numbers]
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

    CUDA_VISIBLE_DEVICES decides where it is set, even to nothing; otherwise `nvidia-smi -L` does.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = re.split(r"\s*,\s*", visible.strip())
        # As CUDA reads it: what is no device hides those behind it.
        return tuple(itertools.takewhile(lambda name: name not in ("", "-1"), names))
    try:
        listing = subprocess.run(
            ("nvidia-smi", "-L"),  # noqa: S607  (where the driver put it)
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    # The devices of `nvidia-smi -L`: a GPU's index, or the UUIDs of its MIG instances.
    devices: list[str] = []
    for gpu in re.split(r"(?m)^(?=GPU \d+:)", listing):
        index = re.match(r"GPU (\d+):", gpu)
        instances = re.findall(r"UUID: (MIG-[^)\s]+)", gpu)
        devices += instances or ([index[1]] if index else [])
    return tuple(devices)


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
