"""The schedule of a plan: which jobs to run, in which order, and estimates of their durations."""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pkgutil import resolve_name
from typing import Any, NamedTuple

from benchharness.driver.options import RunOptions
from benchharness.driver.plan import Plan
from benchharness.driver.start_checkpoints import StartCheckpoints, model_bytes
from benchharness.engines.slots import Slot, place_of
from benchharness.errors import ModelError
from benchharness.kept_folders import require_room, shown_bytes
from benchharness.leaderboard.job import FEATURES_SETTING, Job
from benchharness.leaderboard.result import RunRow
from benchharness.leaderboard.store.database import is_there
from benchharness.leaderboard.store.store import Store, open_store
from benchharness.leaderboard.text import are, counted, grouped
from benchharness.machine import Estimate, estimate_seconds
from benchharness.models import find_model
from benchharness.models.weights import config_of
from benchharness.progress import duration, job_name, job_names
from benchharness.recipes.recipe import Recipe
from benchharness.tasks.suites import find_task


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Schedule of a plan: all jobs, the jobs that will run, and estimates of their durations.

    Attributes:
        jobs: All jobs of the plan, including those whose models other jobs need.
        todo: The jobs to run, in the order in which they start.
        estimates: The estimated duration of each job to run, keyed by job key.
        at_once: The number of jobs that run concurrently; more may run while a shared GPU has free
            memory.
        checkpoints: The manager of the trained models that other jobs need or that will be kept.
        are_shared: Whether several jobs may run concurrently on one GPU.
        place: A description of the devices, such as "the CPU" or "2 GPUs".
        again: The keys of jobs that run again, although they have a stored result, because their
            trained model is missing.
        notes: Messages for the user.
        grid: All jobs of the whole plan, if `jobs` contains only some of them, as in successive
            halving; otherwise empty. The names of jobs are distinct within the whole plan.
        model_bytes: The approximate size in bytes of each model that will be kept and does not
            exist yet, keyed by job key.
    """

    jobs: tuple[Job, ...]
    todo: tuple[Job, ...]
    estimates: Mapping[str, Estimate]
    at_once: int
    checkpoints: StartCheckpoints
    are_shared: bool = False
    place: str = "the CPU"
    again: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    grid: tuple[Job, ...] = ()
    model_bytes: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def names(self) -> dict[str, str]:
        """Names of the jobs for the user, keyed by job key; no two jobs have the same name."""
        return job_names({job.key: job for job in (*self.grid, *self.jobs, *self.todo)}.values())

    @property
    def weights(self) -> dict[str, float]:
        """Estimated duration of each job to run in seconds, keyed by job key."""
        return {key: estimate.seconds for key, estimate in self.estimates.items()}

    @property
    def seconds(self) -> float:
        """Estimated duration of the whole schedule in seconds.

        It is never less than the duration of the longest chain of jobs that wait for each other.
        """
        chains = _chain_seconds(self.todo, self.weights).values()
        return max(sum(self.weights.values()) / self.at_once, max(chains, default=0.0))

    @property
    def starts(self) -> dict[str, list[Job]]:
        """Jobs to run that need the model of another job, keyed by the other job's key."""
        found: dict[str, list[Job]] = {}
        for job in self.jobs:
            # Only jobs that will run have estimates; all other jobs need no model any more.
            for key in job.needs if job.key in self.estimates else ():
                found.setdefault(key, []).append(job)
        return found

    def sentence(self) -> str:
        """Return a sentence with the number of jobs, the devices and the estimated duration."""
        done = len(self.jobs) - len(self.todo)
        parts = [f"{counted(len(self.jobs), 'job')} ({_shape(self.jobs)})"]
        if done:
            parts.append(f"{done} stored already")
        if not self.todo:
            return f"{', '.join(parts)}: there is nothing to run."
        is_rough = any(estimate.rough for estimate in self.estimates.values())
        rough = " (a rough guess)" if is_rough else ""
        more = self.are_shared and len(self.todo) > self.at_once
        room = ", or more while a GPU has free memory" if more else ""
        parts.append(f"{len(self.todo)} to run, {self.at_once} at once on {self.place}{room}")
        return f"{', '.join(parts)}, about {duration(self.seconds)}{rough}."

    def start_sentences(self) -> Iterator[str]:
        """Yield sentences about the models that other jobs start from, or learn from as students.

        Each sentence states whether the model is trained first, is trained again, or exists
        already.
        """
        keys = {job.key for job in self.todo}
        by_key = {job.key: job for job in self.jobs}
        by_title = {job.title: len(job.trained_tasks) for job in self.jobs}
        said: dict[tuple[str, str], list[str]] = {}
        taught: dict[tuple[str, str, str], list[str]] = {}
        for key, followers in self.starts.items():
            how = "kept" if key not in keys else "again" if key in self.again else "first"
            title = by_key[key].title
            for job in followers:
                if job.start_from == key:
                    said.setdefault((title, how), []).append(job.title)
                else:
                    taught.setdefault((by_key[key].model, title, how), []).append(job.model)
        for (title, how), names in said.items():
            yield _START_SENTENCES[how].format(
                title, ", ".join(dict.fromkeys(names)), verb=are(by_title[title])
            )
        for (model, title, how), students in taught.items():
            shown = ", ".join(dict.fromkeys(students))
            yield _TEACHER_SENTENCES[how].format(f"{model} on {title}", shown)

    def model_sentences(self) -> Iterator[str]:
        """Yield sentences about the trained models that will be kept: number, folder and size.

        Further sentences name models that are trained again, and models that can be used only with
        `bench predict`.
        """
        if kept := self.model_bytes:
            folder, size = self.checkpoints.folder, shown_bytes(sum(kept.values()))
            yield f"{counted(len(kept), 'model')} will be kept in {folder} (about {size})."
        if again := len(self.again & kept.keys()):
            runs = "A stored run is" if again == 1 else f"{again} stored runs are"
            yield f"{runs} trained again for this purpose; stored results do not change."
        found = grouped(
            (said, job.title) for job in self.todo for said in _without_class(job, kept)
        )
        for said, titles in found.items():
            names = ", ".join(dict.fromkeys(titles))
            yield f"{said}, so these models can be used only with `bench predict` ({names})."

    def lines(self) -> Iterator[str]:
        """Yield a line per job to run, with its key, name, recipe and estimated time."""
        for job in self.todo:
            seconds = duration(self.estimates[job.key].seconds)
            start = f" from {job.shown_start}" if job.start_from else ""
            start += f", student of {job.shown_teacher}" if job.teacher else ""
            yield (
                f"  {job.key[:12]}  {job_name(job)}{start}, {job.shown_recipe}, {job.precision}: "
                f"{seconds}"
            )

    def to_json(self) -> list[dict[str, Any]]:
        """Return one dictionary per job with facts about it, as data for JSON.

        Under the key "to_run", it states whether the job will run.
        """
        return [
            {
                "key": job.key,
                "model": job.model,
                "task": job.task,
                **({"together": list(job.trained_tasks)} if len(job.trained_tasks) > 1 else {}),
                "seed": job.seed,
                "data": job.data,
                "recipe": job.recipe_label,
                "precision": job.precision,
                "start_from": job.start_from,
                **({"teacher": job.teacher.run} if job.teacher else {}),
                "to_run": job.key in self.estimates,
                "about_seconds": self.weights.get(job.key),
                **({"model_bytes": size} if (size := self.model_bytes.get(job.key)) else {}),
            }
            for job in self.jobs
        ]


_START_SENTENCES = {
    "first": (
        "{} {verb} trained first, as the starting point for {} (--start-from pretrained "
        "skips this)."
    ),
    "again": (
        "{} {verb} trained again, as the starting point for {}, because the encoder was not kept."
    ),
    "kept": "The trained encoder of {} exists already and is the starting point for {}.",
}

_TEACHER_SENTENCES = {
    "first": "{} is trained first, as the teacher of {}.",
    "again": "{} is trained again, as the teacher of {}, because its network was not kept.",
    "kept": "The trained network of {} exists already and is the teacher of {}.",
}


class Known(NamedTuple):
    """Facts from the database of results that are used to schedule jobs.

    Attributes:
        finished: The keys of jobs that have a result.
        history: Stored runs, whose durations are used as estimates for similar jobs.
        encoders: The keys of jobs whose trained model exists and is undamaged.
    """

    finished: Collection[str] = ()
    history: Sequence[RunRow] = ()
    encoders: Collection[str] = ()


NOTHING = Known()


def schedule(
    plan: Plan, slots: Sequence[Slot], checkpoints: StartCheckpoints, known: Known = NOTHING
) -> Schedule:
    """Return the schedule of the jobs in a plan that must run.

    All jobs without a result must run. A job with a result must run again if its trained model is
    missing, and other jobs need the model or the model must be kept. Jobs start in the order of
    decreasing duration, so that all slots finish at about the same time. The duration of a job
    includes that of the longest chain of jobs that wait for it.

    Args:
        plan: The planned jobs.
        slots: The slots of the engine; in each slot, one job runs at a time.
        checkpoints: The manager of the trained models that other jobs need or that will be kept.
        known: Facts from the database of results, such as the keys of finished jobs.
    """
    gpu, rows = slots[0].is_gpu, plan.used_rows
    keys = _missing_keys(plan.jobs, known, checkpoints.asked)
    missing = [job for job in plan.jobs if job.key in keys]
    estimates = {job.key: estimate_seconds(job, known.history, rows, gpu=gpu) for job in missing}
    shared = {slot.device for slot in slots if slot.is_shared}
    # Count one slot per shared GPU, because the other slots of the GPU are used only while the GPU
    # has free memory.
    sure = len(shared) + sum(not slot.is_shared for slot in slots)
    chains = _chain_seconds(missing, {key: e.seconds for key, e in estimates.items()})
    # Each job comes after the jobs that it needs: their chains are at least as long as that of the
    # job, and jobs with equally long chains keep the order of the plan.
    todo = sorted(missing, key=lambda job: -chains[job.key])
    return Schedule(
        jobs=plan.jobs,
        todo=tuple(todo),
        estimates=estimates,
        at_once=max(1, min(sure, len(todo))),
        are_shared=bool(shared),
        place=place_of(slots),
        again=frozenset(keys.intersection(known.finished)),
        checkpoints=checkpoints,
        grid=plan.grid,
        model_bytes={job.key: model_bytes(job) for job in todo if job.key in checkpoints.asked},
    )


def _without_class(job: Job, kept: Collection[str]) -> Iterator[str]:
    """Yield a message for each task of a job if transformers has no class for the kept model."""
    if job.key not in kept:
        return
    with suppress(ModelError):  # if the config is not available, the job itself reports the error
        config = config_of(find_model(job.checkpoint, job.trust))
        recipe, is_foreign = Recipe.from_settings(job.settings), "auto_map" in config
        published_class = resolve_name("benchharness.recipes.classes:published_class")
        for task in job.trained_tasks:
            found = published_class(
                find_task(task),
                recipe,
                str(config["model_type"]),
                is_foreign=is_foreign and job.trust.remote_code,
            )
            yield from filter(None, [found.sentence])


def schedule_missing(
    plan: Plan, slots: Sequence[Slot], options: RunOptions, only: Set[str] | None = None
) -> Schedule:
    """Return the schedule of the jobs that have no result in the database `options.db`.

    Jobs with a result are included if their trained model is needed but missing. The database need
    not exist yet. Unless this is a dry run, the trained models that the jobs need
    are locked until the schedule has been run or this process ends, so that no other process
    deletes them.

    Args:
        plan: The planned jobs.
        slots: The slots of the engine; in each slot, one job runs at a time.
        options: The options of the run. With `force`, all jobs run; with `keep_models`, all trained
            models are kept.
        only: The keys of the jobs whose models may be kept; None if all models may be kept.

    Raises:
        JobError: The disk has too little space for the models that will be kept.
    """
    checkpoints = StartCheckpoints.of(plan.jobs, options.db, keep=options.keep_models)
    if only is not None:
        checkpoints = replace(checkpoints, kept=checkpoints.kept & only)
    with checkpoints.holds.unless_it_fails():
        if not options.dry_run:
            checkpoints.hold()
        found = _schedule_by_store(plan, slots, options, checkpoints)
        if found.model_bytes and not options.dry_run:
            what = f"for {counted(len(found.model_bytes), 'model')} to be kept"
            require_room(checkpoints.folder / "any", sum(found.model_bytes.values()), what)
    return found


def _schedule_by_store(
    plan: Plan, slots: Sequence[Slot], options: RunOptions, checkpoints: StartCheckpoints
) -> Schedule:
    if not is_there(options.db):
        return schedule(plan, slots, checkpoints)
    with open_store(options.db) as store:
        keys = (job.key for job in plan.jobs)
        finished = set() if options.force else store.finished_keys(keys)
        # The times of stored runs of the same models are used to estimate how long the jobs take.
        there = finished - checkpoints.asked
        models = {job.model for job in plan.jobs if job.key not in there}
        history = store.runs(model=models) if models else []
        known = Known(finished, history, checkpoints.whole())
        if not options.dry_run:
            checkpoints.stay(known.encoders)
        found = schedule(plan, slots, checkpoints, known)
        notes = list(store.taken.sentences(store.name))
        if not plan.grid:  # the notes of a whole plan are not repeated for its parts
            notes += _other_names(plan.jobs, store, finished)
        return replace(found, notes=tuple(notes))


def _other_names(jobs: Sequence[Job], store: Store, finished: Collection[str]) -> Iterator[str]:
    """Yield a message for each model whose runs are stored under the name of another model."""
    names = {row.key: row.model for row in store.runs_with(finished)}
    stored = ((job.model, names[job.key]) for job in jobs if job.key in names)
    for asked, name in dict.fromkeys(stored):
        if asked != name:
            yield f"{asked} has the same weights as {name}; stored runs are shown as {name}."


def _missing_keys(jobs: Sequence[Job], known: Known, kept: Set[str]) -> set[str]:
    """Return the keys of the jobs that must run.

    These are jobs without a result, jobs whose model must be kept but is missing, and jobs that
    other jobs to run need and whose model is missing.

    Args:
        jobs: The jobs of the plan.
        known: Facts from the store, such as the keys of finished jobs.
        kept: The keys of jobs whose trained model must be kept.
    """
    by_key = {job.key: job for job in jobs}
    missing: set[str] = set()
    there = {*known.finished} - (kept - {*known.encoders})
    waiting = [job.key for job in jobs if job.key not in there]
    while waiting:
        key = waiting.pop()
        if key not in missing:
            # A job whose model is needed but missing runs again, even if its result is stored.
            waiting += [need for need in by_key[key].needs if need not in known.encoders]
        missing.add(key)
    return missing


def _chain_seconds(jobs: Sequence[Job], seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds from the start of each job to the end of all jobs that wait for it.

    This is the job's own duration plus the duration of the longest chain of jobs that wait for it.
    """
    after: dict[str, list[str]] = {}
    for job in jobs:
        for need in job.needs:
            after.setdefault(need, []).append(job.key)

    def chain(key: str) -> float:
        return seconds[key] + max(map(chain, after.get(key, ())), default=0.0)

    return {job.key: chain(job.key) for job in jobs}


def _shape(jobs: Sequence[Job]) -> str:
    """Describe the jobs by their dimensions, such as "2 models x 9 tasks x 3 seeds"."""
    shapes = []
    if trained := [job for job in jobs if job.kind == "model" and not job.is_zero_shot]:
        seeds = counted(len({job.seed for job in trained}), "seed")
        shots = len({job.settings["shots"].value for job in trained if "shots" in job.settings})
        times = f" x {shots} numbers of shots" if shots > 1 else ""
        read = len({job.values.get(FEATURES_SETTING) for job in trained})
        times += f" x {read} choices of features" if read > 1 else ""
        shapes.append(f"{_grid(trained, 'model')}{times} x {seeds}")
    if untrained := [job for job in jobs if job.is_zero_shot]:
        shapes.append(f"{_grid(untrained, 'model')} without training")
    if baselines := [job for job in jobs if job.kind == "baseline"]:
        shapes.append(_grid(baselines, "baseline"))
    data = dict.fromkeys(find_task(job.task).source.shown(job.data) for job in jobs)
    return f"{' and '.join(shapes)}, data: {' and '.join(data)}"


def _grid(jobs: Sequence[Job], noun: str) -> str:
    models = counted(len({job.weights for job in jobs}), noun)
    alone = {job.task for job in jobs if len(job.trained_tasks) == 1}
    shared = [job.title for job in jobs if len(job.trained_tasks) > 1]
    trainings = [counted(len(alone), "task")] if alone else []
    return f"{models} x {' and '.join([*trainings, *dict.fromkeys(shared)])}"
