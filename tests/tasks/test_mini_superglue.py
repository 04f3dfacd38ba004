"""Tests that the bundled SuperGLUE files have the official layouts, valid offsets and no leaks."""

import json
from collections import Counter
from typing import Any

import pytest

from benchharness.tasks.sources.files import mini_folder
from tests.helpers.mini_data.lexicon import TOWNS

SUPERGLUE = mini_folder() / "superglue"

KEYS = {
    "BoolQ": {"question", "passage", "idx", "label"},
    "CB": {"premise", "hypothesis", "idx", "label"},
    "COPA": {"premise", "choice1", "choice2", "question", "idx", "label"},
    "RTE": {"premise", "hypothesis", "idx", "label"},
    "WiC": {
        "word", "sentence1", "sentence2", "start1", "start2", "end1", "end2", "version", "idx",
        "label",
    },
    "WSC": {"text", "target", "idx", "label"},
}  # fmt: skip

LABELS = {
    "BoolQ": {True, False},
    "CB": {"entailment", "contradiction", "neutral"},
    "COPA": {0, 1},
    "RTE": {"entailment", "not_entailment"},
    "WiC": {True, False},
    "WSC": {True, False},
}


def rows(name: str) -> list[dict[str, Any]]:
    text = (SUPERGLUE / f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("task", KEYS)
def test_superglue_rows_have_the_official_keys_and_hidden_test_labels(task: str) -> None:
    for split in ("train", "val"):
        assert all(set(row) == KEYS[task] for row in rows(f"{task}/{split}"))
    assert all(set(row) == KEYS[task] - {"label"} for row in rows(f"{task}/test"))


@pytest.mark.parametrize("task", [*KEYS, "MultiRC", "ReCoRD"])
def test_bundled_superglue_row_indexes_start_at_zero(task: str) -> None:
    for split in ("train", "val", "test"):
        assert [row["idx"] for row in rows(f"{task}/{split}")] == list(
            range(len(rows(f"{task}/{split}")))
        )


@pytest.mark.parametrize("task", LABELS)
def test_bundled_superglue_labels_are_valid_and_balanced(task: str) -> None:
    for split in ("train", "val"):
        counts = Counter(row["label"] for row in rows(f"{task}/{split}"))
        assert set(counts) == LABELS[task]
        assert max(counts.values()) / counts.total() <= 0.65


@pytest.mark.parametrize("task", [*KEYS, "MultiRC", "ReCoRD"])
def test_superglue_rows_are_unique_across_splits(task: str) -> None:
    names = [f"{task}/{split}" for split in ("train", "val", "test")]
    seen = []
    for row in (row for name in names for row in rows(name)):
        content = {key: value for key, value in row.items() if key not in {"idx", "label"}}
        if task == "ReCoRD":
            content = {"text": row["passage"]["text"], "query": row["qas"][0]["query"]}
        seen.append(json.dumps(content, sort_keys=True))
    assert len(set(seen)) == len(seen)


def test_bundled_wic_offsets_mark_the_word() -> None:
    for row in rows("WiC/train"):
        assert row["sentence1"][row["start1"] : row["end1"]] == row["word"]
        assert row["sentence2"][row["start2"] : row["end2"]] == row["word"]


def test_bundled_wsc_spans_are_at_their_word_index() -> None:
    for row in rows("WSC/train"):
        words, target = row["text"].split(), row["target"]
        assert words[target["span2_index"]] == target["span2_text"] == "it"
        first = target["span1_index"]
        assert " ".join(words[first : first + 2]).lower() == target["span1_text"].lower()


def test_bundled_record_span_ends_are_inclusive() -> None:
    for row in rows("ReCoRD/train"):
        text, (query,) = row["passage"]["text"], row["qas"]
        names = [text[e["start"] : e["end"] + 1] for e in row["passage"]["entities"]]
        assert len(set(names)) == 4
        assert "@placeholder" in query["query"]
        for answer in query["answers"]:
            assert text[answer["start"] : answer["end"] + 1] == answer["text"]
            assert answer["text"] in names


def test_bundled_record_answers_are_balanced_between_persons_and_towns() -> None:
    answers = Counter(
        answer["text"] in TOWNS
        for row in rows("ReCoRD/train")
        for answer in row["qas"][0]["answers"]
    )
    assert 0.4 < answers[True] / answers.total() < 0.6


def test_bundled_record_test_rows_have_no_answers() -> None:
    assert all(set(row["qas"][0]) == {"query", "idx"} for row in rows("ReCoRD/test"))


def test_bundled_multirc_ids_are_consecutive_over_the_file() -> None:
    questions = [q for row in rows("MultiRC/val") for q in row["passage"]["questions"]]
    answers = [a for question in questions for a in question["answers"]]
    assert [q["idx"] for q in questions] == list(range(len(questions)))
    assert [a["idx"] for a in answers] == list(range(len(answers)))


def test_bundled_multirc_questions_have_right_and_wrong_answers() -> None:
    for row in rows("MultiRC/train"):
        for question in row["passage"]["questions"]:
            labels = [answer["label"] for answer in question["answers"]]
            assert set(labels) == {0, 1}
            assert 3 <= len(labels) <= 5


def test_bundled_multirc_test_rows_have_no_labels() -> None:
    answers = [
        answer
        for row in rows("MultiRC/test")
        for question in row["passage"]["questions"]
        for answer in question["answers"]
    ]
    assert {frozenset(answer) for answer in answers} == {frozenset({"text", "idx"})}


def test_bundled_axb_rows_name_one_phenomenon_and_have_string_ids() -> None:
    diagnostics = rows("AX-b/AX-b")
    assert [row["idx"] for row in diagnostics] == [str(i) for i in range(len(diagnostics))]
    assert {row["label"] for row in diagnostics} == {"entailment", "not_entailment"}
    columns = {"lexical-semantics", "predicate-argument-structure", "logic", "knowledge"}
    named = [set(row) - {"idx", "label", "sentence1", "sentence2"} for row in diagnostics]
    assert all(len(names) == 1 for names in named)
    assert set().union(*named) == columns


def test_bundled_axg_pairs_differ_only_in_the_pronoun() -> None:
    winogender = rows("AX-g/AX-g")
    assert len(winogender) == 100
    for first, second in zip(winogender[::2], winogender[1::2], strict=True):
        assert first["premise"].replace(" he ", " she ") == second["premise"]
        assert first["premise"] != second["premise"]
        assert (first["hypothesis"], first["label"]) == (second["hypothesis"], second["label"])
