"""Runs in trackio, which keeps them on this machine unless TRACKIO_SPACE_ID names a Space."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trackio

from benchharness.loggers.logger import LoggedRun, Value


class TrackioLogger:
    """A run for each job, in the project of TRACKIO_PROJECT or "benchharness"; see `trackio show`.

    They lie where trackio keeps them: TRACKIO_DIR, or below the Hugging Face cache.
    """

    def __init__(self, folder: Path) -> None:  # noqa: ARG002  (as every logger)
        self._project = os.environ.get("TRACKIO_PROJECT") or "benchharness"
        self._runs: dict[str, Any] = {}

    @property
    def place(self) -> str:
        """How to look at them."""
        return f"trackio show --project {self._project}"

    def begin(self, run: LoggedRun) -> None:
        """Opens a run; its name has the key, because a name that is known goes on."""
        self._runs[run.key] = trackio.init(
            project=self._project,
            name=f"{run.name} {run.key[:12]}",
            group=run.group,
            space_id=os.environ.get("TRACKIO_SPACE_ID") or None,
            config=dict(run.config),
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )

    def log(self, key: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step."""
        self._runs[key].log(dict(values), step=step)

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:  # noqa: ARG002
        """What it ended with, as one more line of the run."""
        run = self._runs.pop(key)
        run.log(dict(facts))
        run.finish()

    def close(self) -> None:
        """Ends what was interrupted."""
        for run in self._runs.values():
            run.finish()
