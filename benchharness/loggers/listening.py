"""Loggers that listen to a run: each in a thread of its own, so that none can hold it up."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.loggers.logger import LoggedRun, Logger, Loggers, curve_of, facts_of
from benchharness.progress import Progress, Watcher
from benchharness.tasks.errors import without_passwords

SECONDS_BETWEEN_LOSSES = 1.0
"""Of one job, while it trains; its whole learning curve follows at its end."""

LAST_SECONDS = 30.0
"""How long the end of a run waits for a logger, which may be sending over a network."""

INTERRUPTED_SECONDS = 3.0

Call = Callable[[Logger], None]


class Listening:
    """Tells a watcher and any loggers how the jobs go; a context manager.

    `makers` make the loggers, by name. A logger that raises gets nothing more; `warn` takes a
    sentence that says so. What trackers print goes to stderr meanwhile, because stdout is the
    command's own.
    """

    def __init__(
        self,
        watcher: Watcher,
        makers: Loggers,
        warn: Callable[[str], None],
    ) -> None:
        self._watcher = watcher
        self._threads = [_LoggerThread(name, make, warn) for name, make in makers.items()]
        self._begun: dict[str, float] = {}
        self._stdout = ExitStack()

    def __enter__(self) -> Self:
        if self._threads:
            self._stdout.enter_context(redirect_stdout(sys.stderr))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = LAST_SECONDS if kind is None else INTERRUPTED_SECONDS
        with self._stdout:
            for thread in self._threads:
                thread.put(None)
            for thread in self._threads:
                thread.finish(seconds)

    def report(self, job: Job, progress: Progress) -> None:
        """Takes what a running job says of itself."""
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
        """Takes what a job has left behind."""
        self._watcher.finish(outcome)
        if self._threads:
            self._begin(outcome.job)
            del self._begun[outcome.job.key]
            self._tell(lambda logger: _end(logger, outcome))

    def leave_out(self, job: Job) -> None:
        """Takes that a job need not run any more."""
        self._watcher.leave_out(job)

    def _begin(self, job: Job) -> None:
        if job.key not in self._begun:
            self._begun[job.key] = 0.0
            run = LoggedRun.of(job)
            self._tell(lambda logger: logger.begin(run))

    def _tell(self, call: Call) -> None:
        for thread in self._threads:
            thread.put(call)


def _end(logger: Logger, outcome: Result | Failure) -> None:
    key = outcome.job.key
    if isinstance(outcome, Result):
        for step, values in curve_of(outcome):
            logger.log(key, step, values)
    logger.end(key, facts_of(outcome), failed=isinstance(outcome, Failure))


class _LoggerThread:
    """A logger that is made, used and closed by one thread."""

    def __init__(self, name: str, make: Callable[[], Logger], warn: Callable[[str], None]) -> None:
        self._name = name
        self._make = make
        self._warn = warn
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        # A daemon, so that a logger that hangs keeps no process from ending.
        self._thread = threading.Thread(target=self._work, name=f"log {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, call: Call | None) -> None:
        """Does this next; None closes the logger."""
        self._calls.put(call)

    def finish(self, seconds: float) -> None:
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._warn(
                f"--log {self._name} was not done {seconds:g} seconds after the last job, and may "
                "miss the end; the results are stored."
            )

    def _work(self) -> None:
        try:
            logger = self._make()
            while (call := self._calls.get()) is not None:
                call(logger)
            logger.close()
            place = logger.place
        except Exception as error:  # noqa: BLE001  (whatever a tracker raises, the run continues)
            reason = without_passwords(" ".join(str(error).split()))[:300]
            self._warn(
                f"--log {self._name} has failed and gets nothing more "
                f"({type(error).__name__}: {reason}); the run continues."
            )
            return
        self._warn(f"--log {self._name}: {place}")
