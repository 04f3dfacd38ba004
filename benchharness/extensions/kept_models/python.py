"""`bh.predict` and `bh.model`: a kept model answers rows, or is given as transformers has it."""

from os import fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from benchharness.api import frame_of
from benchharness.driver.options import DATABASE, listed, speaks_python
from benchharness.extensions.kept_models.export import find_run, take_run
from benchharness.extensions.kept_models.model_folder import model_folder
from benchharness.leaderboard.store.store import open_store
from benchharness.stored import Within
from benchharness.tasks.errors import DataError
from benchharness.tasks.own.cells import read_cells
from benchharness.tasks.own.columns import Table
from benchharness.tasks.own.documents import objects_table
from benchharness.tasks.own.parts import read_parts


@speaks_python
def predict(  # noqa: PLR0913  (the command's options)
    where: str | Path,
    rows: Any,
    *,
    columns: str = "",
    encoding: str = "",
    no_header: bool = False,
    scores: bool = False,
    task: str | None = None,
    trust_remote_code: bool = False,
    db: str | Path = DATABASE,
) -> pd.DataFrame:
    """What a kept model answers to rows, as `bench predict` does: a line a row, in their order.

    `where` is the beginning of a run's key whose model is kept, or a model's folder. `rows` are a
    data frame, a list of texts or of objects, or the path of a file. The other options are those of
    the command; the frame's `attrs["cut"]` counts the rows that have lost words, and
    `attrs["flags"]` is what must be known of the model: that it has learned nothing.
    """
    folder = model_folder(where, fspath(db))
    # torch takes seconds.
    from benchharness.extensions.kept_models.load import load_trained
    from benchharness.extensions.kept_models.predict import predict_parts

    model = load_trained(folder, task, trust=trust_remote_code)
    if isinstance(rows, str | Path):
        tables = read_parts(fspath(rows), encoding, no_header=no_header)
    else:
        tables = iter([_table_of(rows)])
    parts = list(predict_parts(model, tables, columns, scores=scores))
    found = pd.DataFrame([line for part in parts for line in part.lines])
    found.attrs["cut"] = sum(part.cut for part in parts)
    found.attrs["flags"] = "; ".join(model.flags)
    return found


def _table_of(rows: Any) -> Table:
    """Rows in memory as a table, whose ids count from 0."""
    if isinstance(rows, list | tuple) and all(isinstance(each, str) for each in rows):
        rows = [{"text": each} for each in rows]
    objects = frame_of(rows).to_dict("records")
    if not objects:
        raise DataError("rows has no rows to predict.")
    rows = [(str(n), row) for n, row in enumerate(objects)]
    return read_cells(objects_table(Path("rows"), rows, "row"))


@speaks_python
def model(
    key: str, *, task: str = "", collapsed_too: bool = False, db: str | Path = DATABASE
) -> tuple[Any, Any]:
    """The model of a run that kept it, of one of transformers' classes, and its tokenizer.

    `key` and what is checked are as for `bench model`; `task` is one of several that were trained
    together. Raises BenchError where no class of transformers is the model, and, unless
    `collapsed_too`, where it has learned nothing.
    """
    with TemporaryDirectory() as place, open_store(fspath(db), create=False) as store:
        found = find_run(store, fspath(db), key, Within(tasks=listed(task)))
        to = Path(place) / "model"
        return next(take_run(found, to, collapsed_too=collapsed_too)).load()
