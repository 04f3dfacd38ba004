"""The request of a run: all options of the user, resolved and checked before any job starts."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import Self, TypeVar

from benchharness.driver.options import OF_OWN_DATA, RunOptions
from benchharness.driver.start_checkpoints import find_teacher, folder_beside
from benchharness.engines.local import EngineChoice, Placement, find_placement
from benchharness.engines.slots import Slot, find_gpus
from benchharness.errors import BenchError
from benchharness.leaderboard.job import PRETRAINED, TOGETHER, Job, Trust
from benchharness.machine import main_memory, memory_of
from benchharness.models import ModelSpec, find_model, find_models
from benchharness.progress import alive
from benchharness.recipes.read import Protocol
from benchharness.recipes.resolve import check_override, protocol_of
from benchharness.tasks.custom import FoundTask, custom_tasks
from benchharness.tasks.read import holds
from benchharness.tasks.suites import (
    COLLECTIONS,
    SUITES,
    TASKS,
    find_suites,
    find_task,
    select_tasks,
)
from benchharness.tasks.task import Task

T = TypeVar("T")

DEFAULT_SEEDS = 5
"""Default number of seeds, which the papers of RoBERTa and XLNet use too. With fewer runs, it is
hard to see how much scores vary."""


MULTI_TASK = "multi-task"
"""Value of --start-from that selects the encoder trained on the tasks of --multi-task."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A checked request: what to run, how to train, and where to compute.

    Attributes:
        options: The user's options, with two changes: for a task on the user's own data, `task` and
            `data` describe this data; and if the user has not set `limit`, it is the limit of the
            recipe.
        models: The models to run.
        tasks: The tasks that are trained and scored separately.
        seeds: The seeds, which are the same for every task.
        placement: The engine and the slots that run the jobs.
        overrides: The hyperparameters that replace values of the recipe.
        shots: The numbers of training examples in few-shot training; each number has its own jobs.
            With 0, a language model is scored without training. ALL_ROWS stands for the whole train
            split. Empty without few-shot training.
        start_from: The initial weights of the encoders: None if the recipe determines them,
            "pretrained", the name of a task on which the model is trained first, TOGETHER for the
            model that is trained on `multi_task`, or a checkpoint that replaces the model's own.
        multi_task: The tasks that are trained together, in one job per model and seed.
        teacher: The teacher of all encoders; None without distillation. If it is a model, it is
            first fine-tuned on the same task with the same seed, with the recipe of its paper. If
            it is a tuple of jobs, the last job is the teacher, and the others are the jobs that the
            teacher needs.
        notes: Messages about the user's own data.
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
        """Data source of the run; "hub" by default."""
        return self.options.data or "hub"

    @property
    def splits(self) -> tuple[str, ...]:
        """Kinds of splits to predict: "dev", and also "test" if the user has set --test."""
        return ("dev", "test") if self.options.test else ("dev",)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Slots of the engine; in each slot, one job runs at a time."""
        return self.placement.slots

    @property
    def every_task(self) -> tuple[Task, ...]:
        """Tasks that are trained separately, followed by those that are trained together."""
        return (*self.tasks, *self.multi_task)

    @property
    def single_tasks(self) -> tuple[Task, ...]:
        """Tasks that are trained separately.

        The tasks of --multi-task are included if a single training covers all of them, for example
        if there is only one.
        """
        return self.tasks if len(leading_tasks(self.multi_task)) > 1 else self.every_task

    def without(self, left_out: Collection[str]) -> Self:
        """Return the request without the tasks that have these names."""
        tasks, multi_task = (
            tuple(task for task in some if task.name not in left_out)
            for some in (self.tasks, self.multi_task)
        )
        return replace(self, tasks=tasks, multi_task=multi_task)

    @property
    def kind(self) -> str:
        """Kind of the jobs: "baseline" if all models are baselines, otherwise "model".

        The kind determines the modules that worker processes import, because encoders need more
        modules than baselines.
        """
        return "baseline" if all(model.is_baseline for model in self.models) else "model"


def leading_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Return the distinct tasks on which a model must be trained to score the given tasks.

    A task without training data, which the model of another task predicts, is replaced by that
    other task.
    """
    leaders = (find_task(task.trained_on) if task.trained_on else task for task in tasks)
    return list({leader.name: leader for leader in leaders}.values())


def find_own_data(options: RunOptions) -> FoundTask | None:
    """Infer a task from the user's own data, which are a file, a folder or a data set on the hub.

    Args:
        options: The options of the run, which name the data and describe how to read them.

    Returns:
        The inferred task, or None if the options do not name data of the user.

    Raises:
        BenchError: The options contradict each other, or the data cannot be read.
    """
    place = options.hf if options.data_file is None else options.data_file
    if place is None:
        if given := [f"--{n.replace('_', '-')}" for n in OF_OWN_DATA if getattr(options, n)]:
            raise BenchError(f"{given[0]} describes your own data: pass --data-file or --hf too.")
        return None
    if options.data_file is not None and options.hf is not None:
        raise BenchError("--data-file and --hf cannot be combined: pass only one of them.")
    names = ("suite", "task", "multi_task", "data")
    # Ignore options that are not set or have their default value, which is "hub" for --data.
    given = [name for name in names if getattr(options, name) not in ((), None, "hub")]
    if given:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise BenchError(
            f"{'--hf' if options.data_file is None else '--data-file'} defines its own task, so it "
            f"cannot be combined with {flags}: remove one of them."
        )
    with alive(lambda: f"{place} is being read"):
        return custom_tasks().find_own(
            place,
            hub=options.data_file is None,
            columns=options.columns or "",
            metrics=options.metric,
            encoding=options.encoding or "",
            no_header=options.no_header,
            sheet=options.sheet or "",
        )


def check_request(options: RunOptions, fits: Callable[[Task], bool] | None = None) -> Request:
    """Check the options, take missing values from the recipe, and return the request.

    Args:
        options: The user's options.
        fits: Function that gets a task and returns whether to use it. It is called if several
            suites have a task with the same short name. By default, the task whose files are in the
            data source is used.

    Raises:
        BenchError: One or several options are wrong; the error has a line for each.
    """
    if own := find_own_data(options):
        options = replace(options, task=(own.task.name,), data=own.data)
    complaints = _Complaints()
    trust = options.trust

    # ---- Values that the recipe sets if the options do not.
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

    # ---- How to train.
    overrides = _find_overrides(complaints, options)
    shots = complaints.collect(_parse_shots, options.shots, overrides) or ()
    start = complaints.collect(_find_start, options.start_from, trust, bool(multi_task))
    teacher = None
    if options.teacher is not None:
        teacher = complaints.collect(find_teacher, options.teacher, options.db, trust)

    # ---- Where to compute.
    # Tasks that are trained together have one job per model and seed.
    asked = len(models) * (len(tasks) + bool(multi_task)) * len(found_seeds)
    if any(task.is_measured for task in tasks):
        asked = 1  # no other job may run while the time is measured
        complaints.collect(_check_engine, options.engine)
    placement = _find_placement(complaints, options, models, asked)

    complaints.check()
    assert placement is not None, "`check` has raised an error if there is no placement"
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
        raise BenchError(f"models can be timed only on this machine: remove --engine {name}.")


def _find_tasks(
    complaints: "_Complaints",
    options: RunOptions,
    protocol: Protocol,
    multi_task: tuple[Task, ...],
    fits: Callable[[Task], bool],
) -> tuple[Task, ...]:
    """Return the tasks that are trained separately."""
    names = options.task if options.suite or options.task else protocol.tasks
    # If only --multi-task names tasks, no task is trained separately, unless the shared encoder is
    # afterwards fine-tuned on each of these tasks (--start-from multi-task).
    if multi_task and not (names or options.suite):
        return multi_task if options.start_from == MULTI_TASK else ()
    named = [found for name in options.suite if (found := complaints.collect(find_suites, name))]
    suites = [suite for found in named for suite in found]
    complete = len(named) == len(options.suite)
    return complaints.collect(select_tasks, suites, names, complete, fits) or ()


def _find_multi_task(names: Sequence[str], fits: Callable[[Task], bool]) -> tuple[Task, ...]:
    """Return the tasks that --multi-task names, without duplicates.

    A string may contain several names of tasks and suites, separated by commas.
    """
    found: dict[str, Task] = {}
    for name in (word.strip() for words in names for word in words.split(",")):
        is_suite = name.lower() in (*SUITES, *COLLECTIONS)
        suites = find_suites(name) if is_suite else ()
        chosen = select_tasks(suites, () if is_suite else (name,), fits=fits)
        found |= {task.name: task for task in chosen}
    return tuple(found.values())


def _find_overrides(complaints: "_Complaints", options: RunOptions) -> dict[str, str]:
    """Return the hyperparameters from --set and similar options, which replace recipe values."""
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
    """Return the engine and the slots, or None if they are not available.

    `models` contains None for each model that was not found, and `jobs` is the number of jobs.
    """
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
    """Return how many jobs fit into main memory at the same time, at least one.

    GPU memory is not considered. The number depends on all requested jobs, including finished ones.
    It determines the number of threads, and another number of threads would change the last digits
    of results.
    """

    def fitting(*, gpu: bool) -> int:
        needed = max((memory_of(model.parameters, gpu=gpu) for model in models), default=1)
        return main_memory() // needed

    fit = fitting(gpu=False)
    if fit < jobs and device != "cpu" and find_gpus():  # look for GPUs only if needed
        fit = fitting(gpu=True)
    return max(1, min(jobs, fit))


class _Complaints:
    """Collector of errors, so that all errors can be reported together."""

    def __init__(self) -> None:
        self._errors: list[BenchError] = []

    def collect(self, function: Callable[..., T], *arguments: object) -> T | None:
        try:
            return function(*arguments)
        except BenchError as error:
            self._errors.append(error)
            return None

    def check(self) -> None:
        """Raise one error with the messages of all collected errors, if there are any.

        The error has the class of the collected errors, or BenchError if their classes differ.
        """
        kinds = {type(error) for error in self._errors}
        if kinds:
            kind = kinds.pop() if len(kinds) == 1 else BenchError
            raise kind(*(sentence for error in self._errors for sentence in error.args))


def _choose_seeds(count: int | None, seeds: Sequence[int]) -> tuple[int, ...]:
    if count is not None and seeds:
        raise BenchError("--seeds and --seed cannot be combined: --seeds 3 means seeds 1, 2 and 3.")
    if seeds:
        return tuple(dict.fromkeys(_whole("--seed", seed, 0, MOST_SEED) for seed in seeds))
    return tuple(range(1, _whole("--seeds", DEFAULT_SEEDS if count is None else count, 1) + 1))


MOST_SEED = 2**32 - 1
"""Largest seed that numpy accepts."""


def _whole(option: str, value: object, least: int, most: int | None = None) -> int:
    """Convert an integer of any type, such as numpy's, to an int from `least` to `most`.

    Raises:
        BenchError: The value is not an integer, or is out of range.
    """
    try:
        found = index(value)  # type: ignore[arg-type]
    except TypeError:
        # Use a number outside of the range, so that the error below is raised.
        found = least - 1
    if found < least or (most is not None and found > most):
        end = "up" if most is None else f"to {most}"
        raise BenchError(f"{option} must be a whole number from {least} {end}, got {value!r}.")
    return found


def _find_start(name: str, trust: Trust, is_multi_task: bool) -> str | ModelSpec | None:
    """Convert the value of --start-from to the `start_from` of a Request.

    If a name is both a task and a folder, the task is used.
    """
    if name == MULTI_TASK:
        if not is_multi_task:
            raise BenchError(
                "--start-from multi-task needs --multi-task with the tasks to train the encoder on."
            )
        return TOGETHER
    if name == "paper":
        return None
    if name == PRETRAINED:
        return name
    # "glue/mnli" and "mnli" are names of a task; any other name is a checkpoint.
    if not any(name.lower() in (full, full.partition("/")[2]) for full in TASKS):
        return find_model(name, trust)
    task = find_task(name)
    if not task.is_trained:
        raise BenchError(f"--start-from {name!r} is impossible: {task.name} has no training rows.")
    if task.trained_on is not None:
        raise BenchError(
            f"--start-from {name!r} is impossible: {task.name} has no training rows and is "
            f"predicted by the model of {task.trained_on}; start from {task.trained_on} instead."
        )
    return task.name


def _parse_settings(settings: Sequence[str]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not (name and equals and value):
            raise BenchError(f"--set {setting!r} is not a name=value, such as --set epochs=3.")
        # It is not an error to set the same value twice.
        if parsed.get(name, value) != value:
            raise BenchError(f"--set has two values for {name}: {parsed[name]} and {value}.")
        parsed[name] = value
    return parsed


ALL_ROWS = -1
"""Value in `Request.shots` that stands for the whole train split."""


def _parse_shots(words: str, overrides: Mapping[str, str]) -> tuple[int, ...]:
    """Return the numbers of training examples in --shots, without duplicates; () if it is unset."""
    if words and "shots" in overrides:
        raise BenchError("--shots and --set shots=... set the same value: use only one of them.")
    found: dict[int, None] = {}
    for word in filter(None, words.split(",")):
        if word.strip() == "all":
            found[ALL_ROWS] = None
        elif word.strip().isdecimal():
            found[int(word)] = None
        else:
            raise BenchError(
                f"--shots {words}: expected numbers of training rows separated by commas, such as "
                f"0,8,32,all, but {word.strip()!r} is not a number."
            )
    return tuple(found)


def _parse_jobs(jobs: str) -> int | None:
    if jobs == "auto":
        return None
    if not jobs.isdecimal() or int(jobs) < 1:
        raise BenchError(f"--jobs must be auto or a whole number from 1 up, got {jobs}.")
    return int(jobs)
