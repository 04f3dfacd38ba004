"""The protocol of a logger: whatever keeps the numbers of runs for people to look at."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.tasks.errors import BenchError, unknown_name

# A job and its result as a tracker is told them: names, plain values, numbers by step.
#
# Nothing of the user is in it: no token, no path and no name of a machine.

Value = str | int | float | bool

SOURCES = ("hub", "mini", "imported")
"""Any other source of data is a folder, whose path is the user's own affair."""


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """A run before it starts. `config` has every setting with its source, and what it is of."""

    key: str
    name: str
    group: str
    config: Mapping[str, Value]

    @classmethod
    def of(cls, job: Job) -> "LoggedRun":
        """What is known of a job."""
        return cls(
            key=job.key,
            name=f"{job.model} {job.task} seed {job.seed}",
            group=f"{job.model} {job.task}",
            config=dict(_config(job)),
        )

    @property
    def folder_name(self) -> str:
        """The name for a file system, with enough of the key to be the only one."""
        plain = re.sub(r"[^\w.-]+", "-", self.name, flags=re.ASCII).strip("-.")
        return f"{plain}-{self.key[:12]}"


def _config(job: Job) -> Iterator[tuple[str, Value]]:
    yield "job", job.key
    yield "model", job.model
    yield "weights", job.weights
    yield "task", job.task
    yield "data", job.data if job.data in SOURCES else "files"
    yield "limit", job.limit if job.limit is not None else "all rows"
    yield "recipe", job.recipe_label
    yield "seed", job.seed
    yield "precision", job.precision
    yield "method", job.method
    for name, setting in job.settings.items():
        yield f"settings/{name}", setting.value
        yield f"sources/{name}", setting.source


def curve_of(result: Result) -> Iterator[tuple[int, dict[str, float]]]:
    """The learning curve: step, and loss, learning rate and dev scores by name."""
    for point in result.curve:
        scores = {f"{result.job.curve_split}/{name}": value for name, value in point.scores.items()}
        values = {"train/loss": point.loss, "train/learning_rate": point.learning_rate, **scores}
        yield point.step, {name: value for name, value in values.items() if math.isfinite(value)}


def facts_of(outcome: Result | Failure) -> dict[str, Value]:
    """What a run ended with: scores of every split, cost and provenance, or why it failed."""
    if isinstance(outcome, Failure):
        return {"status": outcome.kind, "error": outcome.error}
    scores = {
        f"scores/{evaluation.name}/{name}": value
        for evaluation in outcome.evaluations
        for name, value in evaluation.scores.items()
    }
    cost = {f"cost/{name}": value for name, value in vars(outcome.cost).items()}
    provenance = dict(_flat("provenance", outcome.provenance))
    return {"status": "finished", **scores, **cost, **provenance}


def _flat(name: str, value: Any) -> Iterator[tuple[str, Value]]:
    """The leaves of nested tables by their paths; a machine's digest is left out."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key != "host":
                yield from _flat(f"{name}/{key}", inner)
    elif isinstance(value, str | int | float | bool):
        yield name, value


class Logger(Protocol):
    """Keeps the numbers of several runs that go on at once; `key` is that of a run's job.

    All calls come from one thread of its own, in order. Any of them may raise.
    """

    @property
    def place(self) -> str:
        """Where to look: a folder or an address."""

    def begin(self, run: LoggedRun) -> None:
        """A run begins."""

    def log(self, key: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of an optimizer step; steps may come again or go back."""

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:
        """A run has ended, with its last numbers and texts by name."""

    def close(self) -> None:
        """Nothing more comes; runs that have not ended were interrupted."""


Loggers = Mapping[str, Callable[[], Logger]]
"""What makes each logger, by its name."""

LOGGERS: Mapping[str, str] = MappingProxyType(
    {
        "tensorboard": "TensorBoardLogger",
        "wandb": "WandbLogger",
        "mlflow": "MlflowLogger",
        "trackio": "TrackioLogger",
    }
)
"""The class of each, in the module of its name; the package it needs has that name too."""


METHODS = ("begin", "log", "end", "close")


def open_loggers(
    names: Sequence[str], folder: Path, others: Mapping[str, Callable[[Path], Any]] | None = None
) -> Loggers:
    """The loggers of these names; those that write files write below `folder`.

    `others` are classes of plugins by their names, which are none of ours. Raises BenchError for an
    unknown name, for a package that is not installed, and for a class that is no logger.
    """
    others = others or {}
    if taken := sorted(set(others) & set(LOGGERS)):
        raise BenchError(f"a plugin's logger is called {taken[0]!r} like ours: give it another.")
    return {name: _maker(name, folder, others) for name in names}


def _maker(
    name: str, folder: Path, others: Mapping[str, Callable[[Path], Any]]
) -> Callable[[], Logger]:
    if name in others:
        return _made_by(name, folder, others[name])
    if name not in LOGGERS:
        known = (*LOGGERS, *others)
        raise unknown_name("logger", name, known, f"Known: {', '.join(known)}.")
    found = find_spec(name)
    if found is None or found.origin is None:  # a folder of that name, such as W&B leaves
        raise BenchError(
            f"--log {name} needs the package {name}, which is not installed: "
            f"pip install 'benchharness[{name}]'."
        )

    def make() -> Logger:
        module = import_module(f"benchharness.loggers.{name}_logger")
        logger: Logger = getattr(module, LOGGERS[name])(folder)
        return logger

    return make


def _made_by(name: str, folder: Path, plugin: Callable[[Path], Any]) -> Callable[[], Logger]:
    """What makes a plugin's logger; its parts are looked for before the first job."""
    parts = METHODS if isinstance(plugin, type) else ()
    if missing := [part for part in parts if not hasattr(plugin, part)]:
        raise BenchError(
            f"the logger {name!r} of a plugin has no {' and no '.join(missing)}: docs/loggers.md "
            "shows a whole one."
        )

    def make() -> Logger:
        logger: Logger = plugin(folder)
        return logger

    return make
