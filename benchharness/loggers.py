"""Loggers, which send data about runs to experiment trackers. Extensions and plugins add loggers.

A logger receives events from the driver, not from the training process, so an error in a tracker
neither changes a result nor stops a job. Each logger has its own thread, and the package of its
tracker is imported in this thread only.
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
from queue import SimpleQueue
from typing import Any, Protocol, Self

from benchharness.discovery import member, places
from benchharness.errors import BenchError, unknown_name, without_passwords
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.sharing import shared_job, shared_outcome
from benchharness.progress import Progress, Watcher

Value = str | int | float | bool


class Logger(Protocol):
    """Interface of a logger, which records several concurrent runs in an experiment tracker.

    The argument `key` of the methods identifies a run; it is the key of the run's job. All methods
    are called in order from the logger's own thread. They may raise any exception, after which the
    logger is not called again.
    """

    @property
    def place(self) -> str:
        """Folder or URL at which the user can find the logged runs."""

    def begin(self, run: "LoggedRun") -> None:
        """Record the start of a run, which `run` describes."""

    def log(self, key: str, step: int, values: Mapping[str, float]) -> None:
        """Record values of a run at a training step.

        Args:
            key: The key of the run.
            step: The number of the optimizer step. A later call for the same run may have the same
                or a smaller number.
            values: The values, such as losses and scores, keyed by name.
        """

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:
        """Record the end of a run.

        Args:
            key: The key of the run.
            facts: The final values of the run, such as scores and cost, keyed by name.
            failed: Whether the run failed.
        """

    def close(self) -> None:
        """Close the logger. Runs that have begun but have not ended were interrupted."""


METHODS = ("begin", "log", "end", "close")

Loggers = Mapping[str, Callable[[], Logger]]
"""Type of mappings from the names of loggers to functions that create the loggers."""


# ---- Building the record of a job and its result, without user data, tokens, paths or host names.

_SOURCES = ("hub", "mini", "imported")
"""Data sources whose names are logged. Any other source is a folder, whose path is private."""


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """Description of a run, which loggers receive when the run starts.

    Attributes:
        key: The key of the job.
        name: The name of the run, which consists of model, task and seed.
        group: A name that all runs of the same model on the same task share.
        config: The properties of the job, keyed by name. A hyperparameter has the key
            "settings/NAME", and the source of its value has the key "sources/NAME".
    """

    key: str
    name: str
    group: str
    config: Mapping[str, Value]

    @classmethod
    def of(cls, job: Job) -> "LoggedRun":
        """Build the description of a run from its job; local paths are removed."""
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
        """Folder name for the run, made of the name of the run and the start of its key."""
        # "tiny glue/rte seed 1" becomes "tiny-glue-rte-seed-1".
        plain = re.sub(r"[^\w.-]+", "-", self.name, flags=re.ASCII).strip("-.")
        return f"{plain}-{self.key[:12]}"


def curve_of(result: Result) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the learning curve of a run as pairs of a step and the values at this step.

    The values are keyed by name: the loss, the learning rate and, at steps with an evaluation, the
    scores. Values that are not finite are left out.
    """
    for point in result.curve:
        scores = {f"{result.job.curve_split}/{name}": value for name, value in point.scores.items()}
        values = {"train/loss": point.loss, "train/learning_rate": point.learning_rate, **scores}
        yield point.step, {name: value for name, value in values.items() if math.isfinite(value)}


def facts_of(outcome: Result | Failure) -> dict[str, Value]:
    """Return the final values of a run for loggers, keyed by name.

    For a finished run, they are the scores, warnings, cost and provenance, with paths such as
    "cost/seconds" as names, and the status "finished". For a failed run, they are the kind of
    failure ("status") and the message ("error").
    """
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
    """Yield the values in nested mappings with their paths, such as "cost/seconds".

    The value "host", which identifies the machine, is left out.
    """
    for name, value in nested.items():
        if isinstance(value, Mapping) and name != "host":
            yield from _flat(f"{prefix}{name}/", value)
        elif isinstance(value, Value) and name != "host":
            yield f"{prefix}{name}", value


# ---- Passing events of a run to the loggers.

SECONDS_BETWEEN_LOSSES = 1.0
"""Smallest number of seconds between two losses that are logged while a job trains. When the job
has ended, its complete learning curve is logged."""

LAST_SECONDS, INTERRUPTED_SECONDS = 30.0, 3.0
"""Largest number of seconds to wait until a logger has sent its last data. LAST_SECONDS applies at
the normal end of a run, and INTERRUPTED_SECONDS after an interruption."""

Call = Callable[[Logger], None]


class Listening(Watcher):
    """Watcher of a run that passes all events to another watcher.

    It also passes the start, the losses and the outcome of each job to loggers. The object is a
    context manager. If a logger raises an exception, the logger is not called again, and the other
    watcher gets a message. Output that trackers print is redirected to stderr, because stdout is
    reserved for the output of the command.

    Args:
        watcher: The other watcher.
        makers: Functions that create the loggers, keyed by the name of the logger.
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
        """Pass the progress of a running job to the other watcher, and its loss to the loggers.

        Loggers get at most one loss per second and job, and nothing while the job waits.
        """
        self._watcher.report(job, progress)
        # While a job waits, another process may be running and logging it.
        if not self._threads or progress.phase == "waiting":
            return
        self._begin(job)
        loss, now = progress.loss, time.monotonic()
        if loss is not None and now - self._begun[job.key] >= SECONDS_BETWEEN_LOSSES:
            self._begun[job.key] = now
            values = {"live/loss": loss, "live/examples_per_second": progress.examples_per_second}
            self._tell(lambda logger: logger.log(job.key, progress.step, values))

    def finish(self, outcome: Result | Failure) -> None:
        """Pass the outcome of a job to the other watcher and to the loggers."""
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
        """Inform the other watcher that a job is skipped."""
        self._watcher.leave_out(job)

    def say(self, line: str) -> None:
        """Pass a line about the run to the other watcher."""
        self._watcher.say(line)

    def _begin(self, job: Job) -> None:
        if job.key not in self._begun:
            # This is the time of the last logged loss. With 0, the first loss is logged at once.
            self._begun[job.key] = 0.0
            run = LoggedRun.of(job)
            self._tell(lambda logger: logger.begin(run))

    def _tell(self, call: Call | None) -> None:
        for thread in self._threads:
            thread.calls.put(call)


class _LoggerThread(threading.Thread):
    """Thread that creates a logger, makes the calls in the queue `calls`, and closes the logger.

    None in the queue ends the thread.
    """

    def __init__(self, name: str, make: Callable[[], Logger], warn: Callable[[str], None]) -> None:
        # The thread is a daemon, so that the process can end even if a logger hangs.
        super().__init__(name=f"--log {name}", daemon=True)
        self._make = make
        self._warn = warn
        self.calls: SimpleQueue[Call | None] = SimpleQueue()

    def finish(self, seconds: float) -> None:
        """Wait at most `seconds` seconds for the end of the thread; warn if it has not ended."""
        self.join(seconds)
        if self.is_alive():
            self._warn(
                f"{self.name} was not done {seconds:g} seconds after the last job, so the end of "
                "the log may be missing. The results are stored."
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
                f"{self.name} failed and will log nothing more ({type(error).__name__}: {reason}). "
                "The run continues."
            )


# ---- Finding the loggers that the user names.


def open_loggers(
    names: Sequence[str], folder: Path, others: Mapping[str, Callable[[Path], Any]] | None = None
) -> Loggers:
    """Return functions that create the named loggers, keyed by name.

    Args:
        names: The names of the loggers, as given with `--log`.
        folder: The folder into which loggers write their files.
        others: The logger classes of plugins, keyed by name.

    Raises:
        BenchError: A name is unknown, a plugin uses the name of another logger, a package is not
            installed, or a class lacks a method of Logger.
    """
    others, ours = others or {}, places("loggers")
    if taken := sorted(set(others) & set(ours)):
        raise BenchError(
            f"a plugin's logger is called {taken[0]!r}, like a logger of benchharness. Rename the "
            "logger of the plugin."
        )
    known = dict(others)
    for name in names:
        if name in ours:
            known[name] = member(f"the logger {name}", ours[name])
        if name not in known:
            every = (*ours, *others)
            raise unknown_name("logger", name, every, f"Known: {', '.join(every)}.")
        if name in others:
            parts = METHODS if isinstance(others[name], type) else ()
            if missing := [part for part in parts if not hasattr(others[name], part)]:
                raise BenchError(
                    f"the logger {name!r} of a plugin has no {' and no '.join(missing)} method. "
                    "docs/loggers.md shows a complete logger."
                )
        # W&B may create a folder that has the name of its package. For such a folder, find_spec
        # returns a spec without an origin, even if the package is not installed.
        elif (found := find_spec(name)) is None or found.origin is None:
            raise BenchError(
                f"--log {name} needs the package {name}, which is not installed. Use: "
                f"pip install 'benchharness[{name}]'."
            )
    return {name: partial(known[name], folder) for name in names}
