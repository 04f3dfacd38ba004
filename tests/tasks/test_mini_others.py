"""Tests that the bundled CoNLL-2003, SWAG and SNLI files have the official layouts."""

import csv
import json
from collections import Counter
from typing import Any

import pytest

from benchharness.tasks.sources.files import mini_folder

CONLL, SWAG, SNLI = (mini_folder() / name for name in ("conll2003", "swag", "snli"))

Sentence = list[list[str]]


def sentences(name: str) -> list[Sentence]:
    blocks = (CONLL / f"eng.{name}").read_text("utf-8").strip().split("\n\n")
    split = [[line.split(" ") for line in block.splitlines()] for block in blocks]
    return [rows for rows in split if rows[0][0] != "-DOCSTART-"]


def situations(name: str) -> list[dict[str, str]]:
    with (SWAG / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def pairs(name: str) -> list[dict[str, Any]]:
    text = (SNLI / f"snli_1.0_{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", ["train", "testa", "testb"])
def test_bundled_conll2003_files_have_four_columns_and_lines_between_documents(name: str) -> None:
    text = (CONLL / f"eng.{name}").read_text("utf-8")
    assert text.startswith("-DOCSTART- -X- O O\n\n")
    assert text.count("-DOCSTART-") == -(-len(sentences(name)) // 10)
    assert {len(row) for rows in sentences(name) for row in rows} == {4}


@pytest.mark.parametrize("name", ["train", "testa", "testb"])
def test_bundled_conll2003_tags_are_iob1(name: str) -> None:
    tags = {row[3] for rows in sentences(name) for row in rows}
    assert {f"I-{kind}" for kind in ("PER", "LOC", "ORG", "MISC")} | {"O"} <= tags
    assert {tag for tag in tags if tag.startswith("B-")} == {"B-LOC"}
    for rows in sentences(name):
        before = "O"
        for *_, tag in rows:
            assert not tag.startswith("B-") or before[2:] == tag[2:]
            before = tag


def test_bundled_conll2003_names_are_ambiguous_between_entity_types() -> None:
    kinds: dict[str, set[str]] = {}
    for word, _, _, tag in (row for rows in sentences("train") for row in rows):
        kinds.setdefault(word, set()).add(tag[2:])
    assert kinds["Berg"] == {"PER", "LOC", "ORG"}


def test_bundled_conll2003_dev_sentences_are_not_in_train() -> None:
    train, dev = ({str(rows) for rows in sentences(name)} for name in ("train", "testa"))
    assert not train & dev
    assert (len(train), len(dev)) == (500, 150)


def test_bundled_swag_files_have_the_official_columns() -> None:
    columns = [
        "", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source", "ending0",
        "ending1", "ending2", "ending3",
    ]  # fmt: skip
    assert list(situations("train")[0]) == [*columns, "label"]
    assert list(situations("val")[0]) == [*columns, "label"]
    assert list(situations("test")[0]) == columns


def test_bundled_swag_labels_are_balanced_over_the_endings() -> None:
    counts = Counter(row["label"] for row in situations("train"))
    assert set(counts) == set("0123")
    assert max(counts.values()) / counts.total() < 0.35


def test_bundled_swag_start_phrase_is_both_sentences_joined_by_a_space() -> None:
    for row in situations("val"):
        assert row["startphrase"] == f"{row['sent1']} {row['sent2']}"
        assert len({row[f"ending{n}"] for n in range(4)}) == 4


def test_bundled_snli_rows_have_the_official_keys() -> None:
    keys = {
        "annotator_labels", "captionID", "gold_label", "pairID", "sentence1", "sentence2",
        "sentence1_binary_parse", "sentence1_parse", "sentence2_binary_parse", "sentence2_parse",
    }  # fmt: skip
    for name in ("train", "dev", "test"):
        assert all(set(row) == keys for row in pairs(name))


def test_snli_gold_label_is_the_majority_or_a_dash() -> None:
    for row in pairs("train"):
        label, votes = Counter(row["annotator_labels"]).most_common(1)[0]
        assert row["gold_label"] == (label if votes >= 3 else "-")


def test_some_bundled_snli_rows_have_no_gold_label() -> None:
    counts = Counter(row["gold_label"] for row in pairs("train") + pairs("dev"))
    assert set(counts) == {"entailment", "neutral", "contradiction", "-"}
    assert 0.005 < counts["-"] / counts.total() < 0.04
    assert max(counts.values()) / counts.total() < 0.5


def test_bundled_snli_dev_pairs_are_not_in_train() -> None:
    train, dev = (
        {(row["sentence1"], row["sentence2"]) for row in pairs(name)} for name in ("train", "dev")
    )
    assert not train & dev
