"""A run that was asked for, from its options to what its jobs leave: all of it happens here.

`bench run`, `which` and `check`, pytest's marker, the callback and Python code make a Session, and
each shows in its own way what comes of it.
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
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.loggers import Listening, Loggers, open_loggers
from benchharness.plugins import plugin_loggers
from benchharness.progress import Watcher
from benchharness.tasks.errors import BenchError
from benchharness.tasks.task import Task

if TYPE_CHECKING:
    from benchharness.driver.search import Search


@dataclass(frozen=True, kw_only=True)
class Session:
    """What a run was asked for, and who watches it."""

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
        """Checks the options; BenchError says all that is wrong. `fits` is as in check_request."""
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
        """The options, with what the recipe says where they are silent."""
        return self.request.options

    def prepared(self) -> AbstractContextManager[None]:
        """While it lasts, workers import what they need; for what follows, if it is to run."""
        if self.options.dry_run:
            return nullcontext()
        return prepared_workers(self.request, self.options)

    def plan(self) -> Plan:
        """The jobs; reads the data and the checkpoints, which takes a moment."""
        return plan(self.request)

    def halving(self, planned: Plan) -> "Search | None":
        """The search of a plan's sweeps, where that was asked for."""
        tasks = [task.name for task in self.request.tasks]
        if not self.options.halving:
            return None
        found: Search = resolve_name("benchharness.driver.search:halving")(planned, tasks)
        return found

    def schedule(self, planned: Plan) -> Schedule:
        """What of the plan is missing, in its order; what it starts from is held from now on."""
        return schedule_missing(planned, self.request.slots, self.options)

    def preview(self, planned: Plan) -> Schedule:
        """The same where nothing of it is driven."""
        return schedule_missing(planned, self.request.slots, replace(self.options, dry_run=True))

    def drive(self, schedule: Schedule, until: float = math.inf) -> AbstractContextManager[Driven]:
        """Runs and stores a schedule; `until` is as `drive` has it."""
        return drive(schedule, self.request.placement, self.options, self._watched, until)

    @contextmanager
    def run(self, planned: Plan) -> Iterator[Driven]:
        """Runs and stores what of the plan is missing, of a sweep to halve what may be best."""
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
