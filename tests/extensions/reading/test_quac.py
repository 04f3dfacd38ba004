"""QuAC's scores equal those of the official script, reimplemented, and manual examples."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from benchharness.errors import DataError
from benchharness.extensions.reading.files import write_conversations
from benchharness.extensions.reading.metrics import QUAC_DETAILS, QUAC_F1, QUAC_SCRIPT
from benchharness.extensions.reading.tasks import QUAC, quac, with_history
from benchharness.extensions.submission.prediction_files import read_predictions
from benchharness.tasks.examples import SpanExample, SpanPrediction
from benchharness.tasks.read import SplitRows, read
from benchharness.tasks.sources import Data
from benchharness.tasks.task import score
from tests.helpers import reading_oracle
from tests.helpers.official_files import write_file
from tests.helpers.scripts import printed

WORDS = ("the", "red", "barn", "a", "storm", "old", "Tower", "of", "1912.", "no")


def drawn_text(draw: random.Random) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(draw.randint(0, 4)))


def drawn_data(draw: random.Random) -> list[dict[str, Any]]:
    dialogs = []
    for number in range(draw.randint(1, 4)):
        qas = []
        for turn in range(draw.randint(1, 4)):
            texts = [drawn_text(draw) or "barn" for _ in range(draw.randint(1, 5))]
            texts = ["CANNOTANSWER" if draw.random() < 0.3 else text for text in texts]
            qas.append(
                {
                    "id": f"C_{number}_q#{turn}",
                    "question": "Who?",
                    "answers": [{"text": text, "answer_start": 0} for text in texts],
                    "yesno": draw.choice("ynx"),
                    "followup": draw.choice("ynm"),
                }
            )
        dialogs.append({"id": f"C_{number}", "context": "A CANNOTANSWER", "qas": qas})
    return [{"title": "T", "paragraphs": dialogs}]


def drawn_lines(draw: random.Random, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for dialog in data[0]["paragraphs"]:
        kept = [q for q in dialog["qas"] if draw.random() < 0.9]
        golds = [draw.choice(q["answers"])["text"] for q in kept]
        guesses = [draw.choice((g, drawn_text(draw), "CANNOTANSWER")) for g in golds]
        lines.append(
            {
                "qid": [q["id"] for q in kept],
                "best_span_str": guesses,
                "yesno": [draw.choice("ynx") for _ in kept],
                "followup": [draw.choice("ynm") for _ in kept],
            }
        )
    return lines


def read_quac(folder: Path, data: list[dict[str, Any]], split: str = "dev") -> SplitRows:
    name = {"dev": "val", "train": "train"}[split]
    found = write_file(folder, f"quac/{name}_v0.2.json", json.dumps({"data": data}))
    return read(QUAC, split, found)


@pytest.mark.parametrize("sets", [200, pytest.param(1_000, marks=pytest.mark.soak)])
def test_quac_scores_of_random_predictions_equal_the_official_script(
    sets: int, tmp_path: Path
) -> None:
    draw = random.Random("quac")
    keys = set()
    for number in range(sets):
        data = drawn_data(draw)
        lines = drawn_lines(draw, data)
        if not any(line["qid"] for line in lines):
            continue
        rows = read_quac(tmp_path, data) if number % 50 == 0 else None
        examples = examples_of(data) if rows is None else rows.examples
        if rows is not None:  # reading from files gives the same examples as creating them directly
            assert list(rows.examples) == examples_of(data)
        predictions = predictions_of(lines, examples)
        expected = reading_oracle.quac(data, lines)
        found = printed(QUAC_SCRIPT, predictions, examples)
        assert found == {key: pytest.approx(value, abs=1e-9) for key, value in expected.items()}
        keys |= set(found)
    assert len(keys) == 7


def examples_of(data: list[dict[str, Any]]) -> list[SpanExample]:
    source = QUAC.source
    assert source.arrange is not None
    rows = []
    for dialog in data[0]["paragraphs"]:
        qas = dialog["qas"]
        rows.append(
            {
                "dialogue_id": dialog["id"],
                "wikipedia_page_title": "T",
                "context": dialog["context"],
                "turn_ids": [q["id"] for q in qas],
                "questions": [q["question"] for q in qas],
                "followups": [q["followup"] for q in qas],
                "yesnos": [q["yesno"] for q in qas],
                "answers.texts": [[a["text"] for a in q["answers"]] for q in qas],
                "answers.answer_starts": [[0] * len(q["answers"]) for q in qas],
            }
        )
    return [QUAC.convert(row) for row in source.arrange(rows)]


def predictions_of(lines: list[dict[str, Any]], examples: Any) -> list[SpanPrediction]:
    said = {
        name: (span, classes)
        for line in lines
        for name, span, *classes in zip(
            line["qid"], line["best_span_str"], line["yesno"], line["followup"], strict=True
        )
    }
    found = []
    for example in examples:
        span, classes = said.get(example.id, ("", ()))
        none = span == "CANNOTANSWER"
        found.append(
            SpanPrediction(
                id=example.id,
                text="" if none else span,
                no_answer_score=float(none),
                missing=example.id not in said,
                classes=tuple(classes),
            )
        )
    return found


def example(*answers: str, turn: int = 0) -> SpanExample:
    return SpanExample(
        id=f"C_q#{turn}",
        question="?",
        context="",
        answers=tuple((answer, -1) for answer in answers),
        group="C",
        classes=("y", "n"),
    )


def test_quac_human_f1_compares_each_reference_answer_with_the_others() -> None:
    """F1 is the mean over leaving out each answer in turn: (1 + 1 + 0.5) / 3 if one is right."""
    gold = example("red barn", "red barn", "barn of stone and old wood")
    guess = SpanPrediction(id="C_q#0", text="red barn", no_answer_score=-1, classes=("y", "m"))
    assert QUAC_F1.compute([guess], [gold]) == 1.0
    details = {metric.name: metric.compute([guess], [gold]) for metric in QUAC_DETAILS}
    assert (details["heq_q"], details["heq_d"]) == (1, 1)
    assert (details["yes_no"], details["followup"], details["unanswerable"]) == (1, 0, None)


def test_quac_f1_excludes_questions_with_disagreeing_annotators() -> None:
    split = example("red barn", "old tower")
    guess = SpanPrediction(id="C_q#0", text="red barn", no_answer_score=-1, classes=("y", "n"))
    assert QUAC_F1.compute([guess], [split]) is None
    found = {metric.name: metric.compute([guess], [split]) for metric in QUAC_DETAILS}
    assert found["f1_all"] == 0.5
    assert found["heq_d"] == 1


def test_quac_history_follows_the_question_with_the_newest_turn_first() -> None:
    before = ("Who?", "When?", "Where?")
    assert with_history("Why?", before, 2) == "Why? | Where? | When?"
    assert with_history("Why?", before, 0) == "Why?"
    assert with_history("Why?", before, 9) == "Why? | Where? | When? | Who?"
    rows = read(quac(0), "dev", Data(source="mini")).examples
    assert not any("|" in row.question for row in rows if isinstance(row, SpanExample))


def test_quac_turns_out_of_order_are_an_error(tmp_path: Path) -> None:
    data = drawn_data(random.Random(4))
    dialog = max(data[0]["paragraphs"], key=lambda found: len(found["qas"]))
    dialog["qas"].reverse()
    with pytest.raises(DataError, match=r"'C_\d_q#\d' follows q#\d"):
        read_quac(tmp_path, data)


def test_quac_context_excludes_the_cannotanswer_marker(tmp_path: Path) -> None:
    found = read_quac(tmp_path, drawn_data(random.Random(1))).examples
    assert {row.context for row in found if isinstance(row, SpanExample)} == {"A"}


def test_written_quac_prediction_file_is_read_back_equal(tmp_path: Path) -> None:
    rows = read(QUAC, "dev", Data(source="mini"))
    draw = random.Random("file")
    guesses = [
        SpanPrediction(
            id=row.id,
            text=draw.choice(row.context.split()) if draw.random() < 0.7 else "",
            classes=(draw.choice("ynx"), draw.choice("ynm")),
        )
        for row in rows.examples
        if isinstance(row, SpanExample)
    ]
    guesses = [
        SpanPrediction(**{**vars(guess), "no_answer_score": float(not guess.text)})
        for guess in guesses
    ]
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(write_conversations("quac", guesses))
    found = read_predictions(path, QUAC, rows)
    assert list(found.predictions) == guesses
    assert found.missing == 0
    assert score(QUAC, "dev", found.predictions, rows.examples)["f1"] < 0.5
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[1:]))
    assert read_predictions(path, QUAC, rows).missing == 5
    path.write_text('{"qid": ["a"]}')
    with pytest.raises(DataError, match="cannot be read as QuAC's lines of"):
        read_predictions(path, QUAC, rows)
