"""Which engine runs the jobs, and where: what `--engine` and the options around it choose."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Protocol

from benchharness.engines.fork_server import ForkServer, can_fork
from benchharness.engines.local import LocalEngine
from benchharness.engines.process import Engine, worker_command
from benchharness.engines.slots import Slot, find_slots
from benchharness.kept_folders import Holds, SnapshotFolder
from benchharness.tasks.errors import BenchError, unknown_name

ENGINES = ("local", "ray", "slurm")
"""The engines; one that is not local is the module of its name, whose `place` makes a placement."""


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
    if choice.name == "local":
        return _local(choice)
    found: Placement = import_module(f"benchharness.engines.{choice.name}").place(choice)
    return found


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
