"""Which engine runs the jobs, and where: what `--engine` and the options around it choose."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

from benchharness.engines.cluster import RETRIES, Cluster, ClusterEngine, Resources
from benchharness.engines.fork_server import ForkServer, can_fork
from benchharness.engines.local import LocalEngine
from benchharness.engines.process import Engine, worker_command
from benchharness.engines.slots import Slot, find_gpus, find_slots
from benchharness.kept_folders import Holds, SnapshotFolder
from benchharness.tasks.errors import BenchError, unknown_name

NUMBERS = frozenset({"cpus", "memory", "retries"})
"""The options that every cluster has: cores and gigabytes of a job, and how often it is sent
again after its node was lost."""

SLURM_AT_ONCE = 64
"""How many batch jobs are in the queue at once unless --jobs says otherwise."""

SLURM_MINUTES = 24 * 60
"""A batch job's time limit unless told otherwise, and the longest that many partitions grant."""

SLURM_CPUS = 8
"""The cores of a batch job unless told otherwise."""


class Maker(Protocol):
    """Makes the engine of a placement."""

    def __call__(
        self,
        *,
        timeout: float | None,
        checkpoints: Path,
        keep: Collection[str],
        snapshots: SnapshotFolder | None = None,
        holds: Holds | None = None,
    ) -> Engine:
        """The arguments are those of the local engine."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where jobs will run: the slots, as far as they are known beforehand, and their engine.

    `forks` are there where the jobs are forked on this machine.
    """

    slots: tuple[Slot, ...]
    engine: Maker
    forks: ForkServer | None = None

    @contextmanager
    def prepared(self, modules: Sequence[str]) -> Iterator[None]:
        """Modules that jobs will need are imported meanwhile, where that can be done here."""
        if self.forks is None:
            yield
            return
        self.forks.prepare(self.slots[0].environment, modules)
        with closing(self.forks):
            yield


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """The words of the command line; `jobs` is how many at once, None for the engine's own choice.

    Each job trains in so many `processes`. `small` jobs start up for longer than they compute, and
    `fit` of them can be here at once, by their number and memory. In `folder` is what a run keeps
    beside its database.
    """

    name: str = "local"
    address: str | None = None
    words: tuple[str, ...] = ()
    device: str = "auto"
    jobs: int | None = None
    processes: int = 1
    small: bool = False
    fit: int = 1
    folder: Path = Path()

    @cached_property
    def options(self) -> dict[str, str]:
        """What the words NAME=VALUE say; BenchError where one does not."""
        parsed: dict[str, str] = {}
        for word in self.words:
            name, equals, value = (part.strip() for part in word.partition("="))
            if not (name and equals and value) or name in parsed:
                raise BenchError(
                    f"--engine-option {word!r} is not NAME=VALUE, such as cpus=4, or comes twice."
                )
            parsed[name] = value
        return parsed


def find_placement(choice: EngineChoice) -> Placement:
    """The placement that was chosen; BenchError where it is not there or has no such option."""
    if choice.name not in ENGINES:
        raise unknown_name("engine", choice.name, ENGINES)
    return ENGINES[choice.name](choice)


def _local(choice: EngineChoice) -> Placement:
    if choice.address is not None or choice.options:
        raise BenchError("--address and --engine-option belong to --engine ray and slurm.")
    slots = find_slots(
        choice.device, choice.jobs, fit=choice.fit, processes=choice.processes, small=choice.small
    )
    if choice.processes > 1:
        command = worker_command(choice.processes)
        return Placement(slots=slots, engine=partial(LocalEngine, slots, command=command))
    if not can_fork():
        return Placement(slots=slots, engine=partial(LocalEngine, slots))
    forks = ForkServer()
    return Placement(slots=slots, engine=partial(LocalEngine, slots, forks=forks), forks=forks)


def _ray(choice: EngineChoice) -> Placement:
    from benchharness.engines import ray  # noqa: PLC0415  (of the engines only the chosen one)

    numbers = _read_numbers(choice)
    for name in choice.options:
        if name not in NUMBERS:
            raise unknown_name(f"option of --engine {choice.name}", name, NUMBERS)
    ray.connect(choice.address or "auto")
    sizes = ray.node_sizes()
    gpus = _gpus(choice, there=any(size.gpus for size in sizes))
    shares = [s.cpus * gpus // s.gpus if gpus else s.cpus for s in sizes if s.gpus or not gpus]
    cpus = int(numbers.get("cpus", 1 if choice.small else max(1, min(shares, default=1))))
    fit = ray.jobs_at_once(sizes, gpus, cpus)
    if not fit:
        raise BenchError(
            f"no node of the Ray cluster has {gpus} GPUs and {cpus} cores for a job; its "
            f"{len(sizes)} nodes have {sum(size.gpus for size in sizes)} GPUs and "
            f"{sum(size.cpus for size in sizes)} cores in all."
        )
    resources = _resources(choice, numbers, gpus, cpus)
    return _placement(ray.RayCluster(gpus, cpus, choice.jobs), resources, choice.jobs or fit)


def _slurm(choice: EngineChoice) -> Placement:
    from benchharness.engines import slurm  # noqa: PLC0415  (of the engines only the chosen one)

    numbers, where = _read_numbers(choice), choice.address or "slurm"
    if where not in ("slurm", "local"):
        raise BenchError(
            f"--address {where} is not a queue: leave it out to use this machine's Slurm, or try "
            "things out without Slurm by --address local."
        )
    is_local = where == "local"
    gpus = _gpus(choice, there=bool(find_gpus()) if is_local else True)
    cpus = int(numbers.get("cpus", 1 if choice.small else SLURM_CPUS))
    at_once = choice.jobs or (1 if is_local else SLURM_AT_ONCE)
    folder = Path(choice.options.get("folder", choice.folder / "slurm"))
    minutes = int(numbers.get("minutes", SLURM_MINUTES))
    cluster = slurm.SlurmCluster(folder, where, at_once, minutes, _sbatch(choice))
    return _placement(cluster, _resources(choice, numbers, gpus, cpus), at_once)


def _sbatch(choice: EngineChoice) -> dict[str, str]:
    """What is meant for sbatch itself, by its own names, such as partition and account."""
    return {
        name: value
        for name, value in choice.options.items()
        if name not in NUMBERS | {"minutes", "folder"}
    }


ENGINES: Mapping[str, Callable[[EngineChoice], Placement]] = {
    "local": _local,
    "ray": _ray,
    "slurm": _slurm,
}
"""The engines by the names that `--engine` takes."""


def _placement(cluster: Cluster, resources: Resources, at_once: int) -> Placement:
    slot = Slot(device="cuda" if resources.gpus else "cpu", environment={})
    return Placement(slots=(slot,) * at_once, engine=partial(ClusterEngine, cluster, resources))


def _gpus(choice: EngineChoice, *, there: bool) -> int:
    """How many GPUs a job gets; `there` says whether the cluster has any, as far as is known."""
    if choice.device not in ("auto", "cpu", "cuda"):
        raise BenchError(
            f"--device {choice.device} names a device of this machine: with --engine "
            f"{choice.name} use auto, cpu or cuda."
        )
    is_used = choice.device == "cuda" or (choice.device == "auto" and there)
    return choice.processes if is_used else 0


def _resources(
    choice: EngineChoice, numbers: Mapping[str, float], gpus: int, cpus: int
) -> Resources:
    return Resources(
        gpus=gpus,
        cpus=cpus,
        memory_gb=numbers.get("memory"),
        retries=int(numbers.get("retries", RETRIES)),
        processes=choice.processes,
    )


def _read_numbers(choice: EngineChoice) -> dict[str, float]:
    """The options that are numbers, which all are at least 1 (`retries`: 0)."""
    numbers: dict[str, float] = {}
    for name in NUMBERS | {"minutes"}:
        if name in choice.options:
            text = choice.options[name]
            least = 0 if name == "retries" else 1
            if not text.isdecimal() or int(text) < least:
                raise BenchError(
                    f"--engine-option {name}={text}: expected a whole number from {least} up."
                )
            numbers[name] = int(text)
    return numbers
