"""What a job's encoder is trained on before: another task, by a recipe's line or as asked for.

    [glue.rte]
    start_from = { value = "glue/mnli", source = "arXiv:2006.03654, 5.1.1" }

"scratch" is the checkpoint as it was pretrained, as everywhere without such a line.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from benchharness.models.spec import ModelSpec
from benchharness.recipes.read import packaged_names, read_starts
from benchharness.recipes.resolve import FAST, PAPER, ResolvedRecipe, packaged_recipe
from leaderboard.job import SCRATCH, START_FROM, Setting
from tasks.errors import BenchError, unknown_name
from tasks.suites import TASKS
from tasks.task import Task

__all__ = ["start_task", "with_start", "with_start_tasks"]

OPTION = "--start-from"


def with_start(
    resolved: ResolvedRecipe,
    spec: ModelSpec,
    task: Task,
    *,
    recipe: str | None = None,
    start_from: str | None = None,
) -> ResolvedRecipe:
    """The resolved recipe of a model on a task, and beside its values what is trained before.

    `start_from` is None for what the recipe says, "scratch", the full name of a task, or the name
    of a checkpoint, which stands for itself. Nothing is added where nothing was to be trained
    before anyway; "scratch" says that the recipe's own line does not hold. A recipe that is like
    another does not take over its lines: they cost more than the task itself. Raises BenchError for
    a task that is unknown, has nothing to train on, or is the same.
    """
    lines = [line for file in _files(spec, recipe) for line in _lines(file, task)]
    line = lines[-1] if lines else None
    if start_from is not None:
        value = SCRATCH if start_from == task.name else start_from
        line = Setting(value=value, source=OPTION)
    named = any(line.value != SCRATCH for line in lines)
    if line is None or (line.value == SCRATCH and not named):
        return resolved
    if line.source != OPTION:
        _check(line, task)
    return replace(resolved, settings={**resolved.settings, START_FROM: line})


def start_task(settings: Mapping[str, Setting]) -> str | None:
    """The task that a job starts from by its settings; None for a checkpoint's own weights."""
    line = settings.get(START_FROM)
    return str(line.value) if line and line.value in TASKS else None


def with_start_tasks(specs: Iterable[ModelSpec], tasks: Iterable[Task]) -> list[Task]:
    """The tasks, and behind them those that the models' own recipes have trained before them."""
    found = {task.name: task for task in tasks}
    nothing = ResolvedRecipe(name="", settings={})
    for spec in specs:
        waiting = list(found.values())
        for task in waiting:
            start = start_task(with_start(nothing, spec, task).settings)
            if start is not None and start not in found:
                found[start] = TASKS[start]
                waiting.append(TASKS[start])
    return list(found.values())


def _files(spec: ModelSpec, recipe: str | None) -> list[Path]:
    own, name = packaged_recipe(spec), recipe or PAPER
    if name == PAPER:
        return [own]
    return [own, packaged_names()[FAST] if name == FAST else Path(name).expanduser()]


def _lines(file: Path, task: Task) -> list[Setting]:
    starts = read_starts(file)
    return [starts[t] for t in ("default", f"head/{task.head}", task.name) if t in starts]


def _check(line: Setting, task: Task) -> None:
    start = TASKS.get(str(line.value))
    if line.value == SCRATCH:
        return
    if start is None:
        raise unknown_name("task to start from", str(line.value), [SCRATCH, *TASKS])
    if start.trained_on is not None or start.name == task.name:
        raise BenchError(
            f"{task.name} cannot start from {start.name} ({line.source}): expected another task "
            "that has rows to train on."
        )
