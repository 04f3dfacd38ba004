"""Tests of SWAG's CSV, whose fields may contain commas, quotes and line breaks."""

from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.tasks.examples import ChoiceExample
from tests.helpers.official_files import read_file, write_file

HEADER = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
)


def line(ending: str = "d", label: str = "2", sent1: str = "He sat.") -> str:
    return f"0,anet_1,416,{sent1} Then he,{sent1},Then he,gold,a,b,c,{ending},{label}\n"


def read_swag(folder: Path, content: str | bytes, split: str = "train") -> list[ChoiceExample]:
    data = write_file(folder, f"swag/{split}.csv", content)
    found = read_file("swag/regular", split, data).examples
    return [example for example in found if isinstance(example, ChoiceExample)]


def test_swag_question_is_the_sentence_start_and_options_are_its_endings(tmp_path: Path) -> None:
    assert read_swag(tmp_path, HEADER + line()) == [
        ChoiceExample(
            id="0",
            context="He sat.",
            question="Then he",
            options=("a", "b", "c", "d"),
            gold=(2,),
        )
    ]


@pytest.mark.parametrize(
    ("quoted", "text"),
    [
        ('"a, b"', "a, b"),
        ('"says ""no"""', 'says "no"'),
        ('"two\nlines"', "two\nlines"),
        ('"two\r\nlines"', "two\r\nlines"),
        ("NA", "NA"),
        ("null", "null"),
        ("", ""),
        ("😀 \u2028 مرحبا", "😀 \u2028 مرحبا"),
    ],
)
def test_unusual_swag_texts_are_read_unchanged(tmp_path: Path, quoted: str, text: str) -> None:
    first, second = read_swag(tmp_path, HEADER + line(quoted) + line("after"))
    assert first.options[3] == text
    assert second.options[3] == "after"


def test_swag_reader_ignores_byte_order_mark_and_carriage_returns(tmp_path: Path) -> None:
    content = "\ufeff" + (HEADER + line()).replace("\n", "\r\n")
    assert read_swag(tmp_path, content)[0].options == ("a", "b", "c", "d")


def test_swag_test_rows_have_no_labels(tmp_path: Path) -> None:
    content = HEADER.replace(",label", "") + line(label="").replace(",\n", "\n")
    assert read_swag(tmp_path, content, "test")[0].gold is None


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (HEADER + line() + line(label="4"), r"train\.csv line 3 has the label '4'; .* 0, 1, 2, 3"),
        (HEADER + line(label=""), r"train\.csv line 2 has the label ''"),
        (HEADER + line(label="-1"), r"train\.csv line 2 has the label '-1'"),
        (HEADER + line('"x\ny"') + line(label="7"), r"train\.csv line 4 has the label '7'"),
        (HEADER + line("a,b"), r"train\.csv line 2 has 13 fields, but the first line has 12"),
        (HEADER + "\n", r"train\.csv line 2 has 0 fields"),
        (HEADER + line('"open'), r"train\.csv line \d is not CSV"),
        (HEADER + line('"a"b'), r"train\.csv line 2 is not CSV"),
        (HEADER.replace("sent2", "sent3") + line(), r"no column for the sent2: expected 'sent2'"),
        (HEADER.replace(",label", ",gold") + line(), r"line 1 has no column for the label"),
        (HEADER, r"is empty"),
        ("", r"line 1 has no column .* found an empty file"),
        ((HEADER + line("x")).encode().replace(b"x", b"\xff"), r"line 2 is not UTF-8"),
    ],
)  # fmt: skip
def test_malformed_swag_file_is_an_error_that_names_the_line(
    tmp_path: Path, content: str | bytes, error: str
) -> None:
    with pytest.raises(DataError, match=error):
        read_swag(tmp_path, content)
