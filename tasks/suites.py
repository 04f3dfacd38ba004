"""Every task and suite by name; a suite says how its tasks' scores become one.

A collection is several suites under one name. It has no score of its own: nobody averages GLUE with
CoNLL-2003, so it is shown as the boards of its members.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from tasks.conll2003 import CONLL2003_TASKS
from tasks.errors import BenchError, unknown_name
from tasks.glue import GLUE_TASKS
from tasks.race import RACE_TASKS
from tasks.rules import CONLL2003, GLUE_9, RACE, SNLI, SQUAD, SUPERGLUE_8, SWAG, ScoreRule
from tasks.snli import SNLI_TASKS
from tasks.squad import SQUAD_TASKS
from tasks.superglue import SUPERGLUE_TASKS
from tasks.swag import SWAG_TASKS
from tasks.task import Metric, Task

__all__ = [
    "COLLECTIONS",
    "SUITES",
    "TASKS",
    "Suite",
    "add_details",
    "add_suite",
    "find_suite",
    "find_suites",
    "find_task",
]


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A benchmark. `tasks` are full names in the order of its board's columns.

    Tasks that the rule leaves out (GLUE's diagnostic set) are run and shown all the same.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    rule: ScoreRule
    cite: str


def _suite(name: str, title: str, tasks: Sequence[Task], rule: ScoreRule, cite: str) -> Suite:
    return Suite(
        name=name, title=title, tasks=tuple(task.name for task in tasks), rule=rule, cite=cite
    )


GLUE = _suite(
    "glue",
    "GLUE",
    GLUE_TASKS,
    GLUE_9,
    "Wang et al., GLUE: A Multi-Task Benchmark and Analysis Platform, ICLR 2019",
)
SUPERGLUE = _suite(
    "superglue",
    "SuperGLUE",
    SUPERGLUE_TASKS,
    SUPERGLUE_8,
    "Wang et al., SuperGLUE: A Stickier Benchmark, NeurIPS 2019",
)

_suites = {
    suite.name: suite
    for suite in (
        GLUE,
        SUPERGLUE,
        _suite("squad", "SQuAD", SQUAD_TASKS, SQUAD, "Rajpurkar et al., 2016 and 2018"),
        _suite("race", "RACE", RACE_TASKS, RACE, RACE_TASKS[0].cite),
        _suite("conll2003", "CoNLL-2003", CONLL2003_TASKS, CONLL2003, CONLL2003_TASKS[0].cite),
        _suite("swag", "SWAG", SWAG_TASKS, SWAG, SWAG_TASKS[0].cite),
        _suite("snli", "SNLI", SNLI_TASKS, SNLI, SNLI_TASKS[0].cite),
    )
}

SUITES: Mapping[str, Suite] = MappingProxyType(_suites)
"""By name."""

COLLECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType({"seeds": tuple(SUITES)})
"""Names of suites by the name of a collection. "seeds" is what lectures on pretrained encoders show
results on."""

_tasks: dict[str, Task] = {
    task.name: task
    for task in (
        *(*GLUE_TASKS, *SUPERGLUE_TASKS, *SQUAD_TASKS, *RACE_TASKS),
        *(*CONLL2003_TASKS, *SWAG_TASKS, *SNLI_TASKS),
    )
}

TASKS: Mapping[str, Task] = MappingProxyType(_tasks)
"""By full name ("glue/cola")."""


def add_suite(suite: Suite, tasks: Sequence[Task]) -> None:
    """Puts a suite of somebody else's, with its tasks, into both tables.

    Raises BenchError, and leaves the tables as they are, where a name is taken or is none that a
    task can be found by, or where the suite names a task that it does not have.
    """
    names = [task.name for task in tasks]
    if suite.name in (*SUITES, *COLLECTIONS):
        raise BenchError(f"there is a suite {suite.name!r} already: give yours another name.")
    for name in names:
        if name != f"{suite.name}/{name.partition('/')[2]}".lower() or name.endswith("/"):
            raise BenchError(
                f"the task {name!r} is not called like one of the suite {suite.name!r}: expected a "
                f"name in lower case such as {suite.name.lower() + '/irony'!r}."
            )
    if len(set(names)) < len(names):
        raise BenchError(f"the suite {suite.name!r} has two tasks of one name.")
    if unknown := sorted({*suite.tasks, *suite.rule.cells} - set(names)):
        raise BenchError(f"the suite {suite.name!r} names {unknown[0]!r}, which it does not have.")
    _suites[suite.name] = suite
    _tasks.update((task.name, task) for task in tasks)


def add_details(task: str, metrics: Sequence[Metric[Any, Any]]) -> None:
    """Has more metrics shown beside a task's score; BenchError where a metric's name is taken."""
    found = find_task(task)
    for metric in metrics:
        if metric.name in {known.name for known in found.metrics + found.details}:
            raise BenchError(
                f"{task} has a metric {metric.name!r} already: give yours another name."
            )
    _tasks[found.name] = replace(found, details=(*found.details, *metrics))


def find_task(name: str) -> Task:
    """The task of that full name, or of a short one ("cola") that only one suite has."""
    wanted = name.lower()
    if wanted in TASKS:
        return TASKS[wanted]
    found = [task for task in TASKS.values() if task.name.partition("/")[2] == wanted]
    if len(found) > 1:
        full = " or ".join(task.name for task in found)
        raise BenchError(f"the task name {name!r} is in several suites: say {full}.")
    if not found:
        short = (task.partition("/")[2] for task in TASKS)
        raise unknown_name("task", name, [*TASKS, *short], "`bench list tasks` shows them.")
    return found[0]


def find_suite(name: str) -> Suite:
    """The suite of that name."""
    if name.lower() not in SUITES:
        raise unknown_name("suite", name, SUITES, "`bench list suites` shows them.")
    return SUITES[name.lower()]


def find_suites(name: str) -> tuple[Suite, ...]:
    """The suite of that name, or the members of the collection of that name."""
    members = COLLECTIONS.get(name.lower(), (name.lower(),))
    if not set(members) <= set(SUITES):
        known = [*SUITES, *COLLECTIONS]
        raise unknown_name("suite", name, known, "`bench list suites` shows them.")
    return tuple(SUITES[member] for member in members)
