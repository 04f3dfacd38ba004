"""Encoders that one run leaves for others to start from: folders that are there whole or not.

    results/checkpoints/KEY/    config.json, model.safetensors, the tokenizer's files, manifest.json

KEY is the run's. The manifest is written last and holds the digest of every file; the folder has
another name until it is whole.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from benchharness.models.identity import file_digest
from leaderboard.job import Job
from leaderboard.whole_file import flush_to_disk
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

MANIFEST = "manifest.json"


def checkpoint_folder(root: Path, key: str) -> Path:
    """Where the run of that key leaves its encoder."""
    return root / key


@contextmanager
def new_checkpoint(folder: Path, job: Job) -> Iterator[Path]:
    """A draft folder to write the job's encoder into; it takes its name at the end of the block.

    What stood there is replaced, unless it is the same. Nothing is left of a draft whose block
    raises.
    """
    draft = _draft(folder, "draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        yield draft
        digests = _seal(draft, job)
        if not _is_same(folder, job, digests):
            _take_place(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_checkpoint(folder: Path, key: str) -> Mapping[str, str]:
    """The digests of a checkpoint's files by name, after each of them was read and compared.

    Raises JobError where the folder is gone, is another run's, or a byte is not what was written.
    """
    advice = "the same command trains that run again"
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        digests: Mapping[str, str] = manifest["files"]
        damaged = [name for name, digest in digests.items() if file_digest(folder / name) != digest]
        if manifest["run"] != key:
            damaged = [MANIFEST]
    except FileNotFoundError as error:
        raise JobError(
            f"the encoder of run {key[:12]} is not whole in {folder} ({error.filename} is "
            f"missing): {advice}."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise JobError(
            f"the encoder of run {key[:12]} in {folder} cannot be read ({error}): {advice}."
        ) from None
    if damaged:
        raise JobError(
            f"the encoder of run {key[:12]} in {folder} is damaged ({damaged[0]} is not what was "
            f"written): {advice}."
        )
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
    with suppress(OSError):
        (folder / MANIFEST).unlink()
    for path in (folder, *folder.parent.glob(f"{folder.name}.*")):
        shutil.rmtree(path, ignore_errors=True)


def require_room(folder: Path, size: int) -> None:
    """Raises JobError, before hours of training, where the disk has less than `size` bytes free."""
    there = next(path for path in folder.absolute().parents if path.is_dir())
    free = shutil.disk_usage(there).free
    if free < size:
        raise JobError(
            f"other jobs start from this one's encoder, {size / 1e9:.1f} GB, and {there} has only "
            f"{free / 1e9:.1f} GB free: free some, or do without (--start-from scratch)."
        )


def _draft(folder: Path, kind: str) -> Path:
    return folder.with_name(f"{folder.name}.{os.getpid()}.{kind}")


def _seal(draft: Path, job: Job) -> Mapping[str, str]:
    """Writes the manifest, and all of the folder to the disk before it; gives its digests."""
    files = sorted(path for path in draft.iterdir() if path.is_file())
    for path in files:
        flush_to_disk(path)
    digests = {path.name: file_digest(path) for path in files}
    manifest = {
        "run": job.key,
        "task": job.task,
        "model": job.model,
        "weights": job.weights,
        "seed": job.seed,
        "files": digests,
    }
    (draft / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    flush_to_disk(draft / MANIFEST)
    flush_to_disk(draft)
    return digests


def _is_same(folder: Path, job: Job, digests: Mapping[str, str]) -> bool:
    """Whether another process has left the same there meanwhile, which others may be reading."""
    try:
        return check_checkpoint(folder, job.key) == digests
    except JobError:
        return False


def _take_place(draft: Path, folder: Path) -> None:
    """Renames the draft; a folder can only take the place of none, which others may have filled."""
    old = _draft(folder, "old")
    while draft.exists():
        with suppress(FileNotFoundError):
            folder.rename(old)
        try:
            draft.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        shutil.rmtree(old, ignore_errors=True)
    flush_to_disk(folder.parent)
