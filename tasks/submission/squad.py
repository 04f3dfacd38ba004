"""SQuAD's files: predictions.json, {question id: text}, and na_prob.json, {question id: number}.

The server (CodaLab, evaluate-v1.1.py and evaluate-v2.0.py) gets predictions.json alone, so the
no-answer threshold is applied before it is written: "" is "no answer".
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence, Set
from typing import Any

from benchharness.tasks.examples import SpanPrediction
from benchharness.tasks.submission.answer_file import Faults, Reading, conclude, decoded

QUESTIONS = {
    10_570: "1.1 dev",
    9_533: "1.1 test",
    11_873: "2.0 dev",
    8_862: "2.0 test",
}
"""How many questions each set has (Rajpurkar et al., 2018, table 2)."""

UNANSWERABLE = (11_873, 8_862)
"""The sets in which about half of the questions have no answer."""


def write_predictions(predictions: Sequence[SpanPrediction], threshold: float | None) -> bytes:
    """predictions.json; "" where the no-answer score exceeds the threshold (None: every text)."""
    answers = {
        p.id: p.text if threshold is None or p.no_answer_score <= threshold else ""
        for p in predictions
    }
    return rewrite_answers(list(answers.items()))


def write_no_answer_scores(predictions: Sequence[SpanPrediction]) -> bytes:
    """na_prob.json: the scores as they are, so that a swept threshold can be used as it is."""
    return rewrite_answers([(p.id, p.no_answer_score) for p in predictions])


def rewrite_answers(answers: Sequence[tuple[str, str | float]]) -> bytes:
    """Either file, for pairs of id and text or number."""
    return (json.dumps(dict(answers), allow_nan=False) + "\n").encode()


def read_answers(name: str, content: bytes, questions: Sequence[str] | None = None) -> Reading:
    """Either of the two files by anybody: pairs of id and text, or of id and number.

    `questions` are the ids that it must have; without them it must have as many as an official set.
    """
    faults = Faults(name)
    text = decoded(content, faults)
    pairs = None if text is None else _pairs(text, faults)
    if not pairs:
        faults.add("it holds no answers")
        return conclude(None, faults)
    # By the file's name, or because most values are numbers.
    values = [value for _, value in pairs]
    numbers = sum(isinstance(value, int | float) for value in values)
    is_scores = "na_prob" in name or "null_odds" in name or numbers * 2 > len(values)
    read: Callable[[str, Any, Faults], str | float] = _score if is_scores else _text
    answers = [(question, read(question, value, faults)) for question, value in pairs]
    found = Counter(question for question, _ in answers)
    for question, times in found.items():
        if times > 1:
            faults.add(f"the question {question} stands there {times} times")
    if questions is not None:
        _compare(found.keys(), questions, faults)
        return conclude(answers, faults)
    if len(found) not in QUESTIONS:
        sets = ", ".join(f"{count} ({name})" for count, name in QUESTIONS.items())
        faults.add(f"it has {len(found)} questions, expected {sets}")
    if not is_scores and len(answers) in UNANSWERABLE and all(text for _, text in answers):
        faults.add('no answer is "": the server gets no na_prob.json, so apply the threshold')
    return conclude(list(dict(answers).items()), faults)


def _pairs(text: str, faults: Faults) -> list[tuple[str, Any]] | None:
    """Ids and values, also of one id twice; None where it is not a JSON object."""
    try:
        found = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError) as error:
        faults.add(f"it is not JSON: {error}")
        return None
    if isinstance(found, tuple):
        return [(key, value) for key, value in found]
    rows = [dict(row) for row in found] if _is_list_of_objects(found) else []
    if rows and all({"id", "prediction_text"} <= row.keys() for row in rows):
        faults.add("it is a list of id and prediction_text, expected {id: text}", mendable=True)
        return [(str(row["id"]), row["prediction_text"]) for row in rows]
    faults.add(f"it is JSON, but not an object: found {type(found).__name__}")
    return None


def _is_list_of_objects(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(row, tuple) for row in found)


def _text(question: str, value: Any, faults: Faults) -> str:
    if isinstance(value, str):
        return value
    kinds = {list: "a list (n best answers?)", tuple: "an object", type(None): "null"}
    faults.add(f"the answer to {question} is {kinds.get(type(value), repr(value))}, expected text")
    return ""


def _score(question: str, value: Any, faults: Faults) -> float:
    if not _is_number(value):
        faults.add(f"the score of {question} is {value!r}, expected a number")
        return 0.0
    if isinstance(value, str):
        faults.add("the scores are quoted, expected numbers", mendable=True)
    return float(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return math.isfinite(float(value))
    except (ValueError, OverflowError):
        return False


def _compare(found: Set[str], questions: Sequence[str], faults: Faults) -> None:
    """Answers to other questions do no harm, as in the official scripts; a missing one does."""
    missing = [question for question in questions if question not in found]
    if missing:
        faults.add(
            f"{len(missing)} of {len(questions)} questions are missing, such as {missing[0]}"
        )
    others = len(found - set(questions))
    if others:
        faults.add(f"{others} of its answers are to other questions", mendable=True)
