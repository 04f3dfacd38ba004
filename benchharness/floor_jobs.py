"""The jobs of the floors: one for each task and floor, whatever the seeds, recipe and precision."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchharness.models import ModelSpec, weights_identity
from benchharness.recipes.floor import FLOOR, floor_settings
from leaderboard.job import Job
from tasks.suites import find_task
from tasks.task import Task

__all__ = ["floor_jobs"]


def floor_jobs(
    jobs: Iterable[Job], floors: Sequence[ModelSpec], tasks: Iterable[Task]
) -> list[Job]:
    """A job of each floor for each of the tasks, on the rows that these jobs are planned on.

    A task that another one's model predicts has that one's job, as with an encoder. A floor has no
    seed, which is then 0, and computes in the 64 bits of scikit-learn.
    """
    planned = {job.task: job for job in jobs}
    names = dict.fromkeys(task.trained_on or task.name for task in tasks)
    return [
        replace(
            planned[name],
            model=floor.name,
            checkpoint=floor.checkpoint,
            weights=weights_identity(floor),
            recipe=FLOOR,
            settings=floor_settings(floor.name, find_task(name).head),
            seed=0,
            precision="fp64",
            start_from=None,
            trust_remote_code=False,
            allow_pickle=False,
        )
        for floor in floors
        for name in names
    ]
