"""Engines that train nothing and change results as networks and schedulers do."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import nullcontext

from benchharness.driver.drive import drive
from benchharness.driver.options import RunOptions
from benchharness.driver.plan import Plan
from benchharness.driver.schedule import schedule
from benchharness.driver.start_checkpoints import StartCheckpoints
from benchharness.engines.local import Placement
from benchharness.engines.process import Outcome
from benchharness.engines.slots import Slot
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.leaderboard.store.store import Store
from benchharness.progress import Progress
from tests.helpers.results import make_job, make_result

CPU = (Slot(device="cpu", environment={}),)

Finish = Callable[[list[Job]], Iterator[Outcome]]


class Told:
    """Listener that records ended and skipped jobs by seed, and notes of jobs."""

    def __init__(self) -> None:
        self.finished: list[int] = []
        self.left_out: list[int] = []
        self.notes: list[str] = []

    def report(self, job: Job, progress: Progress) -> None:
        if progress.note:
            self.notes.append(f"{job.seed} {progress.note}")

    def finish(self, outcome: Outcome) -> None:
        self.finished.append(outcome.job.seed)

    def leave_out(self, job: Job) -> None:
        self.left_out.append(job.seed)

    def say(self, line: str) -> None:
        self.notes.append(line)


class MadeEngine:
    """Engine that takes all jobs and yields `finish(jobs)`, or else one result per job."""

    def __init__(self, finish: Finish | None = None) -> None:
        self._finish = finish

    def run(self, jobs: Iterable[Job | None], report: object) -> Generator[Outcome]:
        if self._finish is not None:
            yield from self._finish([job for job in jobs if job is not None])
            return
        for job in jobs:
            if job is not None:
                yield make_result(job)


def jobs_of(count: int) -> list[Job]:
    return [make_job(seed=seed) for seed in range(count)]


def driven(
    store: Store,
    engine: MadeEngine,
    jobs: list[Job],
    *,
    force: bool = False,
    told: Told | None = None,
) -> tuple[list[Result | Failure], Told]:
    """Return what `bench run` would store of these jobs, and the listener."""
    told = told or Told()
    placement = Placement(slots=CPU, engine=lambda _: engine)
    checkpoints = StartCheckpoints.of(jobs, store.name, keep=False)
    planned = Plan(jobs=tuple(jobs), rows={})
    with drive(
        schedule(planned, CPU, checkpoints),
        placement,
        RunOptions(db=store.name, checkpoint_every=0, force=force),
        lambda *_: nullcontext(told),
    ) as ended:
        return list(ended.outcomes), told
