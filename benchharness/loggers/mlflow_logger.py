"""Runs in MLflow, through the client, which may have several open at once."""

import math
import os
from collections.abc import Mapping
from pathlib import Path

from mlflow import MlflowClient

from benchharness.loggers.logger import LoggedRun, Value
from benchharness.tasks.errors import shown_place

LONGEST = 500
"""Characters of a parameter's or a tag's value, which older servers refuse beyond."""


class MlflowLogger:
    """A run of MLflow for each job, in the experiment of MLFLOW_EXPERIMENT_NAME or "benchharness".

    They go to MLFLOW_TRACKING_URI, or into mlflow.db below the folder.
    """

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        here = f"sqlite:///{folder / 'mlflow.db'}"
        self._uri = os.environ.get("MLFLOW_TRACKING_URI") or here
        self._client = MlflowClient(tracking_uri=self._uri)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "benchharness"
        found = self._client.get_experiment_by_name(name)
        artifacts = None if self._uri != here else (folder / "mlartifacts").as_uri()
        self._experiment: str = (
            found.experiment_id
            if found
            else self._client.create_experiment(name, artifact_location=artifacts)
        )
        self._runs: dict[str, str] = {}

    @property
    def place(self) -> str:
        """The tracking server, without a password."""
        return shown_place(self._uri)

    def begin(self, run: LoggedRun) -> None:
        """Opens a run, whose parameters are the settings."""
        # The user's name, which MLflow would take from the machine, is nobody's business.
        tags = {"mlflow.user": "benchharness", "group": run.group}
        made = self._client.create_run(self._experiment, run_name=run.name, tags=tags)
        self._runs[run.key] = made.info.run_id
        for name, value in run.config.items():
            self._client.log_param(self._runs[run.key], name, str(value)[:LONGEST])

    def log(self, key: str, step: int, values: Mapping[str, float]) -> None:
        """Metrics of a step."""
        for name, value in values.items():
            self._client.log_metric(self._runs[key], _name(name), value, step=step)

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:
        """Numbers as metrics, texts as tags."""
        for name, value in facts.items():
            if isinstance(value, int | float) and math.isfinite(value):
                self._client.log_metric(self._runs[key], _name(name), float(value))
            else:
                self._client.set_tag(self._runs[key], _name(name), str(value)[:LONGEST])
        self._end(key, "FAILED" if failed else "FINISHED")

    def close(self) -> None:
        """Marks what has not ended as killed."""
        for key in list(self._runs):
            self._end(key, "KILLED")

    def _end(self, key: str, status: str) -> None:
        self._client.set_terminated(self._runs.pop(key), status=status)


def _name(name: str) -> str:
    """A colon is none of the characters that every server takes: "glue/rte:dev"."""
    return name.replace(":", " ")
