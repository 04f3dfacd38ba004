"""Energy counters of processors (RAPL, read from Linux's powercap files) and of NVIDIA GPUs (NVML).

Both count the energy of the whole device, so they include other processes. Most machines allow only
root to read the counters of the processor; many virtual machines have none.

Sources: https://docs.kernel.org/power/powercap/powercap.html, and the function
nvmlDeviceGetTotalEnergyConsumption in NVIDIA's NVML reference.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

__all__ = ["EnergyMeter", "gpu_counter", "processor_counters"]

POWERCAP = Path("/sys/class/powercap")
"""Folder with one folder per RAPL domain, such as `intel-rapl:0` (also on AMD's processors)."""


@dataclass(kw_only=True)
class EnergyCounter:
    """Counter of consumed energy that may start again from 0.

    Attributes:
        name: Name of the device, such as "package-0".
        read: Function that returns the present value in joules.
        limit: Value in joules after which the counter starts again from 0; 0 if it never does.
    """

    name: str
    read: Callable[[], float]
    limit: float = 0.0


@dataclass(kw_only=True)
class EnergyMeter:
    """Total of energy counters that never starts again from 0.

    It must be read more often than any counter starts again: RAPL's counters do so after several
    minutes at full load.
    """

    counters: Sequence[EnergyCounter]
    _last: list[float] = field(default_factory=list)
    _total: float = 0.0

    def joules(self) -> float:
        """Return the joules that were consumed since the first call; 0 without counters.

        Raises:
            OSError: If a counter can no longer be read.
            ValueError: If the file of a counter has no number.
        """
        values = [counter.read() for counter in self.counters]
        for counter, before, value in zip(self.counters, self._last, values, strict=False):
            self._total += value - before + (counter.limit if value < before else 0.0)
        self._last = values
        return self._total


def processor_counters(folder: Path = POWERCAP) -> list[EnergyCounter]:
    """Return the readable counters of all processor packages and of their memory.

    The domain of the whole platform (psys) is left out, because it includes the packages.

    Args:
        folder: Folder with the RAPL domains.
    """
    return [*_domains(folder)]


def _domains(folder: Path) -> Iterator[EnergyCounter]:
    for domain in sorted(folder.glob("intel-rapl:*")):
        # A domain that cannot be read (without root's rights) or is incomplete is left out.
        with suppress(OSError, ValueError):
            name = (domain / "name").read_text(encoding="ascii").strip()
            if name.startswith("package") or name == "dram":
                counter = EnergyCounter(
                    name=name,
                    read=partial(_joules_in, domain / "energy_uj"),
                    limit=_joules_in(domain / "max_energy_range_uj"),
                )
                counter.read()
                yield counter


def _joules_in(file: Path) -> float:
    """Return the number of microjoules in a file, in joules."""
    return int(file.read_bytes()) / 1e6


def gpu_counter(device: torch.device) -> EnergyCounter | None:
    """Return the energy counter of a CUDA device; None if it has none.

    The counter needs the package nvidia-ml-py, and a GPU from 2017 (Volta) or later.
    """
    try:
        import pynvml  # noqa: PLC0415  (optional)
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        uuid = torch.cuda.get_device_properties(device).uuid
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        counter = EnergyCounter(
            name=str(uuid),
            read=lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3,
        )
        counter.read()
    except (pynvml.NVMLError, RuntimeError):  # no driver, or a device without this counter
        return None
    return counter
