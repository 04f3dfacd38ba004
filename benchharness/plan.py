"""From what a user asks for to jobs: models x tasks x seeds, each with the digests of its rows."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from benchharness.hardware import cpu_has_bf16
from benchharness.models import ModelSpec, find_model, weights_identity
from benchharness.recipes import ResolvedRecipe, resolve_recipe
from leaderboard.canonical import recipe_digest
from leaderboard.job import Job
from leaderboard.result import RunRow
from tasks.errors import BenchError
from tasks.read import has_split, read
from tasks.sources import Data, parse_data
from tasks.suites import TASKS, find_task
from tasks.task import Task

__all__ = ["Estimate", "estimate_seconds", "left_out_rows", "plan_jobs", "resolve_precision"]


class _Counts(NamedTuple):
    """Of one split: examples that are used, and rows that a convention or the limit left out."""

    used: int
    left_out: int
    cut: int


_NOTHING = _Counts(0, 0, 0)

_counts: dict[str, _Counts] = {}
"""Of each split that this process planned with, by fingerprint."""


def plan_jobs(  # noqa: PLR0913  (the options of `bench run`)
    models: Sequence[ModelSpec],
    tasks: Sequence[Task],
    data: str,
    seeds: Sequence[int],
    *,
    recipe: str | None = None,
    overrides: Mapping[str, str] | None = None,
    precision: str = "auto",
    limit: int | None = None,
    splits: Sequence[str] = ("dev",),
    gpu: bool = False,
) -> list[Job]:
    """The jobs of every model, task and seed, each once, in that order.

    A task that another one's model predicts (AX by MNLI's) becomes splits of that one's job; its
    rows belong to the job whenever the data have them, so that asking for MNLI alone and for all of
    GLUE plan the same job. `splits` are the kinds to predict ("dev", "test"), `gpu` says where the
    jobs will run. Raises BenchError, with a line for each setting that is wrong, before any data
    are read, and DataError where a split that was asked for is missing or malformed.
    """
    trained = _trained_tasks(tasks)
    recipes = _resolve_recipes(models, trained, recipe, overrides or {})
    door = parse_data(data)
    wanted = {task.name for task in tasks}
    fingerprints = {task.name: _fingerprints(task, wanted, door, limit, splits) for task in trained}
    precision = resolve_precision(precision, gpu=gpu)
    jobs = [
        Job(
            model=model.name,
            checkpoint=model.checkpoint,
            weights=weights,
            task=task.name,
            task_version=_version(task, fingerprints[task.name]),
            data=str(door),
            fingerprints=fingerprints[task.name],
            recipe=recipes[model, task.name].name,
            settings=recipes[model, task.name].settings,
            seed=seed,
            precision=precision,
            limit=limit if _is_cut(fingerprints[task.name]) else None,
        )
        for model in models
        for weights in [weights_identity(model)]
        for task in trained
        for seed in seeds
    ]
    return list({job.key: job for job in reversed(jobs)}.values())[::-1]


def resolve_precision(precision: str, *, gpu: bool) -> str:
    """What "auto" means on this machine: "bf16" where it computes it natively, else "fp32"."""
    if precision != "auto":
        return precision
    return "bf16" if gpu or cpu_has_bf16() else "fp32"


def _trained_tasks(tasks: Iterable[Task]) -> list[Task]:
    """The tasks that have a train split, each once; a follower stands for the one it follows."""
    found: dict[str, Task] = {}
    for task in tasks:
        leader = find_task(task.trained_on) if task.trained_on else task
        found.setdefault(leader.name, leader)
    return list(found.values())


def _resolve_recipes(
    models: Sequence[ModelSpec],
    tasks: Sequence[Task],
    recipe: str | None,
    overrides: Mapping[str, str],
) -> dict[tuple[ModelSpec, str], ResolvedRecipe]:
    """Every pair's recipe; what is wrong with any of them is reported at once, each line once."""
    resolved: dict[tuple[ModelSpec, str], ResolvedRecipe] = {}
    problems: dict[str, None] = {}
    for model in models:
        for task in tasks:
            try:
                resolved[model, task.name] = resolve_recipe(
                    model, task.name, recipe, overrides, task.head
                )
            except BenchError as error:
                problems |= dict.fromkeys(str(error).splitlines())
    if problems:
        raise BenchError("\n".join(problems))
    return resolved


def _fingerprints(
    task: Task, wanted: set[str], data: Data, limit: int | None, splits: Sequence[str]
) -> dict[str, str]:
    """The digest of the train split and of everything the job predicts, by "task:split"."""
    used = [(task, "train"), *((task, split) for split in _own_splits(task, data, splits))]
    for follower in TASKS.values():
        if follower.trained_on == task.name:
            required = follower.name in wanted
            used += [
                (follower, split)
                for split in follower.source.splits
                if required or has_split(follower, split, data)
            ]
    return {f"{t.name}:{split}": _fingerprint(t, split, data, limit) for t, split in used}


def _version(task: Task, splits: Iterable[str]) -> int:
    """The task's version, raised by every later version of the tasks that its model predicts.

    Versions only go up, so the sum never comes back to what it was.
    """
    followers = {name.rpartition(":")[0] for name in splits} - {task.name}
    return task.version + sum(find_task(name).version - 1 for name in followers)


def _own_splits(task: Task, data: Data, splits: Sequence[str]) -> list[str]:
    found = list(task.dev_splits) if "dev" in splits else []
    if "test" in splits:
        found += [split for split in task.test_splits if has_split(task, split, data)]
    return found


def _fingerprint(task: Task, split: str, data: Data, limit: int | None) -> str:
    rows = read(task, split, data, limit)
    _counts[rows.fingerprint] = _Counts(len(rows.examples), rows.left_out, rows.cut)
    return rows.fingerprint


def _is_cut(fingerprints: Mapping[str, str]) -> bool:
    """Whether the limit took anything away: if not, the job is the one without a limit."""
    return any(_counts[digest].cut for digest in fingerprints.values())


def left_out_rows(jobs: Iterable[Job]) -> dict[str, int]:
    """How many rows the benchmarks' conventions leave out of the splits, where there are any.

    By "task:split", of jobs that this process planned.
    """
    splits = {name: digest for job in jobs for name, digest in job.fingerprints.items()}
    counts = {name: _counts.get(digest, _NOTHING).left_out for name, digest in splits.items()}
    return {name: count for name, count in counts.items() if count}


class Estimate(NamedTuple):
    """About how long a job takes; `rough` where no stored run of its kind says so."""

    seconds: float
    rough: bool


def estimate_seconds(job: Job, history: Iterable[RunRow], *, gpu: bool = False) -> Estimate:
    """The median of stored runs like this job, or a rough figure from its size.

    Alike are finished runs of the same model, task, rows, recipe and precision, whatever their
    seed.
    """
    alike = [row.seconds for row in history if _is_alike(job, row)]
    if alike:
        return Estimate(median(alike), rough=False)
    return Estimate(_rough_seconds(job, gpu=gpu), rough=True)


def _is_alike(job: Job, row: RunRow) -> bool:
    return (
        row.status == "finished"
        and (row.model, row.task, row.precision) == (job.model, job.task, job.precision)
        and row.fingerprints == job.fingerprints
        and row.recipe_digest == recipe_digest(job)
    )


# Measured with MiniLM on MRPC: 583,000 tokens in 3 epochs take 110 s on two cores, counting all of
# its 22.7 million parameters. A GPU's figure is an eighth of an H200's bf16 peak.
_CPU_FLOPS = 7e11
_GPU_FLOPS = 1e14
_TOKENS_PER_ROW = 50
_START_SECONDS = 5.0


def _rough_seconds(job: Job, *, gpu: bool) -> float:
    """Six operations for each parameter and token trained on, two for each predicted."""
    parameters = (find_model(job.checkpoint).parameters or 100) * 1e6
    epochs = float(job.settings["epochs"].value)
    trained = predicted = 0
    for split, fingerprint in job.fingerprints.items():
        if split.endswith(":train"):
            trained += _counts.get(fingerprint, _NOTHING).used
        else:
            predicted += _counts.get(fingerprint, _NOTHING).used
    tokens = _TOKENS_PER_ROW * (6 * trained * epochs + 2 * predicted)
    return _START_SECONDS + tokens * parameters / (_GPU_FLOPS if gpu else _CPU_FLOPS)
