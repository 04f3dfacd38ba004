"""Successive halving: rounds of runs, after each of which the better candidates get more seeds.

Jamieson and Talwalkar, Non-stochastic best arm identification and hyperparameter optimization,
AISTATS 2016, with seeds in the place of steps: what a candidate has learned after a few steps at a
falling rate says little of its end, and its first seed says much. The jobs are those of the whole
grid, so what one command has trained another one needs not train again.

`--halving` searches the points of each sweep (`sweep_rounds`). A round depends on the results of
the rounds before it, and not on what else is stored: a search that was stopped continues with the
runs that its round lacks.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, product, takewhile
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from benchharness.driver.plan import Plan, with_starts
from benchharness.driver.schedule import Schedule
from benchharness.engines.process import Outcome
from benchharness.leaderboard.boards.cell import build_cell
from benchharness.leaderboard.job import FEATURES_SETTING, Job
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.statistics import CONTENDERS, median_deviation, pooled_deviation
from benchharness.leaderboard.store.database import is_there
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.progress import duration
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import find_suite

if TYPE_CHECKING:
    from benchharness.driver.session import Session

T = TypeVar("T")

# What is tried in which round: scores in, trials out.


class Trial(NamedTuple):
    """One run of an encoder on a task; `point` and `seed` are places, from 0."""

    task: str
    encoder: str
    point: int
    seed: int


Ended = Mapping[Trial, float | None]
"""The scores of the trials that have ended; None of those that failed."""


class Round(NamedTuple):
    """The trials of a round, what matters most first, and what they are, in words."""

    trials: Sequence[Trial]
    words: str = ""


class Size(NamedTuple):
    """So many candidates (points, or encoders), each with the first so many seeds."""

    candidates: int
    seeds: int


Pair = tuple[str, str]
"""A task and an encoder."""

Grid = Mapping[Pair, Size]
"""All that can be tried: how many points and seeds there are."""

Rounds = Callable[[Grid, Ended], Iterator[Round]]
"""The rounds from the first one on, each by what is known of those before it when asked for."""


def in_turn(rounds: Rounds, grid: Grid, ended: Ended) -> Iterator[Round]:
    """Each round by what has `ended` of those before it, when it is asked for."""
    known: dict[Trial, float | None] = {}
    for found in rounds(grid, known):
        yield found
        known |= {trial: ended[trial] for trial in found.trials}


def sizes(candidates: int, seeds: int) -> tuple[Size, ...]:
    """The rounds from all candidates with one seed to the last two with every seed.

    Each doubles the seeds and halves the candidates, rounded up; three stay until the last, because
    two seeds tell neighbours apart too badly: (8, 1), (4, 2), (3, 4), (2, 5), half of eight points
    with five seeds.
    """
    found = [Size(candidates, 1)]
    while found[-1].seeds < seeds:
        left, tried = found[-1]
        more = min(2 * tried, seeds)
        least = 2 if more == seeds else 3
        found.append(Size(min(left, max(least, math.ceil(left / 2))), more))
    return tuple(found)


class Score(NamedTuple):
    """A median, -inf where all have failed, and its standard error, 0 where that is not known."""

    value: float
    error: float


def survivors(scores: Mapping[T, Score], most: int) -> list[T]:
    """Who goes on: at most so many, the best first, and equal ones in their order.

    Not what cannot win any more, by `CONTENDERS` standard errors, where the best has one.
    """
    # `sorted` leaves equal ones in their order, as all are while none has a score (-inf).
    ordered = sorted(scores, key=lambda each: -scores[each].value)[:most]
    if not ordered or not scores[ordered[0]].error:
        return ordered
    best, error = scores[ordered[0]]
    # The standard error of the difference of two independent scores is the root of the sum of
    # their squared errors.
    found = ((each, *scores[each]) for each in ordered)
    return [e for e, value, own in found if best - value <= CONTENDERS * math.hypot(error, own)]


def scores(grid: Grid, known: Ended, *, noise: bool) -> dict[Pair, dict[int, Score]]:
    """The score of each point by the seeds that are known; those of a task are equally noisy.

    Without `noise` nothing is known of that, and only the order counts.
    """
    values: dict[Pair, dict[int, list[float]]] = {pair: {} for pair in grid}
    for trial, value in known.items():
        if value is not None:
            # A trial begins with its pair, the task and the encoder.
            values[trial[:2]].setdefault(trial.point, []).append(value)
    groups: dict[str, list[list[float]]] = {}
    for (task, _), points in values.items():
        groups.setdefault(task, []).extend(points.values() if noise else ())
    # Without groups the deviation is 0, and `survivors` then goes by the order alone.
    deviations = {task: pooled_deviation(found)[0] for task, found in groups.items()}
    return {
        pair: {n: _score(own.get(n, ()), deviations[pair[0]]) for n in range(grid[pair].candidates)}
        for pair, own in values.items()
    }


def _score(values: Sequence[float], deviation: float) -> Score:
    if not values:
        return Score(-math.inf, 0.0)
    return Score(median(values), median_deviation(deviation, len(values)))


def sweep_rounds(grid: Grid, known: Ended) -> Iterator[Round]:
    """The points of each sweep, by their number alone; who is out does not come back.

    A round has what those before it had.
    """
    trials: list[Trial] = []
    left: dict[Pair, Sequence[int]] = {pair: range(size[0]) for pair, size in grid.items()}
    rounds = {pair: sizes(*size) for pair, size in grid.items()}
    for number in range(max(map(len, rounds.values()))):
        found_scores = scores(grid, known, noise=False)
        for pair, found in rounds.items():
            # Nothing where this sweep has no more rounds: others have more points or seeds.
            for most, seeds in found[number : number + 1]:
                left[pair] = survivors({n: found_scores[pair][n] for n in left[pair]}, most)
                trials += [Trial(*pair, *each) for each in product(left[pair], range(seeds))]
        yield Round(trials)


# The search: rounds as jobs, within the minutes.


def trials_of(jobs: Iterable[Job], name: Callable[[Job], str]) -> dict[Trial, Job]:
    """Jobs as seeds of points, each of the encoder that has its `name`."""
    found: dict[Pair, dict[str, list[Job]]] = {}
    for job in jobs:
        points = found.setdefault((job.task, name(job)), {})
        # The seed is none of the values, so the runs of one point have the same ones.
        points.setdefault(str(sorted(job.values.items())), []).append(job)
    return {
        Trial(*pair, place, number): job
        for pair, points in found.items()
        for place, point in enumerate(points.values())
        for number, job in enumerate(point)
    }


class Search:
    """The rounds of a plan's jobs, and how far they are.

    `others` run with the first round. Where it `is_whole`, the schedule of a round has what is
    stored of it too, and is driven also where nothing is missing.

    After `run`, `outcomes` say how its jobs ended, and `schedule` is the last round's, with all
    that was tried; `left` is what would come next, in words, empty where nothing is left that may
    change the answer.
    """

    def __init__(
        self,
        plan: Plan,
        trials: Mapping[Trial, Job],
        rounds: Rounds,
        others: Sequence[Job] = (),
        *,
        is_whole: bool = False,
    ) -> None:
        self._plan, self._rounds, self._others, self._is_whole = plan, rounds, others, is_whole
        self.trials = trials
        self.grid = {each[:2]: Size(each.point + 1, each.seed + 1) for each in trials}  # the last
        self.outcomes: list[Outcome] = []
        self.schedule: Schedule | None = None
        self.left = ""
        self._is_over = False
        self._tried: dict[str, Job] = {}
        self._rows: dict[str, RunRow] = {}
        self._ended: dict[Trial, float | None] = {}

    def sentence(self) -> str:
        """How far a halving goes, by the largest sweep: "points with seeds: 8 with 1, 4 with 2"."""
        largest = max((sizes(*size) for size in self.grid.values()), key=len)
        shown = ", ".join(f"{points} with {seeds}" for points, seeds in largest)
        rounds = in_turn(self._rounds, self.grid, dict.fromkeys(self.trials))
        runs = len({trial for found in rounds for trial in found.trials})
        return f"halving: points with seeds: {shown}; {runs} of {len(self.trials)} runs"

    @property
    def jobs(self) -> list[Job]:
        """What it ran or found stored."""
        known = self._tried.keys() | self._rows.keys()
        return [job for job in self.trials.values() if job.key in known]

    def run(
        self,
        session: "Session",
        minutes: float = math.inf,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Runs round after round until no job fits into the minutes any more, or none is needed.

        What is stored already takes no time, so the same call resumes where one has ended. A job
        that has failed is not tried again within a call. Raises BenchError, before anything starts,
        where the minutes do not suffice for the first round.
        """
        end = time.monotonic() + 60 * minutes
        if is_there(session.options.db):
            with open_store(session.options.db) as store:
                self._look(store)
        for trials, words in in_turn(self._rounds, self.grid, self._ended):
            missing = [trial for trial in trials if trial not in self._ended]
            if not self._is_over and (missing or self._is_whole):
                schedule = self._scheduled(session, trials if self._is_whole else missing)
                seconds = self._seconds(missing, schedule)
                fitting = _fitting(seconds, schedule.at_once, end - time.monotonic())
                self._is_over = len(fitting) < len(missing)
                if self._is_over and missing[0][2:] == (0, 0):  # the first round
                    _refuse(minutes, seconds.values(), schedule)
                if fitting or self._is_whole:
                    tell(f"{words}: {len(fitting)} jobs")
                    part = self._scheduled(session, fitting) if self._is_over else schedule
                    for line in part.model_sentences():
                        tell(line)
                    self._drive(session, part, end)
            # Every later round is chosen by the scores of this one, so this one has to be whole.
            if any(trial not in self._ended for trial in missing):
                self.left = words
                return

    def _look(self, store: Store) -> None:
        """Takes the scores of trials by the stored rows; None of what was tried and has none."""
        keys = [job.key for job in self.trials.values()]
        self._rows = {row.key: row for row in store.runs_with(keys)}
        for trial, job in self.trials.items():
            row = self._rows.get(job.key)
            if row is not None and row.status == "finished":
                cell = build_cell(job.task, [row], find_suite(job.task.partition("/")[0]).rule)
                self._ended[trial] = None if cell is None else cell.median
            # It was run and has no result, so it has failed.
            elif job.key in self._tried:
                self._ended[trial] = None

    def _scheduled(self, session: "Session", trials: Sequence[Trial]) -> Schedule:
        jobs = (*self._others, *(self.trials[trial] for trial in trials))
        return session.schedule(self._plan.part(job.key for job in jobs))

    def _drive(self, session: "Session", schedule: Schedule, end: float) -> None:
        todo = {job.key: job for job in schedule.todo if job.key not in self._tried}
        with session.drive(replace(schedule, todo=tuple(todo.values())), end) as driven:
            self.outcomes += driven.outcomes
            if time.monotonic() >= end:  # some were left out for lack of time
                self._is_over = True
                todo = {each.job.key: each.job for each in driven.outcomes}
            self._tried |= todo
            self._look(driven.store)
        self.schedule = replace(schedule, todo=tuple(self._tried.values()))

    def _seconds(self, trials: Sequence[Trial], schedule: Schedule) -> dict[Trial, float]:
        """What each trial takes, with what it starts from where that is missing.

        The median of the encoder's runs on the task; where there are none, the estimate.
        """
        known: dict[tuple[str, ...], list[float]] = {}
        for trial, job in self.trials.items():
            if (row := self._rows.get(job.key)) is not None and row.status == "finished":
                known.setdefault(trial[:2], []).append(row.seconds)
        weights, paid, found = schedule.weights, set[str](), dict[Trial, float]()
        for trial in trials:
            job, own = self.trials[trial], known.get(trial[:2])
            # Where several trials need a run that is missing, the first of them pays for it.
            found[trial] = median(own) if own else weights.get(job.key, 0.0)
            needs = with_starts(set(job.needs), self._plan.jobs) - paid if job.needs else ()
            found[trial] += math.fsum(weights.get(need, 0.0) for need in needs)
            paid.update(needs)
        return found


def _fitting(seconds: Mapping[Trial, float], at_once: int, left: float) -> list[Trial]:
    """The first trials, as many as are expected to end in the seconds that are left."""
    # The slots have to work off a trial and all before it, and it takes its own seconds at least.
    spent = accumulate(each / at_once for each in seconds.values())
    longest = (max(both) for both in zip(spent, seconds.values(), strict=True))
    return [t for t, _ in zip(seconds, takewhile(lambda each: each <= left, longest), strict=False)]


def _refuse(minutes: float, seconds: Collection[float], schedule: Schedule) -> None:
    needed = sum(seconds) / schedule.at_once
    is_rough = any(estimate.rough for estimate in schedule.estimates.values())
    raise BenchError(
        f"--minutes {minutes:g} is too short for one run of each encoder on each task: "
        f"{len(seconds)} runs take about {duration(needed)} here"
        f"{' (a rough guess)' if is_rough else ''}; give --minutes "
        f"{max(1, math.ceil(needed / 60))}, or fewer --among, tasks or rows (--limit)."
    )


def halving(plan: Plan, tasks: Collection[str]) -> Search:
    """The sweeps of a plan, as `--halving` searches them.

    `tasks` are the names of those that were asked for; a job of another one runs where a job that
    was chosen starts from it. Raises BenchError where there is nothing to choose from.
    """
    asked = [job for job in plan.jobs if job.task in tasks]
    trials = trials_of((job for job in asked if job.is_sweep), _sweep)
    others = [job for job in asked if not job.is_sweep]
    found = Search(plan, trials, sweep_rounds, others, is_whole=True)
    if not any(points > 2 and seeds > 1 for points, seeds in found.grid.values()):
        raise BenchError(
            "--halving chooses among the points of a sweep: give three or more values "
            "(--set learning_rate=1e-5,2e-5,5e-5) and two or more seeds."
        )
    return found


def _sweep(job: Job) -> str:
    """Whose points are halved: those of each model, and of each choice of features."""
    return f"{job.model} {job.weights} {job.values.get(FEATURES_SETTING)}"
