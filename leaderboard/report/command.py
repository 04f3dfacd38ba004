"""The command that makes a run again, quoted for a POSIX shell."""

import shlex
from collections.abc import Iterator

from leaderboard.job import SCORED_HERE, SCRATCH, START_FROM, Job

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
            words = ["run", *_model(job), *_task(job), *_recipe(job), *_splits(job)]
            words += _trusted(job)
    return shlex.join(["bench", *words])


def _model(job: Job) -> Iterator[str]:
    """The model, and what it was trained on before, where the recipe does not say so."""
    start = job.settings.get(START_FROM)
    if start is not None and start.value != SCRATCH and job.start_from is None:
        name = job.model.removesuffix(f" from {start.value}")
        yield from ("--model", name, "--start-from", job.checkpoint)
        return
    is_folder = job.weights.startswith("sha256:")
    yield from ("--model", job.checkpoint if is_folder else job.model)
    if start is not None and (start.source == "--start-from" or not _is_packaged(job)):
        yield from ("--start-from", str(start.value))


def _is_packaged(job: Job) -> bool:
    return job.recipe.removesuffix("+set") in PACKAGED


def _task(job: Job) -> list[str]:
    suite, _, name = job.task.partition("/")
    return ["--suite", suite, "--task", name, "--data", job.data]


def _trusted(job: Job) -> Iterator[str]:
    if job.trust_remote_code:
        yield "--trust-remote-code"
    if job.allow_pickle:
        yield "--allow-pickle"


def _splits(job: Job) -> Iterator[str]:
    if job.limit is not None:
        yield from ("--limit", str(job.limit))
    if any(task == job.task and split.startswith("test") for task, split in job.predicted_splits):
        yield "--test"


def _recipe(job: Job) -> Iterator[str]:
    """A recipe from a file is given value by value: the file may have changed or be elsewhere."""
    yield from ("--seed", str(job.seed), "--precision", job.precision)
    if _is_packaged(job):
        yield from ("--recipe", job.recipe.removesuffix("+set"))
    for name, setting in job.settings.items():
        if name != START_FROM and (setting.source == "--set" or not _is_packaged(job)):
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
