"""Runs in Weights & Biases, online or offline as WANDB_MODE says."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from benchharness.loggers.logger import LoggedRun, Value


class WandbLogger:
    """A run for each job, in the project of WANDB_PROJECT or "benchharness".

    It sends what it is told and nothing else: no code, no console, no facts of the machine. Without
    a login and without WANDB_MODE it writes for `wandb sync`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._runs: dict[str, Any] = {}

    @property
    def place(self) -> str:
        """The folder of runs, which are sent from there where W&B is online."""
        return str(self._folder / "wandb")

    def begin(self, run: LoggedRun) -> None:
        """Opens a run beside those that are open."""
        self._folder.mkdir(parents=True, exist_ok=True)
        opened = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "benchharness",
            name=run.name,
            group=run.group,
            config=dict(run.config),
            dir=str(self._folder),
            mode=_mode(),
            reinit="create_new",
            settings=wandb.Settings(
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
        """Numbers over "step", because W&B's own steps must not go back."""
        self._runs[key].log({**values, "step": step})

    def end(self, key: str, facts: Mapping[str, Value], *, failed: bool) -> None:
        """The run's summary."""
        run = self._runs.pop(key)
        run.summary.update(dict(facts))
        run.finish(exit_code=1 if failed else 0)

    def close(self) -> None:
        """Ends what was interrupted, and waits until W&B's own process has written everything."""
        for run in self._runs.values():
            run.finish(exit_code=255)
        wandb.teardown()


def _mode() -> Any:
    """What WANDB_MODE says, else online where there is a key, because nobody can be asked."""
    if mode := os.environ.get("WANDB_MODE"):
        return mode
    return "online" if wandb.api.api_key else "offline"
