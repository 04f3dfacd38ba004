"""Tasks of users' own data: what the core needs from the extension that makes them."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from benchharness.discovery import extensions
from benchharness.errors import BenchError
from benchharness.tasks.foreign_code import Code
from benchharness.tasks.task import Task


class FoundTask(Protocol):
    """A task that was detected in a user's data, and is registered in the tables of tasks.

    Attributes:
        task: The task.
        data: The value of `--data` with which its rows are read: "hub", or a path.
        sentences: Notes for the user on the columns, the rows and the labels.
        leaks: For each split but train, how many of its texts are in train: identical and nearly
            so.
    """

    @property
    def task(self) -> Task: ...  # noqa: D102
    @property
    def data(self) -> str: ...  # noqa: D102
    @property
    def sentences(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def leaks(self) -> Mapping[str, tuple[int, int]]: ...  # noqa: D102


class CustomTasks(Protocol):
    """Module of an extension that makes tasks of users' own data.

    A definition is all that such a task consists of, as plain data; a job carries it to its worker.
    """

    def find_own(  # noqa: PLR0913  (the options, one by one)
        self,
        place: str,
        *,
        hub: bool,
        columns: str,
        metrics: Sequence[str],
        encoding: str,
        no_header: bool,
    ) -> FoundTask:
        """Detect and register the task of a file, a folder or, with `hub`, a data set of the hub.

        Raises:
            BenchError: The rows cannot be read, or do not fit the options.
        """

    def parquet_files(self, rows: Any) -> Mapping[str, bytes]:
        """Return rows in memory as the content of a Parquet file per split, by the split's name.

        Raises:
            BenchError: The rows are of no form that can be written.
        """

    def define(self, definition: Mapping[str, Any]) -> Task:
        """Return the task of a definition, and register it in the tables of tasks."""

    def code_of(self, definition: Mapping[str, Any]) -> list[Code]:
        """Return the code of the metrics in a definition; mostly none."""

    def without_paths(
        self, definition: Mapping[str, Any], shorten: Callable[[str, Sequence[str]], str]
    ) -> Mapping[str, Any]:
        """Return a definition whose paths are shortened; the task keeps its name."""

    def read_task(self, file: Path) -> tuple[Task, Mapping[str, Any]]:
        """Return the task of a TOML file and its recipe's settings.

        Raises:
            BenchError: The file has mistakes; the error has a line for each.
        """


def custom_tasks() -> CustomTasks:
    """Return the module of the extension that makes tasks of users' own data.

    Raises:
        BenchError: No extension makes such tasks.
    """
    for extension in extensions():
        if extension.custom_tasks:
            module = import_module(f"{extension.package}.{extension.custom_tasks}")
            return cast("CustomTasks", module)
    raise BenchError(
        "tasks of your own data need an extension that makes them, such as custom_data of "
        "benchharness: install benchharness whole."
    )


def define_task(definition: Mapping[str, Any] | None) -> None:
    """Register the custom task that a job carries; do nothing if there is none."""
    if definition:
        custom_tasks().define(definition)


def code_of(definition: Mapping[str, Any] | None) -> list[Code]:
    """Return the code of the metrics of the custom task that a job carries; mostly none."""
    return custom_tasks().code_of(definition) if definition else []
