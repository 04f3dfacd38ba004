from pathlib import Path

import pytest

from benchharness.errors import BenchError, DataError
from benchharness.tasks.sources import Data, Row, Source, Split, has_rows, rows

SOURCE = Source(
    hub="org/irony",
    config="irony",
    revision="0" * 40,
    home="suite",
    splits={
        "train": Split(hub="train", files=("Irony/train.tsv", "Irony/old.txt")),
        "dev": Split(hub="validation", files=("Irony/dev.tsv",), columns={"text": 3, "label": 1}),
        "test": Split(hub="test", files=("Irony/test.tsv",), hidden=True),
        "test_open": Split(hub="test_open", files=("Irony/open.tsv",)),
    },
    columns={"text": ("sentence", "Sentence"), "label": "label", "kind": "Kind"},
    label_names=("plain", "ironic"),
    label_texts={"0": "plain", "1": "ironic"},
    optional=("kind",),
)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / "Irony" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_rows(folder: Path, split: str = "train") -> list[Row]:
    return rows(SOURCE, split, Data(source="files", folder=folder))


def test_columns_are_located_by_the_header(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "label\tKind\tsentence\n1\tdry\tOh great.\n0\t\tFine.\n")
    assert read_rows(tmp_path) == [
        {"idx": 0, "text": "Oh great.", "label": "ironic", "kind": "dry"},
        {"idx": 1, "text": "Fine.", "label": "plain", "kind": ""},
    ]


def test_columns_are_located_by_position_without_a_header(tmp_path: Path) -> None:
    write(tmp_path, "dev.tsv", "src\t0\t*\tIt rains.\nsrc\t1\t\tLovely.")
    assert read_rows(tmp_path, "dev") == [
        {"idx": 0, "text": "It rains.", "label": "plain"},
        {"idx": 1, "text": "Lovely.", "label": "ironic"},
    ]


def test_columns_may_have_alternative_names_or_be_optional(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "Sentence\tlabel\nOh.\t0\n")
    assert read_rows(tmp_path) == [{"idx": 0, "text": "Oh.", "label": "plain", "kind": None}]


def test_label_column_may_contain_label_names(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "sentence\tlabel\nOh.\tironic\n")
    assert read_rows(tmp_path)[0]["label"] == "ironic"


def test_suite_folder_takes_precedence_over_its_parent(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "sentence\tlabel\nabove\t0\n")
    assert read_rows(tmp_path)[0]["text"] == "above"
    write(tmp_path / "suite", "train.tsv", "sentence\tlabel\nwithin\t0\n")
    assert read_rows(tmp_path)[0]["text"] == "within"


def test_first_existing_file_of_a_split_is_read(tmp_path: Path) -> None:
    write(tmp_path, "old.txt", "sentence\tlabel\nold\t0\n")
    assert read_rows(tmp_path)[0]["text"] == "old"
    write(tmp_path, "train.tsv", "sentence\tlabel\nnew\t0\n")
    assert read_rows(tmp_path)[0]["text"] == "new"


def test_hidden_labels_are_none_with_or_without_a_label_column(tmp_path: Path) -> None:
    write(tmp_path, "test.tsv", "index\tsentence\n0\tOh.\n")
    without = read_rows(tmp_path, "test")
    write(tmp_path, "test.tsv", "sentence\tlabel\nOh.\t1\n")
    assert (
        read_rows(tmp_path, "test")
        == without
        == [{"idx": 0, "text": "Oh.", "label": None, "kind": None}]
    )


def test_labels_of_a_public_test_split_are_read(tmp_path: Path) -> None:
    write(tmp_path, "open.tsv", "sentence\tlabel\nOh.\t1\n")
    assert read_rows(tmp_path, "test_open")[0]["label"] == "ironic"
    write(tmp_path, "open.tsv", "sentence\nOh.\n")
    assert read_rows(tmp_path, "test_open")[0]["label"] is None


def test_missing_file_is_an_error_that_names_the_expected_files(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_rows(tmp_path)
    message = str(caught.value)
    for part in (str(tmp_path), "Irony/train.tsv or Irony/old.txt", "train", "--data mini"):
        assert part in message


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("sentence\tlabel\na\t0\nb\n", r"train\.tsv line 3 has 1 fields, but .* has 2"),
        ("sentence\tlabel\na\t0\n\nb\t0\n", r"train\.tsv line 3 has 1 fields"),
        ("sentence\tlabel\na\tb\t0\n", r"train\.tsv line 2 has 3 fields"),
        ("sentence\tlabel\na\t0\nb\t7\n", r"train\.tsv line 3 has the label '7'; .* 0, 1\."),
        ("sentence\tlabel\na\t-1\n", r"line 2 has the label '-1'; expected one of 0, 1\."),
        ("sentence\tlabel\na\t\n", r"line 2 has the label ''"),
        ("text\tlabel\na\t0\n", r"line 1 has no column .*'sentence'.* found text, label\."),
        ("sentence\nOh.\n", r"line 1 has no column for the label: .* found sentence\."),
        ("", r"line 1 has no column .* found an empty file\."),
        (b"sentence\tlabel\nfine\t0\ncaf\xe9\t0\n", r"train\.tsv line 3 is not UTF-8 text"),
    ],
)
def test_malformed_table_is_an_error_that_names_file_and_line(
    tmp_path: Path, content: str | bytes, error: str
) -> None:
    write(tmp_path, "train.tsv", content)
    with pytest.raises(DataError, match=error):
        read_rows(tmp_path)


def test_table_line_with_too_few_fields_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "dev.tsv", "src\t0\n")
    with pytest.raises(DataError, match=r"dev\.tsv line 1 has only 2 fields"):
        read_rows(tmp_path, "dev")


def test_labels_without_names_are_read_as_numbers(tmp_path: Path) -> None:
    source = Source(
        hub="",
        config="grade",
        revision="",
        splits={"train": Split(hub="train", files=("Irony/train.tsv",))},
        columns={"label": "score", "text": "sentence"},
    )
    data = Data(source="files", folder=tmp_path)
    write(tmp_path, "train.tsv", "sentence\tscore\nOh.\t3.800\n")
    assert rows(source, "train", data)[0]["label"] == 3.8
    write(tmp_path, "train.tsv", "sentence\tscore\nOh.\tgood\n")
    with pytest.raises(DataError, match=r"line 2 has the label 'good'; expected a number"):
        rows(source, "train", data)


def test_has_rows_checks_that_the_file_exists_without_reading_it(tmp_path: Path) -> None:
    assert not has_rows(SOURCE, "train", Data(source="files", folder=tmp_path))
    write(tmp_path, "old.txt", "damaged")
    data = Data(source="files", folder=tmp_path)
    assert has_rows(SOURCE, "train", data)
    assert not has_rows(SOURCE, "dev", data)
    assert not has_rows(SOURCE, "no such split", data)
    assert has_rows(SOURCE, "dev", Data(source="hub"))


def test_unknown_split_is_an_error_that_lists_the_known_splits(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no split 'validation'; its splits are train, dev, test"):
        read_rows(tmp_path, "validation")
