"""Whom a student may learn from: a run of the same labels, one head on a fine-tuned encoder."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchharness.leaderboard.job import Job, Kind, Teacher, Trust
from benchharness.leaderboard.store.database import is_there
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import digest
from benchharness.models import MODELS, ModelSpec, find_model
from benchharness.models.spec import NOTHING
from benchharness.recipes.recipe import DISTILLATION
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import distinct_title, find_task
from benchharness.tasks.task import Task

_KEY = re.compile("[0-9a-f]{4,64}")

IS_NO_NETWORK: dict[Kind, str] = {
    "scored": "a file of predictions",
    "ensemble": "an ensemble",
    "zero-shot": "a model that was not trained",
    "baseline": "a baseline",
    "imported": "a number that was imported",
}


def find_teacher(word: str, db: str, trust: Trust = NOTHING) -> ModelSpec | tuple[Job, ...]:
    """What a word after --teacher names: a model, or the stored run whose key begins so.

    A run is given behind all that it needs, should its network be gone and have to be trained
    again. Raises BenchError for a word that names neither.
    """
    is_key = _KEY.fullmatch(word) and word not in MODELS and not Path(word).exists()
    if not is_key or not is_there(db):
        return find_model(word, trust)
    with open_store(db, create=False) as store:
        return with_needs(store, store.result(word).job)


def with_needs(store: Store, job: Job) -> tuple[Job, ...]:
    """A stored run behind all that it needs, which are stored too."""
    found: dict[str, Job] = {}
    waiting = [job]
    while waiting:
        job = waiting.pop()
        # What is needed goes to the front, also where it was met before.
        found = {job.key: job} | {key: j for key, j in found.items() if key != job.key}
        waiting += [store.result(key).job for key in job.needs]
    return tuple(found.values())


def taught(student: Job, start: Job | None, job: Job, *, of_all_seeds: bool) -> Job:
    """The student of a job; `start` is what the student starts from.

    Raises BenchError where it cannot be one.
    """
    _check(student, job)
    # Where the start is a student too, the student without its teacher would start from what that
    # one would be without its own.
    before = None if start is None else start.teacher
    settings = {name: s for name, s in student.settings.items() if name not in DISTILLATION}
    alone = replace(
        student, settings=settings, start_from=before.alone if before else student.start_from
    )
    return replace(student, teacher=_teacher(job, alone.key, of_all_seeds=of_all_seeds))


def _teacher(job: Job, alone: str, *, of_all_seeds: bool) -> Teacher:
    trained_on = sorted(d for name, d in job.fingerprints.items() if name.endswith(":train"))
    facts = [job.weights, job.values, job.precision, trained_on, job.start and job.start.name]
    # One teacher of all seeds is told by its key. Where each seed has its own, what they share
    # tells them from other teachers, so that the students are seeds of one row.
    variant = job.key if of_all_seeds else digest(facts)
    return Teacher(run=job.key, model=job.model, variant=variant[:12], alone=alone)


def _check(student: Job, teacher: Job) -> None:
    """Raises BenchError where a student cannot learn from a teacher, and says why."""
    if teacher.kind != "model":
        raise BenchError(
            f"{_name(teacher)} is {IS_NO_NETWORK[teacher.kind]}, which has no network to teach "
            "with: give --teacher a model, or the key of a run that was trained here."
        )
    if len(teacher.trained_tasks) > 1:
        raise BenchError(
            f"{_name(teacher)} was trained on {teacher.title}: give --teacher a run of "
            f"{student.title} alone."
        )
    _check_values(student, teacher)
    _check_labels(student, teacher)


def _check_values(student: Job, teacher: Job) -> None:
    _check_what_is_learned(student, teacher)
    for job, who in ((teacher, "the teacher"), (student, "the student")):
        for name, reason in (
            ("as_text", "answers in words"),
            ("features", "reads the states of a frozen encoder"),
        ):
            if name in job.settings:
                raise BenchError(
                    f"{who} {job.model} {reason} ({name} is {job.settings[name].value}), and "
                    f"distillation is of fine-tuned encoders with heads: leave {name} or --teacher "
                    "out."
                )
    for name in ("orders", "answerable_weight", "beam_size"):
        if _has(student, name) != _has(teacher, name):
            one, other = (student, teacher) if _has(student, name) else (teacher, student)
            raise BenchError(
                f"{one.model} has a head with {name} on {student.title}, and {other.model} has one "
                f"without: --set {name} of the student to what its teacher has."
            )


def _check_what_is_learned(student: Job, teacher: Job) -> None:
    if "layer_epochs" in student.settings and "layer_weight" not in student.settings:
        raise BenchError(
            "layer_epochs are of learning from the teacher's layers, and layer_weight is 0: --set "
            "layer_weight=1, or leave layer_epochs out."
        )
    if {"layer_weight", "orders"} <= student.settings.keys() and _has(student, "orders"):
        raise BenchError(
            f"{student.model} reads both orders of a pair at once, whose states are of no one row: "
            "leave orders or layer_weight out."
        )
    if "from_teacher" in student.settings:
        _check_beginning(student, teacher)


def _check_beginning(student: Job, teacher: Job) -> None:
    """Raises BenchError for a student that cannot begin with its teacher's weights."""
    if student.weights != teacher.weights:
        raise BenchError(
            f"from_teacher is for a student of its teacher's own checkpoint, and {student.model} "
            f"is not {teacher.model}: leave from_teacher out."
        )
    if "layers" in teacher.settings:
        raise BenchError(
            f"from_teacher counts the layers of the whole checkpoint, and the teacher "
            f"{teacher.model} has only some of them: leave from_teacher out."
        )
    if student.start_from is not None:
        raise BenchError(
            f"{student.model} on {student.title} starts from {student.shown_start}, so it cannot "
            "begin with its teacher's weights: --start-from pretrained, or leave from_teacher out."
        )


def _check_labels(student: Job, teacher: Job) -> None:
    ours, theirs = find_task(student.task), find_task(teacher.task)
    if ours.head in ("coref", "ranking"):
        raise BenchError(
            f"{student.title} has no outputs to learn from: each model ranks spans, or places "
            "texts, in a way of its own. Leave --teacher out."
        )
    if _outputs(ours) != _outputs(theirs):
        raise BenchError(
            f"a teacher of other labels: {_name(teacher)} gives {_labels(theirs)}, and "
            f"{student.title} needs {_labels(ours)}."
        )


def _outputs(task: Task) -> tuple[Any, ...]:
    """What the outputs of a task's network are, in their order."""
    names = ("labels", "multi_label", "is_regression", "scale", "marks", "tags", "classes", "facts")
    return type(task), *(getattr(task, name, None) for name in names)


def _labels(task: Task) -> str:
    named = getattr(task, "labels", ()) or getattr(task, "tags", ())
    if named:
        return f"{', '.join(named[:_MOST])}{', ...' if len(named) > _MOST else ''}"
    return "a number" if getattr(task, "is_regression", False) else f"what a {task.head} task asks"


_MOST = 6
"""Labels that a sentence names."""


def _has(job: Job, name: str) -> bool:
    """Whether a value changes the head; rows in both orders are no other head."""
    setting = job.settings.get(name)
    return setting is not None and setting.value not in (0, "both")


def _name(job: Job) -> str:
    title = distinct_title(job.task) if len(job.trained_tasks) == 1 else job.title
    return f"{job.model} on {title} (run {job.key[:12]})"
