"""Interface between the core and the extension that creates tasks from users' own data."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack, cast

from benchharness.discovery import extensions
from benchharness.errors import BenchError
from benchharness.tasks.foreign_code import Code
from benchharness.tasks.task import Task


class FoundTask(Protocol):
    """Task that was detected in a user's data and is now registered by its name.

    Attributes:
        task: The task.
        data: The value of `--data` from which the task's rows are read: "hub", or a path.
        sentences: Notes for the user about the columns, the rows and the labels.
        leaks: Number of texts that are identical to a text in train, and number of texts that are
            near duplicates of one, keyed by split; train itself is left out.
    """

    @property
    def task(self) -> Task: ...  # noqa: D102
    @property
    def data(self) -> str: ...  # noqa: D102
    @property
    def sentences(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def leaks(self) -> Mapping[str, tuple[int, int]]: ...  # noqa: D102


class DataOptions(TypedDict):
    """Options of `bench run` for reading custom data; `hub` is true for a data set on the hub."""

    hub: bool
    columns: str
    metrics: Sequence[str]
    encoding: str
    no_header: bool


class CustomTasks(Protocol):
    """Module of an extension that creates tasks from users' own data.

    The definition of such a task describes the task completely, as plain data. A job passes the
    definition to its worker process, which recreates the task.
    """

    def find_own(self, place: str, **options: Unpack[DataOptions]) -> FoundTask:
        """Detect and register the task in a file, a folder or (`hub=True`) a data set on the hub.

        Raises:
            BenchError: The rows cannot be read, or do not match the options.
        """

    def parquet_files(self, rows: Any) -> Mapping[str, bytes]:
        """Return the content of one Parquet file per split, keyed by split, for rows in memory.

        Raises:
            BenchError: The rows have a form that cannot be written to Parquet.
        """

    def define(self, definition: Mapping[str, Any]) -> Task:
        """Create the task from its definition, register it, and return it."""

    def code_of(self, definition: Mapping[str, Any]) -> list[Code]:
        """Return the third-party code of a definition's metrics; usually an empty list."""

    def without_paths(
        self, definition: Mapping[str, Any], shorten: Callable[[str, Sequence[str]], str]
    ) -> Mapping[str, Any]:
        """Return a copy of the definition with shortened paths and the same task name."""

    def read_task(self, file: Path) -> tuple[Task, Mapping[str, Any]]:
        """Read a task and the settings of its recipe from a TOML file.

        Raises:
            BenchError: The file has mistakes. The message has one line per mistake.
        """


def custom_tasks() -> CustomTasks:
    """Return the module of the extension that creates tasks from users' own data.

    Raises:
        BenchError: No installed extension creates such tasks.
    """
    for extension in extensions():
        if extension.custom_tasks:
            module = import_module(f"{extension.package}.{extension.custom_tasks}")
            return cast("CustomTasks", module)
    raise BenchError(
        "no installed extension can create tasks from your own data: install the full benchharness "
        "package, which includes the extension custom_data."
    )


def define_task(definition: Mapping[str, Any] | None) -> None:
    """Register the custom task that a job defines; do nothing if `definition` is empty."""
    if definition:
        custom_tasks().define(definition)


def code_of(definition: Mapping[str, Any] | None) -> list[Code]:
    """Return the third-party code that a custom task's metrics use; usually an empty list."""
    return custom_tasks().code_of(definition) if definition else []
