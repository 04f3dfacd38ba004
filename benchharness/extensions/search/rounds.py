"""Successive halving: after each round of a search, only the better candidates get more seeds.

This is the method of Jamieson and Talwalkar (Non-stochastic best arm identification and
hyperparameter optimization, AISTATS 2016), except that rounds add seeds instead of training steps.
With a decaying learning rate, the score after a few steps predicts the final score badly, while the
score of the first seed predicts it well. The jobs are the same as in a full grid search, so a
search reuses the runs of other commands.

`--halving` searches the hyperparameter settings of each sweep (`sweep_rounds`). A round depends
only on the results of earlier rounds, not on other stored runs. So a search that was stopped
resumes with the missing runs of its round.
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
from benchharness.leaderboard.text import counted
from benchharness.progress import duration
from benchharness.tasks.suites import find_suite

if TYPE_CHECKING:
    from benchharness.driver.session import Session

T = TypeVar("T")

# Choose the trials of the next round from the scores of earlier rounds.


class Trial(NamedTuple):
    """One run that a search may make: one hyperparameter setting with one seed.

    Attributes:
        task: The name of the task.
        encoder: The name of the encoder. In a hyperparameter sweep, it is followed by the identity
            of the weights and the choice of features.
        point: The index of the hyperparameter setting, from 0.
        seed: The index of the seed, from 0.
    """

    task: str
    encoder: str
    point: int
    seed: int


Ended = Mapping[Trial, float | None]
"""Type of mappings from trials that have ended to their scores; a failed trial has None."""


class Round(NamedTuple):
    """Round of a search.

    Attributes:
        trials: The trials of the round. If the time is too short for all of them, the first ones
            are run.
        words: A description of the round for the user; it may be empty.
    """

    trials: Sequence[Trial]
    words: str = ""


class Size(NamedTuple):
    """Number of candidates (hyperparameter settings or encoders), and number of seeds for each."""

    candidates: int
    seeds: int


Pair = tuple[str, str]
"""Type of pairs of the name of a task and the name of an encoder or sweep (see `Trial`)."""

Grid = Mapping[Pair, Size]
"""Type of mappings from a task and an encoder to the numbers of candidates and seeds of its grid.
"""

Rounds = Callable[[Grid, Ended], Iterator[Round]]
"""Type of generator functions that yield the rounds of a search. They get the grid and a mapping of
scores. Whenever the next round is requested, the mapping contains the scores of all earlier rounds.
"""


def in_turn(rounds: Rounds, grid: Grid, ended: Ended) -> Iterator[Round]:
    """Yield the rounds of a search; the function `rounds` gets only the scores of earlier rounds.

    Args:
        rounds: The function that chooses the trials of each round.
        grid: The numbers of candidates and seeds.
        ended: The scores of trials. Before the next round is requested, the caller must have added
            the scores of all trials of the current round.
    """
    known: dict[Trial, float | None] = {}
    for found in rounds(grid, known):
        yield found
        known |= {trial: ended[trial] for trial in found.trials}


def sizes(candidates: int, seeds: int) -> tuple[Size, ...]:
    """Return the sizes of the rounds, from all candidates with one seed to a few with all seeds.

    Each round doubles the number of seeds (up to `seeds`) and halves the number of candidates,
    rounded up. However, at least two candidates stay in the last round and at least three in the
    rounds before it (if there are that many), because a few seeds do not show which of several
    similar candidates is best. For example, eight candidates and five seeds give rounds of 8, 4, 3
    and 2 candidates with 1, 2, 4 and 5 seeds.
    """
    found = [Size(candidates, 1)]
    while found[-1].seeds < seeds:
        left, tried = found[-1]
        more = min(2 * tried, seeds)
        least = 2 if more == seeds else 3
        found.append(Size(min(left, max(least, math.ceil(left / 2))), more))
    return tuple(found)


class Score(NamedTuple):
    """Score of a candidate in a search.

    Attributes:
        value: The median over seeds; -inf if all runs failed.
        error: The standard error of the median; 0 if it is unknown.
    """

    value: float
    error: float


def survivors(scores: Mapping[T, Score], most: int) -> list[T]:
    """Return at most `most` of the best candidates, best first.

    If the standard error of the best candidate is known, candidates that are worse than the best
    one by more than CONTENDERS (three) standard errors of the difference are dropped. Candidates
    with equal scores keep their order. `scores` contains the score of each candidate.
    """
    # `sorted` keeps the order of equal scores; before the first round all scores are -inf.
    ordered = sorted(scores, key=lambda each: -scores[each].value)[:most]
    if not ordered or not scores[ordered[0]].error:
        return ordered
    best, error = scores[ordered[0]]
    # The standard error of the difference of two independent scores is the square root of the sum
    # of their squared standard errors.
    found = ((each, *scores[each]) for each in ordered)
    return [e for e, value, own in found if best - value <= CONTENDERS * math.hypot(error, own)]


def scores(grid: Grid, known: Ended, *, noise: bool) -> dict[Pair, dict[int, Score]]:
    """Return the score of each hyperparameter setting, for each pair of task and encoder.

    Args:
        grid: The numbers of hyperparameter settings and seeds of each pair.
        known: The scores of the trials that have ended.
        noise: Whether to compute the standard errors of the scores, from the standard deviation
            over seeds, pooled over all candidates of a task. If not, all standard errors are 0,
            which means unknown.

    Returns:
        The scores, keyed by pair and by the index of the hyperparameter setting.
    """
    values: dict[Pair, dict[int, list[float]]] = {pair: {} for pair in grid}
    for trial, value in known.items():
        if value is not None:
            # The first two fields of a trial are its task and its encoder.
            values[trial[:2]].setdefault(trial.point, []).append(value)
    groups: dict[str, list[list[float]]] = {}
    for (task, _), points in values.items():
        groups.setdefault(task, []).extend(points.values() if noise else ())
    # If `noise` is false, the groups are empty and the deviation is 0, which means unknown.
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
    """Yield the rounds of a search over hyperparameter sweeps; see `sizes` for their sizes.

    A hyperparameter setting that is dropped in a round is never tried again. Each round includes
    all trials of earlier rounds.

    Args:
        grid: The numbers of hyperparameter settings and seeds of each sweep.
        known: The scores of the trials that have ended.
    """
    trials: list[Trial] = []
    left: dict[Pair, Sequence[int]] = {pair: range(size[0]) for pair, size in grid.items()}
    rounds = {pair: sizes(*size) for pair, size in grid.items()}
    for number in range(max(map(len, rounds.values()))):
        found_scores = scores(grid, known, noise=False)
        for pair, found in rounds.items():
            # The slice is empty if this sweep has fewer rounds than others.
            for most, seeds in found[number : number + 1]:
                left[pair] = survivors({n: found_scores[pair][n] for n in left[pair]}, most)
                trials += [Trial(*pair, *each) for each in product(left[pair], range(seeds))]
        yield Round(trials)


# Run the rounds as jobs, within a time budget.


def trials_of(jobs: Iterable[Job], name: Callable[[Job], str]) -> dict[Trial, Job]:
    """Return the jobs of a search, keyed by trial.

    Args:
        jobs: Jobs of the search.
        name: The function that gets a job and returns the field `encoder` of its trial.
    """
    found: dict[Pair, dict[str, list[Job]]] = {}
    for job in jobs:
        points = found.setdefault((job.task, name(job)), {})
        # `values` does not contain the seed, so it is the same for all seeds of a hyperparameter
        # setting.
        points.setdefault(str(sorted(job.values.items())), []).append(job)
    return {
        Trial(*pair, place, number): job
        for pair, points in found.items()
        for place, point in enumerate(points.values())
        for number, job in enumerate(point)
    }


class Search:
    """Search that runs some of the jobs of a plan, round by round.

    Args:
        plan: The plan of the whole grid.
        trials: The jobs of the search, keyed by trial.
        rounds: The function that chooses the trials of each round.
        others: Further jobs of the plan, which run in the first round.
        is_whole: Whether the schedule of a round also contains jobs with stored results, and is run
            even if no result is missing.

    Attributes:
        trials: The jobs of the search, keyed by trial.
        grid: The numbers of hyperparameter settings and seeds for each task and encoder.
        outcomes: The outcomes of the jobs that ran.
        schedule: The schedule of the last round; None before the first round. Its `todo` contains
            the jobs that ran in any round.
        left: The description of the round that could not be completed; empty if the search is
            complete.
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
        # The last trial of each task and encoder has the largest indices, which determine the size.
        self.grid = {each[:2]: Size(each.point + 1, each.seed + 1) for each in trials}
        self.outcomes: list[Outcome] = []
        self.schedule: Schedule | None = None
        self.left = ""
        self._is_over = False
        self._tried: dict[str, Job] = {}
        self._rows: dict[str, RunRow] = {}
        self._ended: dict[Trial, float | None] = {}

    def sentence(self) -> str:
        """Describe the rounds of the largest sweep, and the number of runs of the grid to execute.

        An example is "halving (settings x seeds per round): 8 x 1, 4 x 2; 12 of 16 runs".
        """
        largest = max((sizes(*size) for size in self.grid.values()), key=len)
        shown = ", ".join(f"{points} x {seeds}" for points, seeds in largest)
        rounds = in_turn(self._rounds, self.grid, dict.fromkeys(self.trials))
        runs = len({trial for found in rounds for trial in found.trials})
        return f"halving (settings x seeds per round): {shown}; {runs} of {len(self.trials)} runs"

    @property
    def jobs(self) -> list[Job]:
        """Jobs of the search that have been run or had a stored run before."""
        known = self._tried.keys() | self._rows.keys()
        return [job for job in self.trials.values() if job.key in known]

    def run(
        self,
        session: "Session",
        minutes: float = math.inf,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Run the rounds until the search is complete or the time budget is used up.

        Stored runs are not run again, so the same call resumes where an earlier one stopped. A job
        that fails is not tried again within a call.

        Args:
            session: The session that runs the jobs.
            minutes: The time budget in minutes.
            tell: A function that is called with a line about each round.

        Raises:
            BenchError: The time budget is too small for the first round. The error is raised before
                any job starts.
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
                if self._is_over and missing[0][2:] == (0, 0):  # this is the first round
                    _refuse(minutes, seconds.values(), schedule)
                if fitting or self._is_whole:
                    tell(f"{words}: {counted(len(fitting), 'job')}")
                    part = self._scheduled(session, fitting) if self._is_over else schedule
                    for line in part.model_sentences():
                        tell(line)
                    self._drive(session, part, end)
            # Later rounds depend on all scores of this round, so stop if it is not complete.
            if any(trial not in self._ended for trial in missing):
                self.left = words
                return

    def _look(self, store: Store) -> None:
        """Read the scores of the trials from the store.

        The score of a job that ran without a result is None.
        """
        keys = [job.key for job in self.trials.values()]
        self._rows = {row.key: row for row in store.runs_with(keys)}
        for trial, job in self.trials.items():
            row = self._rows.get(job.key)
            if row is not None and row.status == "finished":
                cell = build_cell(job.task, [row], find_suite(job.task.partition("/")[0]).rule)
                self._ended[trial] = None if cell is None else cell.median
            # The job ran and has no result, so it has failed.
            elif job.key in self._tried:
                self._ended[trial] = None

    def _scheduled(self, session: "Session", trials: Sequence[Trial]) -> Schedule:
        jobs = (*self._others, *(self.trials[trial] for trial in trials))
        return session.schedule(self._plan.part(job.key for job in jobs))

    def _drive(self, session: "Session", schedule: Schedule, end: float) -> None:
        todo = {job.key: job for job in schedule.todo if job.key not in self._tried}
        with session.drive(replace(schedule, todo=tuple(todo.values())), end) as driven:
            self.outcomes += driven.outcomes
            if time.monotonic() >= end:  # some jobs may have been skipped for lack of time
                self._is_over = True
                todo = {each.job.key: each.job for each in driven.outcomes}
            self._tried |= todo
            self._look(driven.store)
        self.schedule = replace(schedule, todo=tuple(self._tried.values()))

    def _seconds(self, trials: Sequence[Trial], schedule: Schedule) -> dict[Trial, float]:
        """Estimate the seconds of each trial, including the missing jobs that the trial needs.

        The estimate is the median time of finished runs of the same encoder on the same task. If
        there are none, it is the estimate of the schedule.
        """
        known: dict[tuple[str, ...], list[float]] = {}
        for trial, job in self.trials.items():
            if (row := self._rows.get(job.key)) is not None and row.status == "finished":
                known.setdefault(trial[:2], []).append(row.seconds)
        weights, paid, found = schedule.weights, set[str](), dict[Trial, float]()
        for trial in trials:
            job, own = self.trials[trial], known.get(trial[:2])
            # If several trials need the same missing job, its time is added to the first of them.
            found[trial] = median(own) if own else weights.get(job.key, 0.0)
            needs = with_starts(set(job.needs), self._plan.jobs) - paid if job.needs else ()
            found[trial] += math.fsum(weights.get(need, 0.0) for need in needs)
            paid.update(needs)
        return found


def _fitting(seconds: Mapping[Trial, float], at_once: int, left: float) -> list[Trial]:
    """Return the first trials, as far as they are expected to end within `left` seconds."""
    # Estimate when each trial ends: the slots must have finished all trials up to this one,
    # and at least the trial's own duration must have passed.
    spent = accumulate(each / at_once for each in seconds.values())
    longest = (max(both) for both in zip(spent, seconds.values(), strict=True))
    return [t for t, _ in zip(seconds, takewhile(lambda each: each <= left, longest), strict=False)]


def _refuse(minutes: float, seconds: Collection[float], schedule: Schedule) -> None:
    needed = sum(seconds) / schedule.at_once
    is_rough = any(estimate.rough for estimate in schedule.estimates.values())
    raise BenchError(
        f"--minutes {minutes:g} is too short for one run of each encoder on each task: "
        f"{len(seconds)} runs take about {duration(needed)} here"
        f"{' (a rough guess)' if is_rough else ''}; pass --minutes "
        f"{max(1, math.ceil(needed / 60))}, or use fewer models (--among), tasks or rows (--limit)."
    )


def halving(plan: Plan, tasks: Collection[str]) -> Search:
    """Create the search by successive halving over the hyperparameter sweeps of a plan.

    Args:
        plan: The plan of the whole grid.
        tasks: The names of the requested tasks. The plan may have jobs on other tasks, which are
            run only if a selected job needs them.

    Raises:
        BenchError: No sweep has at least three hyperparameter settings and two seeds.
    """
    asked = [job for job in plan.jobs if job.task in tasks]
    trials = trials_of((job for job in asked if job.is_sweep), _sweep)
    others = [job for job in asked if not job.is_sweep]
    found = Search(plan, trials, sweep_rounds, others, is_whole=True)
    if not any(points > 2 and seeds > 1 for points, seeds in found.grid.values()):
        raise BenchError(
            "--halving needs a sweep of at least three hyperparameter settings "
            "(--set learning_rate=1e-5,2e-5,5e-5) and at least two seeds."
        )
    return found


def _sweep(job: Job) -> str:
    """Return the name of a job's sweep, which consists of model, weights and choice of features."""
    return f"{job.model} {job.weights} {job.values.get(FEATURES_SETTING)}"
