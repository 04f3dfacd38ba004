"""Export of predictions as CSV, JSON lines or Parquet."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from benchharness.leaderboard.text import inert, visible
from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.base import labels_known
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class ExportedSplit:
    """Predictions of one run for one split, which are exported together.

    Attributes:
        task: Task that was predicted.
        split: Name of the split.
        model: Name of the model.
        recipe: Label of the recipe.
        seed: Random seed; None for a run without one.
        run: Key of the run.
        scores: Scores of the run on the split, keyed by the name of the metric.
        predictions: Predictions, in the order of the split.
        examples: Examples of the split; empty if they could not be read.
        flags: Warnings about the run.
        reason: Reason why `examples` is empty; empty if they could be read.
        texts: False if no texts from the data may be exported, neither answers that are spans of a
            text nor the texts of options.
    """

    task: Task
    split: str
    model: str
    recipe: str
    seed: int | None
    run: str
    scores: Mapping[str, float]
    predictions: tuple[Prediction, ...]
    examples: tuple[Example, ...]
    flags: tuple[str, ...] = ()
    reason: str = ""
    texts: bool = True


COLUMNS = (
    "model",
    "recipe",
    "task",
    "split",
    "id",
    "seed",
    "gold",
    "predicted",
    "scores",
    "right",
    "run",
    "flags",
)


def prediction_rows(split: ExportedSplit) -> Iterator[dict[str, Any]]:
    """Yield one dict per prediction, with the keys in `COLUMNS`.

    Some values depend on the type of the task:

    * `gold` and `predicted` are texts: a label (or several), a number, the index of an option, or
      tags separated by spaces. If a generated answer is none of the options, `predicted` is its
      text. For a task with spans, `predicted` is the answer ("" for no answer), and `gold` is a
      JSON list of the right answers. For retrieval, `predicted` is a JSON list of document ids, and
      `gold` is a JSON object that maps judged document ids to their grades. For coreference, both
      are JSON lists of clusters.
    * `scores` is a list with the probabilities of the classes (in the order of the task) or of the
      options, or with the no-answer score for a task with spans. It is empty for other tasks, and
      if a prediction has no probabilities.

    `gold` and `right` (whether the prediction is right) are None if the gold answers are not
    published or cannot be read. If no texts may be exported (`texts` of the split is False), `gold`
    and `predicted` are None for tasks whose answers are texts of the data, such as spans.
    `predicted` is also None if a multiple-choice answer is missing.
    """
    examples: Sequence[Example | None] = split.examples or [None] * len(split.predictions)
    kind, known = answer_type(split.task), labels_known(split.examples)
    for prediction, example in zip(split.predictions, examples, strict=True):
        right = kind.is_right(prediction, example) if known and example else None
        yield {
            "model": split.model,
            "recipe": split.recipe,
            "task": split.task.name,
            "split": split.split,
            "id": prediction.id,
            "seed": split.seed,
            "gold": kind.gold_written(example, texts=split.texts) if known else None,
            "predicted": kind.written(prediction, texts=split.texts),
            "scores": kind.scores(prediction),
            "right": right,
            "run": split.run,
            "flags": "; ".join(split.flags),
        }


# The three file formats. Predictions are written split by split.


def write_csv(file: IO[bytes], splits: Iterable[ExportedSplit]) -> int:
    """Write predictions as a CSV file with one line per prediction; return their number.

    Scores are written as a JSON list, and None as an empty cell. Texts that a spreadsheet would
    evaluate as formulas get an apostrophe in front.
    """
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer, count = csv.writer(text, lineterminator="\n"), 0
    writer.writerow(COLUMNS)
    for split in splits:
        for row in prediction_rows(split):
            for name, value in row.items():
                if isinstance(value, list):
                    row[name] = json.dumps(value)
                elif isinstance(value, str) and not _NUMBER.fullmatch(value):
                    row[name] = inert(visible(value))
            writer.writerow(row.values())
            count += 1
    # Without `detach`, the wrapper would close the caller's file when it is garbage-collected.
    text.detach()
    return count


# Numbers such as "-0.5" must not be changed, although formulas may begin with "-".
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")


def write_jsonl(file: IO[bytes], splits: Iterable[ExportedSplit]) -> int:
    """Write predictions as JSON lines, one per prediction; return their number."""
    count = 0
    for split in splits:
        for row in prediction_rows(split):
            file.write(json.dumps(row, allow_nan=False).encode() + b"\n")
            count += 1
    return count


def write_parquet(file: IO[bytes], splits: Iterable[ExportedSplit]) -> int:
    """Write predictions as a Parquet file; return their number.

    The predictions of each run for each split form one row group.
    """
    import pyarrow.parquet  # noqa: PLC0415  (a quarter of a second, only for this format)

    pa = pyarrow
    # The types are explicit, because pyarrow would infer the type null for a column of None.
    kinds = {"seed": pa.int64(), "scores": pa.list_(pa.float64()), "right": pa.bool_()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    count = 0
    with pa.parquet.ParquetWriter(file, schema) as writer:
        for split in splits:
            table = pa.Table.from_pylist(list(prediction_rows(split)), schema=schema)
            writer.write_table(table)
            count += table.num_rows
    return count
