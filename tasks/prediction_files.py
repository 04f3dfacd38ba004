"""Prediction files that anyone made, read for a split whose labels are known."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchharness.tasks.errors import BenchError, DataError
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    Example,
    PairPrediction,
    Prediction,
    SpanPrediction,
    TagExample,
    TagPrediction,
)
from benchharness.tasks.metrics import to_iob2
from benchharness.tasks.metrics.squad import normalise
from benchharness.tasks.read import SplitRows
from benchharness.tasks.submission import SUBMISSIONS, AnswerFile, Fault, read_answer_file
from benchharness.tasks.submission.answer_file import Answers, Labels, Number, Text
from benchharness.tasks.submission.json_lines import Option
from benchharness.tasks.submission.race import LETTERS, read_race
from benchharness.tasks.submission.squad import read_answers
from benchharness.tasks.task import ChoiceTask, PairTask, SpanTask, TagTask, Task

SHOWN = 3
"""Faults that an error names."""


@dataclass(frozen=True, kw_only=True)
class PredictionFile:
    """One prediction for each example, in order, and what had to be read leniently to get them.

    `sweep_order` are the question ids in the order of a file of no-answer scores, which decides
    between equal scores where SQuAD's script looks for the best threshold.
    """

    predictions: tuple[Prediction, ...]
    notes: tuple[str, ...] = ()
    sweep_order: tuple[str, ...] | None = None


def content_of(path: Path) -> bytes:
    """The file's bytes; DataError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def require_clear(path: Path, faults: Sequence[Fault]) -> tuple[str, ...]:
    """Notes of the faults that leave no doubt; DataError where one does."""
    doubts = [str(fault) for fault in faults if not fault.mendable]
    if doubts:
        more = f" (and {len(doubts) - SHOWN} more faults)" if len(doubts) > SHOWN else ""
        raise DataError(f"{path} cannot be scored: {'; '.join(doubts[:SHOWN])}{more}.")
    return tuple(str(fault) for fault in faults)


# SQuAD's predictions.json, with na_prob.json or null_odds.json beside it or without.


def read_spans(path: Path, rows: SplitRows, no_answer_scores: Path | None) -> PredictionFile:
    """Each question's answer, "" for none, with its no-answer score or 0 where there are none."""
    answers, notes = _read(path, rows)
    scores, more = ({}, ()) if no_answer_scores is None else _read(no_answer_scores, rows)
    predictions = tuple(
        SpanPrediction(
            id=example.id, text=answers[example.id], no_answer_score=scores.get(example.id, 0.0)
        )
        for example in rows.examples
    )
    return PredictionFile(
        predictions=predictions,
        notes=(*notes, *more),
        sweep_order=None if no_answer_scores is None else tuple(scores),
    )


def _read(path: Path, rows: SplitRows) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Values by question id in the order of the file, and the notes."""
    reading = read_answers(path.name, content_of(path), [example.id for example in rows.examples])
    notes = require_clear(path, reading.faults)
    return dict(reading.answers or ()), notes


# CoNLL's columns: a word a line, the last column its predicted tag, an empty line in between.

DOCUMENT = "-DOCSTART-"

Word = tuple[int, str, str]
"""A line's number, its first column and its last."""


def read_columns(path: Path, task: TagTask, rows: SplitRows) -> PredictionFile:
    """The predicted tags of every sentence, in IOB1 or IOB2, as IOB2.

    The words, where there is a column of them, must be those of the examples, so that no tag is
    taken for that of another word.
    """
    sentences = list(_sentences(path))
    if len(sentences) != len(rows.examples):
        raise DataError(
            f"{path} has {len(sentences)} sentences, expected {len(rows.examples)}: an empty line "
            "ends each, and none may be left out."
        )
    predictions = tuple(
        TagPrediction(id=example.id, tags=_tags(path, task, sentence, example))
        for sentence, example in zip(sentences, rows.examples, strict=True)
        if isinstance(example, TagExample)
    )
    return PredictionFile(predictions=predictions)


def _sentences(path: Path) -> Iterator[list[Word]]:
    try:
        text = content_of(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text.") from error
    sentence: list[Word] = []
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        columns = line.split()
        if columns and columns[0] != DOCUMENT:
            sentence.append((number, columns[0] if len(columns) > 1 else "", columns[-1]))
        elif sentence:
            yield sentence
            sentence = []


def _tags(
    path: Path, task: TagTask, sentence: Sequence[Word], example: TagExample
) -> tuple[str, ...]:
    first = sentence[0][0]
    if len(sentence) != len(example.words):
        raise DataError(
            f"{path} line {first} begins a sentence of {len(sentence)} words, expected "
            f"{len(example.words)}: {' '.join(example.words[:8])} ..."
        )
    for (line, word, tag), expected in zip(sentence, example.words, strict=True):
        if word not in ("", expected):
            raise DataError(f"{path} line {line} has the word {word!r}, expected {expected!r}.")
        if tag not in task.tags:
            known = ", ".join(task.tags)
            raise DataError(f"{path} line {line} has the tag {tag!r}, expected one of {known}.")
    try:
        return to_iob2([tag for _, _, tag in sentence])
    except BenchError as error:
        raise DataError(f"{path} line {first}: {error}") from error


# One answer a row: GLUE's tables, SuperGLUE's JSON lines, tables of SNLI, SWAG and RACE.

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
    # The number at the end of an id: "12" and MultiRC's "3-40-212" are the rows 12 and 212.
    ids = [int(example.id.rpartition("-")[2]) for example in rows.examples]
    yield ids, ids
    if ids != list(range(count)):
        yield range(count), range(count)
    if rows.left_out:
        yield range(count + rows.left_out), ids


def _prediction(path: Path, file: AnswerFile, example: Example, answer: Any) -> Prediction:
    if isinstance(file.answers, Number):
        return PairPrediction(id=example.id, label=float(answer))
    if isinstance(file.answers, Text) and isinstance(example, ChoiceExample):
        return ChoicePrediction(id=example.id, option=_option(path, example, answer))
    written = answer.label if isinstance(answer, Option) else answer
    assert isinstance(file.answers, Labels), "numbers and texts are read before"
    names = {str(text): name for name, text in file.answers.written.items()}
    name = names[str(written)]
    if isinstance(example, ChoiceExample):
        return ChoicePrediction(id=example.id, option=int(name))
    return PairPrediction(id=example.id, label=name)


def _option(path: Path, example: ChoiceExample, text: str) -> int:
    """The option that an entity's text is, but for what SQuAD's normalisation takes away."""
    if text in example.options:
        return example.options.index(text)
    alike = [normalise(option) for option in example.options]
    if normalise(text) in alike:
        return alike.index(normalise(text))
    raise DataError(
        f"{path} answers {example.id} with {text!r}, which is not one of its passage's entities: "
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


Reader = Callable[[Path, Any, SplitRows], PredictionFile]

READERS: Mapping[str, Reader] = {"pair": read_labels, "choice": read_labels, "tag": read_columns}
"""By head type, for those that need no second file."""


def read_predictions(
    path: Path,
    task: Task,
    rows: SplitRows,
    no_answer_scores: Path | None = None,
) -> PredictionFile:
    """One prediction for each of the split's examples, in their order.

    Tables (GLUE, SNLI, SWAG, RACE), JSON lines (SuperGLUE), SQuAD's predictions.json with
    `no_answer_scores` (na_prob.json) beside it, and CoNLL's columns, the last of which is the
    prediction. Raises DataError, naming file, line and fault, where it is not clear what was
    predicted for every example.
    """
    if isinstance(task, SpanTask):
        return read_spans(path, rows, no_answer_scores)
    if no_answer_scores is not None:
        raise DataError(f"{task.name} has no no-answer scores: only SQuAD 2.0 takes --na-prob.")
    return READERS[task.head](path, task, rows)
