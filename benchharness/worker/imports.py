"""What jobs import before they compute, so that a process may have it before it forks them."""

from collections.abc import Iterable

from leaderboard.job import Job
from tasks.suites import find_task
from tasks.task import Task

__all__ = ["MODULES", "modules_for", "modules_of"]

MODULES = {
    "model": (
        "benchharness.worker.job",
        "transformers.models.auto.modeling_auto",
        "transformers.models.auto.tokenization_auto",
        "transformers.models.bert.modeling_bert",
    ),
    "floor": ("benchharness.floors", "sklearn.linear_model"),
}
"""By the kind of a job, whatever its tasks are."""


def modules_for(job: Job) -> tuple[str, ...]:
    """What a job imports."""
    return modules_of(job.kind, (find_task(name.rpartition(":")[0]) for name in job.fingerprints))


def modules_of(kind: str, tasks: Iterable[Task]) -> tuple[str, ...]:
    """What jobs of a kind import that are scored on some tasks."""
    libraries = {m.library for task in tasks for m in (*task.metrics, *task.details) if m.library}
    return (*MODULES[kind], *sorted(libraries))
