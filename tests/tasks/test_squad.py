"""Tests of SQuAD's JSON: answers are at their offsets, are relocated, or are not trained on."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.tasks.examples import SpanExample
from benchharness.tasks.read import SplitRows, has_split, read, subset
from benchharness.tasks.sources import Data
from benchharness.tasks.squad import SQUAD_TASKS
from tests.helpers.official_files import read_file, write_file

CONTEXT = "Ann met Bob. Later Ann left."


def answers(*placed: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"text": text, "answer_start": start} for text, start in placed]


def article(*questions: list[dict[str, Any]] | None, context: str = CONTEXT) -> dict[str, Any]:
    qas = [
        {"id": f"q{i}", "question": f"Who {i}?", "answers": given, "is_impossible": not given}
        for i, given in enumerate(questions)
    ]
    return {"title": "Ann_and_Bob", "paragraphs": [{"context": context, "qas": qas}]}


def read_squad(
    folder: Path, document: Any, version: str = "2.0", split: str = "train"
) -> SplitRows:
    content = document if isinstance(document, str | bytes) else json.dumps(document)
    data = write_file(folder, f"squad/{split}-v{version}.json", content)
    return read_file(f"squad/v{version}", split, data)


def examples(folder: Path, *questions: list[dict[str, Any]], **words: Any) -> list[SpanExample]:
    rows = read_squad(folder, {"version": "v2.0", "data": [article(*questions)]}, **words)
    return [example for example in rows.examples if isinstance(example, SpanExample)]


def test_squad_question_with_answers_becomes_a_span_example(tmp_path: Path) -> None:
    (example,) = examples(tmp_path, answers(("Bob", 8)))
    assert example == SpanExample(
        id="q0",
        question="Who 0?",
        context=CONTEXT,
        answers=(("Bob", 8),),
        title="Ann_and_Bob",
    )


def test_unanswerable_squad_question_has_an_empty_answer_list(tmp_path: Path) -> None:
    (example,) = examples(tmp_path, [])
    assert example.answers == ()


def unmarked(*questions: list[dict[str, Any]]) -> dict[str, Any]:
    """Make a document of version 1.1, whose questions have no is_impossible."""
    document = article(*questions)
    for question in document["paragraphs"][0]["qas"]:
        del question["is_impossible"]
    return {"version": "1.1", "data": [document]}


@pytest.mark.parametrize("split", ["train", "dev"])
def test_squad_version_is_detected_from_the_content_of_the_file(tmp_path: Path, split: str) -> None:
    first, second = unmarked(answers(("Bob", 8))), {"data": [article([], answers(("Bob", 8)))]}
    assert len(read_squad(tmp_path, first, "1.1", split).examples) == 1
    assert len(read_squad(tmp_path, second, "2.0", split).examples) == 2
    with pytest.raises(DataError, match=rf"{split}-v2\.0\.json contains SQuAD 1\.1"):
        read_squad(tmp_path, first, "2.0", split)
    with pytest.raises(DataError, match=rf"{split}-v1\.1\.json contains SQuAD 2\.0"):
        read_squad(tmp_path, second, "1.1", split)


def test_squad_training_question_without_a_locatable_answer_is_skipped(
    tmp_path: Path,
) -> None:
    document = {"data": [article(answers(("Cy", 0)), answers(("Bob", 8)), [])]}
    train = read_squad(tmp_path, document)
    assert [example.id for example in train.examples] == ["q1", "q2"]
    assert train.left_out == 1
    dev = read_squad(tmp_path, document, split="dev")
    assert [example.id for example in dev.examples] == ["q0", "q1", "q2"]
    assert dev.left_out == 0


def test_squad_training_split_without_usable_questions_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"squad/v2\.0 train .* is empty"):
        examples(tmp_path, answers(("Cy", 0)))


def test_squad_offsets_count_characters_and_not_bytes(tmp_path: Path) -> None:
    context = "😀 مرحبا Zoë"
    document = {"data": [article(answers(("Zoë", 8)), context=context)]}
    (example,) = read_squad(tmp_path, document).examples
    assert isinstance(example, SpanExample)
    assert example.answers == (("Zoë", 8),)


def test_squad_reader_ignores_a_byte_order_mark(tmp_path: Path) -> None:
    text = json.dumps({"data": [article([])]})
    assert len(read_squad(tmp_path, b"\xef\xbb\xbf" + text.encode()).examples) == 1


def without(key: str, place: str) -> dict[str, Any]:
    """Make a document of two articles, the second of which lacks a key."""
    document = {"data": [article([]), article(answers(("Bob", 8)))]}
    document["data"][0]["paragraphs"][0]["qas"][0]["id"] = "other"
    damaged = document["data"][1]
    places = {
        "document": document,
        "article": damaged,
        "paragraph": damaged["paragraphs"][0],
        "question": damaged["paragraphs"][0]["qas"][0],
        "answer": damaged["paragraphs"][0]["qas"][0]["answers"][0],
    }
    del places[place][key]
    return document


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (without("data", "document"), r"train-v2\.0\.json has no 'data': found an empty object"),
        (without("title", "article"), r"json article 1 has no 'title': found paragraphs"),
        (without("paragraphs", "article"), r"json article 1 has no 'paragraphs'"),
        (without("context", "paragraph"), r"json article 1 paragraph 0 has no 'context'"),
        (without("id", "question"), r"json article 1 paragraph 0 has no 'id'"),
        (without("question", "question"), r"article 1 paragraph 0 question q0 has no 'question'"),
        (without("answers", "question"), r"question q0 has no 'answers'"),
        (without("text", "answer"), r"question q0 has no 'text': found answer_start"),
        ({"data": {}}, r"json has no list 'data': found dict"),
        ({"data": ["x"]}, r"json article 0 has no 'title': found str"),
        ([], r"json is JSON, but not an object: found list"),
        ('{"data": [', r"train-v2\.0\.json is not JSON"),
        ("", r"train-v2\.0\.json is not JSON"),
        ("[" * 10**5, r"train-v2\.0\.json is not JSON"),
        (b'{"data":\n"\xff"}', r"json line 2 is not UTF-8"),
        ({"data": [article([]), article([])]}, r"train .* has 2 rows with the id 'q0'"),
        ({"data": [article([{"text": 3, "answer_start": 0}])]}, r"row 0 cannot be converted"),
        ({"data": [article([{"text": "x", "answer_start": "0"}])]}, r"row 0 cannot be converted"),
    ],
)  # fmt: skip
def test_malformed_squad_file_is_an_error_that_names_the_position(
    tmp_path: Path, document: Any, error: str
) -> None:
    with pytest.raises(DataError, match=error):
        read_squad(tmp_path, document)


def test_subset_of_squad_questions_covers_most_articles() -> None:
    questions = [
        SpanExample(id=f"{a}-{q}", question="?", context="c", answers=(("c", 0),), title=str(a))
        for a in range(20)
        for q in range(50)
    ]
    titles = {e.title for e in subset(questions, 100) if isinstance(e, SpanExample)}
    assert len(titles) > 15


@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_answers_of_the_official_squad_files_are_at_their_offsets(version: str) -> None:
    folder = os.environ.get("BENCH_TEST_DATA")
    data = Data(source="files", folder=Path(folder or "."))
    task = next(task for task in SQUAD_TASKS if task.name == f"squad/{version}")
    if folder is None or not has_split(task, "dev", data):
        pytest.skip("BENCH_TEST_DATA names no folder with SQuAD")
    rows = read(task, "dev", data)
    starts = [s for e in rows.examples if isinstance(e, SpanExample) for _, s in e.answers or ()]
    assert min(starts) >= 0
    assert rows.left_out == 0
