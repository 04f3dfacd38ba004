"""The trained networks that a run keeps, or that its jobs start or learn from, beside the store."""

import re
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from benchharness.kept_folders import (
    KEPT,
    KEPT_MODELS,
    LOCKS,
    MANIFEST,
    Holds,
    checkpoint_folder,
    delete_checkpoint,
    delete_drafts,
    is_whole,
)
from benchharness.leaderboard.job import Job, Kind, Teacher, Trust
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.leaderboard.store.database import is_there
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import digest
from benchharness.machine import BERT_BASE
from benchharness.models import MODELS, ModelSpec, find_model
from benchharness.models.folder import sizes_in
from benchharness.models.spec import NOTHING, find_weights
from benchharness.models.weights import cache_folder, hub_revision
from benchharness.recipes.recipe import DISTILLATION, kept_layers
from benchharness.tasks.answers import compare_answers
from benchharness.tasks.errors import BenchError
from benchharness.tasks.suites import distinct_title, find_task
from benchharness.tasks.task import Task


def folder_beside(db: str) -> Path:
    """Where a run keeps what is no result: beside the database, or where one of a server would be.

    A database's file need not be there yet.
    """
    return KEPT_MODELS.parent if "://" in db else Path(db).expanduser().parent


def kept_model(db: str, key: str) -> Path | None:
    """The folder of a run's network; None where there is none. Its files are not read."""
    folder = checkpoint_folder(folder_beside(db) / KEPT_MODELS.name, key)
    return folder if (folder / MANIFEST).is_file() else None


def delete_models(db: str, keys: Iterable[str]) -> list[str]:
    """Deletes what runs have left; gives the keys of those whose network is in use and stays."""
    holds = Holds(folder_beside(db) / LOCKS)
    root = folder_beside(db) / KEPT_MODELS.name
    left = [key for key in keys if kept_model(db, key) and not _delete(root, key, holds)]
    holds.close()
    return left


_OF_ENCODERS = re.compile(
    r"(?!(cls|lm_head|lm_loss|generator_\w+|discriminator_\w+|\w*predictions|qa_\w+)\.)"
)
_NUMBER = re.compile(r"\.(\d+)\.")
"""What names of weights in a checkpoint say: whether they are an encoder's, and of which layer."""


def model_bytes(job: Job) -> int:
    """About how many bytes the network of a job takes: in fp32, with its tokenizer's files.

    By the shapes in its checkpoint where that is on this machine, else by the number of parameters
    that is known of it, or BERT-base's.
    """
    spec, revision = find_model(job.checkpoint, job.trust), hub_revision(job.weights)
    folder = Path(job.checkpoint)
    if revision is not None:
        folder = cache_folder(job.checkpoint) / "snapshots" / revision
    if not folder.is_absolute() or not find_weights([path.name for path in folder.glob("*")]):
        return int(4e6 * (spec.parameters or BERT_BASE))
    shapes, tokenizer = sizes_in(folder, job.trust)
    numbers = {name: int(n[1]) for name in shapes if (n := _NUMBER.search(name))}
    wanted: Any = job.values.get("layers", 0)
    kept = kept_layers(wanted, 1 + max(numbers.values(), default=0))
    count = sum(
        size
        for name, size in shapes.items()
        if _OF_ENCODERS.match(name)
        and (job.as_text or not name.startswith("decoder."))
        and numbers.get(name, kept[0]) in kept
    )
    return 4 * count + tokenizer


def _delete(root: Path, key: str, holds: Holds) -> bool:
    for _ in range(3):
        if holds.take(_lock(key)):
            delete_checkpoint(checkpoint_folder(root, key))
            holds.release(_lock(key))
            return True
        time.sleep(0.01)  # whoever looks for old locks has each for a moment
    return False


@dataclass(frozen=True, kw_only=True)
class StartCheckpoints:
    """The networks in `folder` that some of the planned `jobs` start or learn from, or that stay.

    A network stays until every planned job that needs it has a result, or while another process
    holds it. Those of the keys `kept` stay for ever: with `keep` that of every job which trains
    one, and what was kept before. `holds` is what this one has to itself or shares of
    all that is kept beside the database: a job by its key, an encoder by that of its job.
    """

    folder: Path
    jobs: tuple[Job, ...]
    holds: Holds
    keep: bool = False
    kept: frozenset[str] = frozenset()

    @classmethod
    def of(cls, jobs: Sequence[Job], db: str, *, keep: bool) -> Self:
        """The networks beside a database's file."""
        beside = folder_beside(db)
        folder = beside / KEPT_MODELS.name
        trained = (job.key for job in jobs if job.kind == "model" and not job.is_zero_shot)
        return cls(
            folder=folder,
            jobs=tuple(jobs),
            holds=Holds(beside / LOCKS),
            keep=keep,
            kept=frozenset(
                key for key in trained if keep or (checkpoint_folder(folder, key) / KEPT).exists()
            ),
        )

    @property
    def starts(self) -> set[str]:
        """The keys of the jobs that others start or learn from."""
        return {key for job in self.jobs for key in job.needs}

    @property
    def asked(self) -> frozenset[str]:
        """The keys of the jobs whose network is to be there in the end."""
        return self.kept if self.keep else frozenset()

    def hold(self) -> None:
        """From now on no other process deletes the networks, nor what is to become one."""
        for key in self.starts | self.asked:
            self.holds.share(_lock(key))

    def whole(self) -> set[str]:
        """The keys of those whose network is there; reads every byte of it."""
        return {key for key in self.starts | self.asked if self._is_whole(key)}

    def stay(self, keys: Iterable[str]) -> None:
        """Whatever of these is to be kept and is there is not deleted when nobody needs it."""
        for key in self.kept.intersection(keys):
            with suppress(FileNotFoundError):
                (checkpoint_folder(self.folder, key) / KEPT).touch()

    def is_missing(self, key: str, store: Store) -> bool:
        """Whether a network is not there that is to be kept, or that a job has still to load."""
        if self._is_there(key):
            return False
        after = self._after(key)
        return key in self.asked or (bool(after) and store.finished_keys(after) != after)

    def discard_damaged(self, key: str) -> None:
        """Deletes what is left of a job's network where nobody can load it.

        Whoever calls it holds the job, so that none is just being written.
        """
        delete_drafts(checkpoint_folder(self.folder, key))
        wanted = self.starts | self.asked
        if key in wanted and self._is_there(key) and not self._is_whole(key):
            delete_checkpoint(checkpoint_folder(self.folder, key))

    def release(self, store: Store, going: Collection[str]) -> None:
        """Deletes what is not kept and no job needs any more; `going` are jobs that go on."""
        for key in filter(self._is_there, self.starts - self.kept):
            after = self._after(key)
            if after.isdisjoint(going) and store.finished_keys(after) == after:
                # Ours was shared. It can be held alone only when no other process needs it: then
                # the deletion is left to that one.
                self.holds.release(_lock(key))
                _delete(self.folder, key, self.holds)

    def _is_whole(self, key: str) -> bool:
        return is_whole(checkpoint_folder(self.folder, key), key)

    def _is_there(self, key: str) -> bool:
        return checkpoint_folder(self.folder, key).is_dir()

    def _after(self, key: str) -> set[str]:
        return {job.key for job in self.jobs if key in job.needs}


def _lock(key: str) -> str:
    """By what name a job's encoder is held."""
    return f"{key}.encoder"


# A job that was trained again, because its model was lost or not kept.


def compared(stored: Result, found: Result) -> str:
    """How the predictions of a run that was trained again differ from the stored ones."""
    others, count, moved, is_same, what = 0, 0, 0.0, True, "a probability"
    for each in stored.evaluations:
        again, task = found.evaluation(each.name), find_task(each.task)
        is_same &= again.predictions == each.predictions
        count += len(each.predictions)
        differ, largest = compare_answers(task, *map(predictions_of, (again, each)))
        others, moved = others + differ, max(moved, largest)
        what = "a number" if task.kind in ("number", "span") else what
    if is_same:
        return "trained again: the stored predictions, to the bit."
    by = f" ({what} moved by {moved:.2g} at most)" if moved else ""
    return f"trained again, {others} of {count} answers are others than stored{by}."


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
                f"without: give the student what its teacher has (--set {name}=...)."
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
