"""The trained networks that a run keeps, or that its jobs start or learn from, beside the store."""

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
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Result, predictions_of
from benchharness.leaderboard.store.store import Store
from benchharness.machine import BERT_BASE
from benchharness.models import find_model
from benchharness.models.folder import sizes_in
from benchharness.models.weights import cache_folder, hub_revision
from benchharness.recipes.recipe import kept_layers
from benchharness.tasks.answers import compare_answers
from benchharness.tasks.suites import find_task


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
    if not folder.is_absolute() or not any(folder.glob("*.safetensors")):
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
