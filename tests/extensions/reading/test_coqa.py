"""CoQA's scores equal those of the official script, reimplemented; answers as spans."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.extensions.reading.files import write_conversations
from benchharness.extensions.reading.metrics import COQA_F1, COQA_SCRIPT
from benchharness.extensions.reading.tasks import COQA, COQA_LEAD, best_stretch, coqa
from benchharness.extensions.submission.prediction_files import read_predictions
from benchharness.tasks.examples import SpanExample, SpanPrediction
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import Data
from tests.helpers import reading_oracle
from tests.helpers.official_files import write_file
from tests.helpers.scripts import printed

WORDS = ("the", "red", "barn", "a", "storm", "old", "Tower", "yes", "no.", "unknown")
STORY = "Anna sold five red barns at the market. It was on Monday, in the rain."


FORMS = (*[int] * 12, float, str, lambda turn: turn == 1 or turn, lambda turn: turn + 0.5)
"""The script looks up turns in a dict: 1.0 and True equal 1, but "1" does not."""


def drawn_text(draw: random.Random) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(0, 3)))


def drawn_story(draw: random.Random, number: int, domains: dict[str, str]) -> dict[str, Any]:
    turns = draw.randint(1, 4)

    def answers() -> list[dict[str, Any]]:
        return [
            {"input_text": drawn_text(draw), "span_start": 0, "span_end": 9, "turn_id": turn}
            for turn in range(1, turns + 1)
        ]

    return {
        "id": f"s{number}",
        "source": draw.choice(list(domains)),
        "story": STORY,
        "questions": [{"input_text": "Who?", "turn_id": turn} for turn in range(1, turns + 1)],
        "answers": answers(),
        "additional_answers": {name: answers() for name in ("0", "1", "2")[: draw.randint(0, 3)]},
    }


def drawn_lines(draw: random.Random, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for story in data:
        for number, question in enumerate(story["questions"]):
            gold = story["answers"][number]["input_text"]
            answer = draw.choice((gold, drawn_text(draw)))
            turn = draw.choice(FORMS)(question["turn_id"])
            line = {"id": story["id"], "turn_id": turn, "answer": answer}
            if draw.random() < 0.9:
                lines.append(line)
    return lines


def asked(data: list[dict[str, Any]]) -> set[tuple[str, int]]:
    return {(story["id"], question["turn_id"]) for story in data for question in story["questions"]}


def read_coqa(folder: Path, data: list[dict[str, Any]], split: str = "dev") -> SplitRows:
    found = write_file(folder, f"coqa/coqa-{split}-v1.0.json", json.dumps({"data": data}))
    return read(COQA, split, found)


@pytest.mark.parametrize("sets", [200, pytest.param(1_000, marks=pytest.mark.soak)])
def test_coqa_scores_of_random_predictions_equal_the_official_script(
    sets: int, tmp_path: Path
) -> None:
    draw = random.Random("coqa")
    domains = reading_oracle.IN_DOMAIN | reading_oracle.OUT_OF_DOMAIN
    for _ in range(sets):
        data = [drawn_story(draw, number, domains) for number in range(draw.randint(1, 4))]
        lines = drawn_lines(draw, data)
        rows = read_coqa(tmp_path, data)
        (tmp_path / "said.json").write_text(json.dumps(lines))
        if not {(line["id"], line["turn_id"]) for line in lines} & asked(data):
            with pytest.raises(DataError, match="none of its"):
                read_predictions(tmp_path / "said.json", COQA, rows)
            continue
        said = read_predictions(tmp_path / "said.json", COQA, rows)
        predictions = [p for p in said.predictions if isinstance(p, SpanPrediction)]
        odd = any(isinstance(line["turn_id"], str) for line in lines)
        assert not odd or any("such as" in note for note in said.notes)
        examples = [row for row in rows.examples if isinstance(row, SpanExample)]
        expected = reading_oracle.coqa(data, lines)
        found = printed(COQA_SCRIPT, predictions, examples)
        here = {name: values for name, values in expected.items() if values["turns"]}
        assert found == {
            f"{name} {key}": values[key] for name, values in here.items() for key in ("em", "f1")
        }
        f1 = COQA_F1.compute(predictions, examples)
        assert f1 is not None
        assert 100 * f1 == pytest.approx(expected["overall"]["f1"], abs=0.0501)


@pytest.mark.parametrize(
    ("answer", "learned"),
    [
        ("Five", "five"),
        ("by Anna, who sold", "Anna sold"),
        ("monday", "Monday"),
        ("in the rain", "in the rain"),
        ("elephants", STORY.rstrip(".")),
    ],
)
def test_coqa_target_is_the_evidence_span_with_the_best_f1(answer: str, learned: str) -> None:
    start, end = best_stretch(STORY, 0, len(STORY), answer)
    assert STORY[start:end] == learned


def story(*answers: dict[str, Any], **other: Any) -> dict[str, Any]:
    questions = [{"input_text": f"Q{n}?", "turn_id": n} for n in range(1, len(answers) + 1)]
    rows = [{**answer, "turn_id": n} for n, answer in enumerate(answers, start=1)]
    found = {"id": "s", "source": "cnn", "story": STORY, "questions": questions, "answers": rows}
    return found | other


def answer(text: str, start: int = 0, end: int = 40) -> dict[str, Any]:
    return {"input_text": text, "span_start": start, "span_end": end}


def test_coqa_context_begins_with_yes_no_and_unknown_as_answer_spans(tmp_path: Path) -> None:
    data = [story(answer("Yes."), answer("no"), answer("unknown", -1, -1), answer("Anna"))]
    rows = [row for row in read_coqa(tmp_path, data).examples if isinstance(row, SpanExample)]
    spans = [row.context[slice(*row.span)] for row in rows if row.span]
    assert spans == ["yes", "no", "unknown", "Anna"]
    assert {row.context for row in rows} == {f"{COQA_LEAD}\n{STORY}"}
    assert [bool(row.evidence) for row in rows] == [True, True, False, True]
    assert rows[3].question == "Q4? | Q3? unknown | Q2? no"
    assert rows[3].categories == ("news",)


def test_coqa_training_question_without_evidence_is_skipped_and_counted(tmp_path: Path) -> None:
    rows = read_coqa(tmp_path, [story(answer("Bob", -1, -1), answer("Anna"))], "train")
    assert (len(rows.examples), rows.left_out) == (1, 1)


def test_coqa_question_has_no_history_with_zero_turns() -> None:
    rows = read(coqa(0), "dev", Data(source="mini")).examples
    assert not any("|" in row.question for row in rows if isinstance(row, SpanExample))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            story(
                answer("a"),
                answer("b"),
                questions=[
                    {"input_text": "Q?", "turn_id": 2},
                    {"input_text": "R?", "turn_id": 1},
                ],
            ),
            "the conversation s has the turns 2, 1 and answers to the turns 1, 2; both must be 1",
        ),
        (story(answer("a"), source="radio"), "its source is 'radio', but expected one of mctest"),
        (
            story(answer("a"), additional_answers={"0": [answer("b"), answer("c")]}),
            "the conversation s has a question without an answer",
        ),
    ],
)
def test_invalid_coqa_conversations_are_an_error(
    tmp_path: Path, data: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        read_coqa(tmp_path, [data])


def test_written_coqa_prediction_file_is_read_back_equal(tmp_path: Path) -> None:
    rows = read(COQA, "dev", Data(source="mini"))
    guesses = [
        SpanPrediction(id=row.id, text=row.context.split()[place % 5])
        for place, row in enumerate(rows.examples)
        if isinstance(row, SpanExample)
    ]
    path = tmp_path / "predictions.json"
    path.write_bytes(write_conversations("coqa", guesses))
    assert list(read_predictions(path, COQA, rows).predictions) == guesses
    path.write_text(json.dumps(json.loads(path.read_text())[3:]))
    assert read_predictions(path, COQA, rows).missing == 3
    path.write_text('[{"id": "a"}]')
    with pytest.raises(DataError, match="cannot be read as CoQA's list of"):
        read_predictions(path, COQA, rows)
