"""Tests that the bundled GLUE files have the official layouts, valid labels and no leaks."""

from collections import Counter
from collections.abc import Sequence

import pytest

from benchharness.tasks.sources.files import mini_folder

GLUE = mini_folder() / "glue"

MNLI_COLUMNS = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse "
    "sentence2_parse sentence1 sentence2"
)
STSB_COLUMNS = "index genre filename year old_index source1 source2 sentence1 sentence2"

HEADERS = {
    "CoLA/test": "index sentence",
    "SST-2/train": "sentence label",
    "SST-2/dev": "sentence label",
    "SST-2/test": "index sentence",
    "STS-B/train": f"{STSB_COLUMNS} score",
    "STS-B/dev": f"{STSB_COLUMNS} score",
    "STS-B/test": STSB_COLUMNS,
    "QQP/train": "id qid1 qid2 question1 question2 is_duplicate",
    "QQP/dev": "id qid1 qid2 question1 question2 is_duplicate",
    "QQP/test": "id question1 question2",
    "MNLI/train": f"{MNLI_COLUMNS} label1 gold_label",
    "MNLI/dev_matched": f"{MNLI_COLUMNS} label1 label2 label3 label4 label5 gold_label",
    "MNLI/dev_mismatched": f"{MNLI_COLUMNS} label1 label2 label3 label4 label5 gold_label",
    "MNLI/test_matched": MNLI_COLUMNS,
    "MNLI/test_mismatched": MNLI_COLUMNS,
    "QNLI/train": "index question sentence label",
    "QNLI/dev": "index question sentence label",
    "QNLI/test": "index question sentence",
    "RTE/train": "index sentence1 sentence2 label",
    "RTE/dev": "index sentence1 sentence2 label",
    "RTE/test": "index sentence1 sentence2",
    "WNLI/train": "index sentence1 sentence2 label",
    "WNLI/dev": "index sentence1 sentence2 label",
    "WNLI/test": "index sentence1 sentence2",
}

# Indices of the columns with the texts, and of the column with the label, keyed by task.
COLUMNS = {
    "CoLA": ((3,), 1),
    "SST-2": ((0,), 1),
    "MRPC": ((3, 4), 0),
    "STS-B": ((7, 8), 9),
    "QQP": ((3, 4), 5),
    "MNLI": ((8, 9), -1),
    "QNLI": ((1, 2), 3),
    "RTE": ((1, 2), 3),
    "WNLI": ((1, 2), 3),
}

LABELS = {
    "CoLA": {"0", "1"},
    "SST-2": {"0", "1"},
    "MRPC": {"0", "1"},
    "QQP": {"0", "1"},
    "MNLI": {"entailment", "neutral", "contradiction"},
    "QNLI": {"entailment", "not_entailment"},
    "RTE": {"entailment", "not_entailment"},
    "WNLI": {"0", "1"},
}


def lines(name: str) -> list[list[str]]:
    text = (GLUE / f"{name}.tsv").read_text("utf-8-sig")
    return [line.split("\t") for line in text.splitlines()]


def body(name: str) -> list[list[str]]:
    headless = name in {"CoLA/train", "CoLA/dev"}
    return lines(name)[0 if headless else 1 :]


def texts(task: str, name: str) -> list[tuple[str, ...]]:
    return [tuple(row[column] for column in COLUMNS[task][0]) for row in body(name)]


def labels(task: str, name: str) -> list[str]:
    return [row[COLUMNS[task][1]] for row in body(name)]


def dev_names(task: str) -> Sequence[str]:
    return ("dev_matched", "dev_mismatched") if task == "MNLI" else ("dev",)


@pytest.mark.parametrize("name", HEADERS)
def test_bundled_glue_files_have_the_official_headers(name: str) -> None:
    assert lines(name)[0] == HEADERS[name].split()


@pytest.mark.parametrize("split", ["train", "dev"])
def test_bundled_mrpc_files_start_with_a_byte_order_mark(split: str) -> None:
    content = (GLUE / f"MRPC/{split}.tsv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")


def test_mrpc_test_file_has_an_index_instead_of_the_label() -> None:
    assert lines("MRPC/test")[0] == ["index", "#1 ID", "#2 ID", "#1 String", "#2 String"]


@pytest.mark.parametrize("split", ["train", "dev"])
def test_bundled_cola_marks_unacceptable_sentences_with_a_star(split: str) -> None:
    assert {(row[1], row[2]) for row in lines(f"CoLA/{split}")} == {("1", ""), ("0", "*")}


def test_bundled_glue_lines_have_equal_numbers_of_fields() -> None:
    for path in GLUE.glob("*/*.tsv"):
        name = path.relative_to(GLUE).with_suffix("").as_posix()
        assert len({len(row) for row in lines(name)}) == 1, name


@pytest.mark.parametrize("task", LABELS)
def test_bundled_glue_labels_are_valid_and_balanced(task: str) -> None:
    for split in ("train", *dev_names(task)):
        counts = Counter(labels(task, f"{task}/{split}"))
        assert set(counts) == LABELS[task]
        assert max(counts.values()) / counts.total() <= 0.65


def test_stsb_scores_cover_the_whole_scale() -> None:
    scores = labels("STS-B", "STS-B/train")
    assert all(len(score.partition(".")[2]) == 3 for score in scores)
    assert min(map(float, scores)) == 0.0
    assert max(map(float, scores)) == 5.0
    assert len(set(scores)) > 15


@pytest.mark.parametrize("task", COLUMNS)
def test_bundled_glue_texts_are_unique(task: str) -> None:
    seen = [
        text for split in ("train", *dev_names(task)) for text in texts(task, f"{task}/{split}")
    ]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("task", COLUMNS)
def test_bundled_glue_splits_have_the_intended_number_of_rows(task: str) -> None:
    assert 400 <= len(body(f"{task}/train")) <= 1200
    assert all(100 <= len(body(f"{task}/{split}")) <= 200 for split in dev_names(task))


def test_bundled_glue_row_indexes_start_at_zero() -> None:
    for name in ("SST-2/test", "QNLI/dev", "RTE/test", "MNLI/test_mismatched", "QQP/test"):
        assert [row[0] for row in body(name)] == [str(i) for i in range(len(body(name)))]


def test_nearly_all_mnli_mismatched_rows_have_nouns_unseen_in_training() -> None:
    known = {word for pair in texts("MNLI", "MNLI/train") for text in pair for word in text.split()}
    assert "sailor" not in known
    unseen = [
        pair
        for pair in texts("MNLI", "MNLI/dev_mismatched")
        if not set(" ".join(pair).split()) <= known
    ]
    assert len(unseen) > 0.95 * len(body("MNLI/dev_mismatched"))


def test_bundled_ax_rows_have_exactly_one_category() -> None:
    header, *rows = lines("diagnostic/diagnostic-full")
    assert header == [
        "Lexical Semantics", "Predicate-Argument Structure", "Logic", "Knowledge", "Domain",
        "Premise", "Hypothesis", "Label",
    ]  # fmt: skip
    assert all(sum(map(bool, row[:4])) == 1 for row in rows)
    for column in range(4):
        filled = [row for row in rows if row[column]]
        assert {row[column] for row in filled} == {header[column]}
        assert len(filled) >= 20
        assert len({row[-1] for row in filled}) >= 2
