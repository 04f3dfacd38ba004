"""Jobs on the packaged data that train for a few steps."""

from benchharness.leaderboard.job import Job
from benchharness.tasks.suites import find_task
from tests.helpers.plans import plan_job

QUICK = {"epochs": "1", "batch_size": "16", "evaluations": "2"}


def make_shared_job(*tasks: str, limit: int | None = 48, **settings: str) -> Job:
    """Return the multi-task job of these tasks."""
    return plan_job(
        "tiny",
        [],
        overrides=QUICK | settings,
        limit=limit,
        precision="fp32",
        test=True,
        multi_task=[find_task(task) for task in tasks],
    )


def make_job(task: str, limit: int | None = 48, model: str = "tiny", **settings: str) -> Job:
    return plan_job(
        model,
        task,
        overrides=QUICK | settings,
        limit=limit,
        precision="fp32",
        test=True,
    )
