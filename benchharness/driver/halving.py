"""Successive halving of a sweep: all points with one seed, the better half with more.

Jamieson and Talwalkar, Non-stochastic best arm identification and hyperparameter optimization,
AISTATS 2016, with seeds in the place of steps: what a point has learned after a few steps at a
falling rate says little of its end, and its first seed says much. The jobs are those of the whole
grid, so what one command has trained another one needs not train again.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import NamedTuple

from benchharness.driver.drive import Driven
from benchharness.driver.plan import Plan
from benchharness.driver.schedule import Schedule
from benchharness.engines.process import Outcome
from benchharness.leaderboard.boards.cell import build_cell
from benchharness.leaderboard.job import FEATURES_SETTING, Job
from benchharness.leaderboard.result import RunRow
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import find_suite


class Rung(NamedTuple):
    """So many points, the best so far, each with the first so many seeds."""

    points: int
    seeds: int


def rungs(points: int, seeds: int) -> tuple[Rung, ...]:
    """The rungs from all points with one seed to the last two with every seed.

    Each doubles the seeds and halves the points, rounded up; three stay until the last, because
    two seeds tell neighbours apart too badly: (8, 1), (4, 2), (3, 4), (2, 5), half of eight points
    with five seeds.
    """
    found = [Rung(points, 1)]
    while found[-1].seeds < seeds:
        left, tried = found[-1]
        more = min(2 * tried, seeds)
        least = 2 if more == seeds else 3
        found.append(Rung(min(left, max(least, math.ceil(left / 2))), more))
    return tuple(found)


class Halving:
    """The sweeps of a plan, of which each rung runs a part.

    `tasks` are the names of those that were asked for; a job of another one runs where a job that
    was chosen starts from it. Raises BenchError where there is nothing to choose from.
    """

    def __init__(self, plan: Plan, tasks: Collection[str]) -> None:
        self._plan = plan
        asked = [job for job in plan.jobs if job.task in tasks]
        self._others = [job for job in asked if not job.is_sweep]
        self._sweeps = sweeps(job for job in asked if job.is_sweep)
        sizes = [(len(points), len(points[0])) for points in self._sweeps]
        self._rungs = [rungs(*size) for size in sizes]
        if not any(len(found) > 1 and found[0].points > 2 for found in self._rungs):
            raise BenchError(
                "--halving chooses among the points of a sweep: give three or more values "
                "(--set learning_rate=1e-5,2e-5,5e-5) and two or more seeds."
            )

    def __len__(self) -> int:
        """How many rungs there are."""
        return max(map(len, self._rungs))

    def sentence(self) -> str:
        """How far it goes, by the largest sweep: "points with seeds: 8 with 1, 4 with 2, ..."."""
        first = max(self._rungs, key=len)
        steps = ", ".join(f"{rung.points} with {rung.seeds}" for rung in first)
        whole = sum(len(points) * len(points[0]) for points in self._sweeps)
        return f"halving: points with seeds: {steps}; {self._count()} of {whole} runs"

    def _count(self) -> int:
        total = 0
        for found in self._rungs:
            before = 0
            for rung in found:
                total += rung.points * (rung.seeds - before)
                before = rung.seeds
        return total

    @contextmanager
    def driven(
        self,
        scheduled: Callable[[Plan], Schedule],
        drive: Callable[[Schedule], AbstractContextManager[Driven]],
    ) -> Iterator[Driven]:
        """Runs one rung after the other; a job that failed in one is not tried again in the next.

        The schedule that it yields is of all that was tried.
        """
        tried: dict[str, Job] = {}
        ended: list[Outcome] = []
        rows: dict[str, RunRow] = {}
        for rung in range(len(self)):
            schedule = scheduled(self.part(rung, rows))
            todo = {job.key: job for job in schedule.todo if job.key not in tried}
            tried |= todo
            with drive(replace(schedule, todo=tuple(todo.values()))) as run:
                ended += run.outcomes
                if rung == len(self) - 1:
                    whole = replace(schedule, todo=tuple(tried.values()))
                    yield Driven(whole, run.store, tuple(ended))
                    return
                rows = {row.key: row for row in run.store.runs_with(j.key for j in schedule.jobs)}

    def part(self, rung: int, rows: Mapping[str, RunRow]) -> Plan:
        """The jobs up to a rung (from 0), by the stored `rows` of the jobs before it, by key.

        A point with no score has failed so far, and is behind all others. Equal ones stay in the
        order of the grid, so that the same rows always choose the same.
        """
        chosen = list(self._others)
        for points, found in zip(self._sweeps, self._rungs, strict=True):
            left, tried = points, 0
            for step in found[: rung + 1]:
                left = _best(left, rows, tried)[: step.points]
                chosen += [job for point in left for job in point[: step.seeds]]
                tried = step.seeds
        return self._plan.part(job.key for job in chosen)


Point = Sequence[Job]
"""The jobs of a point, one a seed."""


def sweeps(jobs: Iterator[Job]) -> list[list[Point]]:
    """The points of each model on each task, and of each choice of features."""
    found: dict[tuple[object, ...], dict[str, list[Job]]] = {}
    for job in jobs:
        read = job.values.get(FEATURES_SETTING)
        points = found.setdefault((job.model, job.weights, job.task, read), {})
        points.setdefault(str(sorted(job.values.items())), []).append(job)
    return [list(points.values()) for points in found.values()]


def _best(points: Sequence[Point], rows: Mapping[str, RunRow], tried: int) -> list[Point]:
    """The points by their medians over the first seeds that were tried, the best first.

    Later seeds may be stored too, where a run was stopped or a whole grid ran before; which points
    go on does not depend on that.
    """
    return sorted(points, key=lambda point: -_median(point[:tried], rows, point[0].task))


def _median(point: Point, rows: Mapping[str, RunRow], task: str) -> float:
    found = [rows[job.key] for job in point if job.key in rows]
    finished = [row for row in found if row.status == "finished"]
    cell = build_cell(task, finished, find_suite(task.partition("/")[0]).rule)
    return -math.inf if cell is None else cell.median
