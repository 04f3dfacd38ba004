"""SQuAD's files: predictions.json, {question id: text}, and na_prob.json, {question id: number}.

The server (CodaLab, evaluate-v1.1.py and evaluate-v2.0.py) gets predictions.json alone, so the
no-answer threshold is applied before it is written: "" is "no answer".
"""

import json
import math
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

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
    """predictions.json; "" where the no-answer score exceeds the threshold (None: every text).

    Questions that a file left out are left out.
    """
    answers = {
        p.id: p.text if threshold is None or p.no_answer_score <= threshold else ""
        for p in predictions
        if not p.missing
    }
    return rewrite_answers(list(answers.items()))


def write_no_answer_scores(predictions: Sequence[SpanPrediction]) -> bytes:
    """na_prob.json: the scores as they are, so that a swept threshold can be used as it is."""
    return rewrite_answers([(p.id, p.no_answer_score) for p in predictions])


def rewrite_answers(answers: Sequence[tuple[str, str | float]]) -> bytes:
    """Either file, for pairs of id and text or number."""
    return (json.dumps(dict(answers), allow_nan=False) + "\n").encode()


@dataclass(frozen=True, kw_only=True)
class SquadReading(Reading):
    """`answers` are pairs of id and text, or of id and number.

    `no_answer_scores` are pairs of id and number where a list of answers has both, else None.
    """

    no_answer_scores: Sequence[tuple[str, float]] | None = None


Kind = Literal["texts", "scores"]


def read_answers(
    name: str,
    content: bytes,
    questions: Sequence[str] | None = None,
    *,
    kind: Kind | None = None,
    missing_are_wrong: bool = False,
) -> SquadReading:
    """Either of the two files by anybody.

    `questions` are the ids that it must have; without them it must have as many as an official set.
    `kind` is what the file should hold; without it what it does hold is told by its values. With
    `missing_are_wrong` questions may be left out, as for evaluate-v1.1.py, but not all of them.
    """
    faults = Faults(name)
    text = decoded(content, faults)
    table = None if text is None else _table(text, faults)
    if table is None:
        return SquadReading(answers=None, faults=faults.all())
    found = kind or _kind(table.pairs)
    answers = [(question, _value(question, each, found, faults)) for question, each in table.pairs]
    scores = table.scores and [(q, _value(q, each, "scores", faults)) for q, each in table.scores]
    ids = Counter(question for question, _ in answers)
    for question, times in ids.items():
        if times > 1:
            faults.add(f"the question {question} stands there {times} times", kind="doubles")
    if questions is not None:
        _compare(ids.keys(), questions, faults, missing_are_wrong=missing_are_wrong)
    else:
        _check_official(answers, len(ids), scores, faults)
    reading = conclude(list(dict(answers).items()), faults)
    return SquadReading(answers=reading.answers, faults=reading.faults, no_answer_scores=scores)


def _check_official(
    answers: Sequence[tuple[str, Any]], count: int, scores: Any, faults: Faults
) -> None:
    """What a server would refuse, or would not get to see."""
    if count not in QUESTIONS:
        sets = ", ".join(f"{number} ({name})" for number, name in QUESTIONS.items())
        faults.add(f"it has {count} questions, expected {sets}")
    if scores is not None:
        faults.add(
            "it has a no_answer_probability for each answer: the server gets texts alone, so "
            "apply the threshold"
        )
    elif len(answers) in UNANSWERABLE and all(isinstance(t, str) and t for _, t in answers):
        faults.add('no answer is "": the server gets no na_prob.json, so apply the threshold')


# What the values are: texts, or numbers, which may be quoted.


def _kind(pairs: Sequence[tuple[str, Any]]) -> Kind:
    """What most values are."""
    return "scores" if 2 * sum(_is_number(value) for _, value in pairs) > len(pairs) else "texts"


_NAMES = {list: "a list (n best answers?)", tuple: "an object", type(None): "null"}


def _value(question: str, value: Any, kind: Kind, faults: Faults) -> Any:
    """A text, or a number; a fault where it is neither."""
    if kind == "texts" and isinstance(value, str):
        return value
    if kind == "scores" and _is_number(value):
        if isinstance(value, str):
            faults.add("the scores are quoted, expected numbers", mendable=True)
        return float(value)
    what = _NAMES.get(type(value), f"{value!r:.40}")
    of, expected = ("answer to", "text") if kind == "texts" else ("score of", "a number")
    sentence = f"the {of} {question} is {what}, expected {expected}"
    faults.add(sentence, kind=f"the {of} a question is a {type(value).__name__}")
    return "" if kind == "texts" else 0.0


class _Table(NamedTuple):
    """Ids and values, also of one id twice; and the scores beside them, if there are any."""

    pairs: list[tuple[str, Any]]
    scores: list[tuple[str, Any]] | None = None


def _table(text: str, faults: Faults) -> _Table | None:
    """What the file holds; None, and one fault, where that is nothing of the kind."""
    try:
        found = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError) as error:
        faults.add(f"it is not JSON: {error}")
        return None
    if isinstance(found, tuple):
        if not found:
            faults.add("it holds no answers")
        return _Table([(key, value) for key, value in found]) if found else None
    rows = [dict(row) for row in found] if _is_list_of_objects(found) else []
    if not rows or not all({"id", "prediction_text"} <= row.keys() for row in rows):
        faults.add(f"it is JSON, but not an object: found {type(found).__name__}")
        return None
    faults.add("it is a list of id and prediction_text, expected {id: text}", mendable=True)
    return _listed(found, rows, faults)


PROBABILITY = "no_answer_probability"
"""What the hub's metric squad_v2 takes with each answer."""


def _listed(
    found: Sequence[tuple[tuple[str, Any], ...]], rows: Sequence[dict[str, Any]], faults: Faults
) -> _Table:
    """The rows of a list, as the hub's metrics take them."""
    if any(len(row) < len(pairs) for row, pairs in zip(rows, found, strict=True)):
        faults.add("an object of its list has one key twice")
    others = {key for row in rows for key in row} - {"id", "prediction_text", PROBABILITY}
    if others:
        names = ", ".join(sorted(map(repr, others)))
        faults.add(f"its list has {names} too, which nothing reads", mendable=True)
    pairs = [(str(row["id"]), row["prediction_text"]) for row in rows]
    having = [row for row in rows if PROBABILITY in row]
    if having and len(having) < len(rows):
        faults.add(f"{len(rows) - len(having)} of its {len(rows)} answers have no {PROBABILITY}")
    return _Table(pairs, [(str(row["id"]), row[PROBABILITY]) for row in having] or None)


def _is_list_of_objects(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(row, tuple) for row in found)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return math.isfinite(float(value))
    except (ValueError, OverflowError):
        return False


def _compare(
    found: Set[str], questions: Sequence[str], faults: Faults, *, missing_are_wrong: bool
) -> None:
    """Answers to other questions do no harm, as in the official scripts; a missing one may."""
    missing = [question for question in questions if question not in found]
    if len(missing) == len(questions):
        faults.add(f"none of its {len(found)} answers is to one of the {len(questions)} questions")
    elif missing:
        verb = "is" if len(missing) == 1 else "are"
        faults.add(
            f"{len(missing)} of {len(questions)} questions {verb} missing, such as {missing[0]}"
            + (": each counts as wrong, as in evaluate-v1.1.py" if missing_are_wrong else ""),
            mendable=missing_are_wrong,
        )
    others = len(found - set(questions))
    if others and len(missing) < len(questions):
        faults.add(f"{others} of its answers are to other questions", mendable=True)
