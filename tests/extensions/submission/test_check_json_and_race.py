"""Faults of SQuAD's JSON files and of RACE's table."""

import json
from pathlib import Path

import pytest

from benchharness.errors import BenchError
from benchharness.extensions.submission.inspection import check, repair
from benchharness.extensions.submission.questions import write_no_answer_scores, write_predictions
from benchharness.extensions.submission.table import write_race
from benchharness.tasks.examples import ChoicePrediction, SpanPrediction

QUESTIONS = [f"{number:024x}" for number in range(11_873)]
SPANS = [
    SpanPrediction(id=question, text=f"text {number}", no_answer_score=number % 7 - 3.0)
    for number, question in enumerate(QUESTIONS)
]
ANSWERS = {p.id: "" if p.no_answer_score > 0 else p.text for p in SPANS}
SCORES = {p.id: p.no_answer_score for p in SPANS}


def put(tmp_path: Path, content: object, name: str = "predictions.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_squad_predictions_are_written_with_the_threshold_applied(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    path.write_bytes(write_predictions(SPANS, 0.0))
    assert json.loads(path.read_text()) == ANSWERS
    assert check(path) == ()


def test_written_squad_answers_depend_on_the_threshold() -> None:
    found = json.loads(write_predictions(SPANS, -2.0))
    assert [q for q, text in found.items() if text] == [
        p.id for p in SPANS if p.no_answer_score <= -2.0
    ]
    assert all(json.loads(write_predictions(SPANS, None)).values())


def test_squad_no_answer_scores_are_written_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "na_prob.json"
    path.write_bytes(write_no_answer_scores(SPANS))
    assert json.loads(path.read_text()) == SCORES
    assert check(path) == ()


def test_unicode_text_is_written_unchanged() -> None:
    spans = [SpanPrediction(id="q", text='Zo\u00eb "\U0001f600"')]
    assert json.loads(write_predictions(spans, None)) == {"q": 'Zo\u00eb "\U0001f600"'}


def twice(answers: dict[str, str]) -> str:
    """Repeat one question in the JSON object."""
    return json.dumps(answers)[:-1] + f', "{QUESTIONS[0]}": "other"}}'


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "it is not JSON"),
        ("[1, 2]", "it is JSON, but not an object"),
        ("{}", "it contains no answers"),
        (ANSWERS | {QUESTIONS[0]: None}, "is null, expected a text"),
        (ANSWERS | {QUESTIONS[0]: ["a", "b"]}, "is a list (of the n best answers?)"),
        (ANSWERS | {QUESTIONS[0]: {"text": "a"}}, "is an object"),
        (ANSWERS | {QUESTIONS[0]: 1999}, "is 1999, expected a text"),
        (twice(ANSWERS), "occurs 2 times"),
        (
            ANSWERS | {"one too many": "x"},
            "it has 11874 questions, expected one of 10570 (1.1 dev)",
        ),
        ({p.id: p.text for p in SPANS}, "apply the threshold"),
        (SCORES | {QUESTIONS[0]: "high"}, "is 'high', expected a number"),
        (SCORES | {QUESTIONS[0]: True}, "is True, expected a number"),
        # The number is too large for a float.
        (SCORES | {QUESTIONS[0]: 10**400}, "expected a number"),
        (SCORES | {QUESTIONS[0]: str(-(10**400))}, "expected a number"),
        (json.dumps(SCORES | {QUESTIONS[0]: float("nan")}), "is nan, expected a number"),
    ],
)
def test_ambiguous_squad_error_is_found_but_not_repaired(
    content: object, sentence: str, tmp_path: Path
) -> None:
    path = put(tmp_path, content)
    assert any(sentence in str(fault) and not fault.mendable for fault in check(path))
    with pytest.raises(BenchError, match="cannot be repaired"):
        repair(path, tmp_path / "out.json")


def test_answer_list_in_the_format_of_evaluate_is_repaired(tmp_path: Path) -> None:
    rows = [{"id": q, "prediction_text": text} for q, text in ANSWERS.items()]
    path = put(tmp_path, rows)
    (fault,) = check(path)
    assert "a list of id and prediction_text" in str(fault)
    repair(path, tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == ANSWERS


def listed(**more: object) -> list[dict[str, object]]:
    return [{"id": q, "prediction_text": text, **more} for q, text in ANSWERS.items()]


def test_no_answer_probabilities_in_an_answer_list_cannot_be_repaired(tmp_path: Path) -> None:
    path = put(tmp_path, listed(no_answer_probability=0.5))
    _, fault = check(path)
    assert "it has a no_answer_probability for each answer" in str(fault)
    with pytest.raises(BenchError, match="cannot be repaired"):
        repair(path, tmp_path / "out.json")


def test_unknown_key_in_an_answer_list_is_reported(tmp_path: Path) -> None:
    _, fault = check(put(tmp_path, listed(start_logit=1.0)))
    assert "'start_logit'" in fault.sentence


def test_repeated_key_in_an_answer_list_is_reported(tmp_path: Path) -> None:
    text = json.dumps(listed()).replace('{"id"', '{"prediction_text": "x", "id"', 1)
    assert any("has one key twice" in str(fault) for fault in check(put(tmp_path, text)))


def test_errors_of_the_same_kind_are_reported_once(tmp_path: Path) -> None:
    nulls = ANSWERS | dict.fromkeys(QUESTIONS[:300])
    (fault,) = check(put(tmp_path, nulls))
    assert f"{QUESTIONS[0]} is null, expected a text" in fault.sentence


@pytest.mark.parametrize("name", ["answers.json", "na_prob.json", "null_odds.json"])
def test_squad_answers_and_no_answer_scores_are_distinguished_by_value(
    name: str, tmp_path: Path
) -> None:
    assert check(put(tmp_path, ANSWERS, name)) == check(put(tmp_path, SCORES, name)) == ()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_wrong_encoding_is_reported_as_one_error(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    path.write_bytes(json.dumps(ANSWERS).encode(encoding))
    (fault,) = check(path)
    assert "it is not UTF-8 text but UTF-16" in str(fault)


def test_quoted_no_answer_scores_are_repaired(tmp_path: Path) -> None:
    path = put(tmp_path, {q: str(score) for q, score in SCORES.items()}, "null_odds.json")
    (fault,) = check(path)
    assert "quoted, expected numbers" in fault.sentence
    repair(path, tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == SCORES


# RACE

RACE = [
    ChoicePrediction(id=f"{level}{number}/0", option=number % 4)
    for level, count in {"middle": 1436, "high": 3498}.items()
    for number in range(count)
]


def test_race_file_has_an_id_and_a_letter_per_line() -> None:
    lines = write_race(RACE).decode().splitlines()
    assert lines[:3] == ["id\tanswer", "middle0/0\tA", "middle1/0\tB"]


def test_race_prediction_that_is_not_an_option_gets_the_first_letter() -> None:
    invalid = ChoicePrediction(id="middle0/0", option=-1, text="none of them")
    assert write_race([invalid, *RACE[1:]]).decode().splitlines()[1] == "middle0/0\tA"


def test_incomplete_race_predictions_are_an_error() -> None:
    with pytest.raises(BenchError, match="has 4934 questions, but got 10 predictions"):
        write_race(RACE[:10])
