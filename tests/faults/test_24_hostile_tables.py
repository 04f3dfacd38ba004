"""Tests of fault 24: "NA", quotes, byte order marks and carriage returns in tables."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.official_files import only, read_file, write_file

TASKS = {
    "glue/sst2": ("SST-2/train.tsv", "sentence\tlabel{end}{text}\t1{end}"),
    "glue/rte": (
        "RTE/train.tsv",
        "index\tsentence1\tsentence2\tlabel{end}0\t{text}\tA storm.\tentailment{end}",
    ),
    "glue/cola": ("CoLA/train.tsv", "src\t1\t*\t{text}{end}"),
}
"""A table with a header, a table with two texts, and a table without a header."""


def read_one(folder: Path, task: str, text: str, end: str = "\n", mark: bytes = b"") -> str:
    """Write an official file with one row and return the text that is read from it."""
    name, layout = TASKS[task]
    content = mark + layout.format(text=text, end=end).encode()
    example = only(read_file(task, "train", write_file(folder, name, content)))
    return example.text_a


every_table = pytest.mark.parametrize("task", ["glue/sst2", "glue/rte", "glue/cola"])


@every_table
@pytest.mark.parametrize(
    "text",
    [
        *("NA", "null", "None", "nan", "", " padded ", '"quoted"', 'an "open quote', "'"),
        *("a\x00b", "😀 👩‍👩‍👧", "line\u2028separator\x85and\x0bmore\rinside", "مرحبا", "\u200b"),
    ],
)
def test_24_special_values_and_characters_are_read_as_text(
    tmp_path: Path, task: str, text: str
) -> None:
    assert read_one(tmp_path, task, text) == text


@every_table
@given(text=st.text(st.characters(exclude_characters="\n\t", codec="utf-8")))
def test_24_any_text_in_a_table_is_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, task: str, text: str
) -> None:
    # A carriage return at the end of the last field counts as part of a Windows line end.
    wanted = text.removesuffix("\r") if task == "glue/cola" else text
    assert read_one(tmp_path_factory.mktemp("data"), task, text) == wanted


@every_table
def test_24_byte_order_mark_and_windows_line_ends_are_not_text(tmp_path: Path, task: str) -> None:
    assert read_one(tmp_path, task, "Oh.", end="\r\n", mark=b"\xef\xbb\xbf") == "Oh."
