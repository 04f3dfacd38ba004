"""SST's trees: sentences and phrases with labels, in five classes or two."""

from pathlib import Path

import pytest

from benchharness.errors import DataError
from benchharness.tasks.examples import PairExample
from benchharness.tasks.read import SplitRows
from tests.helpers.official_files import read_file, write_file

LOVELY = "(4 (2 It) (4 (4 (2 's) (4 (2 very) (3 lovely))) (2 .)))"
DULL = "(1 (2 It) (1 (1 (2 's) (1 dull)) (2 .)))"
PLAIN = r"(2 (2 Cats) (2 (2 (2 -LRB-) (2 and\/or)) (2 (2 dogs) (2 -RRB-))))"


def read_sst(task: str, folder: Path, *trees: str, split: str = "train") -> SplitRows:
    data = write_file(folder, f"trees/{split}.txt", "".join(f"{tree}\n" for tree in trees))
    return read_file(f"sst/{task}", split, data)


def rows(found: SplitRows) -> list[tuple[str, str, object]]:
    return [(e.id, e.text_a, e.label) for e in found.examples if isinstance(e, PairExample)]


def test_sst_sentence_has_the_label_of_its_tree_root(tmp_path: Path) -> None:
    assert rows(read_sst("sst5", tmp_path, LOVELY, DULL, PLAIN)) == [
        ("0", "It 's very lovely .", "very positive"),
        ("1", "It 's dull .", "negative"),
        ("2", "Cats ( and/or dogs )", "neutral"),
    ]


def test_binary_sst_skips_and_counts_neutral_sentences(tmp_path: Path) -> None:
    found = read_sst("binary", tmp_path, LOVELY, PLAIN, DULL)
    assert rows(found) == [
        ("0", "It 's very lovely .", "positive"),
        ("2", "It 's dull .", "negative"),
    ]
    assert found.left_out == 1


def test_each_distinct_sst_phrase_is_one_training_row(tmp_path: Path) -> None:
    found = rows(read_sst("sst5-phrases", tmp_path, LOVELY, DULL))
    assert found[0] == ("0", "It 's very lovely .", "very positive")
    sentences = [(text, label) for name, text, label in found if "-" not in name]
    phrases = [(text, label) for name, text, label in found if "-" in name]
    assert [text for text, _ in sentences] == ["It 's very lovely .", "It 's dull ."]
    assert phrases == [
        ("It", "neutral"),
        ("'s", "neutral"),
        ("very", "neutral"),
        ("lovely", "positive"),
        ("very lovely", "very positive"),
        ("'s very lovely", "very positive"),
        (".", "neutral"),
        ("'s very lovely .", "very positive"),
        ("dull", "negative"),
        ("'s dull", "negative"),
        ("'s dull .", "negative"),
    ]


@pytest.mark.parametrize("split", ["dev", "test"])
def test_sst_dev_and_test_splits_exclude_phrases(tmp_path: Path, split: str) -> None:
    found = read_sst("sst5-phrases", tmp_path, LOVELY, DULL, split=split)
    assert rows(found) == rows(read_sst("sst5", tmp_path, LOVELY, DULL, split=split))


@pytest.mark.parametrize(
    "tree",
    [
        "It 's lovely .",
        "(4 (2 It) (4 lovely)",
        "(4 (2 It) (4 lovely)))",
        "(4 (2 It) (4 lovely)) (1 dull)",
        "(7 (2 It) (4 lovely))",
        "(4 (2 It) ((4 lovely)))",
        "",
    ],
)
@pytest.mark.parametrize("task", ["sst5", "sst5-phrases"])
def test_invalid_sst_tree_is_an_error(tmp_path: Path, tree: str, task: str) -> None:
    with pytest.raises(DataError, match=r"is not a tree such as '\(3 \(2 A\) \(3 word\)\)'"):
        read_sst(task, tmp_path, DULL, tree, LOVELY)
