"""Loggers that send runs to trackers, which extensions and plugins add.

They listen to the driver and never to the training: whatever a tracker does, or fails to do, no
result changes and no job stops. Each has a thread of its own, and only that thread imports its
package.
"""

import math
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from queue import SimpleQueue
from typing import Any, Protocol, Self

from benchharness.discovery import places
from benchharness.errors import BenchError, unknown_name, without_passwords
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.sharing import shared_job, shared_outcome
from benchharness.progress import Progress, Watcher

Value = str | int | float | bool


class Logger(Protocol):
    """Records the numbers of several concurrent runs; `key` is the key of a run's job.

    All calls come from one thread of the logger's own, in order. Any of them may raise.
    """

    @property
    def place(self) -> str:
        """Folder or address where the user finds the logged runs."""

    def begin(self, run: "LoggedRun") -> None:
        """Record the start of a run."""

    def log(self, key: str, step: int, values: Mapping[str, float]) -> None:
        """Record numbers of an optimizer step; steps may repeat or decrease."""

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:
        """Record the end of a run, with its last numbers and texts by name."""

    def close(self) -> None:
        """Finish: no calls follow, and runs that have not ended were interrupted."""


METHODS = ("begin", "log", "end", "close")

Loggers = Mapping[str, Callable[[], Logger]]
"""Factories of loggers, by name."""


# ---- The record of a job and its result, without user data, tokens, paths or machine names.

_SOURCES = ("hub", "mini", "imported")
"""Data sources that are logged; any other source is a folder, whose path is private."""


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """A run before it starts; `config` has its job's identity and every setting with its source."""

    key: str
    name: str
    group: str
    config: Mapping[str, Value]

    @classmethod
    def of(cls, job: Job) -> "LoggedRun":
        """Build the log record of a job."""
        job = shared_job(job)
        config: dict[str, Value] = {
            "job": job.key,
            "model": job.model,
            "weights": job.weights,
            "task": job.task,
            "data": job.data if job.data in _SOURCES else "files",
            "limit": job.limit if job.limit is not None else "all rows",
            "recipe": job.recipe_label,
            "seed": job.seed,
            "precision": job.precision,
            "method": job.method,
        }
        for name, setting in job.settings.items():
            config |= {f"settings/{name}": setting.value, f"sources/{name}": setting.source}
        group = f"{job.model} {job.task}"
        return cls(key=job.key, name=f"{group} seed {job.seed}", group=group, config=config)

    @property
    def folder_name(self) -> str:
        """Name of the run for a file system, made unique by a part of the key."""
        # "tiny glue/rte seed 1" becomes "tiny-glue-rte-seed-1".
        plain = re.sub(r"[^\w.-]+", "-", self.name, flags=re.ASCII).strip("-.")
        return f"{plain}-{self.key[:12]}"


def curve_of(result: Result) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the learning curve: the step, and loss, learning rate and dev scores by name."""
    for point in result.curve:
        scores = {f"{result.job.curve_split}/{name}": value for name, value in point.scores.items()}
        values = {"train/loss": point.loss, "train/learning_rate": point.learning_rate, **scores}
        yield point.step, {name: value for name, value in values.items() if math.isfinite(value)}


def facts_of(outcome: Result | Failure) -> dict[str, Value]:
    """Return a run's outcome: scores, flags, cost and provenance, or the reason of its failure."""
    outcome = shared_outcome(outcome)
    if isinstance(outcome, Failure):
        return {"status": outcome.kind, "error": outcome.error}
    scores = {each.name: dict(each.scores) for each in outcome.evaluations}
    nested = {
        "scores": scores,
        "flags": {task: "; ".join(flags) for task, flags in outcome.flags.items()},
        "cost": vars(outcome.cost),
        "provenance": outcome.provenance,
    }
    return {"status": "finished", **dict(_flat("", nested))}


def _flat(prefix: str, nested: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Yield the leaves of nested mappings with their paths; the machine's digest is left out."""
    for name, value in nested.items():
        if isinstance(value, Mapping) and name != "host":
            yield from _flat(f"{prefix}{name}/", value)
        elif isinstance(value, Value) and name != "host":
            yield f"{prefix}{name}", value


# ---- Listening.

SECONDS_BETWEEN_LOSSES = 1.0
"""Shortest interval of a job's logged losses while it trains; the whole curve follows at its
end."""

LAST_SECONDS, INTERRUPTED_SECONDS = 30.0, 3.0
"""Time that the end of a run waits for a logger, which may be sending over a network."""

Call = Callable[[Logger], None]


class Listening(Watcher):
    """Watcher that passes the progress of jobs on to another watcher and to loggers.

    It is a context manager. `makers` maps names to factories of loggers. A logger that raises gets
    no more calls, and the watcher gets a message. Trackers' prints are redirected to stderr,
    because stdout is reserved for the command.
    """

    def __init__(self, watcher: Watcher, makers: Loggers) -> None:
        self._watcher = watcher
        self._threads = [_LoggerThread(name, make, watcher.say) for name, make in makers.items()]
        self._begun: dict[str, float] = {}
        self._stdout = redirect_stdout(sys.stderr)

    def __enter__(self) -> Self:
        if self._threads:
            self._stdout.__enter__()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        seconds = LAST_SECONDS if kind is None else INTERRUPTED_SECONDS
        try:
            self._tell(None)
            for thread in self._threads:
                thread.finish(seconds)
        finally:
            if self._threads:
                self._stdout.__exit__(None, None, None)

    def report(self, job: Job, progress: Progress) -> None:
        """Receive the progress of a running job."""
        self._watcher.report(job, progress)
        if not self._threads or progress.phase == "waiting":  # another process may run it
            return
        self._begin(job)
        loss, now = progress.loss, time.monotonic()
        if loss is not None and now - self._begun[job.key] >= SECONDS_BETWEEN_LOSSES:
            self._begun[job.key] = now
            values = {"live/loss": loss, "live/examples_per_second": progress.examples_per_second}
            self._tell(lambda logger: logger.log(job.key, progress.step, values))

    def finish(self, outcome: Result | Failure) -> None:
        """Receive the outcome of a job."""
        self._watcher.finish(outcome)
        if not self._threads:
            return
        key, failed = outcome.job.key, isinstance(outcome, Failure)
        self._begin(outcome.job)
        del self._begun[key]

        def end(logger: Logger) -> None:
            for step, values in () if isinstance(outcome, Failure) else curve_of(outcome):
                logger.log(key, step, values)
            logger.end(key, facts_of(outcome), failed=failed)

        self._tell(end)

    def leave_out(self, job: Job) -> None:
        """Receive a job that does not need to run any more."""
        self._watcher.leave_out(job)

    def say(self, line: str) -> None:
        """Show a line about the run."""
        self._watcher.say(line)

    def _begin(self, job: Job) -> None:
        if job.key not in self._begun:
            # The time of its last logged loss: long ago, so that its first loss is logged at once.
            self._begun[job.key] = 0.0
            run = LoggedRun.of(job)
            self._tell(lambda logger: logger.begin(run))

    def _tell(self, call: Call | None) -> None:
        for thread in self._threads:
            thread.calls.put(call)


class _LoggerThread(threading.Thread):
    """Thread that creates, calls and closes a logger; None in `calls` ends it."""

    def __init__(self, name: str, make: Callable[[], Logger], warn: Callable[[str], None]) -> None:
        # A daemon, so that a logger that hangs keeps no process from ending.
        super().__init__(name=f"--log {name}", daemon=True)
        self._make = make
        self._warn = warn
        self.calls: SimpleQueue[Call | None] = SimpleQueue()

    def finish(self, seconds: float) -> None:
        """Wait for the thread's end, at most `seconds`."""
        self.join(seconds)
        if self.is_alive():
            self._warn(
                f"{self.name} was not done {seconds:g} seconds after the last job, and may miss "
                "the end; the results are stored."
            )

    def run(self) -> None:
        """Create the logger, make its calls, and close it."""
        try:
            logger = self._make()
            while (call := self.calls.get()) is not None:
                call(logger)
            logger.close()
            self._warn(f"{self.name}: {logger.place}")
        except Exception as error:  # noqa: BLE001  (whatever a tracker raises, the run continues)
            reason = without_passwords(" ".join(str(error).split()))[:300]
            self._warn(
                f"{self.name} has failed and gets nothing more ({type(error).__name__}: {reason}); "
                "the run continues."
            )


# ---- The loggers that a run names.


def open_loggers(
    names: Sequence[str], folder: Path, others: Mapping[str, Callable[[Path], Any]] | None = None
) -> Loggers:
    """Return the factories of the named loggers; files are written below `folder`.

    Args:
        names: The names.
        folder: The folder for files.
        others: Logger classes of plugins by name.

    Raises:
        BenchError: A name is unknown or taken, a package is not installed, or a class is no Logger.
    """
    others, ours = others or {}, places("loggers")
    if taken := sorted(set(others) & set(ours)):
        raise BenchError(
            f"a plugin's logger has the name {taken[0]!r} of a packaged one: give it another."
        )
    known = dict(others)
    for name in names:
        if name in ours:
            known[name] = resolve_name(ours[name])
        if name not in known:
            every = (*ours, *others)
            raise unknown_name("logger", name, every, f"Known: {', '.join(every)}.")
        if name in others:
            parts = METHODS if isinstance(others[name], type) else ()
            if missing := [part for part in parts if not hasattr(others[name], part)]:
                raise BenchError(
                    f"the logger {name!r} of a plugin has no {' and no '.join(missing)}: "
                    "docs/loggers.md shows a whole one."
                )
        elif (found := find_spec(name)) is None or found.origin is None:  # W&B leaves a folder
            raise BenchError(
                f"--log {name} needs the package {name}, which is not installed: "
                f"pip install 'benchharness[{name}]'."
            )
    return {name: partial(known[name], folder) for name in names}
