"""RACE's answers. No server takes them, so the table is our own: an id and a letter a line."""

import re
from collections.abc import Container, Sequence

from benchharness.tasks.errors import BenchError
from benchharness.tasks.examples import ChoicePrediction
from benchharness.tasks.submission.answer_file import Faults, Reading, conclude, decoded, lines_of
from benchharness.tasks.submission.table import Numbered, read_rows

HEADER = ("id", "answer")
LETTERS = "ABCD"
QUESTION = re.compile(r"(middle|high)\d+/\d+")

QUESTIONS = 4934
"""Of the test set: 1436 middle and 3498 high (Lai et al., EMNLP 2017, table 2)."""


def write_race(predictions: Sequence[ChoicePrediction]) -> bytes:
    """The table; BenchError where the predictions are not those of the whole test set."""
    if len(predictions) != QUESTIONS:
        raise BenchError(
            f"RACE's test set has {QUESTIONS} questions, found {len(predictions)} predictions: "
            "predict it whole with `bench run --test`, from the hub or the official files."
        )
    return rewrite_race([(p.id, LETTERS[p.option]) for p in predictions])


def rewrite_race(answers: Sequence[tuple[str, str]]) -> bytes:
    """The table of pairs of id and letter."""
    return "".join("\t".join(row) + "\n" for row in [HEADER, *answers]).encode()


def read_race(name: str, content: bytes) -> Reading:
    """The test set's pairs of id and letter in a table by anybody, with what is wrong with it."""
    faults = Faults(name)
    text = decoded(content, faults)
    if text is None:
        return conclude(None, faults)
    lines = lines_of(text, faults)
    rows = read_rows(lines, faults, HEADER) if lines else []
    answers: dict[str, str] = {}
    for row in rows:
        _check_id(row, answers, faults)
        answers[str(row.place)] = _letter(row, faults)
    if len(answers) != QUESTIONS:
        faults.add(f"it has {len(answers)} answers, expected {QUESTIONS}")
    return conclude(list(answers.items()), faults)


def _check_id(row: Numbered[str], before: Container[str], faults: Faults) -> None:
    question = str(row.place)
    if not QUESTION.fullmatch(question):
        sentence = f"the id is {question!r:.60}, expected one like 'high12/0'"
        faults.add(sentence, row.line, kind="an id is none")
    elif question in before:
        sentence = f"the question {question} stands here again"
        faults.add(sentence, row.line, kind="a question stands here again")


def _letter(row: Numbered[str], faults: Faults) -> str:
    letter = row.answer.strip().upper()
    if len(letter) != 1 or letter not in LETTERS:
        faults.add(f"the answer is {row.answer!r}, expected A, B, C or D", row.line)
    elif letter != row.answer:
        faults.add(f"the answer is {row.answer!r}, expected {letter!r}", row.line, mendable=True)
    return letter
