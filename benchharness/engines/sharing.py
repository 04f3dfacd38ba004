"""How many jobs a GPU takes at once: as many as fill it, by what it is measured at.

Processes take turns on a GPU, so the share of time in which any of them computes says how full it
is. One job begins alone. When all on a GPU have come to their steps, it is measured for a while;
then as many more begin as its time and its free memory suffice for, at most as many as run there.
"""

import csv
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchharness.engines.slots import Slot

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
    command = ("nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits")
    try:
        listed = subprocess.run(  # noqa: S603  (our own arguments, no shell)
            command, capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    found = {}
    for row in csv.reader(listed.splitlines(), skipinitialspace=True):
        try:
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
        by_time = 2 * count if busy <= FULL / 2 else int(count * FULL / busy)
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
        self.seen[device] = count, self.clock()
        kept = self.readings.get(device, []) if before == count else []
        self.readings[device] = [*kept, load][-READINGS:] if load else []
        return load
