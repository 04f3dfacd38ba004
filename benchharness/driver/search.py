"""Successive halving: rounds of runs, after each of which the better candidates get more seeds.

Jamieson and Talwalkar, Non-stochastic best arm identification and hyperparameter optimization,
AISTATS 2016, with seeds instead of training steps: the score after a few steps at a decaying
learning rate predicts the final score badly, but the score of the first seed predicts it well. The
jobs are those of the whole grid, so a command reuses what another command has trained.

`--halving` searches the points of each sweep (`sweep_rounds`). A round depends only on the results
of the rounds before it, not on other stored runs, so a search that was stopped resumes with the
missing runs of its round.
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
from benchharness.errors import BenchError
from benchharness.leaderboard.boards.cell import build_cell
from benchharness.leaderboard.job import FEATURES_SETTING, Job
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.statistics import CONTENDERS, median_deviation, pooled_deviation
from benchharness.leaderboard.store.database import is_there
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.progress import duration
from benchharness.tasks.suites import find_suite

if TYPE_CHECKING:
    from benchharness.driver.session import Session

T = TypeVar("T")

# Rounds: functions from known scores to the trials to run next.


class Trial(NamedTuple):
    """One run of an encoder on a task; `point` and `seed` are indices that begin at 0."""

    task: str
    encoder: str
    point: int
    seed: int


Ended = Mapping[Trial, float | None]
"""Scores of the trials that have ended; None for failed trials."""


class Round(NamedTuple):
    """Trials of a round, the most important first, and a description of the round."""

    trials: Sequence[Trial]
    words: str = ""


class Size(NamedTuple):
    """Numbers of candidates (points, or encoders) and of seeds per candidate."""

    candidates: int
    seeds: int


Pair = tuple[str, str]
"""Task and encoder."""

Grid = Mapping[Pair, Size]
"""Numbers of points and seeds that can be tried, per task and encoder."""

Rounds = Callable[[Grid, Ended], Iterator[Round]]
"""Function that yields the rounds; each is chosen by the results that are known when it is
requested."""


def in_turn(rounds: Rounds, grid: Grid, ended: Ended) -> Iterator[Round]:
    """Yield the rounds one by one, and give each the results of the rounds before it."""
    known: dict[Trial, float | None] = {}
    for found in rounds(grid, known):
        yield found
        known |= {trial: ended[trial] for trial in found.trials}


def sizes(candidates: int, seeds: int) -> tuple[Size, ...]:
    """Return the sizes of the rounds, from all candidates with one seed to a few with every seed.

    Each round doubles the seeds and halves the candidates, rounded up. Three candidates stay until
    the last round, because two seeds separate neighbours too badly: (8, 1), (4, 2), (3, 4), (2, 5)
    halves eight points with five seeds.
    """
    found = [Size(candidates, 1)]
    while found[-1].seeds < seeds:
        left, tried = found[-1]
        more = min(2 * tried, seeds)
        least = 2 if more == seeds else 3
        found.append(Size(min(left, max(least, math.ceil(left / 2))), more))
    return tuple(found)


class Score(NamedTuple):
    """Median score, -inf if all runs failed, and its standard error, 0 if unknown."""

    value: float
    error: float


def survivors(scores: Mapping[T, Score], most: int) -> list[T]:
    """Return the best candidates, at most `most`, best first; ties keep their order.

    Candidates that are worse than the best by more than `CONTENDERS` standard errors are dropped,
    if the standard error of the best is known.
    """
    # `sorted` keeps the order of ties; before any run all candidates tie with -inf.
    ordered = sorted(scores, key=lambda each: -scores[each].value)[:most]
    if not ordered or not scores[ordered[0]].error:
        return ordered
    best, error = scores[ordered[0]]
    # The standard error of the difference of two independent scores is the root of the sum of
    # their squared errors.
    found = ((each, *scores[each]) for each in ordered)
    return [e for e, value, own in found if best - value <= CONTENDERS * math.hypot(error, own)]


def scores(grid: Grid, known: Ended, *, noise: bool) -> dict[Pair, dict[int, Score]]:
    """Return the score of each point over the known seeds, with one noise level per task.

    Without `noise` all standard errors are 0, and only the order of the scores counts.
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
    """Yield the rounds of each sweep by its numbers of points and seeds; a dropped point stays out.

    Each round includes the trials of the rounds before it.
    """
    trials: list[Trial] = []
    left: dict[Pair, Sequence[int]] = {pair: range(size[0]) for pair, size in grid.items()}
    rounds = {pair: sizes(*size) for pair, size in grid.items()}
    for number in range(max(map(len, rounds.values()))):
        found_scores = scores(grid, known, noise=False)
        for pair, found in rounds.items():
            # Empty if this sweep has no more rounds; others have more points or seeds.
            for most, seeds in found[number : number + 1]:
                left[pair] = survivors({n: found_scores[pair][n] for n in left[pair]}, most)
                trials += [Trial(*pair, *each) for each in product(left[pair], range(seeds))]
        yield Round(trials)


# The search: runs the rounds as jobs, within a number of minutes.


def trials_of(jobs: Iterable[Job], name: Callable[[Job], str]) -> dict[Trial, Job]:
    """Return the jobs by trial; `name` returns the encoder of a job."""
    found: dict[Pair, dict[str, list[Job]]] = {}
    for job in jobs:
        points = found.setdefault((job.task, name(job)), {})
        # The seed is not among the values, so all runs of one point have equal values.
        points.setdefault(str(sorted(job.values.items())), []).append(job)
    return {
        Trial(*pair, place, number): job
        for pair, points in found.items()
        for place, point in enumerate(points.values())
        for number, job in enumerate(point)
    }


class Search:
    """Search over the jobs of a plan, round by round.

    Args:
        plan: Plan of the whole grid.
        trials: Jobs of the search, by trial.
        rounds: Function that chooses the trials of each round.
        others: Jobs that run with the first round but are not searched.
        is_whole: Whether a round's schedule includes its stored runs, and is driven even if nothing
            is missing.

    Attributes:
        outcomes: Outcomes of the jobs that ran.
        schedule: Schedule of the last round, with all jobs that were tried.
        left: Description of the round that would come next; empty if no run could change the
            answer.
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
        self.grid = {each[:2]: Size(each.point + 1, each.seed + 1) for each in trials}  # last wins
        self.outcomes: list[Outcome] = []
        self.schedule: Schedule | None = None
        self.left = ""
        self._is_over = False
        self._tried: dict[str, Job] = {}
        self._rows: dict[str, RunRow] = {}
        self._ended: dict[Trial, float | None] = {}

    def sentence(self) -> str:
        """Describe the search by its largest sweep.

        An example is "halving: points with seeds: 8 with 1, 4 with 2; 12 of 16 runs".
        """
        largest = max((sizes(*size) for size in self.grid.values()), key=len)
        shown = ", ".join(f"{points} with {seeds}" for points, seeds in largest)
        rounds = in_turn(self._rounds, self.grid, dict.fromkeys(self.trials))
        runs = len({trial for found in rounds for trial in found.trials})
        return f"halving: points with seeds: {shown}; {runs} of {len(self.trials)} runs"

    @property
    def jobs(self) -> list[Job]:
        """Jobs that the search ran or found in the store."""
        known = self._tried.keys() | self._rows.keys()
        return [job for job in self.trials.values() if job.key in known]

    def run(
        self,
        session: "Session",
        minutes: float = math.inf,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Run rounds until no job fits into the remaining minutes, or none is needed.

        Stored runs take no time, so the same call resumes where an earlier one stopped. A failed
        job is not retried within a call.

        Args:
            session: Session that drives the jobs.
            minutes: Time budget.
            tell: Receives a line about each round.

        Raises:
            BenchError: The minutes do not suffice for the first round; raised before anything
                starts.
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
            # The scores of this round choose every later round, so it must be complete.
            if any(trial not in self._ended for trial in missing):
                self.left = words
                return

    def _look(self, store: Store) -> None:
        """Read the scores of stored trials; a tried job without a result scores None."""
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
            if time.monotonic() >= end:  # some were skipped for lack of time
                self._is_over = True
                todo = {each.job.key: each.job for each in driven.outcomes}
            self._tried |= todo
            self._look(driven.store)
        self.schedule = replace(schedule, todo=tuple(self._tried.values()))

    def _seconds(self, trials: Sequence[Trial], schedule: Schedule) -> dict[Trial, float]:
        """Estimate the seconds of each trial, with the missing jobs that it starts from.

        The estimate is the median of the encoder's finished runs on the task, else the schedule's
        estimate.
        """
        known: dict[tuple[str, ...], list[float]] = {}
        for trial, job in self.trials.items():
            if (row := self._rows.get(job.key)) is not None and row.status == "finished":
                known.setdefault(trial[:2], []).append(row.seconds)
        weights, paid, found = schedule.weights, set[str](), dict[Trial, float]()
        for trial in trials:
            job, own = self.trials[trial], known.get(trial[:2])
            # If several trials need a missing run, the first of them is charged for it.
            found[trial] = median(own) if own else weights.get(job.key, 0.0)
            needs = with_starts(set(job.needs), self._plan.jobs) - paid if job.needs else ()
            found[trial] += math.fsum(weights.get(need, 0.0) for need in needs)
            paid.update(needs)
        return found


def _fitting(seconds: Mapping[Trial, float], at_once: int, left: float) -> list[Trial]:
    """Return the first trials, as many as are expected to end within the remaining seconds."""
    # A trial ends after the slots have worked through it and all trials before it, and not before
    # its own seconds have passed.
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
    """Return the search over the sweeps of a plan, for `--halving`.

    Args:
        plan: Plan of the whole grid.
        tasks: Names of the requested tasks. A job of another task runs only if a selected job
            starts from it.

    Raises:
        BenchError: No sweep has at least three points and two seeds.
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
    """Return the name of the sweep that a job belongs to: its model and its choice of features."""
    return f"{job.model} {job.weights} {job.values.get(FEATURES_SETTING)}"
