"""Where running jobs keep their states: beside the database, by the job's key.

    results/snapshots/KEY/step-0000001200/    *.safetensors, numbers.json, manifest.json

All of it may be deleted while nothing runs: jobs then start over.
"""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["EVERY_SECONDS", "SNAPSHOTS", "SnapshotFolder"]

SNAPSHOTS = "snapshots"
"""The name of the folder beside the database."""

EVERY_SECONDS = 300.0
"""How often a job keeps its state unless told otherwise."""


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
