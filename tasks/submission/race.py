"""RACE's answers. No server takes them, so the table is our own: an id and a letter a line."""

import re
from collections.abc import Sequence

from tasks.errors import BenchError
from tasks.examples import ChoicePrediction
from tasks.submission.answer_file import Reading, conclude
from tasks.submission.faults import Faults
from tasks.submission.text import decoded, lines_of

__all__ = ["read_race", "rewrite_race", "write_race"]

HEADER = "id\tanswer"
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
    rows = [f"{question}\t{letter}" for question, letter in answers]
    return "".join(f"{row}\n" for row in [HEADER, *rows]).encode()


def read_race(name: str, content: bytes) -> Reading:
    """The pairs of id and letter of a table by anybody, with what is wrong with it."""
    faults = Faults(name)
    text = decoded(content, faults)
    lines = [] if text is None else lines_of(text, faults)
    if lines and lines[0][1] == HEADER:
        lines = lines[1:]
    else:
        found = repr(lines[0][1]) if lines else "nothing"
        faults.add(f"the header is {found}: expected id, tab, answer", 1)
    answers: dict[str, str] = {}
    for number, line in lines:
        question, _, answer = line.partition("\t")
        if not QUESTION.fullmatch(question):
            faults.add(f"the id is {question!r}, expected one like 'high12/0'", number)
        elif question in answers:
            faults.add(f"the question {question} stands here again", number)
        answers[question] = _letter(answer, number, faults)
    if len(answers) != QUESTIONS:
        faults.add(f"it has {len(answers)} answers, expected {QUESTIONS}")
    return conclude(list(answers.items()), faults)


def _letter(answer: str, line: int, faults: Faults) -> str:
    letter = answer.strip().upper()
    if len(letter) != 1 or letter not in LETTERS:
        faults.add(f"the answer is {answer!r}, expected A, B, C or D", line)
    elif letter != answer:
        faults.add(f"the answer is {answer!r}, expected {letter!r}", line, mendable=True)
    return letter
