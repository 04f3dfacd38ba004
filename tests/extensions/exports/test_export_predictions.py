"""Tests of exported predictions, one per row, read back by the libraries of their formats."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pytest

from benchharness.extensions.exports.predictions import (
    COLUMNS,
    ExportedSplit,
    prediction_rows,
    write_csv,
    write_jsonl,
    write_parquet,
)
from benchharness.tasks.answers import answer_type
from benchharness.tasks.task import score
from tests.helpers.drawn_predictions import drawn

TASKS = (
    "glue/rte",
    "glue/stsb",
    "race/all",
    "superglue/record",
    "squad/v1.1",
    "squad/v2.0",
    "conll2003/ner",
)


def exported(name: str, **fields: Any) -> ExportedSplit:
    split = drawn(name)
    standard: dict[str, Any] = {
        "task": split.task,
        "split": "dev",
        "model": "=model()",
        "recipe": "paper",
        "seed": 3,
        "run": "0" * 64,
        "scores": score(split.task, "dev", split.one[0], split.examples),
        "predictions": split.one[0],
        "examples": split.examples,
    }
    return ExportedSplit(**{**standard, **fields})


@pytest.mark.parametrize("name", TASKS)
def test_exported_row_states_whether_the_prediction_is_right(name: str) -> None:
    split = exported(name)
    for row, guess, example in zip(
        prediction_rows(split), split.predictions, split.examples, strict=True
    ):
        assert tuple(row) == COLUMNS
        assert (row["id"], row["seed"]) == (example.id, 3)
        assert row["right"] == answer_type(split.task).is_right(guess, example)
        if split.task.head == "span":
            golds = json.loads(row["gold"])
            assert row["right"] <= (row["predicted"] in golds or not golds)
        elif name not in {"superglue/record", "glue/stsb"}:
            assert (row["gold"] == row["predicted"]) == row["right"]


def test_exported_csv_json_lines_and_parquet_have_equal_rows(tmp_path: Path) -> None:
    splits = [exported(name) for name in TASKS]
    rows = [row for split in splits for row in prediction_rows(split)]
    lines, table, text = io.BytesIO(), tmp_path / "rows.parquet", io.BytesIO()
    assert write_jsonl(lines, splits) == len(rows)
    assert list(map(json.loads, lines.getvalue().splitlines())) == rows
    with table.open("wb") as file:
        assert write_parquet(file, splits) == len(rows)
    assert pd.read_parquet(table)["right"].tolist() == [row["right"] for row in rows]
    read = datasets.Dataset.from_parquet(str(table), cache_dir=str(tmp_path / "cache"))
    assert read.to_list() == rows
    assert write_csv(text, splits) == len(rows)
    frame = pd.read_csv(io.BytesIO(text.getvalue()), dtype=str, keep_default_na=False)
    assert frame["id"].tolist() == [row["id"] for row in rows]
    # The apostrophe prevents a spreadsheet from evaluating the name as a formula.
    assert set(frame["model"]) == {"'=model()"}
    numbers = frame[frame["task"] == "glue/stsb"]["predicted"]
    assert numbers.astype(float).tolist() == [p.label for p in splits[1].predictions]  # type: ignore[union-attr]


def test_hidden_gold_answer_is_exported_as_null() -> None:
    split = exported("glue/rte")
    hidden = tuple(replace(example, label=None) for example in split.examples)  # type: ignore[call-arg]
    for row in prediction_rows(replace(split, examples=hidden)):
        assert (row["gold"], row["right"]) == (None, None)
        assert row["predicted"]


def test_empty_export_is_a_parquet_table_without_rows(tmp_path: Path) -> None:
    with (tmp_path / "none.parquet").open("wb") as file:
        assert write_parquet(file, []) == 0
    assert list(pd.read_parquet(tmp_path / "none.parquet").columns) == list(COLUMNS)


@pytest.mark.parametrize("name", ["squad/v1.1", "squad/v2.0"])
def test_span_answers_are_null_in_an_export_without_texts(name: str) -> None:
    for row in prediction_rows(exported(name, texts=False)):
        assert (row["gold"], row["predicted"]) == (None, None)
        assert row["right"] is not None
