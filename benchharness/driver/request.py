"""What a run is asked for, checked as a whole before anything starts."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import TYPE_CHECKING, Self, TypeVar

from benchharness.driver.options import OF_OWN_DATA, RunOptions
from benchharness.driver.start_checkpoints import find_teacher, folder_beside
from benchharness.engines.local import EngineChoice, Placement, find_placement
from benchharness.engines.slots import Slot, find_gpus
from benchharness.leaderboard.job import PRETRAINED, TOGETHER, Job, Trust
from benchharness.machine import main_memory, memory_of
from benchharness.models import ModelSpec, find_model, find_models
from benchharness.progress import alive
from benchharness.recipes.read import Protocol
from benchharness.recipes.resolve import check_override, protocol_of
from benchharness.tasks.errors import BenchError
from benchharness.tasks.read import holds
from benchharness.tasks.suites import (
    COLLECTIONS,
    SUITES,
    TASKS,
    find_suites,
    find_task,
    select_tasks,
)
from benchharness.tasks.task import Task, TimedTask

if TYPE_CHECKING:
    from benchharness.tasks.own.find import Found

T = TypeVar("T")

DEFAULT_SEEDS = 5
"""RoBERTa's and XLNet's papers report the median of five runs; fewer show no spread to speak of."""


MULTI_TASK = "multi-task"
"""What --start-from calls the model of the tasks after --multi-task."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the options ask for: the models, tasks and seeds to run, how, and where.

    `options` are those of the user, with `data` and `limit` as the recipe has them where the user
    is silent; what the other fields say was found by their words. `overrides` are values that take
    the place of the recipe's. `start_from` is what encoders
    start from: None for what the recipes say, "pretrained", a task's name, TOGETHER for the model
    of the `multi_task` tasks, or a checkpoint instead of each model's. Each of the `shots` is a
    number of training rows to run with: 0 asks a language model as it is, as every task without
    training rows does, and ALL_ROWS is the whole split; with them nothing is trained before.
    The `multi_task` tasks are trained in one job of each model and seed, before those of `tasks`.
    Every job of an encoder learns from the `teacher`: a model's own run, by its paper's recipe, of
    the same task and seed; or the last of several jobs, the others being what that one needs.
    `notes` say what was found in rows of the user's own.
    """

    options: RunOptions
    models: tuple[ModelSpec, ...]
    tasks: tuple[Task, ...]
    seeds: tuple[int, ...]
    placement: Placement
    overrides: Mapping[str, str] = field(default_factory=dict)
    shots: tuple[int, ...] = ()
    start_from: str | ModelSpec | None = None
    multi_task: tuple[Task, ...] = ()
    teacher: ModelSpec | tuple[Job, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def data(self) -> str:
        """Where the rows come from."""
        return self.options.data or "hub"

    @property
    def splits(self) -> tuple[str, ...]:
        """The kinds of splits to predict."""
        return ("dev", "test") if self.options.test else ("dev",)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Where jobs run at the same time."""
        return self.placement.slots

    @property
    def every_task(self) -> tuple[Task, ...]:
        """The tasks with jobs of their own, and those that are trained together."""
        return (*self.tasks, *self.multi_task)

    @property
    def single_tasks(self) -> tuple[Task, ...]:
        """The tasks with jobs of their own, as one has that is together with nothing."""
        return self.tasks if len(leading_tasks(self.multi_task)) > 1 else self.every_task

    def without(self, left_out: Collection[str]) -> Self:
        """The same but for the tasks of these names."""
        tasks, multi_task = (
            tuple(task for task in some if task.name not in left_out)
            for some in (self.tasks, self.multi_task)
        )
        return replace(self, tasks=tasks, multi_task=multi_task)

    @property
    def kind(self) -> str:
        """The kind of its jobs that imports most: "model", or "baseline" for baselines alone."""
        return "baseline" if all(model.is_baseline for model in self.models) else "model"


def leading_tasks(tasks: Iterable[Task]) -> list[Task]:
    """The tasks with jobs of their own, each once; a follower stands for the one it follows."""
    leaders = (find_task(task.trained_on) if task.trained_on else task for task in tasks)
    return list({leader.name: leader for leader in leaders}.values())


def find_own_data(options: RunOptions) -> "Found | None":
    """The task of a file, a folder or a data set of the hub; None where none was named.

    Raises BenchError as `tasks.own.find.find_own` does, and where options contradict each other.
    """
    place = options.hf if options.data_file is None else options.data_file
    if place is None:
        if any(getattr(options, name) for name in OF_OWN_DATA):
            *others, last = (f"--{name.replace('_', '-')}" for name in OF_OWN_DATA)
            raise BenchError(
                f"{', '.join(others)} and {last} are of rows of your own: name them with "
                "--data-file or --hf."
            )
        return None
    if options.data_file is not None and options.hf is not None:
        raise BenchError("--data-file and --hf exclude each other: give one.")
    names = ("suite", "task", "multi_task", "data")
    # Not said, or said as it is anyway: "hub" is what --data means by itself.
    given = [name for name in names if getattr(options, name) not in ((), None, "hub")]
    if given:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise BenchError(
            f"{'--hf' if options.data_file is None else '--data-file'} makes a task of its own, "
            f"which does not go with {flags}: leave one of them out."
        )
    from benchharness.tasks.own.find import find_own  # noqa: PLC0415  (few runs have any)

    with alive(lambda: f"{place} is being read"):
        return find_own(
            place,
            hub=options.data_file is None,
            columns=options.columns or "",
            metrics=options.metric,
            encoding=options.encoding or "",
            no_header=options.no_header,
        )


def check_request(options: RunOptions, fits: Callable[[Task], bool] | None = None) -> Request:
    """The request that the options make, and where they are silent the recipe's.

    `fits` says which task a name means that several suites have, by default the one that the data
    hold. Raises one error with a line for everything that is wrong.
    """
    if own := find_own_data(options):
        options = replace(options, task=(own.task.name,), data=own.data)
    complaints = _Complaints()
    trust = options.trust

    # ---- What the recipe says of a run, where the options are silent.
    protocol = complaints.collect(protocol_of, options.recipe) or Protocol()
    limit, seeds = options.limit, options.seeds
    limit = protocol.limit if limit is None else complaints.collect(_whole, "--limit", limit, 1)
    seeds = protocol.seeds if seeds is None and not options.seed else seeds

    # ---- What to run.
    models = [
        model
        for name in options.model
        for model in complaints.collect(find_models, name, trust) or (None,)
    ]
    fits = fits or holds(options.data or "hub")
    multi_task = complaints.collect(_find_multi_task, options.multi_task, fits) or ()
    tasks = _find_tasks(complaints, options, protocol, multi_task, fits)
    found_seeds = complaints.collect(_choose_seeds, seeds, options.seed) or ()

    # ---- How it is trained.
    overrides = _find_overrides(complaints, options)
    shots = complaints.collect(_parse_shots, options.shots, overrides) or ()
    start = complaints.collect(_find_start, options.start_from, trust, bool(multi_task))
    teacher = None
    if options.teacher is not None:
        teacher = complaints.collect(find_teacher, options.teacher, options.db, trust)

    # ---- Where it runs.
    # Tasks together are one job of each model and seed.
    asked = len(models) * (len(tasks) + bool(multi_task)) * len(found_seeds)
    if any(isinstance(task, TimedTask) for task in tasks):
        asked = 1  # nothing runs beside what is timed
        complaints.collect(_check_engine, options.engine)
    placement = _find_placement(complaints, options, models, asked)

    complaints.check()
    assert placement is not None, "a placement that was not found is a complaint"
    return Request(
        options=replace(options, limit=limit),
        models=tuple(model for model in models if model),
        tasks=tasks,
        seeds=found_seeds,
        overrides=overrides,
        shots=shots,
        placement=placement,
        start_from=start,
        multi_task=multi_task,
        teacher=teacher,
        notes=own.sentences if own else (),
    )


def _check_engine(name: str) -> None:
    if name != "local":
        raise BenchError(f"models are timed on this machine: leave --engine {name} out.")


def _find_tasks(
    complaints: "_Complaints",
    options: RunOptions,
    protocol: Protocol,
    multi_task: tuple[Task, ...],
    fits: Callable[[Task], bool],
) -> tuple[Task, ...]:
    """The tasks with jobs of their own."""
    names = options.task if options.suite or options.task else protocol.tasks
    if multi_task and not (names or options.suite):  # no others but those that start from it
        return multi_task if options.start_from == MULTI_TASK else ()
    named = [found for name in options.suite if (found := complaints.collect(find_suites, name))]
    suites = [suite for found in named for suite in found]
    complete = len(named) == len(options.suite)
    return complaints.collect(select_tasks, suites, names, complete, fits) or ()


def _find_multi_task(names: Sequence[str], fits: Callable[[Task], bool]) -> tuple[Task, ...]:
    """The tasks of some names, which may be suites, or several with commas between."""
    found: dict[str, Task] = {}
    for name in (word.strip() for words in names for word in words.split(",")):
        is_suite = name.lower() in (*SUITES, *COLLECTIONS)
        suites = find_suites(name) if is_suite else ()
        chosen = select_tasks(suites, () if is_suite else (name,), fits=fits)
        found |= {task.name: task for task in chosen}
    return tuple(found.values())


def _find_overrides(complaints: "_Complaints", options: RunOptions) -> dict[str, str]:
    """The values that take the place of the recipe's."""
    settings = [*options.set, *(["as_text=true"] if options.text_to_text else [])]
    overrides = complaints.collect(_parse_settings, settings) or {}
    for setting in overrides.items():
        complaints.collect(check_override, *setting)
    return overrides


def _find_placement(
    complaints: "_Complaints",
    options: RunOptions,
    models: Sequence[ModelSpec | None],
    jobs: int,
) -> Placement | None:
    """Where so many jobs of the models run; a name that nobody knows counts as None."""
    choice = EngineChoice(
        name=options.engine,
        address=options.address,
        words=options.engine_options,
        folder=folder_beside(options.db),
        device=options.device,
        jobs=complaints.collect(_parse_jobs, options.jobs),
        processes=complaints.collect(_whole, "--processes-per-job", options.processes_per_job, 1)
        or 1,
        small=all(model and (model.is_builtin or model.is_baseline) for model in models),
        fit=_count_fitting([model for model in models if model], jobs, options.device),
    )
    return complaints.collect(find_placement, choice)


def _count_fitting(models: Sequence[ModelSpec], jobs: int, device: str) -> int:
    """How many of the jobs have room in this machine's memory, which is not that of its GPUs.

    By what is asked for, never by the jobs that are left: threads change the last digits.
    """

    def fitting(*, gpu: bool) -> int:
        needed = max((memory_of(model.parameters, gpu=gpu) for model in models), default=1)
        return main_memory() // needed

    fit = fitting(gpu=False)
    if fit < jobs and device != "cpu" and find_gpus():  # looked for only where it matters
        fit = fitting(gpu=True)
    return max(1, min(jobs, fit))


class _Complaints:
    """Calls functions and keeps what they complain about, so that it is shown at once."""

    def __init__(self) -> None:
        self._errors: list[BenchError] = []

    def collect(self, function: Callable[..., T], *arguments: object) -> T | None:
        try:
            return function(*arguments)
        except BenchError as error:
            self._errors.append(error)
            return None

    def check(self) -> None:
        """Raises all complaints as one error, of their class where they share it."""
        kinds = {type(error) for error in self._errors}
        if kinds:
            kind = kinds.pop() if len(kinds) == 1 else BenchError
            raise kind(*(sentence for error in self._errors for sentence in error.args))


def _choose_seeds(count: int | None, seeds: Sequence[int]) -> tuple[int, ...]:
    if count is not None and seeds:
        raise BenchError("--seeds and --seed exclude each other: --seeds 3 means seeds 1, 2 and 3.")
    if seeds:
        return tuple(dict.fromkeys(_whole("--seed", seed, 0, MOST_SEED) for seed in seeds))
    return tuple(range(1, _whole("--seeds", DEFAULT_SEEDS if count is None else count, 1) + 1))


MOST_SEED = 2**32 - 1
"""The greatest that numpy takes."""


def _whole(option: str, value: object, least: int, most: int | None = None) -> int:
    """A whole number from `least` up, of any type (numpy's too): Python's callers give anything."""
    try:
        found = index(value)  # type: ignore[arg-type]
    except TypeError:
        # Out of range, so that the one sentence below is about this too.
        found = least - 1
    if found < least or (most is not None and found > most):
        end = "up" if most is None else f"to {most}"
        raise BenchError(f"{option} must be a whole number from {least} {end}, got {value!r}.")
    return found


def _find_start(name: str, trust: Trust, is_multi_task: bool) -> str | ModelSpec | None:
    """What a word after --start-from means in a Request; tasks come before folders."""
    if name == MULTI_TASK:
        if not is_multi_task:
            raise BenchError(
                "--start-from multi-task needs --multi-task, with the tasks whose encoder is meant."
            )
        return TOGETHER
    if name == "paper":
        return None
    if name == PRETRAINED:
        return name
    # "glue/mnli" and "mnli" are the task; whatever is none is a checkpoint.
    if not any(name.lower() in (full, full.partition("/")[2]) for full in TASKS):
        return find_model(name, trust)
    task = find_task(name)
    if not task.is_trained:
        raise BenchError(f"--start-from {name!r}: {task.name} has no rows to train on.")
    if task.trained_on is not None:
        raise BenchError(
            f"--start-from {name!r}: {task.name} has no rows to train on; its model is that of "
            f"{task.trained_on}, which can be started from."
        )
    return task.name


def _parse_settings(settings: Sequence[str]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not (name and equals and value):
            raise BenchError(f"--set {setting!r} is not name=value, such as --set epochs=3.")
        # The same value twice does no harm.
        if parsed.get(name, value) != value:
            raise BenchError(f"--set gives {name} twice, as {parsed[name]} and as {value}.")
        parsed[name] = value
    return parsed


ALL_ROWS = -1
"""The number of shots that is a whole train split."""


def _parse_shots(words: str, overrides: Mapping[str, str]) -> tuple[int, ...]:
    """The numbers of training rows after --shots, each once; empty where nothing is said."""
    if words and "shots" in overrides:
        raise BenchError("--shots and --set shots=... say the same: give one of them.")
    found: dict[int, None] = {}
    for word in filter(None, words.split(",")):
        if word.strip() == "all":
            found[ALL_ROWS] = None
        elif word.strip().isdecimal():
            found[int(word)] = None
        else:
            raise BenchError(
                f"--shots {words}: expected numbers of training rows with commas between, such as "
                f"0,8,32,all; {word.strip()!r} is none."
            )
    return tuple(found)


def _parse_jobs(jobs: str) -> int | None:
    if jobs == "auto":
        return None
    if not jobs.isdecimal() or int(jobs) < 1:
        raise BenchError(f"--jobs must be auto or a whole number from 1 up, got {jobs}.")
    return int(jobs)
