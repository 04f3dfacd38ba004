"""Tests of SNLI's JSON lines: rows without a gold label are left out, and counted."""

from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.tasks.examples import PairExample
from benchharness.tasks.glue import SNLI
from benchharness.tasks.read import SplitRows, read
from tests.helpers.official_files import read_file, to_lines, write_file


def row(label: object, sentence: object = "A man sleeps.") -> dict[str, Any]:
    return {
        "annotator_labels": ["neutral"],
        "captionID": "1.jpg#0",
        "gold_label": label,
        "pairID": "1.jpg#0n",
        "sentence1": sentence,
        "sentence2": "He is asleep.",
    }


def read_snli(folder: Path, content: str | bytes, split: str = "train") -> SplitRows:
    data = write_file(folder, f"snli_1.0/snli_1.0_{split}.jsonl", content)
    return read_file("snli/snli", split, data)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_snli_rows_without_a_gold_label_are_skipped_and_counted(tmp_path: Path, split: str) -> None:
    labels = ["neutral", "-", "entailment", "-", "contradiction"]
    rows = read_snli(tmp_path, to_lines(map(row, labels)), split)
    assert [e.label for e in rows.examples if isinstance(e, PairExample)] == [
        "neutral",
        "entailment",
        "contradiction",
    ]
    assert rows.left_out == 2


def test_snli_rows_keep_their_numbers_if_others_are_skipped(tmp_path: Path) -> None:
    rows = read_snli(tmp_path, to_lines(map(row, ["-", "neutral", "-", "entailment"])))
    assert [example.id for example in rows.examples] == ["1", "3"]


def test_count_of_skipped_rows_covers_the_whole_split_despite_a_limit(tmp_path: Path) -> None:
    content = to_lines([row(label) for label in ("neutral", "-") for _ in range(10)])
    data = write_file(tmp_path, "snli_1.0_dev.jsonl", content)
    rows = read(SNLI, "dev", data, limit=5)
    assert (len(rows.examples), rows.left_out) == (5, 10)


def test_snli_premise_is_the_first_text(tmp_path: Path) -> None:
    (example,) = read_snli(tmp_path, to_lines([row("entailment")])).examples
    assert example == PairExample(
        id="0", text_a="A man sleeps.", text_b="He is asleep.", label="entailment"
    )


@pytest.mark.parametrize("text", ["NA", "", "\u2028", "a\x00b", '"quoted"', "😀", "\ud800"])
def test_unusual_snli_texts_are_read_unchanged(tmp_path: Path, text: str) -> None:
    (example,) = read_snli(tmp_path, to_lines([row("neutral", text)])).examples
    assert isinstance(example, PairExample)
    assert example.text_a == text


def test_unescaped_unicode_line_separator_does_not_end_a_json_line(tmp_path: Path) -> None:
    content = to_lines([row("neutral", "one two")]).replace("one two", "one\u2028two")
    assert len(read_snli(tmp_path, content + content.replace("one", "1")).examples) == 2


def test_snli_reader_ignores_byte_order_mark_and_carriage_returns(tmp_path: Path) -> None:
    content = "\ufeff" + to_lines([row("neutral"), row("-")]).replace("\n", "\r\n")
    assert len(read_snli(tmp_path, content).examples) == 1


GOOD = to_lines([row("neutral")])


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (GOOD + to_lines([row("neutrl")]), r"jsonl line 2 has the label 'neutrl'; expected one of"),
        (GOOD + to_lines([row(-1)]), r"jsonl line 2 has the label -1"),
        (GOOD + to_lines([row(None)]), r"jsonl line 2 has the label None"),
        (GOOD + to_lines([row(["neutral"])]), r"row 1 cannot be .*label is \['neutral'\]"),
        (GOOD + '{"sentence1": ', r"jsonl line 2 is not JSON"),
        (GOOD + "\n" + GOOD, r"jsonl line 2 is not JSON"),
        (GOOD + "[1]\n", r"jsonl line 2 is JSON, but not an object: found list"),
        (
            GOOD + '{"gold_label": "neutral"}\n',
            r"line 2 has no value for the premise: expected 'sentence1', found",
        ),
        (to_lines([row("neutral", 3)]), r"snli train .* row 0 cannot be converted: .*premise is 3"),
        (GOOD.encode() + b'{"\xff"}', r"jsonl line 2 is not UTF-8"),
        (to_lines([row("-")]), r"snli/snli train .* is empty"),
        ("", r"snli/snli train .* is empty"),
    ],
)  # fmt: skip
def test_malformed_snli_file_is_an_error_that_names_the_line(
    tmp_path: Path, content: str | bytes, error: str
) -> None:
    with pytest.raises(DataError, match=error):
        read_snli(tmp_path, content)
