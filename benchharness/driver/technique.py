"""Training techniques, such as distillation: each is a class of hooks that planning calls.

The hooks check the request, change recipes and add jobs. The part of each technique that runs in
the worker is in worker/technique.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

from benchharness.driver.request import ALL_ROWS, Request, leading_tasks
from benchharness.driver.start_checkpoints import taught
from benchharness.errors import BenchError, DataError
from benchharness.leaderboard.job import PRETRAINED, TOGETHER, Job, Start
from benchharness.models import ModelSpec
from benchharness.recipes import ResolvedRecipe
from benchharness.recipes.recipe import TEACHER
from benchharness.recipes.resolve import resolve_together, with_start
from benchharness.tasks.suites import find_task
from benchharness.tasks.task import Task

if TYPE_CHECKING:
    from benchharness.driver.plan import Parts, Recipes, Resolver


class Technique:
    """Base class of training techniques, with hooks that do nothing by default.

    Planning calls the hooks in the order in which they are defined here.
    """

    needed: str = ""
    """Name of the technique, as in the field `Facts.needs` of hyperparameters that require it.

    It is empty if no hyperparameter requires the technique."""

    def check(self, request: Request) -> None:
        """Raise BenchError if the technique conflicts with other options of the request."""

    def start(self, start_from: str | Start | None) -> str | Start | None:
        """Return the initial weights for tasks that are trained separately.

        Args:
            start_from: The initial weights that the user, or a technique before this one, has
                chosen: "pretrained", a task, TOGETHER (the multi-task encoder) or a `Start`; None
                if the recipe determines them.

        Returns:
            `start_from`, or another value of the same kind.
        """
        return start_from

    def values(self, task: Task) -> Iterable[Mapping[str, str]]:
        """Return mappings from the names of additional hyperparameters to their values.

        The task is trained once with each mapping. By default, there is one empty mapping.
        """
        return ({},)

    def asks_untrained(self, task: Task) -> bool:
        """Return whether the models should also be scored on the task without training."""
        return False

    def resolve(self, resolver: "Resolver", recipes: "Recipes") -> Iterable[tuple[ModelSpec, str]]:
        """Resolve the recipes of jobs that the technique adds; return their models and tasks.

        Args:
            resolver: The resolver of recipes.
            recipes: The recipes of all jobs without this technique, keyed by model and task.
        """
        return ()

    def check_rows(self, parts: "Parts") -> None:
        """Raise DataError if a task has too few training examples for the technique.

        `parts` contains the recipes and the sizes of the splits.
        """

    def jobs(self, parts: "Parts") -> Iterable[Job]:
        """Return the jobs that the technique adds; they come before all other jobs.

        `parts` is the builder of jobs.
        """
        return ()

    def chained(self, parts: "Parts", model: ModelSpec, jobs: list[Job]) -> list[Job]:
        """Change the job of a task, and add the jobs that the changed job needs.

        Args:
            parts: The builder of jobs.
            model: The model of the job.
            jobs: The jobs that the job of the task needs, followed by this job.

        Returns:
            The new list, which again ends with the job of the task.
        """
        return jobs


@dataclass(frozen=True, kw_only=True)
class FewShot(Technique):
    """Few-shot training: each seed draws a small number of training examples at random.

    With 0 shots, and on tasks without training examples, a model is scored without training, for
    example by filling in a cloze.

    Attributes:
        shots: The numbers of training examples, as in `Request.shots`; empty without --shots.
    """

    shots: Sequence[int]

    def check(self, request: Request) -> None:
        """Raise BenchError if --shots and --multi-task are both given.

        The training examples of the multi-task training would count as shots too.
        """
        if self.shots and request.multi_task:
            raise BenchError("--shots and --multi-task cannot be combined: remove one of them.")

    def start(self, start_from: str | Start | None) -> str | Start | None:
        """Return "pretrained" if --shots is set, otherwise `start_from` unchanged.

        Raises:
            BenchError: --shots is set, but `start_from` is a model that was fine-tuned before. The
                training examples of that model would count as shots too.
        """
        if not self.shots:
            return start_from
        if start_from not in (None, PRETRAINED):
            raise BenchError(
                f"--shots and --start-from {start_from!r} cannot be combined, because the rows on "
                "which the initial weights were trained would count as shots too."
            )
        return PRETRAINED

    def values(self, task: Task) -> list[Mapping[str, str]]:
        """Return one mapping with the hyperparameter `shots` per number of examples except 0.

        For the whole train split, which is also used if --shots is not set, the mapping is empty.
        For a task without training examples, there are no mappings.

        Raises:
            BenchError: The task has no training examples, and shots were requested without 0.
        """
        if task.is_trained:
            numbers = [number for number in self.shots or (ALL_ROWS,) if number]
            return [{} if number == ALL_ROWS else {"shots": str(number)} for number in numbers]
        if self.shots and 0 not in self.shots:
            raise BenchError(
                f"{task.name} has no training rows: use --shots 0 to score it without training."
            )
        return []

    def asks_untrained(self, task: Task) -> bool:
        """Return whether 0 shots were requested or the task has no training examples."""
        return 0 in self.shots or not task.is_trained

    def check_rows(self, parts: "Parts") -> None:
        """Raise DataError if a task has fewer training examples than shots.

        The error has a line for each such task. `parts` contains the recipes and the sizes of the
        splits.
        """
        lines: dict[str, None] = {}
        for (_, task), points in parts.recipes.items():
            asked = [int(p.settings["shots"].value) for p in points if "shots" in p.settings]
            digest = parts.fingerprints[task].get(f"{task}:train", "")
            if asked and max(asked) > (count := parts.reader.rows[digest].used):
                lines[
                    f"{task} has only {count} training rows here, but --shots has {max(asked)}: "
                    "use a smaller number, or all."
                ] = None
        if lines:
            raise DataError(*lines)


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

        The arguments and the return value are those of `Technique.resolve`.

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

        All other jobs stay unchanged. The arguments are those of `Technique.chained`.
        """
        *before, job = jobs
        if job.start is None or job.start.kind != "together":
            return jobs
        shared = self._job(parts, model, job.seed)
        return [*before, shared, replace(job, start_from=shared.key)]

    def _job(self, parts: "Parts", model: ModelSpec, seed: int) -> Job:
        return parts.job(model, [task.name for task in self.tasks], self.recipes[model], seed)


@dataclass(kw_only=True)
class Distillation(Technique):
    """Knowledge distillation: the jobs of all encoders learn from a teacher.

    Attributes:
        teacher: The teacher: a model that is fine-tuned first, or a list of stored jobs that ends
            with the teacher's job.
        recipes: If the teacher is a model, the recipes with which it is fine-tuned, keyed by model
            and task; otherwise empty.
    """

    needed = TEACHER
    teacher: ModelSpec | Sequence[Job]
    recipes: dict[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]] = field(default_factory=dict)

    def check(self, request: Request) -> None:
        """Raise BenchError if distillation is not possible.

        It cannot be combined with multi-task or few-shot training. It is also not possible if the
        teacher is a baseline, or a task has no training examples.
        """
        if request.multi_task or request.start_from == TOGETHER:
            raise BenchError(
                "--teacher and --multi-task cannot be combined, because a teacher and its student "
                "are trained on a single task."
            )
        if request.shots:
            raise BenchError(
                "--teacher and --shots cannot be combined, because the training rows of the "
                "teacher would count as shots too."
            )
        for task in leading_tasks(request.tasks):
            if not task.is_trained:
                raise BenchError(
                    f"{task.name} has no training rows to train a student on: remove --teacher."
                )
        if isinstance(self.teacher, ModelSpec) and self.teacher.is_baseline:
            raise BenchError(
                f"{self.teacher.name} is a baseline, so it has no network to learn from: set "
                "--teacher to an encoder."
            )

    def resolve(self, resolver: "Resolver", recipes: "Recipes") -> list[tuple[ModelSpec, str]]:
        """Resolve the recipes with which a teacher model is trained on the tasks of the students.

        If the teacher is a stored run, nothing is resolved. The arguments and the return value are
        those of `Technique.resolve`.

        Options of the user for the students do not apply to the teacher, with one exception: with
        `--start-from pretrained`, the teacher also starts from its pretrained weights. The
        reason is that its recipe might start from the model of another task, whose data may be
        missing.
        """
        if isinstance(self.teacher, ModelSpec):
            tasks = [find_task(name) for name in dict.fromkeys(name for _, name in recipes)]
            start = PRETRAINED if resolver.start_from == PRETRAINED else None
            own = type(resolver)(
                models=[self.teacher], start_from=start, few_rows=resolver.few_rows
            )
            self.recipes.update(own.single(tasks))
        return [*self.recipes]

    def chained(self, parts: "Parts", model: ModelSpec, jobs: list[Job]) -> list[Job]:
        """Set the teacher of the job of a task, and add the jobs of the teacher before this job.

        If the job starts from the model of another task, the job of that other task already has a
        teacher of its own. The arguments are those of `Technique.chained`.
        """
        *before, job = jobs
        first, own = before[-1] if before else None, isinstance(self.teacher, ModelSpec)
        teachers = self.teacher
        if isinstance(teachers, ModelSpec):
            alone = replace(parts, recipes=self.recipes, techniques=())
            teachers = alone.chain(teachers, job.task, 0, job.seed)
        return [*before, *teachers, taught(job, first, teachers[-1], of_all_seeds=not own)]


def techniques_of(request: Request) -> tuple[Technique, ...]:
    """Return the techniques of a request, in the order in which planning calls them."""
    shared = sorted(leading_tasks(request.multi_task), key=lambda task: task.name)
    found: list[Technique] = [FewShot(shots=request.shots), MultiTask(tasks=shared)]
    if request.teacher is not None:
        found.append(Distillation(teacher=request.teacher))
    return tuple(found)
