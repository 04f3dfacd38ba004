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
    """Task that was detected in a user's data; it is registered, so its name can be used.

    Attributes:
        task: Detected task.
        data: Value of `--data` with which the rows of the task are read: "hub", or a path.
        sentences: Notes for the user about the columns, the rows and the labels.
        leaks: Two numbers for each split except train, keyed by split: the number of its texts that
            are identical to a text in train, and the number that are near duplicates of one.
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
    """Options of `bench run` for reading custom data.

    Attributes:
        hub: True if the data are a data set on the hub, false for a file or folder.
        columns: Value of `--columns`; empty to detect the columns.
        metrics: Values of `--metric`; empty for the default metrics of the detected type of task.
        encoding: Character encoding of the files; empty to detect it.
        no_header: True if the first line of a table is a row instead of column names.
        sheet: Sheet of an Excel workbook that has the rows; empty to detect it.
    """

    hub: bool
    columns: str
    metrics: Sequence[str]
    encoding: str
    no_header: bool
    sheet: str


class CustomTasks(Protocol):
    """Interface of the extension module that creates tasks from users' own data.

    The definition of such a task describes the task completely, as plain data. A job passes the
    definition to its worker process, which recreates the task from it.
    """

    def find_own(self, place: str, **options: Unpack[DataOptions]) -> FoundTask:
        """Detect the task in a user's data, register it, and return it.

        Args:
            place: Path of a file or folder, or the name of a data set on the hub (`hub=True`), as
                "org/name[:config][@revision]".
            **options: Options for reading the data, as in `DataOptions`.

        Raises:
            BenchError: The rows cannot be read, or do not match the options.
        """

    def parquet_files(self, rows: Any) -> Mapping[str, bytes]:
        """Convert rows in memory to the content of one Parquet file per split, keyed by split.

        Args:
            rows: A table (a data frame, a `datasets.Dataset` or a list of dicts) with the rows of
                train, or a mapping from the names of splits to tables.

        Raises:
            BenchError: The rows cannot be written to Parquet.
        """

    def define(self, definition: Mapping[str, Any]) -> Task:
        """Create the task from its definition, register it, and return it."""

    def code_of(self, definition: Mapping[str, Any]) -> list[Code]:
        """Return the third-party code that the metrics in a definition use; usually empty."""

    def without_paths(
        self, definition: Mapping[str, Any], shorten: Callable[[str, Sequence[str]], str]
    ) -> Mapping[str, Any]:
        """Return the definition with shortened paths of metric scripts and the same task name.

        Args:
            definition: Definition of a task.
            shorten: Function `(text, paths)` that returns the text with the paths shortened.
        """

    def read_task(self, file: Path) -> tuple[Task, Mapping[str, Any]]:
        """Read a task and the values of its recipe from a TOML file.

        Returns:
            The task, and its hyperparameter values, keyed by name.

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
    """Register the custom task of a job from its definition, so that its name can be used.

    Args:
        definition: Definition of the custom task; nothing is done if it is None or empty.
    """
    if definition:
        custom_tasks().define(definition)


def code_of(definition: Mapping[str, Any] | None) -> list[Code]:
    """Return the third-party code that the metrics of a custom task use; usually an empty list.

    Args:
        definition: Definition of the custom task; None or empty for other tasks, which use none.
    """
    return custom_tasks().code_of(definition) if definition else []
