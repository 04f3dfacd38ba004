"""What benchmarks are: sources, adapters, metrics, suites. No torch in here."""

from tasks.errors import BenchError, DataError
from tasks.evaluate_metric import as_evaluate
from tasks.sources import Data, Source, Split, parse_data
from tasks.suites import (
    COLLECTIONS,
    SUITES,
    TASKS,
    Suite,
    find_suite,
    find_suites,
    find_task,
)
from tasks.task import ChoiceTask, Metric, PairTask, SpanTask, TagTask, Task, is_hidden, score

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
    "as_evaluate",
    "find_suite",
    "find_suites",
    "find_task",
    "is_hidden",
    "parse_data",
    "score",
]
