"""SuperGLUE rows are converted to the examples of the official baseline."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.tasks.answers import answer_type
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction, Mark, PairExample
from benchharness.tasks.metrics import gender_parity
from benchharness.tasks.read import read
from benchharness.tasks.suites import find_task
from benchharness.tasks.superglue import NO_ENTITY, SUPERGLUE_TASKS
from benchharness.tasks.task import score
from tests.helpers.official_files import only, read_file, to_lines, write_file

NAMES = {task.name: task for task in SUPERGLUE_TASKS}


def one(folder: Path, task: str, document: Mapping[str, Any], split: str = "train") -> Any:
    file = {"train": "train", "dev": "val", "test": "test"}[split]
    home = {"boolq": "BoolQ", "record": "ReCoRD", "multirc": "MultiRC", "wic": "WiC"}
    name = f"{home.get(task, task.upper())}/{file}.jsonl"
    return only(
        read_file(f"superglue/{task}", split, write_file(folder, name, to_lines([document])))
    )


def test_superglue_diagnostics_are_predicted_by_rte_models() -> None:
    followers = {task.name for task in SUPERGLUE_TASKS if task.trained_on == "superglue/rte"}
    assert followers == {"superglue/axb", "superglue/axg"}


def test_axg_score_includes_accuracy() -> None:
    axg = NAMES["superglue/axg"]
    assert [metric.name for metric in axg.details] == ["accuracy"]


def test_boolq_example_has_the_passage_first_and_a_boolean_label(tmp_path: Path) -> None:
    row = {"question": "is it", "passage": "It is.", "idx": 2336, "label": True}
    assert one(tmp_path, "boolq", row) == PairExample(
        id="0", text_a="It is.", text_b="is it", label="True"
    )


@pytest.mark.parametrize("label", ["true", 1, None, "", "-1"])
def test_boolq_label_that_is_not_boolean_is_an_error(tmp_path: Path, label: object) -> None:
    row = {"question": "is it", "passage": "It is.", "label": label}
    with pytest.raises(DataError, match=r"train\.jsonl line 1 has the label"):
        one(tmp_path, "boolq", row)


def test_cb_labels_have_the_order_of_cb_and_not_of_mnli() -> None:
    """Fix the order of CB's labels.

    In that of MNLI every contradiction would be read as neutral.
    """
    assert NAMES["superglue/cb"].source.label_names == ("entailment", "contradiction", "neutral")


@pytest.mark.parametrize(
    ("asked", "question"),
    [("cause", "What was the cause of this?"), ("effect", "What happened as a result?")],
)
def test_copa_question_asks_for_the_cause_or_the_effect(
    tmp_path: Path, asked: str, question: str
) -> None:
    row = {"premise": "It fell.", "choice1": "a", "choice2": "b", "question": asked, "label": 1}
    assert one(tmp_path, "copa", row) == ChoiceExample(
        id="0", context="It fell.", question=question, options=("a", "b"), gold=(1,)
    )


MULTIRC = {
    "idx": 4,
    "version": 1.1,
    "passage": {
        "text": "Ann ate.",
        "questions": [
            {"question": "Who?", "idx": 9, "answers": [
                {"text": "Ann", "idx": 30, "label": 1},
                {"text": "Bob", "idx": 31, "label": 0},
            ]},
            {"question": "Did she?", "idx": 10, "answers": [
                {"text": "Yes", "idx": 32, "label": 1},
            ]},
        ],
    },
}  # fmt: skip


def test_multirc_has_one_row_per_answer_and_one_group_per_question(tmp_path: Path) -> None:
    data = write_file(tmp_path, "MultiRC/train.jsonl", to_lines([MULTIRC]))
    first, second, third = read_file("superglue/multirc", "train", data).examples
    assert first == PairExample(
        id="4-9-30", text_a="Ann ate.", text_b="Who? Ann", label="True", group="4-9", about="Who?"
    )
    assert isinstance(second, PairExample)
    assert isinstance(third, PairExample)
    assert (second.id, second.label, second.group) == ("4-9-31", "False", "4-9")
    assert (third.id, third.label, third.group) == ("4-10-32", "True", "4-10")


@pytest.mark.parametrize(
    "document",
    [
        {"idx": 0},
        {"idx": 0, "passage": []},
        {"idx": 0, "passage": {"text": "x"}},
        {"idx": 0, "passage": {"text": "x", "questions": [{"question": "?", "idx": 0}]}},
        {"idx": 0, "passage": {"text": "x", "questions": ["?"]}},
    ],
)
def test_malformed_multirc_passage_is_an_error_that_names_the_line(
    tmp_path: Path, document: Any
) -> None:
    data = write_file(tmp_path, "MultiRC/train.jsonl", to_lines([MULTIRC, document]))
    with pytest.raises(DataError, match=r"train\.jsonl line 2 is not laid out"):
        read_file("superglue/multirc", "train", data)


def record(answers: list[str]) -> dict[str, Any]:
    text = "Bo met Al. Al left Bo."
    spans = [(0, 1), (7, 8), (11, 12), (19, 20)]
    assert [text[start : end + 1] for start, end in spans] == ["Bo", "Al", "Al", "Bo"]
    return {
        "source": "Daily mail",
        "passage": {"text": text, "entities": [{"start": a, "end": b} for a, b in spans]},
        "qas": [
            {
                "query": "@placeholder left.",
                "answers": [{"start": 0, "end": 0, "text": answer} for answer in answers],
                "idx": 4756,
            }
        ],
        "idx": 3088,
    }


def test_record_options_are_the_distinct_entities_in_text_order(tmp_path: Path) -> None:
    assert one(tmp_path, "record", record(["Al", "Al"])) == ChoiceExample(
        id="4756",
        context="Bo met Al. Al left Bo.",
        question="@placeholder left.",
        options=("Al", "Bo"),
        gold=(0,),
    )


def test_record_query_may_have_several_gold_entities(tmp_path: Path) -> None:
    assert one(tmp_path, "record", record(["Bo", "Al"])).gold == (0, 1)


def test_record_answer_that_is_not_an_entity_is_scored_as_officially(tmp_path: Path) -> None:
    """Score as the script does.

    It compares with all answer texts, whether a passage marks them or not.
    """
    found = one(tmp_path, "record", record(["Al", "Mr Bo", "Cy", "Cy"]))
    assert (found.gold, found.answers) == ((0,), ("Cy", "Mr Bo"))
    assert Counter(found.oddities) == {NO_ENTITY: 2}
    chosen, said = ChoicePrediction(id="4756", option=1), ChoicePrediction(id="4756", option=-1)
    metrics = {metric.name: metric for metric in find_task("superglue/record").metrics}
    assert metrics["f1"].compute([chosen], [found]) == pytest.approx(2 / 3)
    assert metrics["em"].compute([replace(said, text="the cy")], [found]) == 1
    assert metrics["em"].compute([replace(said, text="Bo")], [found]) == 0


def test_record_query_without_a_gold_entity_is_scored_but_not_trained_on(tmp_path: Path) -> None:
    rows = [record(["Cy"]), {**record(["Al"]), "qas": [{**record(["Al"])["qas"][0], "idx": 1}]}]
    for name in ("train", "val"):
        data = write_file(tmp_path, f"ReCoRD/{name}.jsonl", to_lines(rows))
    task = find_task("superglue/record")
    train, dev = (read(task, split, data) for split in ("train", "dev"))
    assert (len(train.examples), train.left_out, train.odd) == (1, 1, {NO_ENTITY: 1})
    assert (len(dev.examples), dev.left_out, dev.odd) == (2, 0, {NO_ENTITY: 1})
    kind, first = answer_type(task), dev.examples[0]
    right = [kind.golds(example)[0] for example in dev.examples]
    assert score(task, "dev", right, dev.examples) == {"f1": 1.0, "em": 1.0}
    assert kind.is_right(right[0], first)
    assert not kind.is_right(kind.wrong(first, right[0]), first)
    assert (kind.gold_said(first), kind.gold_value(first, several=False)) == ("Cy", None)


def test_record_test_answers_are_hidden(tmp_path: Path) -> None:
    document = record([])
    assert one(tmp_path, "record", document, "test").gold is None
    del document["qas"][0]["answers"]
    assert one(tmp_path, "record", document, "test").gold is None


def wic(**changed: Any) -> dict[str, Any]:
    row = {"word": "bat", "sentence1": "A bat flew.", "sentence2": "His bats broke."}
    places = {"start1": 2, "end1": 5, "start2": 4, "end2": 8}
    return {**row, **places, "label": False, **changed}


def test_wic_example_marks_the_word_in_both_sentences(tmp_path: Path) -> None:
    example = one(tmp_path, "wic", wic())
    assert example.marks == (Mark(text="a", start=2, end=5), Mark(text="b", start=4, end=8))
    assert example.text_b[4:8] == "bats"


@pytest.mark.parametrize(
    "changed", [{"end1": 12}, {"start1": -1}, {"end2": 4}, {"start2": True}, {"start1": "2"}]
)
def test_wic_offset_outside_the_sentence_is_an_error(tmp_path: Path, changed: Any) -> None:
    with pytest.raises(DataError, match=r"superglue/wic train .* row 0 cannot be converted"):
        one(tmp_path, "wic", wic(**changed))


def test_wsc_example_marks_both_spans(tmp_path: Path) -> None:
    target = {"span1_text": "Mark", "span1_index": 0, "span2_text": "He", "span2_index": 4}
    row = {"text": "Mark lied to Pete. He left.", "target": target, "label": True, "idx": 0}
    example = one(tmp_path, "wsc", row)
    assert [example.text_a[mark.start : mark.end] for mark in example.marks] == ["Mark", "He"]
    assert example.text_b is None
    assert example.label == "True"


def test_axg_groups_consecutive_rows_as_minimal_pairs(tmp_path: Path) -> None:
    rows = [
        {"premise": f"He {i}", "hypothesis": "h", "label": "entailment", "pair_id": 551646 + 2 * i}
        for i in range(4)
    ]
    data = write_file(tmp_path, "AX-g/AX-g.jsonl", to_lines(rows))
    examples = read_file("superglue/axg", "test", data).examples
    assert [e.group for e in examples if isinstance(e, PairExample)] == ["0", "0", "1", "1"]
    assert gender_parity in NAMES["superglue/axg"].metrics


def test_labels_of_the_test_split_are_hidden_even_if_the_file_has_them(tmp_path: Path) -> None:
    row = {"premise": "p", "hypothesis": "h", "label": "entailment"}
    assert one(tmp_path, "rte", row, "test").label is None
