"""Python functions `bh.predict`, which predicts rows, and `bh.model`, which loads a kept model."""

from dataclasses import replace
from os import fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from benchharness.driver.options import DATABASE, listed, speaks_python
from benchharness.errors import DataError
from benchharness.extensions.custom_data.cells import read_cells
from benchharness.extensions.custom_data.columns import Table
from benchharness.extensions.custom_data.documents import objects_table
from benchharness.extensions.custom_data.parts import read_parts
from benchharness.extensions.custom_data.tasks import frame_of
from benchharness.extensions.kept_models.export import find_run, take_run
from benchharness.extensions.kept_models.model_folder import model_folder
from benchharness.leaderboard.store.store import open_store
from benchharness.stored import Within


@speaks_python
def predict(  # noqa: PLR0913  (the command's options)
    where: str | Path,
    rows: Any,
    *,
    columns: str = "",
    encoding: str = "",
    no_header: bool = False,
    sheet: str = "",
    scores: bool = False,
    min_confidence: float | None = None,
    keep_columns: bool = False,
    task: str | None = None,
    trust_remote_code: bool = False,
    db: str | Path = DATABASE,
) -> pd.DataFrame:
    """Predict new rows with a kept model, as `bench predict` does.

    Args:
        where: The folder of a model, or the beginning of the key of a run whose model was kept.
        rows: A data frame, a list of texts or of dicts, or the path of a file.
        columns: The columns to read, e.g. "text=review", if their names do not show their roles.
        encoding: The character encoding of a file, if it is not UTF-8.
        no_header: Whether a file has no header. Line 1 is then a row, and columns are numbered.
        sheet: The sheet of an Excel workbook that has the rows.
        scores: Whether to add the probability of every label.
        min_confidence: The confidence, from 0 to 1, below which a row is left to a person. The
            frame then has the columns `confidence` and `review` (whether a row is left to a
            person).
        keep_columns: Whether to return the columns of the rows too. The names of the columns of the
            prediction then begin with "predicted_", and the id is left out.
        task: The task to predict, if the model was trained on several.
        trust_remote_code: Whether to run the Python code that comes with the model's checkpoint.
        db: The database of the run.

    Returns:
        A data frame with one row per example, in order. `frame.attrs["cut"]` is the number of
        examples that were truncated, and `frame.attrs["flags"]` contains warnings about the model,
        such as that it has learned nothing.

    Raises:
        BenchError: The key matches no run or several, the model was not kept, `task` or `columns`
            does not fit the model, or `min_confidence` is out of range or the model gives no
            probabilities.
        DataError: There are no rows, a column is missing, or a row is invalid.
        ModelError: The folder has no complete model of a run.
    """
    folder = model_folder(where, fspath(db))
    # This is imported late, because importing torch takes seconds.
    from benchharness.extensions.kept_models import load
    from benchharness.extensions.kept_models import predict as prediction

    model = load.load_trained(folder, task, trust=trust_remote_code)
    if isinstance(rows, str | Path):
        tables = read_parts(fspath(rows), encoding, no_header=no_header, sheet=sheet)
    else:
        tables = iter([_table_of(rows)])
    wanted = prediction.Wanted(scores, min_confidence, keep_columns)
    parts = list(prediction.predict_parts(model, tables, columns, wanted))
    found = pd.DataFrame([line for part in parts for line in part.lines])
    found.attrs["cut"] = sum(part.cut for part in parts)
    found.attrs["flags"] = "; ".join(model.flags)
    return found


def _table_of(rows: Any) -> Table:
    """Convert rows in memory to a table whose row ids count from 0."""
    if isinstance(rows, list | tuple) and all(isinstance(each, str) for each in rows):
        rows = [{"text": each} for each in rows]
    objects = frame_of(rows).to_dict("records")
    if not objects:
        raise DataError("rows is empty: pass at least one row to predict.")
    rows = [(str(n), row) for n, row in enumerate(objects)]
    table = objects_table(Path("rows"), rows, "row")
    return read_cells(replace(table, as_read=table))


@speaks_python
def model(
    key: str, *, task: str = "", collapsed_too: bool = False, db: str | Path = DATABASE
) -> tuple[Any, Any]:
    """Return a kept model of a run as a transformers model, together with its tokenizer.

    The model's predictions are first compared with the stored ones, as in `bench model`.

    Args:
        key: The beginning of the run's key, or the name of a leaderboard entry, as for `bench
            model`.
        task: The task, if the run was trained on several tasks (by default, the first of them in
            alphabetical order), or if the leaderboard entry has runs on several tasks.
        collapsed_too: Whether to return a model that has learned nothing, instead of an error.
        db: Path or URL of the database with the run.

    Raises:
        BenchError: The model was not kept, no transformers class represents it, or it has learned
            nothing.
        JobError: The model's predictions differ from the stored ones by more than rounding.
    """
    with TemporaryDirectory() as place, open_store(fspath(db), create=False) as store:
        found = find_run(store, fspath(db), key, Within(tasks=listed(task)))
        to = Path(place) / "model"
        return next(take_run(found, to, collapsed_too=collapsed_too)).load()
