"""Encoders that one run leaves for others to start from: folders that are there whole or not.

    results/checkpoints/KEY/    config.json, model.safetensors, the tokenizer's files, manifest.json

KEY is the run's.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchharness.kept_folders import DamagedError, check_folder, delete_folder, new_folder
from leaderboard.job import Job
from tasks.errors import JobError

__all__ = [
    "CHECKPOINTS",
    "check_checkpoint",
    "checkpoint_folder",
    "delete_checkpoint",
    "is_whole",
    "new_checkpoint",
    "require_room",
]

CHECKPOINTS = Path("results/checkpoints")
"""Where they are kept beside a database that is no file."""


def checkpoint_folder(root: Path, key: str) -> Path:
    """Where the run of that key leaves its encoder."""
    return root / key


@contextmanager
def new_checkpoint(folder: Path, job: Job) -> Iterator[Path]:
    """A draft folder to write the job's encoder into; it takes its name at the end of the block.

    What stood there is replaced, unless it is the same. Nothing is left of a draft whose block
    raises.
    """
    facts = {
        "run": job.key,
        "task": job.task,
        "model": job.model,
        "weights": job.weights,
        "seed": job.seed,
    }
    with new_folder(folder, facts) as draft:
        yield draft


def check_checkpoint(folder: Path, key: str) -> Mapping[str, str]:
    """The digests of a checkpoint's files by name, after each of them was read and compared.

    Raises JobError where the folder is gone, is another run's, or a byte is not what was written.
    """
    try:
        manifest = check_folder(folder)
        if manifest.get("run") != key:
            raise DamagedError("is that of another run")
    except DamagedError as error:
        raise JobError(
            f"the encoder of run {key[:12]} in {folder} {error}: the same command trains that run "
            "again."
        ) from None
    digests: Mapping[str, str] = manifest["files"]
    return digests


def is_whole(folder: Path, key: str) -> bool:
    """Whether a run can start from the checkpoint; reads all of it."""
    try:
        check_checkpoint(folder, key)
    except JobError:
        return False
    return True


def delete_checkpoint(folder: Path) -> None:
    """Deletes a checkpoint and the drafts of it that a killed process has left."""
    delete_folder(folder)


def require_room(folder: Path, size: int) -> None:
    """Raises JobError, before hours of training, where the disk has less than `size` bytes free."""
    there = next(path for path in folder.absolute().parents if path.is_dir())
    free = shutil.disk_usage(there).free
    if free < size:
        raise JobError(
            f"other jobs start from this one's encoder, {size / 1e9:.1f} GB, and {there} has only "
            f"{free / 1e9:.1f} GB free: free some, or do without (--start-from scratch)."
        )
