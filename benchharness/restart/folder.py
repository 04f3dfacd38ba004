"""Where running jobs keep their states: beside the database, by the job's key.

    results/snapshots/KEY/step-0000001200/    *.safetensors, numbers.json, manifest.json

All of it may be deleted while nothing runs: jobs then start over.
"""

import shutil
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

    def options(self, key: str) -> list[str]:
        """How the worker of a job is told."""
        folder = str(self.root.absolute() / key)
        return ["--snapshots", folder, "--checkpoint-every", str(self.every)]

    def delete(self, key: str) -> None:
        """Deletes what a job has kept: its result is stored, or it can come to none."""
        shutil.rmtree(self.root / key, ignore_errors=True)
