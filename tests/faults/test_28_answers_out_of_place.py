"""Tests of fault 28: answers at wrong offsets, at edges, in some windows only, or nowhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.heads import Limits
from benchharness.heads.span import encode, targets
from benchharness.tasks.examples import SpanExample
from tests.helpers.made_tokenizers import KINDS, make_tokenizer
from tests.helpers.official_files import read_file, write_file
from tests.helpers.span_features import CONTEXT, TASK, question, window_texts

STORY = "Ann met Bob. Later Ann left."


def answers(*placed: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"text": text, "answer_start": start} for text, start in placed]


def examples(
    folder: Path, *questions: list[dict[str, Any]], split: str = "train", context: str = STORY
) -> list[SpanExample]:
    """Write questions on a story to an official file and read them."""
    qas = [
        {"id": f"q{i}", "question": "Who?", "answers": given, "is_impossible": not given}
        for i, given in enumerate(questions)
    ]
    article = {"title": "Ann", "paragraphs": [{"context": context, "qas": qas}]}
    data = write_file(folder, f"squad/{split}-v2.0.json", json.dumps({"data": [article]}))
    return list(read_file("squad/v2.0", split, data).examples)  # type: ignore[arg-type]


def test_28_answer_at_a_wrong_offset_is_moved_to_its_nearest_occurrence(tmp_path: Path) -> None:
    first, second, third = examples(
        tmp_path, answers(("Ann", 1)), answers(("Ann", 17)), answers(("Bob", 500))
    )
    assert (first.answers, second.answers) == ((("Ann", 0),), (("Ann", 19),))
    assert third.answers == (("Bob", 8),)


def test_28_negative_answer_offset_does_not_count_from_the_end(tmp_path: Path) -> None:
    (example,) = examples(tmp_path, answers(("Ann", -9)))
    assert example.answers == (("Ann", 0),)


def test_28_answer_missing_from_the_context_gets_offset_minus_1(tmp_path: Path) -> None:
    (example,) = examples(tmp_path, answers(("Cy", 0), ("Bob", 8), ("", 3)), split="dev")
    assert example.answers == (("Bob", 8), ("", 3), ("Cy", -1))


def test_28_offset_counted_before_unicode_normalisation_is_corrected(tmp_path: Path):
    """ "é" as two characters shifts every later offset by one."""
    (example,) = examples(tmp_path, answers(("Zoë", 13)), context="Cafe\u0301 owner: Zoë.")
    assert example.answers == (("Zoë", 13),)
    (shifted,) = examples(tmp_path, answers(("Zoë", 12)), context="Cafe\u0301 owner: Zoë.")
    assert shifted.answers == (("Zoë", 13),)


def test_28_window_without_the_complete_answer_has_the_null_target():
    example = question(CONTEXT, "Saint-Denis")
    for kind in KINDS:
        limits = Limits(max_tokens=40, stride=2, max_question_tokens=3)
        features = encode([example], make_tokenizer(kind), limits)
        places = targets(features, [example], TASK)
        whole = ["Saint-Denis" in text for text in window_texts(features, CONTEXT)]
        points_at_null = (places == features.nulls[:, None]).all(1)
        assert points_at_null.tolist() == [not is_whole for is_whole in whole]
        assert 1 < sum(whole) < len(whole)


def test_28_unanswerable_question_has_the_cls_token_as_target():
    for kind in KINDS:
        tokenizer = make_tokenizer(kind)
        features = encode([question("A storm.")], tokenizer, Limits(max_tokens=64))
        (places,) = targets(features, [question("A storm.")], TASK)
        assert features.token_ids[places].tolist() == [tokenizer.cls_token_id] * 2


@pytest.mark.parametrize("answer", [("storm", 3), ("storm", -1), ("storm", 99), ("", 0)])
def test_28_training_target_with_a_wrong_answer_offset_is_an_error(answer: tuple[str, int]):
    example = SpanExample(id="7", question="?", context="A storm.", answers=(answer,))
    features = encode([example], make_tokenizer("bytes"), Limits(max_tokens=64))
    with pytest.raises(DataError, match=rf"7: the answer '{answer[0]}' should begin"):
        targets(features, [example], TASK)
