"""Session, which plans, schedules and runs the jobs of a checked request.

`bench run`, `which` and `check`, the pytest marker, the training callback and the Python API all
create a Session, and each presents the results in its own way.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol, Self

from benchharness.discovery import member, places
from benchharness.driver.drive import Driven, Watch, drive, prepared_workers, unwatched
from benchharness.driver.options import RunOptions
from benchharness.driver.plan import Plan, plan
from benchharness.driver.request import Request, check_request
from benchharness.driver.schedule import Schedule, schedule_missing
from benchharness.driver.start_checkpoints import folder_beside
from benchharness.engines.process import Outcome
from benchharness.errors import BenchError
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.loggers import Listening, Loggers, open_loggers
from benchharness.plugins import plugin_loggers
from benchharness.progress import Watcher
from benchharness.tasks.task import Task


class Search(Protocol):
    """Search that runs some of the jobs of a plan, which an extension creates.

    Attributes:
        outcomes: The outcomes of the jobs that ran.
    """

    outcomes: list[Outcome]

    @property
    def schedule(self) -> Schedule | None:
        """Schedule of the last round; None before the first round."""

    def sentence(self) -> str:
        """Describe the search in one sentence, without a full stop."""

    def run(self, session: "Session") -> None:
        """Run the jobs that the search selects."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A checked request of the user, with methods that plan, schedule and run its jobs.

    Attributes:
        request: The checked request.
        watch: A function that creates the watcher, which shows the progress.
        loggers: Functions that create the loggers, keyed by the name of the logger.
    """

    request: Request
    watch: Watch = unwatched
    loggers: Loggers

    @classmethod
    def of(
        cls,
        options: RunOptions,
        watch: Watch = unwatched,
        fits: Callable[[Task], bool] | None = None,
    ) -> Self:
        """Create a session from the user's options.

        Args:
            options: The user's options.
            watch: A function that creates the watcher, which shows the progress.
            fits: A function that gets a task and returns whether to use it, for the case that
                several suites have a task with the same short name (see `check_request`).

        Raises:
            BenchError: One or several options are wrong.
        """
        if options.halving and options.force:
            raise BenchError(
                "--halving and --force cannot be combined, because each round would repeat all "
                "earlier rounds."
            )
        if options.halving and options.multi_task:
            raise BenchError(
                "--halving and --multi-task cannot be combined, because tasks that are trained "
                "together have no hyperparameter sweep."
            )
        loggers = open_loggers(options.log, folder_beside(options.db), plugin_loggers())
        request = check_request(options, fits)
        return cls(request=request, watch=watch, loggers=loggers)

    @property
    def options(self) -> RunOptions:
        """Options of the run, in which the recipe has set values that the user did not set."""
        return self.request.options

    def prepared(self) -> AbstractContextManager[None]:
        """Return a context manager in which the libraries that the jobs need are preloaded.

        In a dry run, the context manager does nothing.
        """
        if self.options.dry_run:
            return nullcontext()
        return prepared_workers(self.request, self.options)

    def plan(self) -> Plan:
        """Return the plan of the jobs; this reads the data and the checkpoints."""
        return plan(self.request)

    def halving(self, planned: Plan) -> Search | None:
        """Return the search by successive halving over a plan; None without `--halving`."""
        tasks = [task.name for task in self.request.tasks]
        if not self.options.halving:
            return None
        found: Search = member("the search", places("searches")["halving"])(planned, tasks)
        return found

    def schedule(self, planned: Plan) -> Schedule:
        """Return the schedule of the jobs to run, and lock the trained models that they need.

        In a dry run, nothing is locked.
        """
        return schedule_missing(planned, self.request.slots, self.options)

    def preview(self, planned: Plan) -> Schedule:
        """Return the schedule of the jobs to run, without locking any models, for display only."""
        return schedule_missing(planned, self.request.slots, replace(self.options, dry_run=True))

    def drive(self, schedule: Schedule, until: float = math.inf) -> AbstractContextManager[Driven]:
        """Return a context manager that runs the jobs of a schedule and stores their results.

        The context manager yields the outcomes when all jobs have ended. No job starts after the
        time `until`, in seconds of `time.monotonic`.
        """
        return drive(schedule, self.request.placement, self.options, self._watched, until)

    @contextmanager
    def run(self, planned: Plan) -> Iterator[Driven]:
        """Context manager that runs the missing jobs of a plan and stores their results.

        The context manager yields the outcomes when all jobs have ended. With `--halving`, only the
        jobs that the search selects are run.
        """
        search = self.halving(planned)
        if search is None:
            with self.drive(self.schedule(planned)) as driven:
                yield driven
            return
        search.run(self)
        assert search.schedule is not None, "every round of a halving is driven"
        with open_store(self.options.db) as store:
            yield Driven(search.schedule, store, search.outcomes)

    @contextmanager
    def _watched(self, schedule: Schedule, store: Store) -> Iterator[Watcher]:
        with (
            self.watch(schedule, store) as shown,
            Listening(shown, self.loggers) as watcher,
        ):
            yield watcher
