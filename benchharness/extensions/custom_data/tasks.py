"""Functions that the core calls to create tasks from users' own data.

They implement the interface `benchharness.tasks.custom.CustomTasks`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from benchharness.errors import BenchError, DataError
from benchharness.extensions.custom_data.find import find_own
from benchharness.extensions.custom_data.places import split_of
from benchharness.extensions.custom_data.tables import hub_table
from benchharness.extensions.custom_data.task import OwnData, define
from benchharness.extensions.custom_data.toml import read_task
from benchharness.tasks.foreign_code import Code

__all__ = ("code_of", "define", "find_own", "parquet_files", "read_task", "without_paths")


def parquet_files(rows: Any) -> Mapping[str, bytes]:
    """Convert rows in memory to the content of a Parquet file per split, keyed by split.

    Args:
        rows: A table (a data frame, a `datasets.Dataset`, a list of dicts), or a mapping of split
            names to tables.

    Raises:
        BenchError: The name of a split is unknown, or two names mean the same split.
        DataError: The rows cannot be written as Parquet.
    """
    tables = dict(rows) if isinstance(rows, Mapping) else {"train": rows}
    splits = {split_of(str(name)): table for name, table in tables.items()}
    if "" in splits or len(splits) < len(tables):
        raise BenchError(
            f"data_file has the splits {', '.join(map(str, tables))}: expected one table, or "
            "different tables named train, dev and test."
        )
    try:
        return {split: frame_of(table).to_parquet(index=False) for split, table in splits.items()}
    except (NotImplementedError, TypeError, ValueError) as error:
        raise DataError(f"the rows of data_file cannot be written as Parquet: {error}.") from error


def frame_of(rows: Any) -> pd.DataFrame:
    """Convert rows to a data frame, in which label numbers of a `datasets.Dataset` become names.

    Args:
        rows: A data frame, a `datasets.Dataset`, or a list of dicts.
    """
    is_dataset = hasattr(rows, "features") and hasattr(rows, "flatten")
    return pd.DataFrame(hub_table("", rows).columns if is_dataset else rows).rename(columns=str)


def code_of(definition: Mapping[str, Any]) -> list[Code]:
    """Return the third-party code that runs when the metrics of a task are computed.

    The result is empty if all metrics are benchharness's own.

    Args:
        definition: The definition of the task, as `OwnData.to_json` returned it.
    """
    return OwnData.from_json(definition).code


def without_paths(
    definition: Mapping[str, Any], shorten: Callable[[str, Sequence[str]], str]
) -> Mapping[str, Any]:
    """Return the definition of a task with shortened paths of metric scripts.

    The name of the task does not change.

    Args:
        definition: The definition, as `OwnData.to_json` returned it.
        shorten: Function `(text, paths)` that returns the text in which the paths are shortened.
    """
    own = OwnData.from_json(definition)
    places = [code.place for code in own.code]
    if all(shorten(place, places) == place for place in places):
        return definition
    return replace(
        own,
        metrics=tuple(shorten(word, places) for word in own.metrics),
        scripts={shorten(word, places): script for word, script in own.scripts.items()},
        digits=own.name[len(own.title) + 1 :][:6],
    ).to_json()
