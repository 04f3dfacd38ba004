"""What jobs of a run leave for others to start or learn from, in folders beside the store."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchharness.kept_folders import (
    CHECKPOINTS,
    LOCKS,
    Holds,
    checkpoint_folder,
    delete_checkpoint,
    is_whole,
)
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.store.store import Store


def folder_beside(db: str) -> Path:
    """Where a run keeps what is no result: beside the database, or where one of a server would be.

    A database's file need not be there yet.
    """
    return CHECKPOINTS.parent if "://" in db else Path(db).expanduser().parent


@dataclass(frozen=True, kw_only=True)
class StartCheckpoints:
    """The encoders in `folder` that some of the planned `jobs` start or learn from.

    An encoder stays until every planned job that needs it has a result, and longer with
    `keep`, or while another process holds it. `holds` is what this one has to itself or shares of
    all that is kept beside the database: a job by its key, an encoder by that of its job.
    """

    folder: Path
    jobs: tuple[Job, ...]
    holds: Holds
    keep: bool = False

    @classmethod
    def of(cls, jobs: Sequence[Job], db: str, *, keep: bool) -> "StartCheckpoints":
        """The encoders beside a database's file."""
        beside = folder_beside(db)
        return cls(
            folder=beside / CHECKPOINTS.name,
            jobs=tuple(jobs),
            holds=Holds(beside / LOCKS),
            keep=keep,
        )

    @property
    def starts(self) -> set[str]:
        """The keys of the jobs that others start or learn from."""
        return {key for job in self.jobs for key in job.needs}

    def hold(self) -> None:
        """From now on no other process deletes the encoders, nor what is to become one."""
        for key in self.starts:
            self.holds.share(_lock(key))

    def whole(self) -> set[str]:
        """The keys of those whose encoder is there; reads every byte of it."""
        return {key for key in self.starts if self._is_whole(key)}

    def is_missing(self, key: str, store: Store) -> bool:
        """Whether a job has still to start from an encoder that is not there."""
        after = self._after(key)
        return bool(after) and not self._is_there(key) and store.finished_keys(after) != after

    def discard_damaged(self, key: str) -> None:
        """Deletes what is left of a job's encoder where nobody can start from it.

        Whoever calls it holds the job, so that none is just being written.
        """
        if key in self.starts and self._is_there(key) and not self._is_whole(key):
            delete_checkpoint(checkpoint_folder(self.folder, key))

    def release(self, store: Store, going: Collection[str]) -> None:
        """Deletes the encoders that no job needs any more; `going` are jobs that have not ended."""
        if not self.keep:
            for key in filter(self._is_there, self.starts):
                after = self._after(key)
                if after.isdisjoint(going) and store.finished_keys(after) == after:
                    self._delete(key)

    def _delete(self, key: str) -> None:
        """Deletes an encoder, or leaves that to another process that still holds it."""
        # Ours was shared. It can be held alone only when no other process needs the encoder.
        self.holds.release(_lock(key))
        for _ in range(3):
            if self.holds.take(_lock(key)):
                delete_checkpoint(checkpoint_folder(self.folder, key))
                self.holds.release(_lock(key))
                return
            time.sleep(0.01)  # whoever looks for old locks has each for a moment

    def _is_whole(self, key: str) -> bool:
        teaches = any(job.teacher is not None and job.teacher.run == key for job in self.jobs)
        return is_whole(checkpoint_folder(self.folder, key), key, teaches=teaches)

    def _is_there(self, key: str) -> bool:
        return checkpoint_folder(self.folder, key).is_dir()

    def _after(self, key: str) -> set[str]:
        return {job.key for job in self.jobs if key in job.needs}


def _lock(key: str) -> str:
    """By what name a job's encoder is held."""
    return f"{key}.encoder"
