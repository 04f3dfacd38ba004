"""Every task and suite by name; a suite says how its tasks' scores become one."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tasks.errors import BenchError, unknown_name
from tasks.glue import GLUE_TASKS
from tasks.rules import GLUE_9, ScoreRule
from tasks.task import Task

__all__ = ["SUITES", "TASKS", "Suite", "find_suite", "find_task"]


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


TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in GLUE_TASKS})
"""By full name ("glue/cola")."""

GLUE = Suite(
    name="glue",
    title="GLUE",
    tasks=tuple(task.name for task in GLUE_TASKS),
    rule=GLUE_9,
    cite="Wang et al., GLUE: A Multi-Task Benchmark and Analysis Platform, ICLR 2019",
)

SUITES: Mapping[str, Suite] = MappingProxyType({suite.name: suite for suite in (GLUE,)})
"""By name."""


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
