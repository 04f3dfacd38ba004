"""Trained models that other jobs need or that the user keeps, in a folder next to the database.

A job needs the model of another job if it starts from that model or is distilled from it.
"""

import re
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from benchharness.leaderboard.job import Job, Kind, Trust
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.leaderboard.store.database import is_there
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.machine import BERT_BASE
from benchharness.models import MODELS, ModelSpec, find_model
from benchharness.models.folder import sizes_in
from benchharness.models.spec import NOTHING, find_weights
from benchharness.models.weights import cache_folder, hub_revision
from benchharness.recipes.recipe import kept_layers
from benchharness.tasks.answers import compare_answers
from benchharness.tasks.suites import find_task


def folder_beside(db: str) -> Path:
    """Return the folder for files of a run that are not in the database, such as models.

    It is the folder that contains the database file, or the folder `results` if the database is on
    a server. The folder need not exist yet.

    Args:
        db: The database: a path or a SQLAlchemy URL.
    """
    return KEPT_MODELS.parent if "://" in db else Path(db).expanduser().parent


def kept_model(db: str, key: str) -> Path | None:
    """Return the folder of the trained model of the run `key`; None if it was not kept.

    The files of the model are not verified. `db` is the database that contains the run: a path or a
    SQLAlchemy URL.
    """
    folder = checkpoint_folder(folder_beside(db) / KEPT_MODELS.name, key)
    return folder if (folder / MANIFEST).is_file() else None


def delete_models(db: str, keys: Iterable[str]) -> list[str]:
    """Delete the trained models of the runs with these keys.

    Args:
        db: The database that contains the runs: a path or a SQLAlchemy URL.
        keys: The keys of the runs. Runs whose models were not kept are ignored.

    Returns:
        The keys of the models that were not deleted, because other processes use them.
    """
    holds = Holds(folder_beside(db) / LOCKS)
    root = folder_beside(db) / KEPT_MODELS.name
    left = [key for key in keys if kept_model(db, key) and not _delete(root, key, holds)]
    holds.close()
    return left


_OF_ENCODERS = re.compile(
    r"(?!(cls|lm_head|lm_loss|generator_\w+|discriminator_\w+|\w*predictions|qa_\w+)\.)"
)
_NUMBER = re.compile(r"\.(\d+)\.")
"""Patterns for names of weights in a checkpoint. The first pattern matches all weights except those
of pretraining heads, and the second finds the number of a layer."""


def model_bytes(job: Job) -> int:
    """Estimate the size in bytes of a job's trained model in fp32.

    If the checkpoint is on this machine, the estimate is computed from the shapes of its tensors
    and the size of the tokenizer's files. Otherwise it is computed from the number of parameters;
    if this number is unknown, BERT-base's number is used.
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
        time.sleep(0.01)  # another process may lock it for a moment, to see whether it is in use
    return False


@dataclass(frozen=True, kw_only=True)
class StartCheckpoints:
    """Manager of the trained models that planned jobs need or that must be kept.

    A model that need not be kept is deleted when all planned jobs that need it have a result,
    unless another process uses it.

    Attributes:
        folder: The folder of the models, which has one subfolder per model, named by the key of the
            job that trained it.
        jobs: The planned jobs.
        holds: The locks of this process on jobs and on models.
        keep: Whether the user wants to keep the models of all jobs.
        kept: The keys of jobs whose model is never deleted: if `keep` is set, those of all jobs
            with training; otherwise those whose model an earlier run has kept.
    """

    folder: Path
    jobs: tuple[Job, ...]
    holds: Holds
    keep: bool = False
    kept: frozenset[str] = frozenset()

    @classmethod
    def of(cls, jobs: Sequence[Job], db: str, *, keep: bool) -> Self:
        """Create the manager for the trained models of these jobs.

        The models are in a folder next to the database.

        Args:
            jobs: The planned jobs.
            db: The database: a path or a SQLAlchemy URL.
            keep: Whether to keep the models of all jobs.
        """
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
        """Keys of the jobs whose trained model is needed by other planned jobs."""
        return {key for job in self.jobs for key in job.needs}

    @property
    def asked(self) -> frozenset[str]:
        """Keys of the jobs whose model must exist at the end of the run; empty without `keep`."""
        return self.kept if self.keep else frozenset()

    def hold(self) -> None:
        """Lock all models that are needed or must be kept, even if they do not exist yet.

        Other processes cannot delete a locked model.
        """
        for key in self.starts | self.asked:
            self.holds.share(_lock(key))

    def whole(self) -> set[str]:
        """Return the keys of the jobs whose trained model exists and is undamaged.

        Only models that are needed or must be kept are considered. All files of these models are
        read.
        """
        return {key for key in self.starts | self.asked if self._is_whole(key)}

    def stay(self, keys: Iterable[str]) -> None:
        """Mark the models of these jobs, so that they are never deleted automatically.

        Models that need not be kept, and models that do not exist, are not marked.
        """
        for key in self.kept.intersection(keys):
            with suppress(FileNotFoundError):
                (checkpoint_folder(self.folder, key) / KEPT).touch()

    def is_missing(self, key: str, store: Store) -> bool:
        """Return whether the model of the job `key` is missing although it is needed.

        The model is needed if it must be kept, or if another planned job needs it and has no result
        in `store` yet.
        """
        if self._is_there(key):
            return False
        after = self._after(key)
        return key in self.asked or (bool(after) and store.finished_keys(after) != after)

    def discard_drafts(self, key: str) -> None:
        """Delete unfinished copies of the model of the job `key`.

        A process of a killed driver may have begun one after this driver had locked the job. The
        caller must hold the lock on the job, and no process of the job may be left.
        """
        delete_drafts(checkpoint_folder(self.folder, key))

    def discard_damaged(self, key: str) -> None:
        """Delete unfinished copies of the model of the job `key`, and the model if it is damaged.

        The caller must hold the lock on the job, so that no other process is writing the model.
        """
        self.discard_drafts(key)
        wanted = self.starts | self.asked
        if key in wanted and self._is_there(key) and not self._is_whole(key):
            delete_checkpoint(checkpoint_folder(self.folder, key))

    def release(self, store: Store, going: Collection[str]) -> None:
        """Delete the models that need not be kept and that no job needs any more.

        Args:
            store: The database of results.
            going: The keys of planned jobs that have not ended.
        """
        for key in filter(self._is_there, self.starts - self.kept):
            after = self._after(key)
            if after.isdisjoint(going) and store.finished_keys(after) == after:
                # Release the shared lock of this process, because `_delete` needs an exclusive
                # lock. If it does not get this lock, another process needs the model and will
                # delete it later.
                self.holds.release(_lock(key))
                _delete(self.folder, key, self.holds)

    def _is_whole(self, key: str) -> bool:
        return is_whole(checkpoint_folder(self.folder, key), key)

    def _is_there(self, key: str) -> bool:
        return checkpoint_folder(self.folder, key).is_dir()

    def _after(self, key: str) -> set[str]:
        return {job.key for job in self.jobs if key in job.needs}


def _lock(key: str) -> str:
    """Return the name of the lock on the model of a job."""
    return f"{key}.encoder"


# Compare the results of jobs that were trained again because their model was missing.


def compared(stored: Result, found: Result) -> str:
    """Return a sentence that compares the predictions of a retrained run with the stored ones.

    Args:
        stored: The stored result.
        found: The result of the retrained run.
    """
    others, count, moved, is_same, what = 0, 0, 0.0, True, "a probability"
    for each in stored.evaluations:
        again, task = found.evaluation(each.name), find_task(each.task)
        is_same &= again.predictions == each.predictions
        count += len(each.predictions)
        differ, largest = compare_answers(task, *map(predictions_of, (again, each)))
        others, moved = others + differ, max(moved, largest)
        what = "a number" if task.kind in ("number", "span") else what
    if is_same:
        return "trained again: the predictions are bit-identical to the stored ones."
    by = f" ({what} changed by at most {moved:.2g})" if moved else ""
    return f"trained again: {others} of {count} answers differ from the stored ones{by}."


_KEY = re.compile("[0-9a-f]{4,64}")

IS_NO_NETWORK: dict[Kind, str] = {
    "scored": "a file of predictions",
    "ensemble": "an ensemble",
    "zero-shot": "a zero-shot run",
    "baseline": "a baseline",
    "imported": "an imported score",
}


def find_teacher(word: str, db: str, trust: Trust = NOTHING) -> ModelSpec | tuple[Job, ...]:
    """Find the teacher for distillation, which is a model or a stored run.

    Args:
        word: The value of `--teacher`: the name of a model, or the first characters of a run's key.
            At least four hexadecimal digits count as a key, unless a model, a file or a folder has
            this name, or the database does not exist.
        db: The database that contains the run.
        trust: Permissions that the user grants to the checkpoint of the model.

    Returns:
        The model, or a tuple of jobs: first all jobs that the stored run needs, in case their
        models must be trained again, and last the job of the stored run.

    Raises:
        BenchError: There is no such model, or no run whose key begins with the value.
    """
    is_key = _KEY.fullmatch(word) and word not in MODELS and not Path(word).exists()
    if not is_key or not is_there(db):
        return find_model(word, trust)
    with open_store(db, create=False) as store:
        return with_needs(store, store.result(word).job)


def with_needs(store: Store, job: Job) -> tuple[Job, ...]:
    """Return a stored job and all stored jobs that it needs, directly or indirectly.

    `store` is the database that contains these jobs. In the result, each job comes after the jobs
    that it needs.
    """
    found: dict[str, Job] = {}
    waiting = [job]
    while waiting:
        job = waiting.pop()
        # Move a job to the front each time that it is needed, even if it is already in `found`.
        found = {job.key: job} | {key: j for key, j in found.items() if key != job.key}
        waiting += [store.result(key).job for key in job.needs]
    return tuple(found.values())
