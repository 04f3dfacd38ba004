"""Ways of training as hooks of a plan: what each refuses and resolves, and the jobs that it adds.

What a worker does of them is in worker/technique.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

from benchharness.driver.request import ALL_ROWS, Request, leading_tasks
from benchharness.driver.start_checkpoints import taught
from benchharness.leaderboard.job import PRETRAINED, TOGETHER, Job, Start
from benchharness.models import ModelSpec
from benchharness.recipes import ResolvedRecipe
from benchharness.recipes.recipe import TEACHER
from benchharness.recipes.resolve import resolve_together, with_start
from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task

if TYPE_CHECKING:
    from benchharness.driver.plan import Parts, Recipes, Resolver


class Technique:
    """The hooks, in the order in which a plan asks for them; by default they change nothing."""

    needed: str = ""
    """What hyperparameters call it that mean nothing without it."""

    def check(self, request: Request) -> None:
        """Raises BenchError where it does not go with the rest of a request."""

    def start(self, start_from: str | Start | None) -> str | Start | None:
        """What single tasks start from, given what was asked for."""
        return start_from

    def values(self, task: Task) -> Iterable[Mapping[str, str]]:
        """What is set besides, once for each time that a single task is trained."""
        return ({},)

    def asks_untrained(self, task: Task) -> bool:
        """Whether a language model is asked for the task's answers as it is."""
        return False

    def resolve(self, resolver: "Resolver", recipes: "Recipes") -> Iterable[tuple[ModelSpec, str]]:
        """Resolves the recipes of jobs of its own; gives their models and tasks."""
        return ()

    def check_rows(self, parts: "Parts") -> None:
        """Raises DataError where there are too few rows for it."""

    def jobs(self, parts: "Parts") -> Iterable[Job]:
        """Jobs of its own, which come before those of single tasks."""
        return ()

    def chained(self, parts: "Parts", model: ModelSpec, jobs: list[Job]) -> list[Job]:
        """The last of these jobs, a single task's, behind all that it needs."""
        return jobs


@dataclass(frozen=True, kw_only=True)
class FewShot(Technique):
    """Some numbers of training rows, as a Request has them.

    With 0 a language model is asked as it is (cloze), as for every task without training rows.
    """

    shots: Sequence[int]

    def check(self, request: Request) -> None:
        """Nothing may be trained before: its rows would count too."""
        if self.shots and request.multi_task:
            raise BenchError("--shots and --multi-task exclude each other: take one of them out.")

    def start(self, start_from: str | Start | None) -> str | Start | None:
        """The checkpoint."""
        if not self.shots:
            return start_from
        if start_from not in (None, PRETRAINED):
            raise BenchError(
                f"--shots and --start-from {start_from!r} exclude each other: its rows would count "
                "too."
            )
        return PRETRAINED

    def values(self, task: Task) -> list[Mapping[str, str]]:
        """Each number of rows; none where the task has no rows."""
        if task.is_trained:
            numbers = [number for number in self.shots or (ALL_ROWS,) if number]
            return [{} if number == ALL_ROWS else {"shots": str(number)} for number in numbers]
        if self.shots and 0 not in self.shots:
            raise BenchError(f"{task.name} has no training rows: --shots 0, or nothing, scores it.")
        return []

    def asks_untrained(self, task: Task) -> bool:
        """With 0, and where there is nothing to train on."""
        return 0 in self.shots or not task.is_trained

    def check_rows(self, parts: "Parts") -> None:
        """With a line for each task that has fewer training rows than shots."""
        lines: dict[str, None] = {}
        for (_, task), points in parts.recipes.items():
            asked = [int(p.settings["shots"].value) for p in points if "shots" in p.settings]
            digest = parts.fingerprints[task].get(f"{task}:train", "")
            if asked and max(asked) > (count := parts.reader.rows[digest].used):
                lines[
                    f"{task} has {count} training rows here, fewer than --shots {max(asked)}: "
                    "give fewer, or all."
                ] = None
        if lines:
            raise DataError(*lines)


@dataclass(kw_only=True)
class MultiTask(Technique):
    """Tasks that share an encoder, by name: a job of each model and seed, by these recipes.

    One task together with nothing is a single one.
    """

    tasks: Sequence[Task]
    recipes: dict[ModelSpec, ResolvedRecipe] = field(default_factory=dict)

    def check(self, request: Request) -> None:
        """Each of them trains."""
        for task in self.tasks:
            if not task.is_trained:
                raise BenchError(
                    f"{task.name} has no rows to train on: leave it out of --multi-task."
                )

    def start(self, start_from: str | Start | None) -> str | Start | None:
        """The encoder of the tasks, where that was asked for."""
        if start_from != TOGETHER:
            return start_from
        names = ",".join(task.name for task in self.tasks)
        return Start(kind="together", name=names) if len(self.tasks) > 1 else None

    def resolve(self, resolver: "Resolver", recipes: "Recipes") -> list[tuple[ModelSpec, str]]:
        """One for all tasks; BenchError where two of them are versions of one benchmark."""
        if len(self.tasks) < 2:
            return []
        found: dict[str, str] = {}
        for task in self.tasks:
            other = found.setdefault(task.benchmark or task.name, task.name)
            if other != task.name:
                raise BenchError(
                    f"{other} and {task.name} cannot be trained together, because both are "
                    f"versions of {task.benchmark} and share rows: leave one of them out of "
                    "--multi-task."
                )
        for model in resolver.models:
            recipe = resolve_together(model, self.tasks, resolver.recipe, resolver.overrides)
            self.recipes[model] = recipe
            if model.start is not None:
                self.recipes[model] = with_start(recipe, model, self.tasks[0])
        return [(model, task.name) for model in self.recipes for task in self.tasks]

    def jobs(self, parts: "Parts") -> Iterator[Job]:
        """One of each model and seed."""
        for model, seed in product(self.recipes, parts.seeds):
            yield self._job(parts, model, seed)

    def chained(self, parts: "Parts", model: ModelSpec, jobs: list[Job]) -> list[Job]:
        """Behind the job of the tasks, where it starts from that one's encoder."""
        *before, job = jobs
        if job.start is None or job.start.kind != "together":
            return jobs
        shared = self._job(parts, model, job.seed)
        return [*before, shared, replace(job, start_from=shared.key)]

    def _job(self, parts: "Parts", model: ModelSpec, seed: int) -> Job:
        return parts.job(model, [task.name for task in self.tasks], self.recipes[model], seed)


@dataclass(kw_only=True)
class Distillation(Technique):
    """Every job of an encoder learns from a teacher, as a Request has it.

    `recipes` are those of a teacher that is a model: of its own paper.
    """

    needed = TEACHER
    teacher: ModelSpec | Sequence[Job]
    recipes: dict[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]] = field(default_factory=dict)

    def check(self, request: Request) -> None:
        """Somebody has to teach, and somebody to learn."""
        if request.multi_task or request.start_from == TOGETHER:
            raise BenchError(
                "--teacher and --multi-task exclude each other: a teacher is of one task, and so "
                "is its student."
            )
        if request.shots:
            raise BenchError(
                "--teacher and --shots exclude each other: the rows that the teacher has learned "
                "from would count too."
            )
        for task in leading_tasks(request.tasks):
            if not task.is_trained:
                raise BenchError(
                    f"{task.name} has no training rows, so nobody is taught: leave --teacher out."
                )
        if isinstance(self.teacher, ModelSpec) and self.teacher.is_baseline:
            raise BenchError(
                f"{self.teacher.name} is a baseline, which has no network to teach with: give "
                "--teacher an encoder."
            )

    def resolve(self, resolver: "Resolver", recipes: "Recipes") -> list[tuple[ModelSpec, str]]:
        """Those of the tasks of its students.

        Of their options it shares "pretrained" as the start: the start's rows may be absent.
        """
        if isinstance(self.teacher, ModelSpec):
            tasks = [find_task(name) for name in dict.fromkeys(name for _, name in recipes)]
            start = PRETRAINED if resolver.start_from == PRETRAINED else None
            own = type(resolver)(models=[self.teacher], start_from=start)
            self.recipes.update(own.single(tasks))
        return [*self.recipes]

    def chained(self, parts: "Parts", model: ModelSpec, jobs: list[Job]) -> list[Job]:
        """Behind its teacher, whose start comes first; what it starts from is a student too."""
        *before, job = jobs
        first, own = before[-1] if before else None, isinstance(self.teacher, ModelSpec)
        teachers = self.teacher
        if isinstance(teachers, ModelSpec):
            alone = replace(parts, recipes=self.recipes, techniques=())
            teachers = alone.chain(teachers, job.task, 0, job.seed)
        return [*before, *teachers, taught(job, first, teachers[-1], of_all_seeds=not own)]


def techniques_of(request: Request) -> tuple[Technique, ...]:
    """What a request has, in the order in which it is asked."""
    shared = sorted(leading_tasks(request.multi_task), key=lambda task: task.name)
    found: list[Technique] = [FewShot(shots=request.shots), MultiTask(tasks=shared)]
    if request.teacher is not None:
        found.append(Distillation(teacher=request.teacher))
    return tuple(found)
