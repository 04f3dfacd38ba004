"""What a run is asked for, checked as a whole before anything starts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, TypeVar

from benchharness.driver.teachers import find_teacher
from benchharness.engines.choice import EngineChoice, Placement, find_placement
from benchharness.engines.slots import Slot, find_gpus
from benchharness.estimate import memory_of
from benchharness.leaderboard.job import PRETRAINED, TOGETHER, Job
from benchharness.machine import main_memory
from benchharness.models import ModelSpec, find_model, find_models
from benchharness.models.spec import NOTHING, Trust
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
from benchharness.tasks.task import Task

if TYPE_CHECKING:
    from benchharness.tasks.own.find import Found

T = TypeVar("T")

LOCAL = EngineChoice()

DEFAULT_SEEDS = 5
"""RoBERTa's and XLNet's papers report the median of five runs; fewer show no spread to speak of."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The models, tasks and seeds to run, by which recipe, on which rows, and where.

    `overrides` are values that take the place of the recipe's, `limit` is the number of rows of a
    split, `splits` are the kinds to predict ("dev", "test"), and with `baselines` the models that
    train no encoder are planned beside the others. `shots`, `start_from`, `skip_missing` and
    `together` are as `plan_jobs` takes them, and so is the `teacher`.
    """

    models: tuple[ModelSpec, ...]
    tasks: tuple[Task, ...]
    seeds: tuple[int, ...]
    overrides: Mapping[str, str]
    placement: Placement
    shots: tuple[int, ...] = ()
    start_from: str | ModelSpec | None = None
    recipe: str | None = None
    data: str = "hub"
    limit: int | None = None
    precision: str = "auto"
    splits: tuple[str, ...] = ("dev",)
    baselines: bool = False
    skip_missing: bool = False
    together: tuple[Task, ...] = ()
    teacher: ModelSpec | tuple[Job, ...] | None = None

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Where jobs run at the same time."""
        return self.placement.slots

    @property
    def kind(self) -> str:
        """The kind of its jobs that imports most: "model", or "baseline" for baselines alone."""
        return "baseline" if all(model.is_baseline for model in self.models) else "model"


def find_own_data(  # noqa: PLR0913  (the command's options, one by one)
    data_file: str | None,
    hf: str | None,
    columns: str | None,
    metrics: Sequence[str] | None,
    encoding: str | None,
    *,
    no_header: bool,
    beside: Mapping[str, object],
) -> "Found | None":
    """The task of a file, a folder or a data set of the hub; None where none was named.

    `beside` are the options that do not go with it, by name, empty where they were not given.
    Raises BenchError as `tasks.own.find.find_own` does, and where options contradict each other.
    """
    place = hf if data_file is None else data_file
    if place is None:
        if columns or metrics or encoding or no_header:
            raise BenchError(
                "--columns, --metric, --encoding and --no-header are of rows of your own: name "
                "them with --data-file or --hf."
            )
        return None
    if data_file is not None and hf is not None:
        raise BenchError("--data-file and --hf exclude each other: give one.")
    if others := [name for name, value in beside.items() if value]:
        raise BenchError(
            f"{'--hf' if data_file is None else '--data-file'} makes a task of its own, beside "
            f"which {' and '.join(others)} cannot stand: leave one of them out."
        )
    from benchharness.tasks.own.find import find_own  # noqa: PLC0415  (few runs have any)

    return find_own(
        place,
        hub=data_file is None,
        columns=columns or "",
        metrics=metrics or (),
        encoding=encoding or "",
        no_header=no_header,
    )


def check_request(  # noqa: PLR0913  (the command's options, one by one)
    *,
    models: Sequence[str],
    suites: Sequence[str],
    tasks: Sequence[str],
    seeds: int | None,
    seed: Sequence[int],
    settings: Sequence[str],
    shots: str = "",
    recipe: str | None = None,
    data: str = "hub",
    limit: int | None = None,
    precision: str = "auto",
    splits: tuple[str, ...] = ("dev",),
    baselines: bool = False,
    skip_missing: bool = False,
    device: str,
    jobs: str,
    engine: EngineChoice = LOCAL,
    start_from: str = "paper",
    together: Sequence[str] = (),
    teacher: str | None = None,
    db: str = "",
    trust: Trust = NOTHING,
    fits: Callable[[Task], bool] | None = None,
) -> Request:
    """The request that the command line's words make, and where they are silent the recipe's.

    `fits` says which task a name means that several suites have, by default the one that the data
    hold, and `db` is the store that may have the `teacher`. Raises one error with a line for
    everything that is wrong.
    """
    complaints = _Complaints()

    # ---- What the recipe says of a run, where the words are silent.
    protocol = complaints.collect(protocol_of, recipe) or Protocol()
    tasks = tasks if suites or tasks else protocol.tasks
    limit = protocol.limit if limit is None else complaints.collect(_whole, "--limit", limit, 1)
    seeds = protocol.seeds if seeds is None and not seed else seeds

    # ---- What to run.
    found_models = [
        model
        for name in models
        for model in complaints.collect(find_models, name, trust) or (None,)
    ]
    named = [found for name in suites if (found := complaints.collect(find_suites, name))]
    fits = fits or holds(data)
    shared = complaints.collect(_find_together, together, fits) or ()
    if together and not (tasks or suites):  # nothing beside it, but what starts from it
        found_tasks: tuple[Task, ...] | None = shared if start_from == TOGETHER else ()
    else:
        found_suites = [suite for found in named for suite in found]
        complete = len(named) == len(suites)
        found_tasks = complaints.collect(select_tasks, found_suites, tasks, complete, fits)
    found_seeds = complaints.collect(_choose_seeds, seeds, seed)

    # ---- How it is trained.
    overrides = complaints.collect(_parse_settings, settings)
    for setting in (overrides or {}).items():
        complaints.collect(check_override, *setting)
    found_shots = complaints.collect(_parse_shots, shots, overrides or {})
    start = complaints.collect(_find_start, start_from, trust, bool(together))
    taught_by = complaints.collect(_find_teacher, teacher, db, trust)

    # ---- Where it runs.
    trainings = len(found_tasks or ()) + bool(shared)
    asked = len(found_models) * trainings * len(found_seeds or ())
    choice = replace(
        engine,
        device=device,
        jobs=complaints.collect(_parse_jobs, jobs),
        processes=complaints.collect(_whole, "--processes-per-job", engine.processes, 1) or 1,
    )
    placement = complaints.collect(_find_placement, choice, found_models, asked)

    complaints.check()
    assert placement is not None, "a placement that was not found is a complaint"
    return Request(
        models=tuple(model for model in found_models if model),
        tasks=found_tasks or (),
        seeds=found_seeds or (),
        overrides=overrides or {},
        shots=found_shots or (),
        placement=placement,
        start_from=start,
        recipe=recipe,
        data=data,
        limit=limit,
        precision=precision,
        splits=splits,
        baselines=baselines,
        skip_missing=skip_missing,
        together=shared,
        teacher=taught_by,
    )


def _find_together(names: Sequence[str], fits: Callable[[Task], bool]) -> tuple[Task, ...]:
    """The tasks of some names, which may be suites, or several with commas between."""
    found: dict[str, Task] = {}
    for name in (word.strip() for words in names for word in words.split(",")):
        is_suite = name.lower() in (*SUITES, *COLLECTIONS)
        suites = find_suites(name) if is_suite else ()
        chosen = select_tasks(suites, () if is_suite else (name,), fits=fits)
        found |= {task.name: task for task in chosen}
    return tuple(found.values())


def _find_placement(
    choice: EngineChoice, models: Sequence[ModelSpec | None], jobs: int
) -> Placement:
    """Where so many jobs of the models run; a name that nobody knows counts as None."""
    known = [model for model in models if model]
    return find_placement(
        replace(
            choice,
            small=all(model and (model.is_builtin or model.is_baseline) for model in models),
            fit=_count_fitting(known, jobs, choice.device),
        )
    )


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
        found = least - 1
    if found < least or (most is not None and found > most):
        end = "up" if most is None else f"to {most}"
        raise BenchError(f"{option} must be a whole number from {least} {end}, got {value!r}.")
    return found


def _find_start(name: str, trust: Trust, is_together: bool) -> str | ModelSpec | None:
    """What `plan_jobs` takes for a word after --start-from; tasks come before folders."""
    if name == TOGETHER:
        if not is_together:
            raise BenchError(
                "--start-from together needs --together, with the tasks whose encoder is meant."
            )
        return name
    if name == "paper":
        return None
    if name == PRETRAINED:
        return name
    if not any(name.lower() in (full, full.partition("/")[2]) for full in TASKS):
        return find_model(name, trust)
    task = find_task(name)
    if not task.is_trained:
        raise BenchError(f"--start-from {name}: {task.name} has no rows to train on.")
    if task.trained_on is not None:
        raise BenchError(
            f"--start-from {name}: {task.name} has no rows to train on; its model is that of "
            f"{task.trained_on}, which can be started from."
        )
    return task.name


def _find_teacher(word: str | None, db: str, trust: Trust) -> ModelSpec | tuple[Job, ...] | None:
    """What `plan_jobs` takes for a word after --teacher."""
    return None if word is None else find_teacher(word, db, trust)


def listed(words: str | Iterable[str] | None) -> tuple[str, ...]:
    """Names that are given as one or as several, None as none; BenchError for what is no name."""
    if isinstance(words, str) or not isinstance(words, Iterable):
        words = () if words is None else (words,)
    names = tuple(words)
    if odd := [name for name in names if not isinstance(name, str)]:
        raise BenchError(f"expected a name or a list of names, got {odd[0]!r:.80}.")
    return names


def _parse_settings(settings: Sequence[str]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not (name and equals and value):
            raise BenchError(f"--set {setting!r} is not name=value, such as --set epochs=3.")
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
