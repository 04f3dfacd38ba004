"""One answer a row: GLUE's tables, SuperGLUE's JSON lines, tables of SNLI, SWAG and RACE."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tasks.errors import DataError
from tasks.examples import ChoiceExample, ChoicePrediction, Example, PairPrediction, Prediction
from tasks.metrics.answers import normalise
from tasks.prediction_files.prediction_file import PredictionFile, content_of, require_clear
from tasks.read import SplitRows
from tasks.submission import SUBMISSIONS, AnswerFile, read_answer_file
from tasks.submission.answers import Answers, Labels, Number, Text
from tasks.submission.multirc import Option
from tasks.submission.race import LETTERS, read_race
from tasks.task import ChoiceTask, PairTask

__all__ = ["read_labels"]

OFFICIAL: Mapping[str, AnswerFile] = {
    file.task: file for submission in SUBMISSIONS.values() for file in submission.files
}
"""The server's file by task; of MNLI's two, which are alike, the second."""

OPTIONS = 4
"""Of every question that has its options numbered in a table."""


def read_labels(path: Path, task: PairTask | ChoiceTask, rows: SplitRows) -> PredictionFile:
    """The answer to every example, whatever the file calls it and in whatever order."""
    content = content_of(path)
    if task.suite == "race":
        return _race(path, content, rows)
    file = _file_for(path, task)
    tries = [
        (ids, places, read_answer_file(file, content, ids)) for ids, places in _numberings(rows)
    ]
    ids, places, reading = next((found for found in tries if found[2].answers), tries[0])
    notes = require_clear(path, reading.faults)
    answers = dict(zip(ids, reading.answers or (), strict=True))
    predictions = (
        _prediction(path, file, example, answers[place])
        for example, place in zip(rows.examples, places, strict=True)
    )
    return PredictionFile(predictions=tuple(predictions), notes=notes)


def _file_for(path: Path, task: PairTask | ChoiceTask) -> AnswerFile:
    """How the task's answers are written: as its server wants them, or by their names."""
    file = OFFICIAL.get(task.name) or AnswerFile(
        name=path.name, task=task.name, rows=0, answers=_plain(task), fill=""
    )
    answers = file.answers
    if isinstance(answers, Number):  # only a submission is clipped
        answers = Number(low=-math.inf, high=math.inf)
    is_lines = path.suffix in (".jsonl", ".json")
    lines = file.format if file.format != "tsv" else "jsonl"
    return replace(
        file,
        name=path.name,
        answers=answers,
        format=lines if is_lines else "tsv",
        paragraphs=None,
        questions=None,
    )


def _plain(task: PairTask | ChoiceTask) -> Answers:
    """Labels by their names, options by their numbers from 0."""
    if isinstance(task, PairTask):
        return Labels(written={name: name for name in task.labels})
    return Labels(written={str(number): str(number) for number in range(OPTIONS)})


def _numberings(rows: SplitRows) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """The indices that a file may have, the likeliest first, with those of the examples.

    They are the ids; or simply count the rows; or, where the benchmark leaves rows out, they are
    the ids in a file that has the others too.
    """
    count = len(rows.examples)
    ids = [_number(example) for example in rows.examples]
    yield ids, ids
    if ids != list(range(count)):
        yield range(count), range(count)
    if rows.left_out:
        yield range(count + rows.left_out), ids


def _number(example: Example) -> int:
    """The number at the end of an id: "12" and MultiRC's "3-40-212" are the rows 12 and 212."""
    return int(example.id.rpartition("-")[2])


def _prediction(path: Path, file: AnswerFile, example: Example, answer: Any) -> Prediction:
    if isinstance(file.answers, Number):
        return PairPrediction(id=example.id, label=float(answer))
    if isinstance(file.answers, Text) and isinstance(example, ChoiceExample):
        return ChoicePrediction(id=example.id, option=_option(path, example, answer))
    written = answer.label if isinstance(answer, Option) else answer
    name = _names(file.answers)[str(written)]
    if isinstance(example, ChoiceExample):
        return ChoicePrediction(id=example.id, option=int(name))
    return PairPrediction(id=example.id, label=name)


def _names(answers: Answers) -> dict[str, str]:
    """The task's own names by what is written for them."""
    assert isinstance(answers, Labels), "numbers and texts are read before"
    return {str(written): name for name, written in answers.written.items()}


def _option(path: Path, example: ChoiceExample, text: str) -> int:
    """The option that an entity's text is, but for what SQuAD's normalisation takes away."""
    if text in example.options:
        return example.options.index(text)
    alike = [normalise(option) for option in example.options]
    if normalise(text) in alike:
        return alike.index(normalise(text))
    raise DataError(
        f"{path} answers {example.id} with {text!r}, which is none of its passage's entities: "
        f"{', '.join(example.options[:5])}, ..."
    )


def _race(path: Path, content: bytes, rows: SplitRows) -> PredictionFile:
    reading = read_race(path.name, content, [example.id for example in rows.examples])
    notes = require_clear(path, reading.faults)
    letters = dict(reading.answers or ())
    predictions = tuple(
        ChoicePrediction(id=example.id, option=LETTERS.index(letters[example.id]))
        for example in rows.examples
    )
    return PredictionFile(predictions=predictions, notes=notes)
