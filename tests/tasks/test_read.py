import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.errors import BenchError, DataError
from benchharness.tasks.examples import Example, Mark, PairExample
from benchharness.tasks.glue import pair, pair_task
from benchharness.tasks.read import fingerprint, has_split, read
from benchharness.tasks.sources import Data, Row
from benchharness.tasks.task import PairTask

IRONY = pair_task(
    name="mine/irony",
    folder="Irony",
    texts={"text": "sentence"},
    labels=("plain", "ironic"),
    label_texts="01",
    metrics=(),
)
GRADES = pair_task(
    name="mine/grades",
    folder="Irony",
    texts={"left": "a", "right": "b"},
    label="score",
    value_range=(0.0, 5.0),
    metrics=(),
)


def write(folder: Path, lines: Sequence[str], name: str = "train.tsv") -> Data:
    (folder / "Irony").mkdir(exist_ok=True)
    (folder / "Irony" / name).write_text("".join(f"{line}\n" for line in lines))
    return Data(source="files", folder=folder)


def converting(convert: object) -> PairTask:
    return replace(IRONY, convert=convert)  # type: ignore[arg-type]


def test_rows_are_converted_to_examples_with_their_position_as_id(tmp_path: Path) -> None:
    data = write(tmp_path, ["label\tsentence", "1\tOh great.", "0\tIt rains."])
    assert read(IRONY, "train", data).examples == (
        PairExample(id="0", text_a="Oh great.", label="ironic"),
        PairExample(id="1", text_a="It rains.", label="plain"),
    )


def test_rows_with_two_texts_and_a_number_are_converted_to_examples(tmp_path: Path) -> None:
    data = write(tmp_path, ["a\tb\tscore", "x\ty\t3.800"])
    assert read(GRADES, "train", data).examples == (
        PairExample(id="0", text_a="x", text_b="y", label=3.8),
    )


def test_hidden_labels_are_read_as_none(tmp_path: Path) -> None:
    data = write(tmp_path, ["index\tsentence", "0\tOh."], "test.tsv")
    assert read(IRONY, "test", data).examples[0] == PairExample(id="0", text_a="Oh.", label=None)


@pytest.mark.parametrize("score", ["nan", "inf", "-0.1", "5.1"])
def test_regression_label_outside_the_range_is_an_error(tmp_path: Path, score: str) -> None:
    data = write(tmp_path, ["a\tb\tscore", "x\ty\t3", f"x\ty\t{score}"])
    with pytest.raises(DataError, match=r"mine/grades train .* row 1 .*; expected 0 to 5\."):
        read(GRADES, "train", data)


@pytest.mark.parametrize("score", ["0", "5.000", "-0"])
def test_regression_labels_at_the_ends_of_the_range_are_valid(tmp_path: Path, score: str) -> None:
    data = write(tmp_path, ["a\tb\tscore", f"x\ty\t{score}"])
    (example,) = read(GRADES, "train", data).examples
    assert isinstance(example, PairExample)
    assert example.label == float(score)


def _no_such_column(row: Row) -> PairExample:
    return PairExample(id="0", text_a=str(row["sentence"]))


def _other_label(row: Row) -> PairExample:
    return PairExample(id="0", text_a="a", label="sarcastic")


def _no_text(row: Row) -> PairExample:
    return PairExample(id="0", text_a=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("convert", "reason"),
    [
        (_no_such_column, "cannot be converted: it has no column 'sentence'"),
        (_other_label, "has the label 'sarcastic'; expected one of plain, ironic"),
        (_no_text, "has a text that is not a string"),
    ],
)
def test_row_that_cannot_be_converted_is_an_error_that_names_the_row(
    tmp_path: Path, convert: object, reason: str
) -> None:
    data = write(tmp_path, ["label\tsentence", "1\tOh."])
    with pytest.raises(DataError, match=rf"mine/irony train \(.*\) row 0 {reason}"):
        read(converting(convert), "train", data)


def test_unexpected_exception_in_a_converter_is_not_caught(tmp_path: Path) -> None:
    def buggy(row: Row) -> PairExample:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read(converting(buggy), "train", write(tmp_path, ["label\tsentence", "1\tOh."]))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"idx": 0, "text": None, "label": "plain"}, "its text is None, expected a text"),
        ({"idx": 0, "text": "Oh.", "label": ["plain"]}, "its label is .*, expected a name"),
    ],
)
def test_row_with_a_value_of_the_wrong_type_is_an_error(row: Row, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        pair("text")(row)


def test_fingerprint_of_rows_read_with_a_limit_differs_from_that_of_all_rows(
    tmp_path: Path,
) -> None:
    lines = [f"{i % 2}\tSentence {i}." for i in range(40)]
    data = write(tmp_path, ["label\tsentence", *lines])
    whole, part = read(IRONY, "train", data), read(IRONY, "train", data, limit=10)
    assert len(part.examples) == 10
    assert set(part.examples) < set(whole.examples)
    assert part == read(IRONY, "train", data, limit=10)
    assert part.fingerprint == fingerprint(part.examples) != whole.fingerprint
    assert read(IRONY, "train", data, limit=40) == whole


def test_split_existence_check_does_not_read_the_rows(tmp_path: Path) -> None:
    data = write(tmp_path, ["label\tsentence"])
    assert has_split(IRONY, "train", data)
    assert not has_split(IRONY, "dev", data)
    assert not has_split(IRONY, "no such split", data)


EXAMPLE = PairExample(id="0", text_a="a", text_b="b", label="plain")


@pytest.mark.parametrize(
    "other",
    [
        replace(EXAMPLE, id="1"),
        replace(EXAMPLE, text_a="a "),
        replace(EXAMPLE, text_b=None),
        replace(EXAMPLE, label=None),
        replace(EXAMPLE, label=1.0),
        replace(EXAMPLE, group="0"),
        replace(EXAMPLE, categories=("logic",)),
        replace(EXAMPLE, marks=(Mark(text="a", start=0, end=1),)),
    ],
)
def test_fingerprint_depends_on_every_example_field(other: PairExample) -> None:
    assert fingerprint([other]) != fingerprint([EXAMPLE])


def test_fingerprint_depends_on_the_row_order() -> None:
    first, second = EXAMPLE, replace(EXAMPLE, id="1")
    assert fingerprint([first, second]) != fingerprint([second, first])


def test_fingerprint_is_the_sha256_of_canonical_json_lines() -> None:
    """Fix the format of fingerprints, by which stored results are found."""
    examples: list[Example] = [EXAMPLE, PairExample(id="1", text_a="\x00😀\ud800", label=3.8)]
    lines = (
        '["PairExample",{"categories":[],"group":null,"id":"0","label":"plain","marks":[],'
        '"text_a":"a","text_b":"b"}]\n'
        '["PairExample",{"categories":[],"group":null,"id":"1","label":3.8,"marks":[],'
        '"text_a":"\\u0000\\ud83d\\ude00\\ud800","text_b":null}]\n'
    )
    assert fingerprint(examples) == hashlib.sha256(lines.encode()).hexdigest()


def test_unknown_split_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no split 'devel'"):
        read(IRONY, "devel", Data(source="files", folder=tmp_path))
