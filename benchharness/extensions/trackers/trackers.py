"""Loggers of TensorBoard, Weights & Biases, MLflow and trackio."""

import math
import os
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from benchharness.errors import shown_place
from benchharness.leaderboard.text import table_cell
from benchharness.loggers import LoggedRun, Value


class TensorBoard:
    """Logger that writes one folder of event files per run, without TensorFlow or torch.

    Args:
        folder: Folder for the loggers' files. The runs are written to its subfolder "tensorboard".
    """

    def __init__(self, folder: Path) -> None:
        self.place = str(folder / "tensorboard")  # shown as the value of --logdir
        self._events: Any = import_module("tensorboard.summary.writer.event_file_writer")
        self._event: Any = import_module("tensorboard.compat.proto.event_pb2")
        self._scalar: Any = import_module("tensorboard.plugins.scalar.summary_v2")
        self._text: Any = import_module("tensorboard.plugins.text.summary_v2")
        self._writers: dict[str, Any] = {}

    def begin(self, run: LoggedRun) -> None:
        folder = Path(self.place, run.folder_name)
        self._writers[run.key] = self._events.EventFileWriter(str(folder))
        self._write_text(run.key, "config", run.config)

    def log(self, key: str, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._write(key, self._scalar.scalar_pb(name, value), step)

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:  # noqa: ARG002
        # Numbers become scalars at step 0. A bool is an int in Python, but is written as text.
        texts = {name: value for name, value in facts.items() if isinstance(value, str | bool)}
        self.log(key, 0, {name: float(v) for name, v in facts.items() if name not in texts})
        self._write_text(key, "facts", texts)
        self._writers.pop(key).close()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def _write_text(self, key: str, tag: str, values: Mapping[str, Value]) -> None:
        rows = [f"| {' | '.join(map(table_cell, pair))} |" for pair in values.items()]
        text = "\n".join(["| name | value |", "|---|---|", *rows, ""])
        self._write(key, self._text.text_pb(tag, text), 0)

    def _write(self, key: str, summary: Any, step: int) -> None:
        event = self._event.Event(wall_time=time.time(), step=step, summary=summary)
        self._writers[key].add_event(event)


class Wandb:
    """Logger that writes one W&B run per job, to the project $WANDB_PROJECT or "benchharness".

    Only the configuration, values and results of runs are sent; W&B's own collection of code,
    console output and facts about the machine is disabled. If the user is not logged in and
    WANDB_MODE is not set, the runs are written to files, which `wandb sync` can send.

    Args:
        folder: Folder for the loggers' files. W&B writes its files to the subfolder "wandb".
    """

    def __init__(self, folder: Path) -> None:
        self._wandb: Any = import_module("wandb")
        self._folder = folder.resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._runs: dict[str, Any] = {}
        self.place = str(self._folder / "wandb")

    def begin(self, run: LoggedRun) -> None:
        # W&B is used online only if there is a key, because the user cannot be asked for one.
        default = "online" if self._wandb.api.api_key else "offline"
        opened = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "benchharness",
            name=run.name,
            group=run.group,
            config=dict(run.config),
            dir=str(self._folder),
            mode=os.environ.get("WANDB_MODE") or default,
            reinit="create_new",
            settings=self._wandb.Settings(
                console="off",
                disable_code=True,
                disable_git=True,
                disable_job_creation=True,
                silent=True,
                x_disable_meta=True,
                x_disable_stats=True,
                x_save_requirements=False,
            ),
        )
        opened.define_metric("*", step_metric="step")
        self._runs[run.key] = opened

    def log(self, key: str, step: int, values: Mapping[str, float]) -> None:
        # Values are plotted over "step", because W&B's own steps must not decrease.
        self._runs[key].log({**values, "step": step})

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:
        run = self._runs.pop(key)
        run.summary.update(dict(facts))
        run.finish(exit_code=1 if failed else 0)

    def close(self) -> None:
        # These calls also wait until W&B's own process has written everything.
        for run in self._runs.values():
            run.finish(exit_code=255)
        self._wandb.teardown()


class Mlflow:
    """Logger that writes one MLflow run per job.

    The experiment is $MLFLOW_EXPERIMENT_NAME or "benchharness". The runs are sent to
    $MLFLOW_TRACKING_URI; if this is not set, they are stored in mlflow.db in `folder`.

    Args:
        folder: Folder for the loggers' files.
    """

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        here = f"sqlite:///{folder / 'mlflow.db'}"
        uri = os.environ.get("MLFLOW_TRACKING_URI") or here
        self.place = shown_place(uri)
        # The client may have several runs open at once; MLflow's module functions allow one.
        self._client: Any = import_module("mlflow").MlflowClient(tracking_uri=uri)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "benchharness"
        found = self._client.get_experiment_by_name(name)
        artifacts = (folder / "mlartifacts").as_uri() if uri == here else None
        self._experiment = (
            found.experiment_id
            if found
            else self._client.create_experiment(name, artifact_location=artifacts)
        )
        self._runs: dict[str, str] = {}

    def begin(self, run: LoggedRun) -> None:
        # Without this tag MLflow would record the user's login name, which is private.
        tags = {"mlflow.user": "benchharness", "group": run.group}
        made = self._client.create_run(self._experiment, run_name=run.name, tags=tags)
        self._runs[run.key] = made.info.run_id
        for name, value in run.config.items():
            self._client.log_param(made.info.run_id, name, str(value)[:_LONGEST])

    def log(self, key: str, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(self._runs[key], _no_colon(name), float(value), step=step)

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:
        for name, value in facts.items():
            if isinstance(value, int | float) and math.isfinite(value):
                self.log(key, 0, {name: value})
            else:
                self._client.set_tag(self._runs[key], _no_colon(name), str(value)[:_LONGEST])
        self._client.set_terminated(self._runs.pop(key), status="FAILED" if failed else "FINISHED")

    def close(self) -> None:
        for run in self._runs.values():
            self._client.set_terminated(run, status="KILLED")


_LONGEST = 500
"""Maximum length, in characters, of a parameter or tag that older MLflow servers accept."""


def _no_colon(name: str) -> str:
    """Replace colons in a name such as "glue/rte:dev", because some servers do not accept them."""
    return name.replace(":", " ")


class Trackio:
    """Logger that writes a trackio run per job to the project $TRACKIO_PROJECT or "benchharness".

    If $TRACKIO_SPACE_ID is the name of a Hugging Face Space, the runs are sent there. Otherwise
    they are stored in $TRACKIO_DIR or, if this is not set, in the Hugging Face cache.

    Args:
        folder: Not used.
    """

    def __init__(self, folder: Path) -> None:  # noqa: ARG002  (as every logger)
        self._trackio: Any = import_module("trackio")
        self._project = os.environ.get("TRACKIO_PROJECT") or "benchharness"
        self._runs: dict[str, Any] = {}
        self.place = f"trackio show --project {self._project}"

    def begin(self, run: LoggedRun) -> None:
        # The name contains the key, because trackio continues a run whose name exists.
        self._runs[run.key] = self._trackio.init(
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
        self._runs[key].log(dict(values), step=step)

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:  # noqa: ARG002
        run = self._runs.pop(key)
        run.log(dict(facts))
        run.finish()

    def close(self) -> None:
        for run in self._runs.values():
            run.finish()
