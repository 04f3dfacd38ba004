"""Planning of multi-task training: one job per model and seed, from which others can start."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

from benchharness.driver.request import Request, leading_tasks
from benchharness.driver.technique import Technique
from benchharness.errors import BenchError
from benchharness.leaderboard.job import TOGETHER, Job, Start
from benchharness.models import ModelSpec
from benchharness.recipes import ResolvedRecipe
from benchharness.recipes.resolve import resolve_together, with_start
from benchharness.tasks.task import Task

if TYPE_CHECKING:
    from benchharness.driver.plan import Parts, Recipes, Resolver


def plan_of(request: Request) -> "MultiTask":
    """Return the planning hooks of multi-task training, which do nothing without --multi-task."""
    return MultiTask(tasks=sorted(leading_tasks(request.multi_task), key=lambda task: task.name))


@dataclass(kw_only=True)
class MultiTask(Technique):
    """Multi-task training: one job per model and seed trains a shared encoder on several tasks.

    With fewer than two tasks, the technique does nothing, and a single task is trained as usual.

    Attributes:
        tasks: The tasks that share the encoder, sorted by name.
        recipes: The recipe of each model, which is used for all tasks; empty until `resolve` is
            called.
    """

    tasks: Sequence[Task]
    recipes: dict[ModelSpec, ResolvedRecipe] = field(default_factory=dict)

    def check(self, request: Request) -> None:
        """Raise BenchError if a task has no training examples."""
        for task in self.tasks:
            if not task.is_trained:
                raise BenchError(f"{task.name} has no training rows: remove it from --multi-task.")

    def start(self, start_from: str | Start | None) -> str | Start | None:
        """Return a `Start` that names the shared encoder if `start_from` is TOGETHER.

        With fewer than two tasks, None is returned instead. Values other than TOGETHER are returned
        unchanged.
        """
        if start_from != TOGETHER:
            return start_from
        names = ",".join(task.name for task in self.tasks)
        return Start(kind="together", name=names) if len(self.tasks) > 1 else None

    def resolve(self, resolver: "Resolver", recipes: "Recipes") -> list[tuple[ModelSpec, str]]:
        """Resolve one recipe per model, which is used for all tasks.

        The arguments and the return value are the same as for `Technique.resolve`.

        Raises:
            BenchError: Two of the tasks are versions of the same benchmark and share examples.
        """
        if len(self.tasks) < 2:
            return []
        found: dict[str, str] = {}
        for task in self.tasks:
            other = found.setdefault(task.benchmark or task.name, task.name)
            if other != task.name:
                raise BenchError(
                    f"{other} and {task.name} cannot be trained together, because both are "
                    f"versions of {task.benchmark} and share rows: remove one of them from "
                    "--multi-task."
                )
        for model in resolver.models:
            recipe = resolve_together(model, self.tasks, resolver.recipe, resolver.overrides)
            self.recipes[model] = recipe
            if model.start is not None:
                self.recipes[model] = with_start(recipe, model, self.tasks[0])
        return [(model, task.name) for model in self.recipes for task in self.tasks]

    def jobs(self, parts: "Parts") -> Iterator[Job]:
        """Yield the multi-task job of each model and seed."""
        for model, seed in product(self.recipes, parts.seeds):
            yield self._job(parts, model, seed)

    def chained(self, parts: "Parts", model: ModelSpec, jobs: list[Job]) -> list[Job]:
        """Add the multi-task job before the job of a task that starts from the shared encoder.

        All other jobs stay unchanged. The arguments are the same as for `Technique.chained`.
        """
        *before, job = jobs
        if job.start is None or job.start.kind != "together":
            return jobs
        shared = self._job(parts, model, job.seed)
        return [*before, shared, replace(job, start_from=shared.key)]

    def _job(self, parts: "Parts", model: ModelSpec, seed: int) -> Job:
        return parts.job(model, [task.name for task in self.tasks], self.recipes[model], seed)
