"""HotpotQA's scores equal those of the official script, reimplemented; paragraphs as context."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.extensions.reading.files import write_conversations
from benchharness.extensions.reading.metrics import HOTPOTQA_SCRIPT
from benchharness.extensions.reading.tasks import HOTPOT
from benchharness.extensions.submission.prediction_files import read_predictions
from benchharness.tasks.examples import SpanExample, SpanPrediction, fact_names
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import Data
from tests.helpers import reading_oracle
from tests.helpers.official_files import write_file
from tests.helpers.scripts import printed

WORDS = ("the", "red", "barn", "a", "old", "yes", "no.", "Tower", "noanswer")
TITLES = ("Barns", "Towers", "A storm")

FORMS = (*[int] * 9, float, str, bool, lambda number: number + 0.5)
"""The script compares numbers as Python does: 1.0 and True equal 1, but "1" does not."""


def drawn_text(draw: random.Random) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(0, 3)))


def drawn_question(draw: random.Random, number: int) -> dict[str, Any]:
    # Sometimes two paragraphs have the same title.
    titles = draw.choice((TITLES, TITLES, (*TITLES, "Barns")))
    sentences = [[drawn_text(draw) for _ in range(draw.randint(0, 3))] for _ in titles]
    return {
        "_id": f"q{number}",
        "question": "Which?",
        "answer": drawn_text(draw) or "barn",
        "type": draw.choice(("bridge", "comparison")),
        "context": [list(pair) for pair in zip(titles, sentences, strict=True)],
        # Some facts refer to a sentence that does not exist, as in the official files.
        "supporting_facts": [[draw.choice(TITLES), draw.randrange(4)], [draw.choice(TITLES), 0]],
    }


def drawn_facts(draw: random.Random) -> list[list[Any]]:
    """Draw random facts, some with a number of another type."""
    numbers = [(draw.choice(TITLES), draw.randrange(5)) for _ in range(draw.randint(0, 4))]
    return [[title, draw.choice(FORMS)(number)] for title, number in numbers]


def read_hotpot(folder: Path, data: Any, split: str = "dev") -> SplitRows:
    name = {"dev": "dev_distractor_v1", "train": "train_v1.1"}[split]
    found = write_file(folder, f"hotpotqa/hotpot_{name}.json", json.dumps(data))
    return read(HOTPOT, split, found)


@pytest.mark.parametrize("sets", [200, pytest.param(1_000, marks=pytest.mark.soak)])
def test_hotpotqa_scores_of_random_predictions_equal_the_official_script(
    sets: int, tmp_path: Path
) -> None:
    draw = random.Random("hotpotqa")
    path = tmp_path / "predictions.json"
    for _ in range(sets):
        data = [drawn_question(draw, number) for number in range(draw.randint(1, 5))]
        rows = read_hotpot(tmp_path, data)
        said = {
            "answer": {
                q["_id"]: draw.choice((q["answer"], drawn_text(draw)))
                for place, q in enumerate(data)
                if not place or draw.random() < 0.9
            },
            "sp": {
                q["_id"]: draw.choice((q["supporting_facts"], drawn_facts(draw)))
                for q in data
                if draw.random() < 0.9
            },
        }
        path.write_text(json.dumps(said))
        found = read_predictions(path, HOTPOT, rows)
        odd = any(isinstance(n, str) for facts in said["sp"].values() for _, n in facts)
        assert not odd or any("supporting facts" in note for note in found.notes)
        predictions = [p for p in found.predictions if isinstance(p, SpanPrediction)]
        examples = [row for row in rows.examples if isinstance(row, SpanExample)]
        expected = reading_oracle.hotpotqa(data, said)
        assert printed(HOTPOTQA_SCRIPT, predictions, examples) == {
            key: pytest.approx(value, abs=1e-9) for key, value in expected.items()
        }


QUESTION = {
    "_id": "q",
    "question": "When was it built?",
    "answer": "1912",
    "type": "bridge",
    "context": [
        ["Barns", ["A barn of 1912.", "", " It is red."]],
        ["Towers", ["The tower was built in 1912."]],
    ],
    "supporting_facts": [["Towers", 0], ["Barns", 2], ["Barns", 9]],
}


def one(folder: Path, **other: Any) -> SpanExample:
    (row,) = read_hotpot(folder, [QUESTION | other]).examples
    assert isinstance(row, SpanExample)
    return row


def test_hotpotqa_context_begins_with_yes_and_no(tmp_path: Path) -> None:
    row = one(tmp_path)
    assert row.context == (
        "yes no\nBarns\nA barn of 1912. It is red.\nTowers\nThe tower was built in 1912."
    )
    texts = [row.context[start:end] for start, end in row.sentences]
    assert texts == ["A barn of 1912.", "", "It is red.", "The tower was built in 1912."]
    assert list(fact_names(row).items()) == [
        *((0, ("Barns", 0)), (1, ("Barns", 1)), (2, ("Barns", 2)), (3, ("Towers", 0))),
        (6, ("Barns", 9)),
    ]
    assert row.facts == (2, 3, 6), "the third one names a sentence that is not there"
    assert [row.context[start:end] for start, end in row.evidence] == [texts[2], texts[3]]


def test_hotpotqa_answer_is_located_in_a_supporting_sentence(tmp_path: Path) -> None:
    (found,) = one(tmp_path).answers or ()
    assert found == ("1912", one(tmp_path).context.rindex("1912"))
    assert one(tmp_path, answer="Barns").answers == (("Barns", 7),)
    assert one(tmp_path, answer="yes").answers == (("yes", 0),)
    assert one(tmp_path, answer="no").answers == (("no", 4),)


def test_hotpotqa_training_question_without_its_answer_is_skipped(tmp_path: Path) -> None:
    data = [QUESTION, QUESTION | {"_id": "r", "answer": "in 1913"}]
    rows = read_hotpot(tmp_path, data, "train")
    assert (len(rows.examples), rows.left_out) == (1, 1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "is JSON, but not a list: found dict"),
        ([QUESTION | {"context": [["Barns"]]}], "has a context that is not a list of pairs"),
        ([{"question": "?"}], "question 0 has no '_id'"),
    ],
)
def test_invalid_hotpotqa_files_are_an_error(tmp_path: Path, data: Any, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        read_hotpot(tmp_path, data)


def test_written_hotpotqa_prediction_file_is_read_back_equal(tmp_path: Path) -> None:
    rows = read(HOTPOT, "dev", Data(source="mini"))
    examples = [row for row in rows.examples if isinstance(row, SpanExample)]
    guesses = [
        SpanPrediction(id=row.id, text=row.context.split()[place % 9], facts=(place % 4, 5))
        for place, row in enumerate(examples)
    ]
    path = tmp_path / "predictions.json"
    path.write_bytes(write_conversations("hotpotqa", guesses, examples))
    assert list(read_predictions(path, HOTPOT, rows).predictions) == guesses
    path.write_text('{"answer": {}}')
    with pytest.raises(DataError, match="cannot be read as HotpotQA's"):
        read_predictions(path, HOTPOT, rows)
