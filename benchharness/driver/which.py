"""Which encoder is the best on some tasks: successive halving over encoders, points and seeds.

`next_step` decides, by nothing but what has ended so far, what to run next; `search` runs it within
a number of minutes. Its jobs are those of the whole grid, so what one command has trained another
one needs not train again, and the same command resumes where it stopped.

Halving as in `halving.py`: every encoder first, then the better half with twice the seeds, of fewer
points each. What cannot win any more (`CONTENDERS` standard errors below the best) goes no further.
Minutes that are left then go to twice as many encoders, and so on: with enough of them all is run
that may still be the best.
"""

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from benchharness.driver.drive import Driven
from benchharness.driver.halving import rungs, sweeps
from benchharness.driver.options import RunOptions
from benchharness.driver.plan import Plan
from benchharness.driver.request import MULTI_TASK, Request
from benchharness.driver.schedule import Schedule
from benchharness.driver.session import Session
from benchharness.engines.inference import Inference, measure_inference
from benchharness.engines.process import Outcome
from benchharness.leaderboard.boards.cell import build_cell
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.statistics import CONTENDERS, median_deviation, pooled_deviation
from benchharness.leaderboard.store.database import check_writable, is_there
from benchharness.leaderboard.store.store import open_store
from benchharness.models import BASELINES
from benchharness.progress import duration
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import find_suite
from benchharness.tasks.task import Task

# The decision: what has ended -> what to run next. Numbers in, numbers out.


class Trial(NamedTuple):
    """One run of an encoder on a task; `point` and `seed` are places, from 0."""

    task: str
    encoder: str
    point: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All that can be tried: so many points of each encoder's recipe and so many seeds, by task."""

    tasks: tuple[str, ...]
    encoders: tuple[str, ...]
    points: Mapping[tuple[str, str], int]
    seeds: int

    def __len__(self) -> int:
        return self.seeds * sum(self.points.values())


Ended = Mapping[Trial, float | None]
"""The scores of the trials that have ended; None of those that failed."""


class Step(NamedTuple):
    """What to run next, what matters most first, and what it is, in words."""

    trials: tuple[Trial, ...]
    words: str


def next_step(grid: Grid, ended: Ended) -> Step | None:
    """The trials that come next; None where nothing is left that may change the answer.

    It depends on the trials of the steps before alone, not on what else has ended: a search that
    was stopped within a step goes on with what that step lacks.
    """
    known: dict[Trial, float | None] = {}
    for trials, words in _steps(grid, known):
        missing = tuple(trial for trial in trials if trial not in ended)
        if missing:
            return Step(missing, words)
        known |= {trial: ended[trial] for trial in trials}
    return None


def _steps(grid: Grid, known: Ended) -> Iterator[tuple[list[Trial], str]]:
    """The steps from the first one on, each by what is `known` of those before it when asked for.

    On each task the best of that task go on, and the best by the mean of all tasks.
    """
    pairs = [(task, encoder) for encoder in grid.encoders for task in grid.tasks]
    every, most = f"{len(grid.encoders)} encoders", max(grid.points.values())
    yield [Trial(*pair, 0, 0) for pair in pairs], f"{every}, one seed"
    others = [(*pair, n) for n in range(1, most) for pair in pairs if n < grid.points[pair]]
    yield [Trial(*other, 0) for other in others], f"{every}, one seed at each of {most} points"
    width = 1
    while width < 2 * max(most, len(grid.encoders)):
        points = most
        for rung in rungs(len(grid.encoders), grid.seeds)[1:]:
            points = math.ceil(points / 2)
            scores = _Scores(grid, known)
            kept = scores.contenders(width * rung.points)
            trials = [
                Trial(task, encoder, point, seed)
                for seed in range(rung.seeds)
                for task, encoders in kept.items()
                for encoder in encoders
                for point in scores.points(task, encoder, width * points)
            ]
            count = len({trial.encoder for trial in trials})
            yield trials, f"{count} of {every}, {rung.seeds} seeds"
        width *= 2


class _Scores:
    """What the encoders come to on each task, by the trials that are known."""

    def __init__(self, grid: Grid, known: Ended) -> None:
        self._grid = grid
        self._values: dict[tuple[str, str, int], list[float]] = {}
        for (task, encoder, point, _), value in known.items():
            if value is not None:
                self._values.setdefault((task, encoder, point), []).append(value)
        self._deviations: dict[str, float] = {}  # of one seed, 0 where no point has two
        for task in grid.tasks:
            own = (values for (name, _, _), values in self._values.items() if name == task)
            self._deviations[task], _ = pooled_deviation(own)

    def points(self, task: str, encoder: str, most: int) -> list[int]:
        """The points of an encoder that may be its best, at most so many, the best first."""
        ordered = self._ordered(task, encoder)[:most]
        best, error = self._score(task, encoder, ordered[0])
        if not error:
            return ordered
        return [
            point
            for point, (value, own) in ((n, self._score(task, encoder, n)) for n in ordered)
            if best - value <= CONTENDERS * math.hypot(error, own)
        ]

    def _ordered(self, task: str, encoder: str) -> list[int]:
        """All points of an encoder, the best first; equal ones in their order."""
        points = range(self._grid.points[task, encoder])
        return sorted(points, key=lambda point: -self._score(task, encoder, point)[0])

    def contenders(self, most: int) -> dict[str, list[str]]:
        """By task the encoders that go on, at most so many of the task and so many of the mean.

        A question that one encoder alone can be the answer to needs no more trials.
        """
        tasks = self._grid.tasks
        of_mean = self._contenders_of(tasks, most) if len(tasks) > 1 else []
        found = {}
        for task in tasks:
            kept = dict.fromkeys((*self._contenders_of((task,), most), *of_mean))
            found[task] = sorted(kept, key=lambda encoder: -self._best(task, encoder)[0])
        return found

    def _contenders_of(self, tasks: Sequence[str], most: int) -> list[str]:
        """The encoders that may have the best mean of some tasks, at most so many, the best first.

        None where that is one alone. Where nothing is known of the noise, only the number counts.
        """
        scores = {e: [self._best(task, e) for task in tasks] for e in self._grid.encoders}
        means = {encoder: fmean(value for value, _ in found) for encoder, found in scores.items()}
        ordered = sorted(
            (encoder for encoder in means if math.isfinite(means[encoder])),
            key=lambda encoder: -means[encoder],
        )[:most]
        if ordered and all(self._deviations[task] for task in tasks):
            best = ordered[0]
            ordered = [
                encoder
                for encoder in ordered
                if means[best] - means[encoder]
                <= CONTENDERS * _error([*scores[best], *scores[encoder]], len(tasks))
            ]
        return ordered if len(ordered) > 1 else []

    def _best(self, task: str, encoder: str) -> tuple[float, float]:
        """The median of the best point, -inf where all have failed, and its standard error."""
        return self._score(task, encoder, self._ordered(task, encoder)[0])

    def _score(self, task: str, encoder: str, point: int) -> tuple[float, float]:
        values = self._values.get((task, encoder, point))
        if not values:
            return -math.inf, 0.0
        return median(values), median_deviation(self._deviations[task], len(values))


def _error(scores: Sequence[tuple[float, float]], tasks: int) -> float:
    """The standard error of the difference of two means over so many tasks."""
    return math.sqrt(sum(error**2 for _, error in scores)) / tasks


# The search: steps of the decision, as jobs, within the minutes.


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What a search has come to: the jobs that it ran or found stored, and how its own ended.

    `of` is how many jobs the whole grid has. `left` says what it would have run next, empty where
    nothing is left that may change the answer. `majority` are the stored runs of that baseline.
    """

    jobs: tuple[Job, ...]
    outcomes: tuple[Outcome, ...]
    of: int
    left: str
    majority: tuple[Job, ...] = ()


class Search:
    """The jobs of a plan as a grid. `tasks` are those that were asked for.

    Jobs of other tasks run where one that was chosen starts from them. Raises BenchError where
    there is nothing to choose from, or the tasks have nothing in common.
    """

    def __init__(self, plan: Plan, tasks: Sequence[Task]) -> None:
        check_tasks(tasks)
        self._plan = plan
        self.jobs: dict[Trial, Job] = {}
        names = {task.name for task in tasks}
        found = sweeps(job for job in plan.jobs if job.kind == "model" and job.task in names)
        for points in found:
            for place, point in enumerate(points):
                for number, job in enumerate(point):
                    self.jobs[Trial(job.task, job.model, place, number)] = job
        self.grid = Grid(
            tasks=tuple(dict.fromkeys(job.task for job in self.jobs.values())),
            encoders=tuple(dict.fromkeys(job.model for job in self.jobs.values())),
            points={(points[0][0].task, points[0][0].model): len(points) for points in found},
            seeds=max((len(points[0]) for points in found), default=0),
        )
        if len(self.grid.encoders) < 2:
            raise BenchError(
                "there is nothing to choose from: name two or more encoders that differ "
                "(--among bert,roberta)."
            )

    def run(
        self,
        minutes: float,
        stored: Callable[[Collection[str]], Mapping[str, RunRow]],
        scheduled: Callable[[Plan], Schedule],
        drive: Callable[[Schedule, float], AbstractContextManager[Driven]],
        tell: Callable[[str], None] = lambda _: None,
    ) -> Searched:
        """Runs step after step until no job fits into the minutes any more, or none is needed.

        `stored` gives the rows of jobs by their keys, `drive` begins no job after a moment of the
        monotonic clock. What is stored already takes no time, so the same call resumes where one
        has ended. A job that has failed is not tried again within a call. Raises BenchError, before
        anything starts, where the minutes do not suffice for one run of each encoder on each task.
        """
        end = time.monotonic() + 60 * minutes
        tried: set[str] = set()
        outcomes: list[Outcome] = []
        is_first, is_over = True, False
        while True:
            rows = stored([job.key for job in self.jobs.values()])
            step = next_step(self.grid, self.ended(rows, tried))
            if step is None or is_over:
                used = [t for t, job in self.jobs.items() if job.key in tried or job.key in rows]
                return Searched(
                    jobs=tuple(self.jobs[trial] for trial in used),
                    outcomes=tuple(outcomes),
                    of=len(self.grid),
                    left="" if step is None else step.words,
                )
            schedule = scheduled(self._part(step.trials))
            left = end - time.monotonic()
            fitting = self._fitting(step.trials, schedule, rows, left)
            if is_first and len(step.trials) > len(fitting) and self._is_least(step):
                self._refuse(step.trials, schedule, rows, minutes)
            is_first = False
            is_over = len(fitting) < len(step.trials)
            if not fitting:
                continue
            tell(f"{step.words}: {len(fitting)} jobs")
            schedule = scheduled(self._part(fitting))
            todo = tuple(job for job in schedule.todo if job.key not in tried)
            with drive(replace(schedule, todo=todo), end) as run:
                outcomes += run.outcomes
                tried |= {outcome.job.key for outcome in run.outcomes}
            if time.monotonic() < end:  # else some were left out for lack of time
                tried |= {self.jobs[trial].key for trial in fitting} | {job.key for job in todo}
            else:
                is_over = True

    def ended(self, rows: Mapping[str, RunRow], tried: Collection[str] = ()) -> Ended:
        """The scores of the trials by the stored rows; None of what was tried and has none."""
        found: dict[Trial, float | None] = {}
        for trial, job in self.jobs.items():
            row = rows.get(job.key)
            if row is not None and row.status == "finished":
                cell = build_cell(job.task, [row], find_suite(job.task.partition("/")[0]).rule)
                found[trial] = None if cell is None else cell.median
            elif job.key in tried:
                found[trial] = None
        return found

    def _part(self, trials: Sequence[Trial]) -> Plan:
        return self._plan.part(self.jobs[trial].key for trial in trials)

    def _is_least(self, step: Step) -> bool:
        """Whether the step is the first one, without which nothing can be said."""
        return all(trial[2:] == (0, 0) for trial in step.trials)

    def _fitting(
        self, trials: Sequence[Trial], schedule: Schedule, rows: Mapping[str, RunRow], left: float
    ) -> list[Trial]:
        """The first trials, as many as are expected to end in the seconds that are left."""
        seconds, spent, fitting = self._seconds(trials, schedule, rows), 0.0, []
        for trial in trials:
            spent += seconds[trial] / schedule.at_once
            if max(spent, seconds[trial]) > left:
                break
            fitting.append(trial)
        return fitting

    def _seconds(
        self, trials: Sequence[Trial], schedule: Schedule, rows: Mapping[str, RunRow]
    ) -> dict[Trial, float]:
        """What each trial takes, with what it starts from where that is missing.

        The median of the encoder's runs on the task; where there are none, the estimate.
        """
        known: dict[tuple[str, str], list[float]] = {}
        for trial, job in self.jobs.items():
            if job.key in rows and rows[job.key].status == "finished":
                known.setdefault(trial[:2], []).append(rows[job.key].seconds)
        by_key, paid = {job.key: job for job in self._plan.jobs}, set[str]()
        found = {}
        for trial in trials:
            job = self.jobs[trial]
            own = known.get(trial[:2])
            found[trial] = median(own) if own else schedule.weights.get(job.key, 0.0)
            waiting = [*job.needs]
            while waiting:
                if (need := waiting.pop()) not in paid:
                    paid.add(need)
                    found[trial] += schedule.weights.get(need, 0.0)
                    waiting += by_key[need].needs
        return found

    def _refuse(
        self,
        trials: Sequence[Trial],
        schedule: Schedule,
        rows: Mapping[str, RunRow],
        minutes: float,
    ) -> None:
        needed = sum(self._seconds(trials, schedule, rows).values()) / schedule.at_once
        is_rough = any(estimate.rough for estimate in schedule.estimates.values())
        raise BenchError(
            f"--minutes {minutes:g} is too short for one run of each encoder on each task: "
            f"{len(trials)} runs take about {duration(needed)} here"
            f"{' (a rough guess)' if is_rough else ''}; give --minutes "
            f"{max(1, math.ceil(needed / 60))}, or fewer --among, tasks or rows (--limit)."
        )


def check_tasks(tasks: Sequence[Task]) -> None:
    """BenchError for tasks that no one encoder is the answer for: other heads, and no suite.

    A task that nobody trains has one run of each encoder, and no seeds beside those of others.
    """
    if not tasks:
        raise BenchError("no task here has rows to train on: name one that has (--task glue/rte).")
    untrained = [task.name for task in tasks if not task.has_train]
    if 0 < len(untrained) < len(tasks):
        raise BenchError(
            f"{untrained[0]} is scored without training, so it has no seeds as the others have: "
            "ask for it in a command of its own."
        )
    heads = {task.head: task.name for task in tasks}
    if len(heads) > 1 and len({task.suite for task in tasks}) > 1:
        kinds = " and ".join(f"{name} ({head})" for head, name in heads.items())
        raise BenchError(
            f"{kinds} have no head in common, and no suite takes their mean: ask for each head "
            "type in a command of its own."
        )


RATES = "learning_rate=x1,x2,x0.5"
"""The points of each encoder where nobody says others: its recipe's rate, twice and half of it."""


def options_among(options: RunOptions, among: Sequence[str]) -> RunOptions:
    """What `bench which` asks for: the encoders, and `RATES` unless somebody says rates.

    BenchError for fewer than two encoders, for a baseline, and for a start from tasks together,
    whose job has no points.
    """
    names = [name.strip() for word in among for name in word.split(",") if name.strip()]
    names = list(dict.fromkeys(names))
    if len(names) < 2:
        raise BenchError("name two or more encoders to choose from (--among bert,roberta).")
    if baselines := [spec.name for spec in BASELINES if spec.name in names]:
        raise BenchError(f"{baselines[0]} is a baseline and no encoder: leave it out of --among.")
    if options.start_from == MULTI_TASK:
        raise BenchError(
            "--start-from multi-task is of `bench run`: tasks together are trained by one value of "
            "each setting, and `bench which` tries several. Name a task or a checkpoint."
        )
    says = any(each.partition("=")[0].strip() == "learning_rate" for each in options.set)
    is_own = options.recipe is not None and Path(options.recipe).suffix == ".toml"
    settings = (*options.set, *(() if says or is_own else (RATES,)))
    return replace(options, model=tuple(names), set=settings, baselines=True)


def search(
    session: Session, minutes: float, tell: Callable[[str], None] = lambda _: None
) -> tuple[Search, Searched]:
    """Plans the grid of a session and runs what of it fits into the minutes."""
    if not 0 < minutes < math.inf:
        raise BenchError(f"--minutes must be a number above 0, got {minutes:g}.")
    db, asked = session.options.db, session.request
    trained = tuple(task for task in asked.tasks if task.trained_on is None)
    check_tasks(trained)
    session = replace(session, request=replace(asked, tasks=trained))
    if not is_there(db):
        check_writable(db)

    def stored(keys: Collection[str]) -> Mapping[str, RunRow]:
        if not is_there(db):
            return {}
        with open_store(db) as store:
            return {row.key: row for row in store.runs_with(keys)}

    with session.prepared():
        planned = session.plan()
        encoders = tuple(job for job in planned.jobs if job.kind != "baseline")
        found = Search(replace(planned, jobs=encoders), trained)
        searched = found.run(minutes, stored, session.schedule, session.drive, tell)
    majority = tuple(job for job in planned.jobs if job.checkpoint == BASELINES[0].checkpoint)
    _learn(majority, db)
    return found, replace(searched, majority=majority)


def _learn(baselines: Sequence[Job], db: str) -> None:
    """Runs and stores here what of the baselines is missing: the majority takes no time."""
    from benchharness.baselines import run_baseline  # noqa: PLC0415  (scikit-learn, a second)

    with open_store(db) as store:
        rows = store.runs_with([job.key for job in baselines])
        there = {row.key for row in rows if row.status == "finished"}
        for job in baselines:
            if job.key not in there:
                store.add_missing(run_baseline(job))


def measured(request: Request, jobs: Sequence[Job]) -> dict[str, Inference | str]:
    """What predicting with each encoder costs here, by its name, or why that is not known.

    Of each the first job is taken: all are measured on the rows of one task. One after the other,
    so that nothing else runs beside it; only where jobs run on this machine.
    """
    found: dict[str, Inference | str] = {}
    for job in jobs:
        if job.model in found:
            continue
        if request.placement.forks is None:
            found[job.model] = "not measured: jobs run on other machines."
            continue
        if job.is_zero_shot:
            found[job.model] = "not measured: it predicts without a head of ours."
            continue
        try:
            found[job.model] = measure_inference(job, request.slots[0], MEASURE_SECONDS)
        except BenchError as error:
            found[job.model] = str(error)
    return found


MEASURE_SECONDS = 600.0
"""How long measuring one encoder may take, its loading included."""
