"""Where two recipes differ, task by task."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from benchharness.models.spec import ModelSpec
from benchharness.recipes.recipe import Recipe
from benchharness.recipes.resolve import resolve_recipe
from benchharness.recipes.start import with_start
from leaderboard.job import START_FROM, Setting
from tasks.task import Task

__all__ = ["Difference", "compare_recipes"]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One setting that two recipes give other values, and the tasks that this is so for.

    A side is None where its recipe leaves the setting to the checkpoint.
    """

    setting: str
    first: Setting | None
    second: Setting | None
    tasks: tuple[str, ...]


def compare_recipes(
    first: ModelSpec, second: ModelSpec, tasks: Iterable[Task]
) -> tuple[Difference, ...]:
    """The settings whose values differ, each with the tasks on which it has these two.

    Of tasks with the same two values the first one's sources stand for all.
    """
    groups: dict[tuple[str, object, object], list[tuple[str, Setting | None, Setting | None]]] = {}
    for task in tasks:
        for name, one, other in _pairs(first, second, task):
            values = (name, one and one.value, other and other.value)
            groups.setdefault(values, []).append((task.name, one, other))
    found = (
        Difference(setting=name, first=one, second=other, tasks=tuple(task for task, *_ in group))
        for (name, *_), group in groups.items()
        for _, one, other in group[:1]
    )
    order = [*(field.name for field in fields(Recipe)), START_FROM]
    return tuple(sorted(found, key=lambda difference: order.index(difference.setting)))


def _pairs(
    first: ModelSpec, second: ModelSpec, task: Task
) -> Iterator[tuple[str, Setting | None, Setting | None]]:
    ours, theirs = (
        with_start(resolve_recipe(spec, task.name, None, {}, task.head), spec, task).settings
        for spec in (first, second)
    )
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name), theirs.get(name)
        if one is None or other is None or one.value != other.value:
            yield name, one, other
