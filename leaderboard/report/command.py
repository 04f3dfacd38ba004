"""The command that makes a run again, quoted for a POSIX shell."""

import shlex
from collections.abc import Iterator

from leaderboard.job import SCORED_HERE, Job

__all__ = ["command_of"]

PACKAGED = ("paper", "fast")
"""The recipes that have a name on every machine."""


def command_of(job: Job) -> str:
    """The words of `bench run`, `bench ensemble` or `bench score` that make the job's result."""
    if job.recipe == SCORED_HERE:
        return _scoring(job)
    match job.kind:
        case "floor":
            words = ["run", "--model", job.model, *_task(job), *_splits(job), "--no-floors"]
        case "ensemble":
            members = dict.fromkeys(setting.source for setting in job.settings.values())
            words = ["ensemble", *members, *_task(job), "--name", job.model]
        case "model":
            words = ["run", "--model", _checkpoint(job), *_task(job), *_recipe(job), *_splits(job)]
    return shlex.join(["bench", *words])


def _checkpoint(job: Job) -> str:
    return job.checkpoint if job.weights.startswith("sha256:") else job.model


def _task(job: Job) -> list[str]:
    suite, _, name = job.task.partition("/")
    return ["--suite", suite, "--task", name, "--data", job.data]


def _splits(job: Job) -> Iterator[str]:
    if job.limit is not None:
        yield from ("--limit", str(job.limit))
    if any(task == job.task and split.startswith("test") for task, split in job.predicted_splits):
        yield "--test"


def _recipe(job: Job) -> Iterator[str]:
    """A recipe from a file is given value by value: the file may have changed or be elsewhere."""
    yield from ("--seed", str(job.seed), "--precision", job.precision)
    recipe = job.recipe.removesuffix("+set")
    if recipe in PACKAGED:
        yield from ("--recipe", recipe)
    for name, setting in job.settings.items():
        if setting.source == "--set" or recipe not in PACKAGED:
            yield from ("--set", f"{name}={setting.value}")


def _scoring(job: Job) -> str:
    """The command that scores the prediction files again; the settings' sources are the files."""
    files = [s.source for name, s in job.settings.items() if name.startswith("predictions")]
    words = ["bench", "score", *files, "--task", job.task, "--data", job.data]
    for _, split in job.predicted_splits:
        words += ["--split", split]
    if (threshold := job.settings.get("na_prob_threshold")) is not None:
        words += ["--na-prob", threshold.source, "--na-prob-threshold", str(threshold.value)]
    return shlex.join([*words, "--store", "--model", job.model])
