"""The encoders that jobs of a run leave for others to start from, in folders beside the store."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchharness.kept_folders import CHECKPOINTS, checkpoint_folder, delete_checkpoint, is_whole
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.store.store import Store


def folder_beside(db: str) -> Path:
    """Where a run keeps what is no result: beside the database, or where one of a server would be.

    A database's file need not be there yet.
    """
    return CHECKPOINTS.parent if "://" in db else Path(db).expanduser().parent


@dataclass(frozen=True, kw_only=True)
class StartCheckpoints:
    """The encoders in `folder` that some of the planned `jobs` start from.

    An encoder stays until every planned job that starts from it has a result, and longer with
    `keep`.
    """

    folder: Path
    jobs: tuple[Job, ...]
    keep: bool = False

    @classmethod
    def of(cls, jobs: Sequence[Job], db: str, *, keep: bool) -> "StartCheckpoints":
        """The encoders beside a database's file."""
        return cls(folder=folder_beside(db) / CHECKPOINTS.name, jobs=tuple(jobs), keep=keep)

    @property
    def starts(self) -> set[str]:
        """The keys of the jobs that others start from."""
        return {job.start_from for job in self.jobs if job.start_from is not None}

    def whole(self) -> set[str]:
        """The keys of those whose encoder is there; reads every byte of it."""
        return {key for key in self.starts if is_whole(checkpoint_folder(self.folder, key), key)}

    def is_missing(self, key: str, store: Store) -> bool:
        """Whether a job has still to start from an encoder that is not there."""
        after = self._after(key)
        return bool(after) and not self._is_there(key) and store.finished_keys(after) != after

    def discard_damaged(self, keys: Iterable[str]) -> None:
        """Deletes what is left of encoders that nobody can start from."""
        for key in filter(self._is_there, self.starts.intersection(keys)):
            if not is_whole(checkpoint_folder(self.folder, key), key):
                delete_checkpoint(checkpoint_folder(self.folder, key))

    def release(self, store: Store, going: Collection[str]) -> None:
        """Deletes the encoders that no job needs any more; `going` are jobs that have not ended."""
        if not self.keep:
            for key in filter(self._is_there, self.starts):
                after = self._after(key)
                if after.isdisjoint(going) and store.finished_keys(after) == after:
                    delete_checkpoint(checkpoint_folder(self.folder, key))

    def _is_there(self, key: str) -> bool:
        return checkpoint_folder(self.folder, key).is_dir()

    def _after(self, key: str) -> set[str]:
        return {job.key for job in self.jobs if job.start_from == key}
