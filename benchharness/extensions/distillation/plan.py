"""Planning of distillation: the jobs of teachers, and checks that students can learn from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from benchharness.driver.request import Request, leading_tasks
from benchharness.driver.start_checkpoints import IS_NO_NETWORK
from benchharness.driver.technique import Technique
from benchharness.errors import BenchError
from benchharness.leaderboard.job import PRETRAINED, TEACHER, TOGETHER, Job, Teacher
from benchharness.leaderboard.text import digest
from benchharness.models import ModelSpec
from benchharness.recipes import ResolvedRecipe
from benchharness.recipes.recipe import OF_STUDENTS
from benchharness.tasks.suites import distinct_title, find_task
from benchharness.tasks.task import Task

if TYPE_CHECKING:
    from benchharness.driver.plan import Parts, Recipes, Resolver


def plan_of(request: Request) -> "Distillation | None":
    """Return the planning hooks of distillation; None if the request has no teacher."""
    return None if request.teacher is None else Distillation(teacher=request.teacher)


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
        the same as for `Technique.resolve`.

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
        teacher of its own. The arguments are the same as for `Technique.chained`.
        """
        *before, job = jobs
        first, own = before[-1] if before else None, isinstance(self.teacher, ModelSpec)
        teachers = self.teacher
        if isinstance(teachers, ModelSpec):
            alone = replace(parts, recipes=self.recipes, techniques=())
            teachers = alone.chain(teachers, job.task, 0, job.seed)
        return [*before, *teachers, taught(job, first, teachers[-1], of_all_seeds=not own)]


def taught(student: Job, start: Job | None, job: Job, *, of_all_seeds: bool) -> Job:
    """Return the job of a student with its teacher set.

    Args:
        student: The job that learns from the teacher.
        start: The job whose model the student starts from; None if it starts from the checkpoint.
        job: The job of the teacher.
        of_all_seeds: Whether the same teacher is used for all seeds of the student.

    Raises:
        BenchError: The student cannot learn from this teacher.
    """
    _check(student, job)
    # `alone` is the same job without a teacher; the leaderboard compares the student with it. If
    # the student starts from another student, `alone` starts from that other student without its
    # teacher.
    before = None if start is None else start.teacher
    settings = {name: s for name, s in student.settings.items() if name not in OF_STUDENTS}
    alone = replace(
        student, settings=settings, start_from=before.alone if before else student.start_from
    )
    return replace(student, teacher=_teacher(job, alone.key, of_all_seeds=of_all_seeds))


def _teacher(job: Job, alone: str, *, of_all_seeds: bool) -> Teacher:
    trained_on = sorted(d for name, d in job.fingerprints.items() if name.endswith(":train"))
    facts = [job.weights, job.values, job.precision, trained_on, job.start and job.start.name]
    # If all seeds of the student have the same teacher, the variant identifies this teacher by its
    # key. If each seed has its own teacher, the variant is made of the facts that these teachers
    # share, so that all students belong to one leaderboard entry.
    variant = job.key if of_all_seeds else digest(facts)
    return Teacher(run=job.key, model=job.model, variant=variant[:12], alone=alone)


def _check(student: Job, teacher: Job) -> None:
    """Raise BenchError if a student cannot learn from a teacher."""
    if teacher.kind != "model":
        raise BenchError(
            f"{_name(teacher)} is {IS_NO_NETWORK[teacher.kind]}, so it has no network to learn "
            "from: set --teacher to a model, or to the key of a run that was trained here."
        )
    if len(teacher.trained_tasks) > 1:
        raise BenchError(
            f"{_name(teacher)} was trained on {teacher.title}: set --teacher to a run that was "
            f"trained on {student.title} alone."
        )
    _check_values(student, teacher)
    _check_labels(student, teacher)


def _check_values(student: Job, teacher: Job) -> None:
    _check_what_is_learned(student, teacher)
    for job, who in ((teacher, "the teacher"), (student, "the student")):
        for name, reason in (
            ("as_text", "generates answers as text"),
            ("features", "reads the states of a frozen encoder"),
        ):
            if name in job.settings:
                raise BenchError(
                    f"{who} {job.model} {reason} ({name} is {job.settings[name].value}), but "
                    f"distillation needs fine-tuned encoders with heads: remove {name} or "
                    "--teacher."
                )
    for name in ("orders", "answerable_weight", "beam_size"):
        if _has(student, name) != _has(teacher, name):
            one, other = (student, teacher) if _has(student, name) else (teacher, student)
            raise BenchError(
                f"{one.model} has a head with {name} on {student.title}, but {other.model} has one "
                f"without: use the teacher's {name} for the student too (--set {name}=...)."
            )


def _check_what_is_learned(student: Job, teacher: Job) -> None:
    if "layer_epochs" in student.settings and "layer_weight" not in student.settings:
        raise BenchError(
            "layer_epochs trains on the teacher's layers only, but layer_weight is 0: add --set "
            "layer_weight=1, or remove layer_epochs."
        )
    if {"layer_weight", "orders"} <= student.settings.keys() and _has(student, "orders"):
        raise BenchError(
            f"{student.model} adds up the states of both orders of a pair, so it cannot learn its "
            "teacher's layers: remove orders or layer_weight."
        )
    if "from_teacher" in student.settings:
        _check_beginning(student, teacher)


def _check_beginning(student: Job, teacher: Job) -> None:
    """Raise BenchError if a student cannot be initialized with its teacher's weights."""
    if student.weights != teacher.weights:
        raise BenchError(
            "from_teacher needs a student with the same checkpoint as its teacher, but "
            f"{student.model} is not {teacher.model}: remove from_teacher."
        )
    if "layers" in teacher.settings:
        raise BenchError(
            f"from_teacher needs a teacher with all layers of the checkpoint, but the teacher "
            f"{teacher.model} has only some of them: remove from_teacher."
        )
    if student.start_from is not None:
        raise BenchError(
            f"{student.model} on {student.title} starts from {student.shown_start}, so it cannot "
            "begin with its teacher's weights: use --start-from pretrained, or remove from_teacher."
        )


def _check_labels(student: Job, teacher: Job) -> None:
    ours, theirs = find_task(student.task), find_task(teacher.task)
    if not ours.has_outputs:
        raise BenchError(
            f"{student.title} cannot be distilled, because the outputs of two models on it are not "
            "comparable: remove --teacher."
        )
    if _outputs(ours) != _outputs(theirs):
        raise BenchError(
            f"the teacher has other labels than the student: {_name(teacher)} predicts "
            f"{_labels(theirs)}, but {student.title} needs {_labels(ours)}."
        )


def _outputs(task: Task) -> tuple[Any, ...]:
    """Return the properties of a task, such as its labels, that determine a model's outputs."""
    names = ("labels", "multi_label", "is_regression", "scale", "marks", "tags", "classes", "facts")
    return type(task), *(getattr(task, name, None) for name in names)


def _labels(task: Task) -> str:
    named = getattr(task, "labels", ()) or getattr(task, "tags", ())
    if named:
        return f"{', '.join(named[:_MOST])}{', ...' if len(named) > _MOST else ''}"
    return "a number" if getattr(task, "is_regression", False) else f"answers of a {task.head} task"


_MOST = 6
"""Largest number of labels that an error message lists."""


def _has(job: Job, name: str) -> bool:
    """Return whether a job has the hyperparameter `name` with a value that changes the head.

    The value 0 does not change the head, and the value "both" of `orders` does not change it.
    """
    setting = job.settings.get(name)
    return setting is not None and setting.value not in (0, "both")


def _name(job: Job) -> str:
    title = distinct_title(job.task) if len(job.trained_tasks) == 1 else job.title
    return f"{job.model} on {title} (run {job.key[:12]})"
