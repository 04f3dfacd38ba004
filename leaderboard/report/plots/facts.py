"""What plots need of a finished run besides its row: cost and machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leaderboard.job import Job
from leaderboard.result import Failure, Result

__all__ = ["RunFacts", "facts_of"]

EVERY_WEIGHT: Mapping[str, object] = {"features": "fine-tuned", "unfreeze": "all", "lora_rank": 0}
"""The settings of a recipe that trains every weight at every step; they stand where others do."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The cost of one run.

    `tokens` are real ones seen in training; `train_seconds` are 0 where nothing was trained.
    `trains_all` where every weight was trained with every token.
    """

    parameters: int
    tokens: int
    train_seconds: float
    machine: str
    trains_all: bool


def facts_of(run: Result | Failure) -> RunFacts | None:
    """The facts of a run of an encoder; None for a failure, a floor or an ensemble."""
    if isinstance(run, Failure) or run.job.kind != "model" or not run.cost.parameters:
        return None
    return RunFacts(
        parameters=run.cost.parameters,
        tokens=run.cost.train_tokens,
        train_seconds=run.cost.train_seconds,
        machine=_machine(run.provenance.get("machine", {})),
        trains_all=_trains_all(run.job),
    )


def _trains_all(job: Job) -> bool:
    return all(
        name not in job.settings or job.settings[name].value == value
        for name, value in EVERY_WEIGHT.items()
    )


def _machine(machine: Mapping[str, Any]) -> str:
    """A GPU by its name, a CPU with its threads; empty where nothing was recorded."""
    device = str(machine.get("device") or "")
    if device not in ("", "cpu"):
        return device
    name, threads = str(machine.get("cpu") or ""), machine.get("threads")
    if not name or not threads:
        return name
    return f"{name}, {threads} thread{'' if threads == 1 else 's'}"
