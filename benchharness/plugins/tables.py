"""What a plugin module adds: tables of models, tasks, suites and metrics.

MODELS = (ModelSpec(...),)
TASKS = (pair_task(...),)                 those of a suite that is not in SUITES make one
SUITES = (Suite(...),)
METRICS = {"glue/rte": (Metric(...),)}    shown beside the score of a task
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from benchharness.models import ModelSpec, add_model
from benchharness.plugins.fields import mistyped_field
from tasks.errors import BenchError
from tasks.rules import ScoreRule
from tasks.suites import Suite, add_details, add_suite, find_task
from tasks.task import Metric, Task

__all__ = ["Tables", "add_tables", "read_tables"]

NAMES = ("MODELS", "TASKS", "SUITES", "METRICS")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables of one plugin; those that it lacks are empty."""

    models: Sequence[ModelSpec]
    tasks: Sequence[Task]
    suites: Sequence[Suite]
    metrics: Mapping[str, Sequence[Metric[Any, Any]]]


def read_tables(name: str, module: ModuleType) -> Tables:
    """The tables of a plugin; BenchError where it has none, or something else in one."""
    if not any(hasattr(module, table) for table in NAMES):
        raise BenchError(f"the plugin {name} adds nothing: expected {' or '.join(NAMES)} in it.")
    metrics = getattr(module, "METRICS", {})
    if not isinstance(metrics, Mapping):
        raise BenchError(
            f"METRICS of the plugin {name} is a {type(metrics).__name__}: expected lists of "
            'metrics by task, such as {"glue/rte": [my_metric]}.'
        )
    return Tables(
        models=_items(name, "MODELS", getattr(module, "MODELS", ()), ModelSpec),
        tasks=_items(name, "TASKS", getattr(module, "TASKS", ()), Task),
        suites=_items(name, "SUITES", getattr(module, "SUITES", ()), Suite),
        metrics={task: _items(name, "METRICS", found, Metric) for task, found in metrics.items()},
    )


def _items(name: str, table: str, items: object, kind: type[T]) -> tuple[T, ...]:
    listed = items if isinstance(items, list | tuple) else [items]
    for item in listed:
        if not isinstance(item, kind):
            raise BenchError(
                f"{table} of the plugin {name} has a {type(item).__name__}: expected a list of "
                f"{kind.__name__}."
            )
        if fault := mistyped_field(item):
            raise BenchError(f"{table} of the plugin {name} has a {kind.__name__} whose {fault}.")
    return tuple(listed)


def add_tables(tables: Tables) -> frozenset[str]:
    """Puts a plugin's tables into ours; gives the tasks that are made of it, in whole or in part.

    Raises BenchError where a name is taken.
    """
    for suite in (*tables.suites, *_missing_suites(tables)):
        add_suite(suite, [task for task in tables.tasks if task.suite == suite.name])
    for task, metrics in tables.metrics.items():
        add_details(task, metrics)
    for model in tables.models:
        add_model(model)
    changed = (find_task(task).name for task in tables.metrics)
    return frozenset((*(task.name for task in tables.tasks), *changed))


def _missing_suites(tables: Tables) -> Iterator[Suite]:
    """A suite of each name that tasks have and that is not declared: the mean over its tasks."""
    declared = {suite.name for suite in tables.suites}
    for name in dict.fromkeys(task.suite for task in tables.tasks if task.suite not in declared):
        tasks = [task for task in tables.tasks if task.suite == name]
        cells = {t.name: tuple(m.name for m in t.metrics) for t in tasks if not t.trained_on}
        yield Suite(
            name=name,
            title=name,
            tasks=tuple(task.name for task in tasks),
            rule=ScoreRule(name=f"mean of {name}", cells=cells, cite="the mean over its tasks"),
            cite="",
        )
