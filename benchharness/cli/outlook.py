"""What a `bench run` is about to do, and about how long that takes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchharness.cli.display import duration, job_name
from benchharness.engines.slots import Slot
from benchharness.plan import Estimate, estimate_seconds
from leaderboard.job import Job
from leaderboard.result import RunRow

__all__ = ["Outlook", "look_ahead"]


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The jobs that were asked for, which of them to run, longest first, and for how long.

    `estimates` are by job key, of the jobs to run; `at_once` is how many run at the same time.
    """

    jobs: tuple[Job, ...]
    todo: tuple[Job, ...]
    estimates: Mapping[str, Estimate]
    at_once: int

    @property
    def weights(self) -> dict[str, float]:
        """The expected seconds by job key."""
        return {key: estimate.seconds for key, estimate in self.estimates.items()}

    @property
    def seconds(self) -> float:
        """About how long it takes: no shorter than the longest job."""
        each = [estimate.seconds for estimate in self.estimates.values()]
        return max(sum(each) / self.at_once, max(each, default=0.0))

    @property
    def is_rough(self) -> bool:
        """True where a job's kind was never run here."""
        return any(estimate.rough for estimate in self.estimates.values())

    def sentence(self) -> str:
        """What will happen, for a person."""
        done = len(self.jobs) - len(self.todo)
        parts = [f"{_count(len(self.jobs), 'job')} ({_shape(self.jobs)})"]
        if done:
            parts.append(f"{done} stored already")
        if not self.todo:
            return f"{', '.join(parts)}: nothing is missing."
        rough = " (a rough guess)" if self.is_rough else ""
        parts.append(f"{len(self.todo)} to run, {self.at_once} at once")
        return f"{', '.join(parts)}, about {duration(self.seconds)}{rough}."

    def lines(self) -> Iterator[str]:
        """One line for each job to run."""
        for job in self.todo:
            seconds = duration(self.estimates[job.key].seconds)
            yield f"  {job.key[:12]}  {job_name(job)}, {job.recipe}, {job.precision}: {seconds}"

    def to_json(self) -> list[dict[str, Any]]:
        """Every job with whether it is to run."""
        return [
            {
                "key": job.key,
                "model": job.model,
                "task": job.task,
                "seed": job.seed,
                "data": job.data,
                "recipe": job.recipe,
                "precision": job.precision,
                "to_run": job.key in self.estimates,
                "about_seconds": self.weights.get(job.key),
            }
            for job in self.jobs
        ]


def look_ahead(
    jobs: Sequence[Job], finished: set[str], history: Sequence[RunRow], slots: Sequence[Slot]
) -> Outlook:
    """What is missing, in the order in which it should start.

    The longest jobs start first, so that no slot works alone for long at the end.
    """
    gpu = slots[0].is_gpu
    missing = [job for job in jobs if job.key not in finished]
    estimates = {job.key: estimate_seconds(job, history, gpu=gpu) for job in missing}
    todo = sorted(missing, key=lambda job: -estimates[job.key].seconds)
    return Outlook(
        jobs=tuple(jobs),
        todo=tuple(todo),
        estimates=estimates,
        at_once=max(1, min(len(slots), len(todo))),
    )


def _shape(jobs: Sequence[Job]) -> str:
    """How many of what, such as 2 models x 9 tasks x 3 seeds."""
    counts = (
        _count(len({job.weights for job in jobs}), "model"),
        _count(len({job.task for job in jobs}), "task"),
        _count(len({job.seed for job in jobs}), "seed"),
    )
    return f"{' x '.join(counts)}, data: {jobs[0].data}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
