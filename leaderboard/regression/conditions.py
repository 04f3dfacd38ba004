"""What two sets of runs must have in common, so that only code or weights can make one worse."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from leaderboard.job import Job

__all__ = ["Conditions", "conditions_of", "differences"]

Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """A job without its seed and its names: weights, rows, recipe, precision, versions.

    The fields are those of Job; `settings` are plain values, `plugins` digests by name.
    """

    weights: str
    fingerprints: Mapping[str, str]
    settings: Mapping[str, Value]
    precision: str
    task_version: int
    method: int
    plugins: Mapping[str, str]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Conditions":
        """The conditions whose fields these are; TypeError where one is of another kind."""
        found = cls(**data)
        tables = (found.fingerprints, found.settings, found.plugins)
        if not isinstance(found.weights, str) or not all(isinstance(t, Mapping) for t in tables):
            raise TypeError("weights must be a text; fingerprints, settings and plugins objects")
        return found


def conditions_of(job: Job) -> Conditions:
    """The conditions of a job; its seeds share them."""
    return Conditions(
        weights=job.weights,
        fingerprints=dict(job.fingerprints),
        settings={name: setting.value for name, setting in job.settings.items()},
        precision=job.precision,
        task_version=job.task_version,
        method=job.method,
        plugins=dict(job.plugins),
    )


def differences(before: Conditions, now: Conditions) -> Iterator[str]:
    """What keeps them from being compared, each a clause: "the rows of glue/rte:dev have changed".

    Other weights do not: a checkpoint that was trained anew may be the very thing to check.
    """
    for name in _changed(before.fingerprints, now.fingerprints):
        yield f"the rows of {name} have changed"
    settings = [
        f"{name} is {_shown(now.settings, name)}, no longer {_shown(before.settings, name)}"
        for name in _changed(before.settings, now.settings)
    ]
    if settings:
        yield f"its recipe has changed ({', '.join(settings)})"
    if before.precision != now.precision:
        yield f"it is computed in {now.precision}, no longer in {before.precision}"
    if before.task_version != now.task_version:
        yield "the task is scored in another way"
    if before.method != now.method:
        yield f"runs are made by method {now.method}, no longer by method {before.method}"
    for name in _changed(before.plugins, now.plugins):
        yield f"the plugin {name} has changed"


def _changed(before: Mapping[str, Value], now: Mapping[str, Value]) -> list[str]:
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _shown(settings: Mapping[str, Value], name: str) -> str:
    return str(settings.get(name, "unset"))
