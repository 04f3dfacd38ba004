"""Folders of trained models and of snapshots, which never exist in an incomplete state.

    results/models/KEY/                       config.json, model.safetensors, the tokenizer's files,
        head.safetensors and job.json
    results/snapshots/KEY/step-0000001200/    *.safetensors, numbers.json
    results/locks/NAME                        the process that holds the lock NAME

The folder `results` is the folder of the database, and KEY is the key of a run. Each folder of a
model or a snapshot has a manifest.json with the digests of its files, so that damage can be
detected. The folder gets its final name only after its manifest is written. Snapshots may be
deleted while no run is in progress; unfinished jobs then start over.
"""

import fcntl
import json
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EMLINK
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any

from benchharness.errors import BenchError, JobError, StoreError
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.text import flush_to_disk
from benchharness.models.weights import file_digest

MANIFEST = "manifest.json"

KEPT_MODELS = Path("results/models")
"""Folder of trained models if the database is on a server.

If the database is a file, the folder `models` next to that file is used instead. The folder also
contains saved copies of models in memory that were passed to the Python function `run`. The names
of their subfolders are not keys of runs.
"""

SNAPSHOTS = "snapshots"
"""Name of the folder for snapshots, which is next to the database."""

LOCKS = "locks"
"""Name of the folder for lock files, which is next to the database."""

_LOCK = re.compile(r"[0-9a-f]{64}(\.encoder)?")
"""Pattern for the names of lock files, which are locks on jobs or on their trained models. Only
files whose names match this pattern are deleted."""

EVERY_SECONDS = 300.0
"""Default number of seconds between two snapshots of a job. A crash loses at most the work of this
interval."""


class DamagedError(Exception):
    """Raised if a folder is missing or damaged.

    The message is a phrase about the folder, such as "is incomplete".
    """


@contextmanager
def new_folder(folder: Path, facts: Mapping[str, Any]) -> Iterator[Path]:
    """Context manager that creates a folder with a manifest; the folder is never incomplete.

    The context manager yields a temporary folder, into which the block writes the files. At the end
    of the block, the temporary folder gets its final name. It replaces an existing folder with this
    name, unless the existing folder has the same content. If the block raises an exception, the
    temporary folder is deleted.

    Args:
        folder: The final path of the folder.
        facts: JSON values that are added to the manifest, keyed by name.

    Raises:
        OSError: The folder cannot be written.
    """
    draft = _draft(folder, "draft")
    shutil.rmtree(draft, ignore_errors=True)
    _make_folder(draft)
    try:
        yield draft
        manifest = _seal(draft, facts)
        if not _is_same(folder, manifest):
            _take_place(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_folder(folder: Path) -> Mapping[str, Any]:
    """Verify all files in a folder by their digests, and return the manifest of the folder.

    The value of "files" in the manifest maps file names to digests.

    Raises:
        DamagedError: A file is missing or differs from its digest, or the manifest is invalid.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name, digest in manifest["files"].items():
            if Path(name).name != name:
                raise DamagedError(
                    f"is invalid (its manifest names {name!r}, which is not a file in this folder)"
                )
            if file_digest(folder / name) != digest:
                raise DamagedError(f"is damaged ({name} differs from the file that was written)")
    except FileNotFoundError as error:
        raise DamagedError(f"is incomplete ({Path(error.filename).name} is missing)") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"cannot be read ({error})") from None
    return manifest


def check_place(to: Path, key: str = "") -> None:
    """Raise BenchError if the export of a model to a folder would overwrite other files.

    Args:
        to: The folder, which must be missing, be empty, or contain an exported model.
        key: The key of the run to which an existing export must belong; if it is empty, the export
            may belong to any run.
    """
    if not to.exists() or (to.is_dir() and not any(to.iterdir())):
        return
    run = None
    if (to / TAKEN).is_file():
        with suppress(DamagedError):
            run = check_folder(to).get("run")
    if run is None or key not in ("", run):
        found = "an export of another run" if run else "not an export of a run by `bench model`"
        raise BenchError(
            f"{to} exists already and is {found}, so it is not overwritten. Choose another folder."
        )


def _draft(folder: Path, kind: str) -> Path:
    # The temporary folder must be next to the final one, because a rename is atomic only within a
    # file system.
    return folder.with_name(f"{folder.name}.{os.getpid()}.{kind}")


def _make_folder(folder: Path) -> None:
    """Create a new folder, even if other processes delete its empty parents meanwhile."""
    for _ in range(100):
        with suppress(FileNotFoundError):
            folder.mkdir(parents=True)
            return
    # Try once more without suppressing the error.
    folder.mkdir(parents=True)


def _seal(draft: Path, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Flush all files in the temporary folder to disk, write the manifest, and return it."""
    files = sorted(path for path in draft.iterdir() if path.is_file())
    for path in files:
        # safetensors creates files that only their owner can read. Allow the access that the umask
        # allows.
        path.chmod(draft.stat().st_mode & 0o666)
        flush_to_disk(path)
    manifest = {**facts, "files": {path.name: file_digest(path) for path in files}}
    (draft / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    flush_to_disk(draft / MANIFEST)
    flush_to_disk(draft)  # makes sure that the names of its files are on disk
    return manifest


def _is_same(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Return whether the folder already exists with the same content and without damage.

    Such a folder must not be replaced, because other processes may be reading it.
    """
    try:
        return check_folder(folder) == manifest
    except DamagedError:
        return False


def _take_place(draft: Path, folder: Path) -> None:
    """Give the temporary folder its final name; an existing folder is moved away and deleted."""
    old = _draft(folder, "old")
    while draft.exists():
        with suppress(FileNotFoundError):
            folder.rename(old)
        try:
            # If another process has created the folder meanwhile, this fails and is tried again.
            draft.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        shutil.rmtree(old, ignore_errors=True)
    flush_to_disk(folder.parent)


# Checkpoints, which are trained models that other jobs need or that the user wants to keep.

HEAD, JOB = "head.safetensors", "job.json"
"""Names of two files of a trained model: HEAD contains the heads (the layers on top of the
encoder), and JOB describes the job that trained the model."""

TAKEN = "benchharness.json"
"""Name of the file that marks a folder as a model exported by `bench model`. It describes the run,
with redacted local paths."""

KEPT = "kept"
"""Name of an empty file that marks trained models which are never deleted automatically. Other
trained models are deleted when no job needs them any more."""

_KEY = re.compile("[0-9a-f]{64}")


def checkpoint_folder(root: Path, key: str) -> Path:
    """Return the folder for the trained model of a run; the folder may not exist.

    Args:
        root: The folder of all trained models.
        key: The key of the run.
    """
    return root / key


@contextmanager
def new_checkpoint(folder: Path, job: Job) -> Iterator[Path]:
    """Context manager that creates the folder for a job's trained model, as `new_folder` does.

    The context manager yields a temporary folder, into which the block writes the files. At the end
    of the block, the temporary folder is renamed to `folder`.

    Args:
        folder: The final path of the folder.
        job: The job, whose key, task, model, weights and seed are written into the manifest.
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
    """Verify all files of a run's trained model, and return their digests, keyed by file name.

    Args:
        folder: The folder of the trained model.
        key: The key of the run.

    Raises:
        JobError: The folder is missing, belongs to another run, or is damaged.
    """
    try:
        manifest = check_folder(folder)
        if manifest.get("run") != key:
            raise DamagedError("belongs to another run")
    except DamagedError as error:
        raise JobError(
            f"the model of run {key[:12]} in {folder} {error}. The same command trains that run "
            "again."
        ) from None
    digests: Mapping[str, str] = manifest["files"]
    return digests


def is_whole(folder: Path, key: str) -> bool:
    """Return whether a folder contains the undamaged trained model of the run `key`.

    All files in the folder are read.
    """
    try:
        check_checkpoint(folder, key)
    except JobError:
        return False
    return True


def checkpoints_in(root: Path) -> dict[str, int]:
    """Return the sizes in bytes of all trained models in the folder `root`, keyed by run key."""
    found = sorted(root.iterdir()) if root.is_dir() else ()
    return {
        folder.name: sum(file.stat().st_size for file in folder.iterdir())
        for folder in found
        if _KEY.fullmatch(folder.name)
    }


def delete_checkpoint(folder: Path) -> None:
    """Delete the folder of a trained model, and unfinished copies that killed processes left.

    A symbolic link to a folder is not deleted.
    """
    # Delete the manifest first. Without it, the folder does not count as a checkpoint, even if
    # deleting the other files takes long or fails.
    with suppress(OSError):
        if not folder.is_symlink():
            (folder / MANIFEST).unlink()
    shutil.rmtree(folder, ignore_errors=True)
    delete_drafts(folder)


def delete_drafts(folder: Path) -> None:
    """Delete the temporary folders that killed processes left when they were writing `folder`.

    This function must not be called while another process is writing `folder`.
    """
    for path in folder.parent.glob(f"{folder.name}.*"):
        shutil.rmtree(path, ignore_errors=True)


WITHOUT_MODELS = (
    "run without --keep-models. If other jobs start from the model, also pass --start-from "
    "pretrained"
)
"""Advice for a run whose trained models do not fit on the disk."""


def require_room(
    folder: Path,
    size: float,
    what: str = "for the trained model",
    advice: str = WITHOUT_MODELS,
) -> None:
    """Raise JobError if the disk has too little free space for a folder.

    This is checked before long work, such as a training that takes hours.

    Args:
        folder: The folder, which need not exist yet.
        size: The needed space in bytes.
        what: The purpose of the space for the error message, such as "for 2 models to be kept".
        advice: Alternative to freeing space, for the error message.
    """
    there = next(path for path in folder.absolute().parents if path.is_dir())
    free = shutil.disk_usage(there).free
    if free < size:
        raise JobError(
            f"{there} has {shown_bytes(free)} free, and {shown_bytes(size)} are needed {what}. "
            f"Free some space, or {advice}."
        )


def shown_bytes(size: float) -> str:
    """Format a size in bytes for the user, such as "91 MB" or "1.3 GB"."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


@dataclass(frozen=True, kw_only=True)
class SnapshotFolder:
    """Folder for the snapshots of running jobs; a snapshot is a saved training state.

    Attributes:
        root: The path of the folder, which has one subfolder per job, named by the job's key.
        every: The number of seconds between two snapshots of a job.
    """

    root: Path
    every: float = EVERY_SECONDS

    @classmethod
    def of(cls, beside: Path, every: float) -> "SnapshotFolder | None":
        """Return the snapshot folder of a run, which is inside the folder of the database.

        `beside` is the folder of the database, and `every` is the number of seconds between two
        snapshots of a job. If `every` is 0, no snapshots are saved, and the result is None.
        """
        return cls(root=beside / SNAPSHOTS, every=every) if every else None

    def options(self, key: str) -> list[str]:
        """Return the command-line options that make a worker process save snapshots.

        `key` is the key of the job that the worker process runs.
        """
        folder = str(self.root.absolute() / key)
        return ["--snapshots", folder, "--checkpoint-every", str(self.every)]

    def keys(self) -> set[str]:
        """Return the keys of the jobs that have snapshots."""
        return {path.name for path in self.root.iterdir()} if self.root.is_dir() else set()

    def delete_all(self, keys: Iterable[str]) -> None:
        """Delete all snapshots of the jobs with these keys."""
        for key in keys:
            shutil.rmtree(self.root / key, ignore_errors=True)
        with suppress(OSError):  # the folder has other snapshots, or it does not exist
            self.root.rmdir()


# Locks between processes that run jobs with the same results folder.


class Holds:
    """Named locks, exclusive or shared, that this process holds.

    The lock with the name NAME is a lock on the file NAME in the folder of locks. A worker process
    that inherits the file descriptor also holds the lock. The lock is released when all processes
    that hold it have released it or have ended, even if they were killed. If the file system does
    not support locks or the folder is not writable, taking a lock always succeeds, but without any
    effect. Use this object from one thread only.

    Args:
        folder: The folder of locks, which is created when it is needed.

    Raises:
        StoreError: The folder is a symbolic link.
    """

    def __init__(self, folder: Path) -> None:
        if folder.is_symlink():
            raise StoreError(
                f"the locks folder {folder} is a link, so files in another folder would be created "
                "and deleted. Delete the link."
            )
        self._folder = folder
        self._held: dict[str, int | None] = {}

    def take(self, name: str) -> bool:
        """Take the lock `name` exclusively; return False if another process holds this lock."""
        if name not in self._held:
            try:
                descriptor = _locked(self._folder / name, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(descriptor, 0)
                # `holder` reads this text, such as "process 4711 on node3".
                os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
            except BlockingIOError:
                return False
            except OSError:
                self._held[name] = None
            else:
                self._held[name] = descriptor
        return True

    def share(self, name: str) -> None:
        """Take the lock `name` as a shared lock; wait while another process holds it exclusively.

        Several processes can hold the same shared lock.
        """
        if name not in self._held:
            self._held[name] = None
            with suppress(OSError):
                self._held[name] = _locked(self._folder / name, fcntl.LOCK_SH)

    def descriptor(self, name: str) -> int | None:
        """Return the file descriptor of the lock `name`.

        A worker process that inherits the descriptor also holds the lock. The result is None if
        this process does not hold the lock or the file system does not support locks.
        """
        return self._held.get(name)

    def holder(self, name: str) -> str:
        """Describe the process that holds the lock `name` exclusively.

        The result is, for example, "process 4711 on node3", or "another process" if it is unknown.
        """
        try:
            said = (self._folder / name).read_text(encoding="utf-8")[:200]
        except (OSError, ValueError):
            said = ""
        return said or "another process"

    def release(self, name: str) -> None:
        """Release the lock `name`, if this process holds it."""
        descriptor = self._held.pop(name, None)
        if descriptor is not None:
            _unlock(descriptor, self._folder / name)

    @contextmanager
    def unless_it_fails(self) -> Iterator[None]:
        """Context manager that releases all locks if the block raises an exception."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release all locks, and delete lock files that killed processes have left."""
        for name in tuple(self._held):
            self.release(name)
        with suppress(OSError):
            for path in filter(_is_lock, tuple(self._folder.iterdir())):
                with suppress(OSError):
                    _unlock(_locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB), path)
            self._folder.rmdir()


def _is_lock(path: Path) -> bool:
    return _LOCK.fullmatch(path.name) is not None


def _locked(path: Path, how: int) -> int:
    """Lock a file, creating it if necessary; return its descriptor.

    Raises:
        BlockingIOError: Another process holds the lock, and `how` includes LOCK_NB.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = _opened(path)
        except FileNotFoundError:  # another process has deleted the folder, because it was empty
            continue
        try:
            fcntl.flock(descriptor, how)
            if _is_there(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the previous holder of the lock has deleted the file: try again


def _opened(path: Path) -> int:
    """Open a lock file, creating it if necessary; raise OSError if it or its folder is a link.

    Links are refused, because the file will be truncated and deleted, and other users may be able
    to create links in the folder.
    """
    # Open the folder first. Then the file is opened in this folder, even if the path of the folder
    # becomes a link meanwhile.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        descriptor = os.open(
            path.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666, dir_fd=folder
        )
    finally:
        os.close(folder)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise FileExistsError(EMLINK, os.strerror(EMLINK), str(path))
    return descriptor


def _is_there(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _unlock(descriptor: int, path: Path) -> None:
    """Release the lock on a file, and delete the file if no other process holds a lock on it."""
    try:
        with suppress(OSError):
            # Convert a shared lock to an exclusive one. This fails if other processes also hold the
            # lock. The file is then not deleted.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(descriptor, path):
                path.unlink()
    finally:
        os.close(descriptor)


# Scratch folders, which are used only while a process runs.

SCRATCH = "benchharness-scratch-"
"""Prefix of temporary folders in TMPDIR. A process deletes its folder when it ends; if it was
killed, a later process deletes the folder."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Context manager that yields a new folder in TMPDIR and deletes it after the block.

    Folders that killed processes have left are deleted first.
    """
    root = Path(gettempdir())
    for left in root.glob(f"{SCRATCH}*"):
        with suppress(OSError):  # the folder belongs to another user, or is in use
            _delete_scratch(left)
    # Other processes delete unlocked folders whose names begin with the prefix. The name of the new
    # folder therefore begins with a dot, until the folder is locked.
    made = Path(mkdtemp(prefix=f".{SCRATCH}"))
    descriptor = os.open(made, os.O_RDONLY)
    try:
        with suppress(OSError):  # the file system may not support locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            made = made.rename(root / made.name.removeprefix("."))
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(descriptor)


def _delete_scratch(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(descriptor)
