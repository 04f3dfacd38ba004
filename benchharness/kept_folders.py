"""What jobs leave in folders that are there whole or not at all: models and snapshots.

    results/models/KEY/                       config.json, model.safetensors, the tokenizer's files,
                                              head.safetensors and job.json
    results/snapshots/KEY/step-0000001200/    *.safetensors, numbers.json
    results/locks/NAME                        who uses them now

All stand beside the database, KEY is the run's, and each folder of the first two has a
manifest.json. A folder takes its name when its manifest is written. The manifest holds the digest
of every file, so whoever reads the folder can tell damage. Snapshots may be deleted while nothing
runs: jobs then start over.
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

from benchharness.leaderboard.job import Job
from benchharness.leaderboard.text import flush_to_disk
from benchharness.models.weights import file_digest
from benchharness.tasks.errors import BenchError, JobError, StoreError

MANIFEST = "manifest.json"

KEPT_MODELS = Path("results/models")
"""Where they are kept beside a database that is no file. Models in memory of Python code are saved
in a folder of that name too, by names that are no keys."""

SNAPSHOTS = "snapshots"
"""The name of the folder beside the database."""

LOCKS = "locks"
"""The name of the folder beside the database that says who uses the others."""

_LOCK = re.compile(r"[0-9a-f]{64}(\.encoder)?")
"""What is deleted of that folder: the locks of jobs and of their encoders, by their keys."""

EVERY_SECONDS = 300.0
"""How often a job keeps its state unless told otherwise: so much work a crash may cost."""


class DamagedError(Exception):
    """A folder is not what was written; the text is how a sentence about it goes on."""


@contextmanager
def new_folder(folder: Path, facts: Mapping[str, Any]) -> Iterator[Path]:
    """A draft to write files into, which takes the folder's name at the end of the block.

    `facts` are put into the manifest. What stood there is replaced, unless it is the same. Nothing
    is left of a draft whose block raises. Raises OSError.
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
    """The manifest of a folder, after each of its files was read and compared.

    Its "files" are the digests by name. Raises DamagedError.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for name, digest in manifest["files"].items():
            if Path(name).name != name:
                raise DamagedError(f"is no run's (its manifest names {name!r}, which is elsewhere)")
            if file_digest(folder / name) != digest:
                raise DamagedError(f"is damaged ({name} is not what was written)")
    except FileNotFoundError as error:
        raise DamagedError(f"is not whole ({Path(error.filename).name} is missing)") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"cannot be read ({error})") from None
    return manifest


def check_place(to: Path, key: str = "") -> None:
    """Raises BenchError where a folder has something else than this run, taken before; or a run."""
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
    # Beside it, because a rename is whole only within a file system.
    return folder.with_name(f"{folder.name}.{os.getpid()}.{kind}")


def _make_folder(folder: Path) -> None:
    """Makes a folder that is not there, also where others delete the empty ones above it."""
    for _ in range(100):
        with suppress(FileNotFoundError):
            folder.mkdir(parents=True)
            return
    # Once more, so that what is really wrong is raised.
    folder.mkdir(parents=True)


def _seal(draft: Path, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Writes the manifest, and all of the folder to the disk before it."""
    files = sorted(path for path in draft.iterdir() if path.is_file())
    for path in files:
        # What the umask allows, as it did for the folder; safetensors writes for the owner alone.
        path.chmod(draft.stat().st_mode & 0o666)
        flush_to_disk(path)
    manifest = {**facts, "files": {path.name: file_digest(path) for path in files}}
    (draft / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    flush_to_disk(draft / MANIFEST)
    flush_to_disk(draft)  # the names of its files
    return manifest


def _is_same(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether another process has left the same there meanwhile, which others may be reading."""
    try:
        return check_folder(folder) == manifest
    except DamagedError:
        return False


def _take_place(draft: Path, folder: Path) -> None:
    """Renames the draft; a folder can only take the place of none, which others may have filled."""
    old = _draft(folder, "old")
    while draft.exists():
        with suppress(FileNotFoundError):
            folder.rename(old)
        try:
            # Fails where another process has put its own there meanwhile: then once more.
            draft.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        shutil.rmtree(old, ignore_errors=True)
    flush_to_disk(folder.parent)


# Checkpoints: the trained networks of runs, for others to start or learn from, or to be kept.

HEAD, JOB = "head.safetensors", "job.json"
"""What stands beside the encoder: the heads, and the run that says what they are."""

TAKEN = "benchharness.json"
"""What says so in a folder for others (bench model), with paths as on a page for them."""

KEPT = "kept"
"""An empty file in those that stay for ever, whoever else starts from them."""

_KEY = re.compile("[0-9a-f]{64}")


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
            f"the model of run {key[:12]} in {folder} {error}: the same command trains that run "
            "again."
        ) from None
    digests: Mapping[str, str] = manifest["files"]
    return digests


def is_whole(folder: Path, key: str) -> bool:
    """Whether a checkpoint is there as it was written; reads all of it."""
    try:
        check_checkpoint(folder, key)
    except JobError:
        return False
    return True


def checkpoints_in(root: Path) -> dict[str, int]:
    """The size of each checkpoint in bytes, by the key of its run."""
    found = sorted(root.iterdir()) if root.is_dir() else ()
    return {
        folder.name: sum(file.stat().st_size for file in folder.iterdir())
        for folder in found
        if _KEY.fullmatch(folder.name)
    }


def delete_checkpoint(folder: Path) -> None:
    """Deletes a checkpoint and the drafts of it that a killed process has left."""
    # Without its manifest it is no checkpoint, should the rest take a while or fail.
    with suppress(OSError):
        if not folder.is_symlink():
            (folder / MANIFEST).unlink()
    shutil.rmtree(folder, ignore_errors=True)
    delete_drafts(folder)


def delete_drafts(folder: Path) -> None:
    """Deletes what killed processes have left of a folder, which none is writing now."""
    for path in folder.parent.glob(f"{folder.name}.*"):
        shutil.rmtree(path, ignore_errors=True)


def require_room(folder: Path, size: float, what: str = "for its model") -> None:
    """Raises JobError, before hours of training, where the disk has less than `size` bytes free."""
    there = next(path for path in folder.absolute().parents if path.is_dir())
    free = shutil.disk_usage(there).free
    if free < size:
        raise JobError(
            f"{there} has {shown_bytes(free)} free, and {shown_bytes(size)} are needed {what}: "
            "free some, or do without (no --keep-models; where others start from it, --start-from "
            "pretrained)."
        )


def shown_bytes(size: float) -> str:
    """A size for a person: 91 MB, 1.3 GB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


@dataclass(frozen=True, kw_only=True)
class SnapshotFolder:
    """The folder of the snapshots of all jobs, and how many seconds lie between two of a job."""

    root: Path
    every: float = EVERY_SECONDS

    @classmethod
    def of(cls, beside: Path, every: float) -> "SnapshotFolder | None":
        """The one in a folder beside a database; None where nothing is to be kept."""
        return cls(root=beside / SNAPSHOTS, every=every) if every else None

    def options(self, key: str) -> list[str]:
        """How the worker of a job is told."""
        folder = str(self.root.absolute() / key)
        return ["--snapshots", folder, "--checkpoint-every", str(self.every)]

    def keys(self) -> set[str]:
        """The keys of the jobs that have kept something."""
        return {path.name for path in self.root.iterdir()} if self.root.is_dir() else set()

    def delete_all(self, keys: Iterable[str]) -> None:
        """Deletes what jobs have kept: their results are stored, or they can come to none."""
        for key in keys:
            shutil.rmtree(self.root / key, ignore_errors=True)
        with suppress(OSError):  # where others are left in it, or it is not there
            self.root.rmdir()


# Who uses what: drivers that share a folder, each with its workers.


class Holds:
    """What this process holds of the things in use, by name, each alone or shared.

    Each is a lock on a file of `folder`. It is the open file's: a worker that has inherited the
    descriptor holds it too, and when all of them have ended, however, nobody does. Where the file
    system has no locks, or the folder cannot be written, everything is as good as held. For one
    thread.
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
        """Holds a name alone; False where another process holds it."""
        if name not in self._held:
            try:
                descriptor = _locked(self._folder / name, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(descriptor, 0)
                # What `holder` reads: "process 4711 on node3".
                os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
            except BlockingIOError:
                return False
            except OSError:
                self._held[name] = None
            else:
                self._held[name] = descriptor
        return True

    def share(self, name: str) -> None:
        """Holds a name together with others; waits while one of them holds it alone."""
        if name not in self._held:
            self._held[name] = None
            with suppress(OSError):
                self._held[name] = _locked(self._folder / name, fcntl.LOCK_SH)

    def descriptor(self, name: str) -> int | None:
        """What a worker inherits so that it holds the name too; None where there is nothing."""
        return self._held.get(name)

    def holder(self, name: str) -> str:
        """Who holds a name alone, for a person, as far as that is known."""
        try:
            said = (self._folder / name).read_text(encoding="utf-8")[:200]
        except (OSError, ValueError):
            said = ""
        return said or "another process"

    def release(self, name: str) -> None:
        """Lets go of a name."""
        descriptor = self._held.pop(name, None)
        if descriptor is not None:
            _unlock(descriptor, self._folder / name)

    @contextmanager
    def unless_it_fails(self) -> Iterator[None]:
        """A block after whose failure nothing is held any more."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Lets go of everything, and deletes what killed processes have left of their locks."""
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
    """The descriptor of a locked file, which is made; BlockingIOError where others have it."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = _opened(path)
        except FileNotFoundError:  # the folder was deleted, because it was empty
            continue
        try:
            fcntl.flock(descriptor, how)
            if _is_there(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # whoever had it before has deleted the file


def _opened(path: Path) -> int:
    """A file that is no other one's name; OSError where the file or its folder is a link.

    It will be emptied and deleted, and others may be able to write to the folder.
    """
    # The file is opened below this very folder, also where its name becomes a link meanwhile.
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
    """Lets go of a locked file, and deletes it where nobody else has it."""
    try:
        with suppress(OSError):
            # A lock that is shared is made one's own; where that fails, others have it and the
            # file stays.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(descriptor, path):
                path.unlink()
    finally:
        os.close(descriptor)


# What is of use only while a process lives.

SCRATCH = "benchharness-scratch-"
"""How folders in TMPDIR begin that a process deletes when it ends, or a later one if it was killed.
"""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder in TMPDIR that goes with the block; what killed processes have left goes before."""
    root = Path(gettempdir())
    for left in root.glob(f"{SCRATCH}*"):
        with suppress(OSError):  # another user's, or one that is in use
            _delete_scratch(left)
    # It takes its name when it is locked: before, another process would delete it.
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
