"""Every prediction as a row: CSV, JSON lines, Parquet, a `datasets.Dataset`, Every Eval Ever."""

import csv
import hashlib
import io
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchharness.leaderboard.comparing import break_down
from benchharness.leaderboard.text import inert, visible, whole_file
from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.base import labels_known
from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import Example, Prediction
from benchharness.tasks.task import Metric, Task


@dataclass(frozen=True, kw_only=True)
class ExportedSplit:
    """What one run has predicted of one split, and the examples where they could be read.

    `seed` is None for what has none, `scores` are the split's by name, `flags` what must be known
    of the run, `reason` is the sentence that says why there are no examples. Without `texts`
    nothing that is words of the data is written: a span and an option given as a text are left out.
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
    """A row an example, with the names of COLUMNS.

    `gold` and `predicted` are text: a label, a number, an option's number from 0, tags with spaces
    between them; of a span `predicted` is the answer ("" for none) and `gold` a JSON list of the
    right ones. None stands for what is hidden or could not be read. `scores` are the probabilities
    of the classes in the task's order or of the options; of a span the no-answer score.
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


# The three files, written split by split.


def write_csv(file: IO[bytes], splits: Iterable[ExportedSplit]) -> int:
    """A header and a line a prediction, which a spreadsheet takes for no formula; gives how many.

    Scores are a JSON list, nothing stands for None.
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
    # Or the wrapper would close the caller's file when nobody holds it any more.
    text.detach()
    return count


# "-0.5" stays a number, though it begins as a formula may.
_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")


def write_jsonl(file: IO[bytes], splits: Iterable[ExportedSplit]) -> int:
    """An object a prediction; ASCII, and null for None. Gives how many."""
    count = 0
    for split in splits:
        for row in prediction_rows(split):
            file.write(json.dumps(row, allow_nan=False).encode() + b"\n")
            count += 1
    return count


def write_parquet(file: IO[bytes], splits: Iterable[ExportedSplit]) -> int:
    """Parquet with a row group a run and split, as pandas, polars and DuckDB read it."""
    import pyarrow.parquet  # noqa: PLC0415  (a quarter of a second, for this format alone)

    pa = pyarrow
    # Said here, because from rows of nothing but None pyarrow would take a column for null.
    kinds = {"seed": pa.int64(), "scores": pa.list_(pa.float64()), "right": pa.bool_()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    count = 0
    with pa.parquet.ParquetWriter(file, schema) as writer:
        for split in splits:
            table = pa.Table.from_pylist(list(prediction_rows(split)), schema=schema)
            writer.write_table(table)
            count += table.num_rows
    return count


# Every Eval Ever's instance level: a line for each example and each result that it is part of.
#
# Fields are those of its schema 0.3.0 (every_eval_ever/schemas/instance_level_eval.schema.json).


def write_every_eval_ever(
    folder: Path, record: Mapping[str, Any], splits: Iterable[ExportedSplit]
) -> tuple[Path, int]:
    """Write a model's record and its samples as the project's data set has them.

    Gives the record's file, `data/benchharness/DEVELOPER/MODEL/UUID.json`, and how many samples
    stand beside it. Raises BenchError where no example has a gold answer, and OSError.
    """
    name = str(uuid.uuid4())
    owner, _, model = str(record["model_info"]["id"]).rpartition("/")
    place = Path("data", "benchharness", _component(owner) or "unknown", _component(model))
    samples, digest, count = folder / place / f"{name}_samples.jsonl", hashlib.sha256(), 0
    # Samples first, since the record has their digest. What is raised within leaves no file.
    with whole_file(samples) as file:
        for split in splits:
            for instance in _instances(record, split):
                line = json.dumps(instance, allow_nan=False).encode() + b"\n"
                digest.update(line)
                file.write(line)
                count += 1
        if not count:
            raise BenchError(
                "no example has a gold answer that could be read: samples are written of dev "
                "splits, with the data at hand."
            )
    details = {
        "format": "jsonl",
        "file_path": (place / samples.name).as_posix(),
        "hash_algorithm": "sha256",
        "checksum": digest.hexdigest(),
        "total_rows": count,
    }
    path = folder / place / f"{name}.json"
    with whole_file(path) as file:
        text = json.dumps({**record, "detailed_evaluation_results": details}, indent=2)
        file.write(text.encode() + b"\n")
    return path, count


def _component(name: str) -> str:
    """A name as one part of a path, as the project's `datastore_repo_file_path` wants it."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", name).strip("._") or ("model" if name else "")


def _instances(record: Mapping[str, Any], split: ExportedSplit) -> Iterator[dict[str, Any]]:
    if not labels_known(split.examples):
        return
    kind, results = answer_type(split.task), list(_results(split))
    rows = zip(split.predictions, split.examples, strict=True)
    for place, (prediction, example) in enumerate(rows):
        right = kind.is_right(prediction, example)
        common = _instance(record, split, prediction, example)
        for metric, values in results:
            yield {
                **common,
                "evaluation_result_id": f"{split.task.name}/{split.split}/{metric.name}",
                "evaluation": {
                    "score": float(right) if values is None else values[place],
                    "is_correct": right,
                },
            }


def _results(split: ExportedSplit) -> Iterator[tuple[Metric[Any, Any], list[float] | None]]:
    """The results that are means of examples, with each example's value.

    Of a task without any (MCC, correlations, F1 of a class) its first, to which an example gives
    no value of its own: it is then 1 where the answer is right.
    """
    # Each example for itself, where `units_of` may take several together.
    alone = [[place] for place in range(len(split.examples))]
    found = False
    for metric in split.task.metrics:
        way = break_down(split.task, metric, [split.predictions], split.examples)
        if way is not None and way.is_mean:
            found = True
            points = way.parts(split.predictions, split.examples, alone)
            yield metric, [float(value) for value in points[:, 0]]
    if not found:
        yield split.task.metrics[0], None


def _instance(
    record: Mapping[str, Any], split: ExportedSplit, prediction: Any, example: Example
) -> dict[str, Any]:
    """What every line of an example has."""
    kind, raw = answer_type(split.task), example.traits.prompt or example.traits.shown
    references = [kind.spoken(gold, example) for gold in kind.golds(example)]
    choices = kind.choices(example) if split.texts or not kind.is_words else ()
    said = kind.spoken(prediction, example, texts=split.texts)
    hashed = json.dumps({"raw": raw, "reference": references}, sort_keys=True)
    shows = split.texts or not kind.is_words
    return {
        "schema_version": record["schema_version"],
        "evaluation_id": record["evaluation_id"],
        "model_id": record["model_info"]["id"],
        "evaluation_name": split.task.name,
        "sample_id": example.id,
        "sample_hash": hashlib.sha256(hashed.encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {
            "raw": raw if split.texts else "",
            "reference": references if shows else [],
            **({"choices": list(choices)} if choices else {}),
        },
        "output": {"raw": [said]},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": said,
                "extraction_method": "none",
                "is_terminal": True,
            }
        ],
        "metadata": {
            "split": split.split,
            "run": split.run,
            "texts": "as read" if split.texts else "left out",
            **({"flags": "; ".join(split.flags)} if split.flags else {}),
            **({} if split.seed is None else {"seed": str(split.seed)}),
        },
    }
