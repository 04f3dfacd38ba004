"""Tests of CoNLL-2003's columns, in IOB1 as the shared task wrote them or in IOB2."""

from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.tasks.conll import ENTITY_TAGS, NER
from benchharness.tasks.examples import TagExample
from tests.helpers.official_files import read_file, write_file

IOB1 = """-DOCSTART- -X- O O

U.N. NNP I-NP I-ORG
official NN I-NP O
Rolf NNP I-NP I-PER
Eke NNP I-NP I-PER

-DOCSTART- -X- O O

Paris NNP I-NP I-LOC
London NNP I-NP B-LOC
"""

IOB2 = IOB1.replace("Paris NNP I-NP I-", "Paris NNP I-NP B-").replace("I-ORG", "B-ORG")
IOB2 = IOB2.replace("Rolf NNP I-NP I-", "Rolf NNP I-NP B-")

SENTENCES = (
    TagExample(
        id="0", words=("U.N.", "official", "Rolf", "Eke"), tags=("B-ORG", "O", "B-PER", "I-PER")
    ),
    TagExample(id="1", words=("Paris", "London"), tags=("B-LOC", "B-LOC")),
)


def read_ner(folder: Path, content: str | bytes, name: str = "conll2003/eng.train") -> object:
    return read_file("conll2003/ner", "train", write_file(folder, name, content)).examples


@pytest.mark.parametrize("content", [IOB1, IOB2])
def test_iob1_and_iob2_files_are_read_as_iob2(tmp_path: Path, content: str) -> None:
    assert read_ner(tmp_path, content) == SENTENCES


@pytest.mark.parametrize(
    "content",
    [
        IOB1.rstrip("\n"),
        IOB1 + "\n\n",
        IOB1.replace("\n", "\r\n"),
        "\ufeff" + IOB1,
        IOB1.replace("\n\nParis", "\nParis"),
        IOB1.replace("\n\n-DOC", "\n-DOC"),
        IOB1.replace(" ", "\t"),
        IOB1.replace(" NNP I-NP", "").replace(" NN I-NP", ""),
    ],
)
def test_conll_reader_accepts_other_line_ends_byte_order_marks_tabs_and_fewer_columns(
    tmp_path: Path, content: str
) -> None:
    assert read_ner(tmp_path, content) == SENTENCES


def test_conll2003_file_names_of_the_hub_are_accepted(tmp_path: Path) -> None:
    assert read_ner(tmp_path, IOB2, "train.txt") == SENTENCES


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (IOB1.replace("I-LOC", "I-GEO"), r"eng\.train line 10 has the tag 'I-GEO'; expected"),
        (IOB1.replace("B-LOC", "E-LOC"), r"eng\.train line 11 has the tag 'E-LOC'"),
        (IOB1.replace("Rolf NNP I-NP I-PER", "Rolf"), r"line 5 has the word 'Rolf' but no tag"),
        (IOB1.encode().replace(b"Eke", b"\xe9"), r"line 6 is not UTF-8"),
        ("", r"is empty"),
        ("-DOCSTART- -X- O O\n\n", r"is empty"),
    ],
)  # fmt: skip
def test_malformed_conll2003_file_is_an_error_that_names_the_line(
    tmp_path: Path, content: str, error: str
) -> None:
    with pytest.raises(DataError, match=error):
        read_ner(tmp_path, content)


def test_conll2003_tags_have_the_order_of_the_hub() -> None:
    expected = "O B-PER I-PER B-ORG I-ORG B-LOC I-LOC B-MISC I-MISC"
    assert NER.tags == NER.source.label_names == ENTITY_TAGS
    assert " ".join(ENTITY_TAGS) == expected


def test_main_metric_of_conll2003_is_entity_f1() -> None:
    assert [metric.name for metric in NER.metrics] == ["f1"]
