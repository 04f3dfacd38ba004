"""Tests of fault 23: repeated ids, repeated rows, and dev rows that also occur in train."""

import json
from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.tasks.examples import ChoiceExample, SpanExample, TagExample
from benchharness.tasks.read import SplitRows, count_repeats
from benchharness.worker.job import run_job
from tests.helpers.official_files import read_file, write_file
from tests.helpers.plans import plan_job


def test_23_race_questions_of_one_passage_get_unique_ids(tmp_path: Path) -> None:
    """In the hub's rows, example_id is the passage's id, the same for all of its questions."""
    passage = {
        "answers": ["B", "D"],
        "options": [["a", "b", "c", "d"], ["e", "f", "g", "h"]],
        "questions": ["Why?", "It is _ ."],
        "article": "The text.",
        "id": "high12.txt",
    }
    write_file(tmp_path, "race/train/middle/1.txt", json.dumps(passage))
    data = write_file(tmp_path, "race/train/high/12.txt", json.dumps(passage))
    *_, first, second = read_file("race/all", "train", data).examples
    assert first == ChoiceExample(
        id="high12/0",
        context="The text.",
        question="Why?",
        options=("a", "b", "c", "d"),
        gold=(1,),
        group="high",
    )
    assert (second.id, second.gold, second.options) == ("high12/1", (3,), ("e", "f", "g", "h"))


def test_23_repeated_question_id_is_an_error(tmp_path: Path) -> None:
    qas = [{"id": "q", "question": "Who?", "answers": []}] * 2
    paragraphs = [{"context": "Ann left.", "qas": qas}]
    document = {"data": [{"title": "Ann", "paragraphs": paragraphs}]}
    data = write_file(tmp_path, "squad/train-v2.0.json", json.dumps(document))
    with pytest.raises(DataError, match="has 2 rows with the id 'q'"):
        read_file("squad/v2.0", "train", data)


def test_23_repeated_rows_are_counted_and_kept(tmp_path: Path) -> None:
    header = "sentence\tlabel\n"
    write_file(tmp_path, "SST-2/train.tsv", header + "good\t1\nbad\t0\ngood\t1\ngood\t0\n")
    data = write_file(tmp_path, "SST-2/dev.tsv", header + "good\t1\nfine\t1\nfine\t1\n")
    splits = {
        f"glue/sst2:{split}": read_file("glue/sst2", split, data) for split in ("train", "dev")
    }
    assert [len(rows.examples) for rows in splits.values()] == [4, 3]
    assert count_repeats(splits) == {
        "glue/sst2:train": {"repeated": 2},
        "glue/sst2:dev": {"repeated": 1, "in_train": 1},
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            SpanExample(id="a", question="Who?", context="Ann."),
            SpanExample(id="b", question="When?", context="Ann."),
        ),
        (
            ChoiceExample(id="a", context="", question="Who?", options=("x", "y")),
            ChoiceExample(id="b", context="", question="Who?", options=("y", "x")),
        ),
        (TagExample(id="a", words=("Ann",)), TagExample(id="b", words=("Ann", "left"))),
    ],
    ids=["span", "choice", "tag"],
)
def test_23_rows_repeat_only_if_the_whole_model_input_is_equal(one, other) -> None:
    def rows(*examples) -> SplitRows:
        return SplitRows(examples=examples, fingerprint="")

    assert count_repeats({"x:train": rows(one), "x:dev": rows(other)}) == {
        "x:train": {},
        "x:dev": {},
    }
    assert count_repeats({"x:train": rows(one), "x:dev": rows(one, one)}) == {
        "x:train": {},
        "x:dev": {"repeated": 1, "in_train": 2},
    }


def test_23_result_records_the_number_of_repeated_rows(tmp_path: Path) -> None:
    header, rows = "sentence\tlabel\n", "good\t1\nbad\t0\n"
    write_file(tmp_path, "SST-2/train.tsv", header + rows * 4)
    data = write_file(tmp_path, "SST-2/dev.tsv", header + rows)
    values = {"epochs": "1", "batch_size": "4", "evaluations": "1", "max_tokens": "8"}
    job = plan_job("tiny", "glue/sst2", str(data), overrides=values)
    found = run_job(job).provenance["data"]
    assert found["glue/sst2:train"]["repeated"] == 6
    assert found["glue/sst2:dev"]["in_train"] == 2
