"""Folders of jobs that are complete or absent: kept models and snapshots.

    results/models/KEY/                       config.json, model.safetensors, the tokenizer's files,
        head.safetensors and job.json
    results/snapshots/KEY/step-0000001200/    *.safetensors, numbers.json
    results/locks/NAME                        the process that uses it now

All are next to the database. KEY is the run's key. Each folder of the first two has a manifest.json
with the digest of every file, so a reader can detect damage. A folder gets its final name after its
manifest is written. Snapshots may be deleted while nothing runs: jobs then start over.
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
"""Folder of kept models for a database that is not a file.

Models in memory of Python code are saved in a folder of that name too, under names that are not
keys.
"""

SNAPSHOTS = "snapshots"
"""Name of the folder of snapshots, next to the database."""

LOCKS = "locks"
"""Name of the folder of locks, next to the database, which records the use of the other folders."""

_LOCK = re.compile(r"[0-9a-f]{64}(\.encoder)?")
"""Names of the lock files that may be deleted: those of jobs and of their encoders, by key."""

EVERY_SECONDS = 300.0
"""Default interval at which a job saves its state; a crash costs at most that much work."""


class DamagedError(Exception):
    """A folder differs from what was written; the text ends a sentence about the folder."""


@contextmanager
def new_folder(folder: Path, facts: Mapping[str, Any]) -> Iterator[Path]:
    """Yield a draft folder to write files into; it gets its final name at the end of the block.

    `facts` are added to the manifest. An existing folder is replaced unless it is the same. If the
    block raises, the draft is deleted. Raises OSError.
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
    """Read and verify all files of a folder; return its manifest.

    Its "files" maps names to digests.

    Raises:
        DamagedError: A file is missing or differs from its digest.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name, digest in manifest["files"].items():
            if Path(name).name != name:
                raise DamagedError(f"is no run's (its manifest names {name!r}, which is elsewhere)")
            if file_digest(folder / name) != digest:
                raise DamagedError(f"is damaged ({name} differs from the file that was written)")
    except FileNotFoundError as error:
        raise DamagedError(f"is not whole ({Path(error.filename).name} is missing)") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"cannot be read ({error})") from None
    return manifest


def check_place(to: Path, key: str = "") -> None:
    """Raise BenchError unless a folder is free, or has the exported model of the same run.

    An empty `key` stands for any run.
    """
    if not to.exists() or (to.is_dir() and not any(to.iterdir())):
        return
    run = None
    if (to / TAKEN).is_file():
        with suppress(DamagedError):
            run = check_folder(to).get("run")
    if run is None or key not in ("", run):
        raise BenchError(
            f"{to} is there already, and not as `bench model` has written this run: it stays as it "
            "is; give another folder."
        )


def _draft(folder: Path, kind: str) -> Path:
    # The draft is next to the folder, because a rename is atomic only within a file system.
    return folder.with_name(f"{folder.name}.{os.getpid()}.{kind}")


def _make_folder(folder: Path) -> None:
    """Create a new folder, even if other processes delete its empty parents meanwhile."""
    for _ in range(100):
        with suppress(FileNotFoundError):
            folder.mkdir(parents=True)
            return
    # Try once more, to raise the real error.
    folder.mkdir(parents=True)


def _seal(draft: Path, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write all files of the folder to the disk, and then the manifest."""
    files = sorted(path for path in draft.iterdir() if path.is_file())
    for path in files:
        # The permissions that the umask allows: safetensors writes files for the owner only.
        path.chmod(draft.stat().st_mode & 0o666)
        flush_to_disk(path)
    manifest = {**facts, "files": {path.name: file_digest(path) for path in files}}
    (draft / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    flush_to_disk(draft / MANIFEST)
    flush_to_disk(draft)  # writes the names of its files
    return manifest


def _is_same(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Return whether another process has put the same folder there, which others may be reading."""
    try:
        return check_folder(folder) == manifest
    except DamagedError:
        return False


def _take_place(draft: Path, folder: Path) -> None:
    """Rename the draft to its final name, after moving away a folder that others put there."""
    old = _draft(folder, "old")
    while draft.exists():
        with suppress(FileNotFoundError):
            folder.rename(old)
        try:
            # This fails if another process has put its folder there meanwhile: then try again.
            draft.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        shutil.rmtree(old, ignore_errors=True)
    flush_to_disk(folder.parent)


# Checkpoints: trained networks that other runs start or learn from, or that are kept.

HEAD, JOB = "head.safetensors", "job.json"
"""Files next to the encoder: the heads, and the run that defines them."""

TAKEN = "benchharness.json"
"""File that marks a folder as an exported model (bench model); paths in it are redacted."""

KEPT = "kept"
"""Empty file in checkpoints that are kept for ever, even if other jobs start from them."""

_KEY = re.compile("[0-9a-f]{64}")


def checkpoint_folder(root: Path, key: str) -> Path:
    """Return the folder where the run of a key leaves its encoder."""
    return root / key


@contextmanager
def new_checkpoint(folder: Path, job: Job) -> Iterator[Path]:
    """Yield a draft folder for the job's encoder; it gets its final name at the end of the block.

    An existing folder is replaced unless it is the same. If the block raises, the draft is deleted.
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
    """Read and verify all files of a checkpoint; return their digests by name.

    Raises:
        JobError: The folder is missing, belongs to another run, or is damaged.
    """
    try:
        manifest = check_folder(folder)
        if manifest.get("run") != key:
            raise DamagedError("is that of another run")
    except DamagedError as error:
        raise JobError(
            f"the model of run {key[:12]} in {folder} {error}: the same command trains that run "
            "again."
        ) from None
    digests: Mapping[str, str] = manifest["files"]
    return digests


def is_whole(folder: Path, key: str) -> bool:
    """Return whether a checkpoint exists and is undamaged; reads all its files."""
    try:
        check_checkpoint(folder, key)
    except JobError:
        return False
    return True


def checkpoints_in(root: Path) -> dict[str, int]:
    """Return the size of each checkpoint in bytes, by the key of its run."""
    found = sorted(root.iterdir()) if root.is_dir() else ()
    return {
        folder.name: sum(file.stat().st_size for file in folder.iterdir())
        for folder in found
        if _KEY.fullmatch(folder.name)
    }


def delete_checkpoint(folder: Path) -> None:
    """Delete a checkpoint and the drafts of it that killed processes have left."""
    # Without its manifest it is no checkpoint, even if deleting the rest takes long or fails.
    with suppress(OSError):
        if not folder.is_symlink():
            (folder / MANIFEST).unlink()
    shutil.rmtree(folder, ignore_errors=True)
    delete_drafts(folder)


def delete_drafts(folder: Path) -> None:
    """Delete the drafts of a folder that killed processes have left.

    No process may be writing it.
    """
    for path in folder.parent.glob(f"{folder.name}.*"):
        shutil.rmtree(path, ignore_errors=True)


def require_room(folder: Path, size: float, what: str = "for its model") -> None:
    """Raise JobError if the disk has less than `size` bytes free, before hours of training."""
    there = next(path for path in folder.absolute().parents if path.is_dir())
    free = shutil.disk_usage(there).free
    if free < size:
        raise JobError(
            f"{there} has {shown_bytes(free)} free, and {shown_bytes(size)} are needed {what}: "
            "free some, or do without (no --keep-models; where others start from it, --start-from "
            "pretrained)."
        )


def shown_bytes(size: float) -> str:
    """Format a size for the user: 91 MB, 1.3 GB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


@dataclass(frozen=True, kw_only=True)
class SnapshotFolder:
    """Folder of the snapshots of all jobs, and the seconds between two snapshots of a job."""

    root: Path
    every: float = EVERY_SECONDS

    @classmethod
    def of(cls, beside: Path, every: float) -> "SnapshotFolder | None":
        """Return the snapshot folder next to a database; None if `every` is 0: no snapshots."""
        return cls(root=beside / SNAPSHOTS, every=every) if every else None

    def options(self, key: str) -> list[str]:
        """Return the command-line options of a job's worker."""
        folder = str(self.root.absolute() / key)
        return ["--snapshots", folder, "--checkpoint-every", str(self.every)]

    def keys(self) -> set[str]:
        """Return the keys of the jobs that have snapshots."""
        return {path.name for path in self.root.iterdir()} if self.root.is_dir() else set()

    def delete_all(self, keys: Iterable[str]) -> None:
        """Delete the snapshots of jobs that have results or cannot get any."""
        for key in keys:
            shutil.rmtree(self.root / key, ignore_errors=True)
        with suppress(OSError):  # other snapshots are left in it, or it does not exist
            self.root.rmdir()


# Locks between drivers that share a folder, each with its workers.


class Holds:
    """Locks by name that this process holds, each exclusively or shared.

    Each is a lock on a file of `folder`. It belongs to the open file: a worker that has inherited
    the descriptor holds it too, and it is released when all of these processes have ended, for
    whatever reason. If the file system has no locks, or the folder is not writable, every name
    counts as held. The object must be used by one thread only.
    """

    def __init__(self, folder: Path) -> None:
        if folder.is_symlink():
            raise StoreError(
                f"the locks folder {folder} is a link, and files would be made and deleted where "
                "it leads: delete the link."
            )
        self._folder = folder
        self._held: dict[str, int | None] = {}

    def take(self, name: str) -> bool:
        """Lock a name exclusively; return False if another process holds it."""
        if name not in self._held:
            try:
                descriptor = _locked(self._folder / name, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(descriptor, 0)
                # `holder` reads this: "process 4711 on node3".
                os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
            except BlockingIOError:
                return False
            except OSError:
                self._held[name] = None
            else:
                self._held[name] = descriptor
        return True

    def share(self, name: str) -> None:
        """Lock a name shared; wait while another process holds it exclusively."""
        if name not in self._held:
            self._held[name] = None
            with suppress(OSError):
                self._held[name] = _locked(self._folder / name, fcntl.LOCK_SH)

    def descriptor(self, name: str) -> int | None:
        """Return the descriptor that a worker inherits to hold the name too.

        Returns None if the process has no lock of that name.
        """
        return self._held.get(name)

    def holder(self, name: str) -> str:
        """Describe the process that holds a name exclusively, as far as it is known."""
        try:
            said = (self._folder / name).read_text(encoding="utf-8")[:200]
        except (OSError, ValueError):
            said = ""
        return said or "another process"

    def release(self, name: str) -> None:
        """Release a name."""
        descriptor = self._held.pop(name, None)
        if descriptor is not None:
            _unlock(descriptor, self._folder / name)

    @contextmanager
    def unless_it_fails(self) -> Iterator[None]:
        """Run a block, and release everything if it fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release everything, and delete the locks that killed processes have left."""
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
        except FileNotFoundError:  # another process deleted the empty folder
            continue
        try:
            fcntl.flock(descriptor, how)
            if _is_there(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its previous holder has deleted the file


def _opened(path: Path) -> int:
    """Open a file that has no other name; raise OSError if the file or its folder is a link.

    The file will be emptied and deleted, and other users may be able to write to the folder.
    """
    # The file is opened in this very folder, even if the folder's name becomes a link meanwhile.
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
    """Release a locked file, and delete it if no other process holds it."""
    try:
        with suppress(OSError):
            # A shared lock is made exclusive; if that fails, others hold it and the file stays.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(descriptor, path):
                path.unlink()
    finally:
        os.close(descriptor)


# Scratch folders, which are needed only while a process runs.

SCRATCH = "benchharness-scratch-"
"""Prefix of folders in TMPDIR that a process deletes when it ends, or a later one if it was
killed."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder in TMPDIR that is deleted after the block.

    Folders that killed processes have left are deleted first.
    """
    root = Path(gettempdir())
    for left in root.glob(f"{SCRATCH}*"):
        with suppress(OSError):  # the folder is another user's, or in use
            _delete_scratch(left)
    # The folder gets its name after it is locked: before, another process would delete it.
    made = Path(mkdtemp(prefix=f".{SCRATCH}"))
    descriptor = os.open(made, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
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
