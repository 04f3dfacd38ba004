"""Trained networks next to the store: kept ones, and those that other jobs start or learn from."""

import re
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from benchharness.errors import BenchError
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
from benchharness.tasks.suites import distinct_title, find_task
from benchharness.tasks.task import Task


def folder_beside(db: str) -> Path:
    """Return the folder for a run's files other than results: the database's own, or a default one.

    The database need not exist yet. The default folder is used for a database server.
    """
    return KEPT_MODELS.parent if "://" in db else Path(db).expanduser().parent


def kept_model(db: str, key: str) -> Path | None:
    """Return the folder of a run's network, or None if there is none; its files are not read."""
    folder = checkpoint_folder(folder_beside(db) / KEPT_MODELS.name, key)
    return folder if (folder / MANIFEST).is_file() else None


def delete_models(db: str, keys: Iterable[str]) -> list[str]:
    """Delete the networks of these runs; return the keys of those that are in use, which stay."""
    holds = Holds(folder_beside(db) / LOCKS)
    root = folder_beside(db) / KEPT_MODELS.name
    left = [key for key in keys if kept_model(db, key) and not _delete(root, key, holds)]
    holds.close()
    return left


_OF_ENCODERS = re.compile(
    r"(?!(cls|lm_head|lm_loss|generator_\w+|discriminator_\w+|\w*predictions|qa_\w+)\.)"
)
_NUMBER = re.compile(r"\.(\d+)\.")
"""Patterns of weight names in a checkpoint: of weights outside the heads, and of the layer's
number."""


def model_bytes(job: Job) -> int:
    """Estimate the size in bytes of a job's network in fp32, with its tokenizer's files.

    The estimate uses the tensor shapes of a checkpoint on this machine, else the known number of
    parameters, else that of BERT-base.
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
        time.sleep(0.01)  # a process that looks for stale locks holds each for a moment
    return False


@dataclass(frozen=True, kw_only=True)
class StartCheckpoints:
    """Networks that some planned jobs start or learn from, or that are to be kept.

    A network stays until every planned job that needs it has a result, and as long as another
    process uses it.

    Attributes:
        folder: Folder of the networks, one subfolder per job key.
        jobs: Planned jobs.
        holds: Locks of this process on jobs, by their keys, and on networks, by `_lock` of their
            keys.
        keep: Whether the user asked to keep networks.
        kept: Keys of the networks that are kept for good: of every trained job if `keep` is set,
            and those kept earlier.
    """

    folder: Path
    jobs: tuple[Job, ...]
    holds: Holds
    keep: bool = False
    kept: frozenset[str] = frozenset()

    @classmethod
    def of(cls, jobs: Sequence[Job], db: str, *, keep: bool) -> Self:
        """Create the networks of these jobs, in the folder next to the database."""
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
        """Keys of the jobs that other jobs start or learn from."""
        return {key for job in self.jobs for key in job.needs}

    @property
    def asked(self) -> frozenset[str]:
        """Keys of the jobs whose network must exist at the end."""
        return self.kept if self.keep else frozenset()

    def hold(self) -> None:
        """Lock the networks, present or future, so that no other process deletes them."""
        for key in self.starts | self.asked:
            self.holds.share(_lock(key))

    def whole(self) -> set[str]:
        """Return the keys of the jobs whose network exists and is intact; reads all its bytes."""
        return {key for key in self.starts | self.asked if self._is_whole(key)}

    def stay(self, keys: Iterable[str]) -> None:
        """Mark the networks of these keys that are to be kept, so that they are never deleted."""
        for key in self.kept.intersection(keys):
            with suppress(FileNotFoundError):
                (checkpoint_folder(self.folder, key) / KEPT).touch()

    def is_missing(self, key: str, store: Store) -> bool:
        """Return whether a network is absent that must be kept, or that an unfinished job needs."""
        if self._is_there(key):
            return False
        after = self._after(key)
        return key in self.asked or (bool(after) and store.finished_keys(after) != after)

    def discard_damaged(self, key: str) -> None:
        """Delete the damaged network or unfinished drafts of a job.

        The caller must hold the job's lock, so that no process is writing the network.
        """
        delete_drafts(checkpoint_folder(self.folder, key))
        wanted = self.starts | self.asked
        if key in wanted and self._is_there(key) and not self._is_whole(key):
            delete_checkpoint(checkpoint_folder(self.folder, key))

    def release(self, store: Store, going: Collection[str]) -> None:
        """Delete the networks that are neither kept nor needed; jobs in `going` are unfinished."""
        for key in filter(self._is_there, self.starts - self.kept):
            after = self._after(key)
            if after.isdisjoint(going) and store.finished_keys(after) == after:
                # Replace this process's shared lock by an exclusive one. That fails while another
                # process needs the network; then the deletion is left to that process.
                self.holds.release(_lock(key))
                _delete(self.folder, key, self.holds)

    def _is_whole(self, key: str) -> bool:
        return is_whole(checkpoint_folder(self.folder, key), key)

    def _is_there(self, key: str) -> bool:
        return checkpoint_folder(self.folder, key).is_dir()

    def _after(self, key: str) -> set[str]:
        return {job.key for job in self.jobs if key in job.needs}


def _lock(key: str) -> str:
    """Return the name of the lock on a job's network."""
    return f"{key}.encoder"


# Jobs that were trained again, because their model was lost or not kept.


def compared(stored: Result, found: Result) -> str:
    """Describe how the predictions of a run that was trained again differ from the stored ones."""
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
    """Resolve the value of --teacher: a model, or the stored run whose key begins with it.

    Returns:
        The model, or the jobs of the run: the run itself last, after all jobs that it needs, in
        case its network was deleted and must be trained again.

    Raises:
        BenchError: The value names neither.
    """
    is_key = _KEY.fullmatch(word) and word not in MODELS and not Path(word).exists()
    if not is_key or not is_there(db):
        return find_model(word, trust)
    with open_store(db, create=False) as store:
        return with_needs(store, store.result(word).job)


def with_needs(store: Store, job: Job) -> tuple[Job, ...]:
    """Return a stored job, after all the stored jobs that it needs."""
    found: dict[str, Job] = {}
    waiting = [job]
    while waiting:
        job = waiting.pop()
        # A needed job moves to the front, even if it was met before.
        found = {job.key: job} | {key: j for key, j in found.items() if key != job.key}
        waiting += [store.result(key).job for key in job.needs]
    return tuple(found.values())


def taught(student: Job, start: Job | None, job: Job, *, of_all_seeds: bool) -> Job:
    """Return the student's job with its teacher.

    Args:
        student: Job that learns.
        start: Job that the student starts from, None for the checkpoint.
        job: Job of the teacher.
        of_all_seeds: Whether this teacher teaches every seed of the student.

    Raises:
        BenchError: The student cannot learn from this teacher.
    """
    _check(student, job)
    # If the start is itself a student, the student without a teacher starts from the start without
    # its teacher.
    before = None if start is None else start.teacher
    settings = {name: s for name, s in student.settings.items() if name not in DISTILLATION}
    alone = replace(
        student, settings=settings, start_from=before.alone if before else student.start_from
    )
    return replace(student, teacher=_teacher(job, alone.key, of_all_seeds=of_all_seeds))


def _teacher(job: Job, alone: str, *, of_all_seeds: bool) -> Teacher:
    trained_on = sorted(d for name, d in job.fingerprints.items() if name.endswith(":train"))
    facts = [job.weights, job.values, job.precision, trained_on, job.start and job.start.name]
    # A teacher of all seeds is identified by its key. With one teacher per seed, what the teachers
    # share identifies them, so that the students are seeds of one row.
    variant = job.key if of_all_seeds else digest(facts)
    return Teacher(run=job.key, model=job.model, variant=variant[:12], alone=alone)


def _check(student: Job, teacher: Job) -> None:
    """Raise BenchError with the reason if a student cannot learn from a teacher."""
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
    """Raise BenchError if a student cannot be initialized with its teacher's weights."""
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
    """Return the facts that define the outputs of a task's network."""
    names = ("labels", "multi_label", "is_regression", "scale", "marks", "tags", "classes", "facts")
    return type(task), *(getattr(task, name, None) for name in names)


def _labels(task: Task) -> str:
    named = getattr(task, "labels", ()) or getattr(task, "tags", ())
    if named:
        return f"{', '.join(named[:_MOST])}{', ...' if len(named) > _MOST else ''}"
    return "a number" if getattr(task, "is_regression", False) else f"what a {task.head} task asks"


_MOST = 6
"""Number of labels that a sentence names."""


def _has(job: Job, name: str) -> bool:
    """Return whether a setting changes the head; `orders=both` does not."""
    setting = job.settings.get(name)
    return setting is not None and setting.value not in (0, "both")


def _name(job: Job) -> str:
    title = distinct_title(job.task) if len(job.trained_tasks) == 1 else job.title
    return f"{job.model} on {title} (run {job.key[:12]})"
