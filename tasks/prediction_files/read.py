"""Which layout a prediction file has, by the task's head and the file's name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tasks.errors import DataError
from tasks.prediction_files.columns import read_columns
from tasks.prediction_files.labels import read_labels
from tasks.prediction_files.prediction_file import PredictionFile
from tasks.prediction_files.spans import read_spans
from tasks.read import SplitRows
from tasks.task import SpanTask, Task

__all__ = ["PredictionFile", "read_predictions"]

Reader = Callable[[Path, Any, SplitRows], PredictionFile]

READERS: Mapping[str, Reader] = {"pair": read_labels, "choice": read_labels, "tag": read_columns}
"""By head type, for those that need no second file."""


def read_predictions(
    path: Path,
    task: Task,
    rows: SplitRows,
    no_answer_scores: Path | None = None,
) -> PredictionFile:
    """One prediction for each of the split's examples, in their order.

    Tables (GLUE, SNLI, SWAG, RACE), JSON lines (SuperGLUE), SQuAD's predictions.json with
    `no_answer_scores` (na_prob.json) beside it, and CoNLL's columns, the last of which is the
    prediction. Raises DataError, naming file, line and fault, where it is not clear what was
    predicted for every example.
    """
    if isinstance(task, SpanTask):
        return read_spans(path, rows, no_answer_scores)
    if no_answer_scores is not None:
        raise DataError(f"{task.name} has no no-answer scores: only SQuAD 2.0 takes --na-prob.")
    return READERS[task.head](path, task, rows)
