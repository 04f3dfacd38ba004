"""Session of a run: a checked request with the methods to plan, schedule and drive it.

`bench run`, `which` and `check`, pytest's marker, the callback and the Python API each create a
Session and present its results in their own way.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Self

from benchharness.driver.drive import Driven, Watch, drive, prepared_workers, unwatched
from benchharness.driver.options import RunOptions
from benchharness.driver.plan import Plan, plan
from benchharness.driver.request import Request, check_request
from benchharness.driver.schedule import Schedule, schedule_missing
from benchharness.driver.start_checkpoints import folder_beside
from benchharness.errors import BenchError
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.loggers import Listening, Loggers, open_loggers
from benchharness.plugins import plugin_loggers
from benchharness.progress import Watcher
from benchharness.tasks.task import Task

if TYPE_CHECKING:
    from benchharness.driver.search import Search


@dataclass(frozen=True, kw_only=True)
class Session:
    """Checked request of a run, with the watcher and the loggers of its jobs."""

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
        """Create a session from options.

        Args:
            options: The user's options.
            watch: Creates the watcher that shows the jobs' progress.
            fits: Predicate that chooses among tasks with the same short name, as in
                `check_request`.

        Raises:
            BenchError: One or several options are wrong.
        """
        if options.halving and options.force:
            raise BenchError(
                "--halving and --force exclude each other: a round would run all before it."
            )
        if options.halving and options.multi_task:
            raise BenchError(
                "--halving and --multi-task exclude each other: tasks together have one value of "
                "each setting."
            )
        loggers = open_loggers(options.log, folder_beside(options.db), plugin_loggers())
        request = check_request(options, fits)
        return cls(request=request, watch=watch, loggers=loggers)

    @property
    def options(self) -> RunOptions:
        """Options of the run, completed by the recipe's values."""
        return self.request.options

    def prepared(self) -> AbstractContextManager[None]:
        """Return a context in which workers preload the libraries that the jobs need.

        For a dry run the context does nothing.
        """
        if self.options.dry_run:
            return nullcontext()
        return prepared_workers(self.request, self.options)

    def plan(self) -> Plan:
        """Plan the jobs; reads the data and the checkpoints, which takes a moment."""
        return plan(self.request)

    def halving(self, planned: Plan) -> "Search | None":
        """Return the search over a plan's sweeps, or None without `--halving`."""
        tasks = [task.name for task in self.request.tasks]
        if not self.options.halving:
            return None
        found: Search = resolve_name("benchharness.driver.search:halving")(planned, tasks)
        return found

    def schedule(self, planned: Plan) -> Schedule:
        """Return the schedule of the missing jobs, and lock the networks that they start from."""
        return schedule_missing(planned, self.request.slots, self.options)

    def preview(self, planned: Plan) -> Schedule:
        """Return the schedule of the missing jobs without locking anything, as for a dry run."""
        return schedule_missing(planned, self.request.slots, replace(self.options, dry_run=True))

    def drive(self, schedule: Schedule, until: float = math.inf) -> AbstractContextManager[Driven]:
        """Run a schedule and store its results; no job starts after monotonic time `until`."""
        return drive(schedule, self.request.placement, self.options, self._watched, until)

    @contextmanager
    def run(self, planned: Plan) -> Iterator[Driven]:
        """Run and store the plan's missing jobs; with `--halving` only those that it selects."""
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
