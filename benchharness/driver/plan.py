"""From what a user asks for to jobs: models x tasks x seeds, each with the digests of its rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from benchharness.machine import cpu_has_bf16
from benchharness.models import ModelSpec, weights_identity
from benchharness.plugins import plugins_of
from benchharness.recipes import ResolvedRecipe, resolve_sweep
from benchharness.recipes.resolve import FLOOR, floor_settings, start_task, with_start
from leaderboard.job import Job, Start
from tasks.errors import BenchError, DataError, ModelError
from tasks.read import has_split, read
from tasks.sources import Data, parse_data
from tasks.suites import TASKS, find_task
from tasks.task import Task

__all__ = ["floor_jobs", "left_out_rows", "plan_jobs", "resolve_precision", "used_rows"]


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
    start_from: str | ModelSpec | None = None,
) -> list[Job]:
    """The jobs of every model, task, point of its recipe and seed, each once, in that order.

    A task that another one's model predicts (AX by MNLI's) becomes splits of that one's job; its
    rows belong to the job whenever the data have them, so that asking for MNLI alone and for all of
    GLUE plan the same job. `splits` are the kinds to predict ("dev", "test"), `gpu` says where the
    jobs will run. `start_from` is what encoders are trained on before: None for what the recipes
    say, "scratch" for nothing, a task's name, or a checkpoint that takes the place of each model's.
    A job that starts from another one's encoder stands behind that, asked for or not. Raises
    BenchError, with a line for each setting that is wrong, before any data are read, and DataError
    where a split that is needed is missing or malformed.
    """
    if isinstance(start_from, ModelSpec):
        models = [_with_weights(model, start_from) for model in models]
        start_from = start_from.name
    trained = _trained_tasks(tasks)
    recipes = _resolve_recipes(models, trained, recipe, overrides or {}, start_from)
    door = parse_data(data)
    wanted = {task.name for task in tasks}
    starts = {name for _, name in recipes} - {task.name for task in trained}
    parts = _Parts(
        data=str(door),
        recipes=recipes,
        weights={model: weights_identity(model) for model in models},
        fingerprints={
            **{t.name: _fingerprints(t, wanted, door, limit, splits) for t in trained},
            **{name: _start_fingerprints(name, door, limit, splits) for name in starts},
        },
        precision=resolve_precision(precision, gpu=gpu),
        limit=limit,
    )
    jobs: dict[str, Job] = {}
    for model, task in product(models, trained):
        points = range(len(recipes[model, task.name]))
        for point, seed in product(points, seeds):
            for job in parts.chain(model, task.name, point, seed):
                jobs.setdefault(job.key, job)
    return list(jobs.values())


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """What jobs are made of: the points of recipes by model and task, fingerprints by task."""

    data: str
    recipes: Mapping[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]]
    weights: Mapping[ModelSpec, str]
    fingerprints: Mapping[str, Mapping[str, str]]
    precision: str
    limit: int | None

    def chain(self, model: ModelSpec, task: str, point: int, seed: int) -> list[Job]:
        """A job, behind those that it starts from, by the same point where they have as many."""
        points, fingerprints = self.recipes[model, task], self.fingerprints[task]
        recipe = points[min(point, len(points) - 1)]
        start = start_task(recipe)
        before = self.chain(model, start, point, seed) if start else []
        job = Job(
            model=model.name,
            checkpoint=model.checkpoint,
            weights=self.weights[model],
            task=task,
            task_version=_version(find_task(task), fingerprints),
            data=self.data,
            fingerprints=fingerprints,
            kind="floor" if model.is_floor else "model",
            recipe=recipe.name,
            own_recipe=recipe.is_own,
            overridden=recipe.overridden,
            is_sweep=recipe.is_sweep,
            settings=recipe.settings,
            start=recipe.start,
            seed=seed,
            precision=self.precision,
            limit=self.limit if _is_cut(fingerprints) else None,
            start_from=before[-1].key if before else None,
            trust_remote_code=model.trust.remote_code,
            allow_pickle=model.trust.pickle,
            plugins=plugins_of(name.rpartition(":")[0] for name in fingerprints),
        )
        return [*before, job]


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
    start_from: str | None,
) -> dict[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]]:
    """The points of every pair's recipe, and of every task's that one of them starts from.

    What is wrong with any of them is reported at once, each line once.
    """
    resolved: dict[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]] = {}
    problems: dict[str, None] = {}
    waiting = [(model, task) for model in models for task in tasks]
    for model, task in waiting:
        if (model, task.name) in resolved:
            continue
        try:
            found = tuple(
                with_start(point, model, task, recipe=recipe, start_from=start_from)
                for point in resolve_sweep(model, task.name, recipe, overrides, task.head)
            )
        except BenchError as error:
            problems |= dict.fromkeys(str(error).splitlines())
            continue
        resolved[model, task.name] = found
        if start := start_task(found[0]):
            waiting.append((model, find_task(start)))
    problems |= dict.fromkeys(_circles(resolved))
    if problems:
        raise BenchError("\n".join(problems))
    return resolved


def _circles(
    recipes: Mapping[tuple[ModelSpec, str], tuple[ResolvedRecipe, ...]],
) -> Iterator[str]:
    """A sentence about each task that starts, in the end, from itself."""
    starts = {pair: start_task(points[0]) for pair, points in recipes.items()}
    for model, task in recipes:
        names = [task]
        while (start := starts.get((model, names[-1]))) and start not in names:
            names.append(start)
        if start == task:
            yield (
                f"{' starts from '.join([*names, task])}: a task cannot start from itself; take a "
                "start_from out of the recipe."
            )


def _with_weights(model: ModelSpec, start: ModelSpec) -> ModelSpec:
    """The model with the weights of another checkpoint, trained by the recipe of its own."""
    if model.family and start.family and model.family != start.family:
        raise ModelError(
            f"{model.name} cannot start from {start.name}, which is of the family {start.family}: "
            f"expected a checkpoint of {model.family}."
        )
    return replace(
        start,
        name=f"{model.name} from {start.name}",
        family=start.family or model.family,
        recipe=model.recipe,
        start=Start(kind="checkpoint", name=start.name, model=model.name),
    )


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


def _start_fingerprints(
    task: str, data: Data, limit: int | None, splits: Sequence[str]
) -> dict[str, str]:
    """Those of a task that nobody asked for, and others start from."""
    try:
        return _fingerprints(find_task(task), set(), data, limit, splits)
    except DataError as error:
        raise DataError(
            f"{error} It is needed because a task starts from {task}; --start-from scratch does "
            "without."
        ) from error


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


def used_rows(fingerprint: str) -> int:
    """How many examples the split of that digest has, of splits that this process planned with."""
    return _counts.get(fingerprint, _NOTHING).used


def left_out_rows(jobs: Iterable[Job]) -> dict[str, int]:
    """How many rows the benchmarks' conventions leave out of the splits, where there are any.

    By "task:split", of jobs that this process planned.
    """
    splits = {name: digest for job in jobs for name, digest in job.fingerprints.items()}
    counts = {name: _counts.get(digest, _NOTHING).left_out for name, digest in splits.items()}
    return {name: count for name, count in counts.items() if count}


# The jobs of the floors: one for each task and floor, whatever the seeds, recipe and precision.


def floor_jobs(
    jobs: Iterable[Job], floors: Sequence[ModelSpec], tasks: Iterable[Task]
) -> list[Job]:
    """A job of each floor for each of the tasks, on the rows that these jobs are planned on.

    A task that another one's model predicts has that one's job, as with an encoder. A floor has no
    seed, which is then 0, and computes in the 64 bits of scikit-learn.
    """
    planned = {job.task: job for job in jobs}
    names = dict.fromkeys(task.trained_on or task.name for task in tasks)
    return [
        replace(
            planned[name],
            model=floor.name,
            checkpoint=floor.checkpoint,
            weights=weights_identity(floor),
            kind="floor",
            recipe=FLOOR,
            own_recipe=False,
            overridden=False,
            is_sweep=False,
            start=None,
            settings=floor_settings(floor.name, find_task(name).head),
            seed=0,
            precision="fp64",
            start_from=None,
            trust_remote_code=False,
            allow_pickle=False,
        )
        for floor in floors
        for name in names
    ]
