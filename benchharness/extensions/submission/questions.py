"""Read and write the prediction files of SQuAD.

SQuAD's files are predictions.json, {question id: text}, and na_prob.json, {question id: number}.
The server (CodaLab with evaluate-v1.1.py or evaluate-v2.0.py) gets only predictions.json, so the
no-answer threshold is applied when the file is written, and "" means "no answer".
"""

import json
import math
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal

from benchharness.extensions.submission.answer_file import Faults, Reading, conclude, decoded
from benchharness.leaderboard.text import are
from benchharness.tasks.examples import SpanPrediction

# Read and write SQuAD's files, predictions.json and na_prob.json.

QUESTIONS = {
    10_570: "1.1 dev",
    9_533: "1.1 test",
    11_873: "2.0 dev",
    8_862: "2.0 test",
}
"""Names of SQuAD's splits, keyed by their number of questions (Rajpurkar et al., 2018, table 2)."""

UNANSWERABLE = (11_873, 8_862)
"""Numbers of questions in the splits of SQuAD 2.0, where about half of the questions have no
answer."""


def write_predictions(predictions: Sequence[SpanPrediction], threshold: float | None) -> bytes:
    """Return the bytes of predictions.json.

    Questions that were missing in a scored file are left out.

    Args:
        predictions: Predicted answers to all questions.
        threshold: No-answer threshold. The answer is "" if the no-answer score exceeds it. If
            it is None, no answer is replaced.
    """
    answers = {
        p.id: p.text if threshold is None or p.no_answer_score <= threshold else ""
        for p in predictions
        if not p.missing
    }
    return rewrite_answers(list(answers.items()))


def write_no_answer_scores(predictions: Sequence[SpanPrediction]) -> bytes:
    """Return the bytes of na_prob.json.

    The no-answer scores are not changed, so the best threshold that the official script finds can
    be used with the stored predictions.
    """
    return rewrite_answers([(p.id, p.no_answer_score) for p in predictions])


def rewrite_answers(answers: Sequence[tuple[str, str | float]]) -> bytes:
    """Return the bytes of predictions.json or na_prob.json.

    Args:
        answers: Pairs (question id, text) for predictions.json, or pairs (question id, no-answer
            score) for na_prob.json.
    """
    return (json.dumps(dict(answers), allow_nan=False) + "\n").encode()


@dataclass(frozen=True, kw_only=True)
class SquadReading(Reading):
    """Content of predictions.json or na_prob.json.

    Attributes:
        answers: Pairs (question id, text) of predictions.json, or pairs (question id, no-answer
            score) of na_prob.json; None if the file has a problem without a clear fix.
        faults: All problems in the file.
        no_answer_scores: Pairs (question id, no-answer score) if the file is a list of objects that
            have both an answer and a score, else None.
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
    """Read predictions.json or na_prob.json, and report all problems in it.

    Args:
        name: Name of the file, for error messages.
        content: Bytes of the file.
        questions: Ids of the questions that the file must have. If it is None, the file must have
            as many questions as an official split.
        kind: Expected content of the file: "texts" for predictions.json, "scores" for na_prob.json.
            If it is None, it is inferred from the values.
        missing_are_wrong: True if some questions may be missing, as in evaluate-v1.1.py.
    """
    faults = Faults(name)
    text = decoded(content, faults)
    table = None if text is None else _table(text, faults)
    if table is None:
        return SquadReading(answers=None, faults=faults.all())
    pairs, odds = table
    numbers = sum(_is_number(value) for _, value in pairs)
    # The majority of values decides the kind, because an answer can look like a number: "1912".
    found: Kind = kind or ("scores" if 2 * numbers > len(pairs) else "texts")
    answers = [(question, _value(question, each, found, faults)) for question, each in pairs]
    scores = odds and [
        (question, _value(question, each, "scores", faults)) for question, each in odds
    ]
    ids = Counter(question for question, _ in answers)
    for question, times in ids.items():
        if times > 1:
            faults.add(f"the question {question} occurs {times} times", kind="doubles")
    if questions is not None:
        script = "evaluate-v1.1.py" if missing_are_wrong else ""
        missing = [question for question in questions if question not in ids]
        compare_ids(ids.keys(), missing, questions, faults, script)
    else:
        _check_official(answers, len(ids), scores, faults)
    reading = conclude(list(dict(answers).items()), faults)
    return SquadReading(answers=reading.answers, faults=reading.faults, no_answer_scores=scores)


def _check_official(
    answers: Sequence[tuple[str, Any]], count: int, scores: Any, faults: Faults
) -> None:
    """Report content that the server would refuse or ignore."""
    if count not in QUESTIONS:
        sets = ", ".join(f"{number} ({name})" for number, name in QUESTIONS.items())
        faults.add(f"it has {count} questions, expected one of {sets}")
    if scores is not None:
        faults.add(
            "it has a no_answer_probability for each answer, but the server reads only texts: "
            "apply the threshold, and remove the probabilities"
        )
    elif len(answers) in UNANSWERABLE and all(isinstance(t, str) and t for _, t in answers):
        faults.add(
            "every question is answered, although many have no answer: apply the threshold (write "
            '"" for a question whose no-answer score exceeds it), because the server does not read '
            "na_prob.json"
        )


# Values in the files are texts, or numbers, which may be quoted.

_NAMES = {list: "a list (of the n best answers?)", tuple: "an object", type(None): "null"}


def _value(question: str, value: Any, kind: Kind, faults: Faults) -> Any:
    """Return a value as a text or a number; report it if it cannot be converted."""
    if kind == "texts" and isinstance(value, str):
        return value
    if kind == "scores" and _is_number(value):
        if isinstance(value, str):
            faults.add("the scores are quoted, expected numbers", mendable=True)
        return float(value)
    what = _NAMES.get(type(value), f"{value!r:.40}")
    of, expected = ("answer to", "a text") if kind == "texts" else ("score of", "a number")
    sentence = f"the {of} {question} is {what}, expected {expected}"
    faults.add(sentence, kind=f"the {of} a question is a {type(value).__name__}")
    return "" if kind == "texts" else 0.0


Pairs = list[tuple[str, Any]]
"""List of pairs (question id, answer or score). An id may occur twice."""


def _table(text: str, faults: Faults) -> tuple[Pairs, Pairs | None] | None:
    """Parse a file; return its answers or scores, and the no-answer scores next to the answers.

    The second item is None if there are no scores next to the answers. If the file is malformed,
    this is reported and None is returned.
    """
    try:
        # Objects are read as tuples of pairs, because a dict would drop a repeated question.
        found = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError) as error:
        faults.add(f"it is not JSON: {error}")
        return None
    if isinstance(found, tuple) and found:
        return list(found), None
    if isinstance(found, tuple):
        faults.add("it contains no answers")
        return None
    is_list = isinstance(found, list) and all(isinstance(row, tuple) for row in found)
    rows = [dict(row) for row in found] if is_list else []
    if not rows or not all({"id", "prediction_text"} <= row.keys() for row in rows):
        faults.add(f"it is JSON, but not an object: found {type(found).__name__}")
        return None
    faults.add("it is a list of id and prediction_text, expected {id: text}", mendable=True)
    return _listed(found, rows, faults)


PROBABILITY = "no_answer_probability"
"""Key of the no-answer score next to an answer, as in the hub's metric squad_v2."""


def _listed(
    found: Sequence[Pairs], rows: Sequence[dict[str, Any]], faults: Faults
) -> tuple[Pairs, Pairs | None]:
    """Return the answers in a list of objects, and their no-answer scores or None.

    The hub's metrics for SQuAD use this format.
    """
    if any(len(row) < len(pairs) for row, pairs in zip(rows, found, strict=True)):
        faults.add("an object in its list has one key twice")
    others = {key for row in rows for key in row} - {"id", "prediction_text", PROBABILITY}
    if others:
        names = ", ".join(sorted(map(repr, others)))
        faults.add(f"the objects in its list have the unused keys {names}", mendable=True)
    pairs = [(str(row["id"]), row["prediction_text"]) for row in rows]
    having = [row for row in rows if PROBABILITY in row]
    if having and len(having) < len(rows):
        faults.add(f"{len(rows) - len(having)} of its {len(rows)} answers have no {PROBABILITY}")
    return pairs, [(str(row["id"]), row[PROBABILITY]) for row in having] or None


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return math.isfinite(float(value))
    except (ValueError, OverflowError):
        return False


def compare_ids(
    found: Set[str], missing: Sequence[str], asked: Sequence[str], faults: Faults, script: str
) -> None:
    """Report questions that have no answer in a file, and answers to unknown questions.

    Answers to unknown questions are ignored. Missing answers are tolerated if an official script
    counts them as wrong, unless no question of the split has an answer.

    Args:
        found: Ids of the questions in the file.
        missing: Ids of the questions that the file lacks.
        asked: Ids of the questions that the file must have.
        faults: Collector of problems.
        script: Name of the official script that counts missing answers as wrong; empty if there is
            none.
    """
    if len(missing) == len(asked):
        faults.add(
            f"none of its {len(found)} answers belongs to one of the split's {len(asked)} questions"
        )
    elif missing:
        faults.add(
            f"{len(missing)} of {len(asked)} questions {are(len(missing))} missing, such as "
            f"{missing[0]}" + (f": each counts as wrong, as in {script}" if script else ""),
            mendable=bool(script),
        )
    others = len(found - set(asked))
    if others and len(missing) < len(asked):
        faults.add(
            f"{others} of its answers belong to questions that the split lacks", mendable=True
        )
