"""What benchmarks are: sources, adapters, metrics, suites. No torch in here.

The names below are imported when they are first used: every command imports `.errors`, and with it
this file, and `bench --help` needs no suite.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchharness.tasks.errors import BenchError, DataError
    from benchharness.tasks.sources import Data, Source, Split, parse_data
    from benchharness.tasks.suites import (
        COLLECTIONS,
        SUITES,
        TASKS,
        Suite,
        find_suite,
        find_suites,
        find_task,
    )
    from benchharness.tasks.task import (
        ChoiceTask,
        Metric,
        PairTask,
        SpanTask,
        TagTask,
        Task,
        score,
    )

__all__ = [
    "COLLECTIONS",
    "SUITES",
    "TASKS",
    "BenchError",
    "ChoiceTask",
    "Data",
    "DataError",
    "Metric",
    "PairTask",
    "Source",
    "SpanTask",
    "Split",
    "Suite",
    "TagTask",
    "Task",
    "find_suite",
    "find_suites",
    "find_task",
    "parse_data",
    "score",
]

_MODULES = ("errors", "task", "sources", "suites")
"""Where the names are, the lightest module first."""


def __getattr__(name: str) -> Any:
    """The public name, from the module that has it (PEP 562)."""
    if name in __all__:
        for module in _MODULES:
            home = import_module(f"{__name__}.{module}")
            if hasattr(home, name):
                return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
