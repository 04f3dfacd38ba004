"""Read prediction files from any program for a split with known labels."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchharness.discovery import member, places
from benchharness.errors import BenchError, DataError
from benchharness.extensions.submission.answer_file import (
    AnswerFile,
    Answers,
    FileScores,
    Labels,
    LabelSet,
    Layout,
    Number,
    PredictionFile,
    Text,
    require_clear,
)
from benchharness.extensions.submission.columns import read_columns
from benchharness.extensions.submission.files import SUBMISSIONS, read_answer_file
from benchharness.extensions.submission.json_lines import Option
from benchharness.extensions.submission.questions import read_answers
from benchharness.extensions.submission.table import LETTERS, RACE_HEADER
from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.base import AnswerType
from benchharness.tasks.examples import (
    ChoicePrediction,
    Prediction,
    SpanPrediction,
)
from benchharness.tasks.metrics.entities import tag_accuracy, words_share
from benchharness.tasks.metrics.squad import normalise, swept_in_order
from benchharness.tasks.read import SplitRows
from benchharness.tasks.sources.formats import (
    content_of,
)
from benchharness.tasks.task import SpanTask, Task


@dataclass(frozen=True, kw_only=True)
class NoAnswer:
    """No-answer scores and threshold for predictions of SQuAD 2.0.

    Attributes:
        file: File with a no-answer score for each question. If it is None and the predictions do
            not contain such scores, every score is 0.
        threshold: A question counts as unanswered if its score is above the threshold. If it is
            None, `THRESHOLD` is used if there are scores, and otherwise every answer is kept.
    """

    file: Path | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise BenchError(
                f"the no-answer threshold is {self.threshold}, expected a finite number: use a "
                "large one, such as 1e9, to keep every answer."
            )


THRESHOLD = 1.0
"""Default threshold of evaluate-v2.0.py. Probabilities never exceed it, so every answer is kept."""


# Read SQuAD's predictions.json, with or without na_prob.json or null_odds.json.


def read_spans(path: Path, task: SpanTask, rows: SplitRows, no_answer: NoAnswer) -> PredictionFile:
    """Read a prediction file of SQuAD: each question's answer, and its no-answer score.

    An answer of "" means "no answer". Answers may be missing only if every question of the task has
    an answer, as in SQuAD 1.1, because evaluate-v1.1.py accepts this.

    Args:
        path: Path of the file.
        task: SQuAD 1.1 or 2.0, or a task with the same format.
        rows: Examples of the split.
        no_answer: File with no-answer scores, and the threshold.

    Raises:
        DataError: A file has a problem without a clear fix, no-answer scores are in both files, or
            the task does not support them.
    """
    ids = [example.id for example in rows.examples]
    content = content_of(path)
    reading = read_answers(
        path.name, content, ids, kind="texts", missing_are_wrong=not task.no_answer
    )
    notes = require_clear(path, reading.faults)
    answers, listed = dict(reading.answers or ()), reading.no_answer_scores
    if listed is not None and not task.no_answer:
        raise DataError(f"{path} has no-answer probabilities, which {task.name} does not support.")
    if listed is not None and no_answer.file is not None:
        raise DataError(
            f"{path} and {no_answer.file} both have no-answer probabilities: remove them from "
            "one of the two files."
        )
    scores = None if listed is None else dict(listed)
    if no_answer.file is not None:
        odds = read_answers(no_answer.file.name, content_of(no_answer.file), ids, kind="scores")
        notes += require_clear(no_answer.file, odds.faults)
        scores = dict(odds.answers or ())
    threshold = no_answer.threshold
    if threshold is None:  # without scores, a threshold of 0 keeps every answer
        threshold = 0.0 if scores is None else THRESHOLD
    predictions = tuple(
        SpanPrediction(
            id=name,
            text=answers.get(name, ""),
            no_answer_score=0.0 if scores is None else scores[name],
            threshold=threshold,
            missing=name not in answers,
        )
        for name in ids
    )
    return PredictionFile(
        predictions=predictions,
        notes=notes,
        sweep_order=None if scores is None else tuple(scores),
    )


# Read files with one answer per row: GLUE's tables, SuperGLUE's JSON lines, and tables for SNLI,
# SWAG and RACE.

OFFICIAL: Mapping[str, AnswerFile] = {
    file.task: file for submission in SUBMISSIONS.values() for file in submission.files
}
"""Descriptions of the files in the submissions of GLUE and SuperGLUE, keyed by task. MNLI has two
files with the same layout; only the second one is in this mapping.
"""


def read_labels(path: Path, task: Task, rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """Read one answer per example from a table, JSON lines, or plain lines.

    Several spellings of labels, ways of numbering the rows, and orders of rows are accepted. A
    file of plain lines has only one answer per line, in the order of the examples. Answers to
    ReCoRD may be missing, as in its official script.

    Args:
        path: Path of the file.
        task: Task that was predicted.
        rows: Examples of the split.

    Raises:
        DataError: The file has a problem without a clear fix.
    """
    content, kind = content_of(path), answer_type(task)
    file = _file_for(path, task, rows)
    files = [file]
    if isinstance(file.answers, Text):
        files.append(replace(file, missing_are_wrong=True))
    tries = [
        (ids, places, read_answer_file(replace(each, names=names), content, ids))
        for each in files
        for ids, places, names in _numberings(rows)
    ]
    if file.format == "tsv":
        count = range(len(rows.examples))
        tries.append(
            (count, count, read_answer_file(replace(file, format="lines"), content, count))
        )
    # The first reading with clear answers is used. If there is none, the problems of the most
    # likely reading, which is the first one, are reported.
    ids, places, reading = next((found for found in tries if found[2].answers), tries[0])
    notes = require_clear(path, reading.faults)
    answers = dict(zip(ids, reading.answers or (), strict=True))
    predictions = tuple(
        _prediction(file, kind, example, answers[place])
        for example, place in zip(rows.examples, places, strict=True)
    )
    return PredictionFile(predictions=predictions, notes=notes)


def _file_for(path: Path, task: Task, rows: SplitRows) -> AnswerFile:
    """Return the layout of a prediction file: the official server's layout, or a plain table."""
    file = OFFICIAL.get(task.name) or AnswerFile(
        name=path.name, task=task.name, rows=0, answers=_plain(task, rows), fill=""
    )
    if task.suite == "race":
        file = replace(file, header=RACE_HEADER)
    answers = file.answers
    if isinstance(answers, Number):  # only submissions clip numbers
        answers = Number(low=-math.inf, high=math.inf)
    if isinstance(answers, Text):  # ReCoRD's script accepts any text, including an empty one
        answers = Text(may_be_empty=True)
    is_lines = path.suffix in (".jsonl", ".json")
    lines = file.format if file.format != "tsv" else "jsonl"
    # The official numbers of paragraphs and questions apply to the test split, so do not check
    # them.
    return replace(
        file,
        name=path.name,
        answers=answers,
        format=lines if is_lines else "tsv",
        paragraphs=None,
        questions=None,
    )


def _plain(task: Task, rows: SplitRows) -> Answers:
    """Return the answer type of a plain table: labels, option indices or letters, or numbers."""
    names = answer_type(task).names(rows.examples)
    if task.kind == "labels":
        return LabelSet(names=names)
    if task.suite == "race":
        names = LETTERS[: len(names)]
    return Labels(written={n: n for n in names}) if names else Number(low=-math.inf, high=math.inf)


NUMBERED = re.compile(r"(?:.*-)?(\d+)", re.ASCII)
"""Pattern of ids that end with the index of the row: "12", or "3-40-212" in MultiRC (index 212)."""

Numbering = tuple[Sequence[int], Sequence[int], Mapping[str, int]]
"""Way in which a file may number its rows; see `_numberings`."""


def _numberings(rows: SplitRows) -> Iterator[Numbering]:
    """Yield the ways in which a file may number its rows, the most likely first.

    A file may use the ids of the examples, count the rows from 0, or, if the benchmark drops rows,
    number all rows including the dropped ones. Each item is a tuple: the indices that the file must
    have, the index of each example and, if ids are not numbers, a mapping from ids to indices.
    """
    count = range(len(rows.examples))
    found = [NUMBERED.fullmatch(example.id) for example in rows.examples]
    ids = [int(match[1]) for match in found if match]
    # Ids that do not end with a number, or whose numbers are repeated, cannot be indices.
    if len(set(ids)) < len(count):
        yield count, count, {example.id: place for place, example in enumerate(rows.examples)}
        yield count, count, {}
        return
    yield ids, ids, {}
    if ids != list(count):
        yield count, count, {}
    if rows.left_out:
        yield range(len(count) + rows.left_out), ids, {}


def _prediction(file: AnswerFile, kind: AnswerType, example: Any, answer: Any) -> Prediction:
    if isinstance(file.answers, Number):
        return kind.from_python(example, answer)
    if isinstance(file.answers, LabelSet):
        return kind.from_python(example, json.loads(answer))
    if isinstance(file.answers, Text):
        option = -1 if answer is None else _option(example.options, answer)
        return ChoicePrediction(id=example.id, option=option, text=answer if option < 0 else None)
    written = answer.label if isinstance(answer, Option) else answer
    names = {str(text): name for name, text in file.answers.written.items()}
    return kind.from_name(example, names[str(written)], list(file.answers.written))


def _option(options: Sequence[str], text: str) -> int:
    """Return the index of the option with this text, or -1 if there is none.

    If no option has exactly this text, texts are compared after SQuAD's normalisation.
    """
    if text in options:
        return options.index(text)
    alike = [normalise(option) for option in options]
    return alike.index(normalise(text)) if normalise(text) in alike else -1


def read_none(path: Path, task: Task, _rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """Raise DataError: the task measures speed and memory, so it has no prediction files."""
    raise DataError(
        f"{path} cannot be scored: {task.name} measures speed and memory, which only `bench run` "
        "can do."
    )


# Scores that depend on the file itself, keyed by metric; None if the script does not compute them.


def _swept(found: PredictionFile, examples: Sequence[Any]) -> FileScores:
    """Compute the scores at the best no-answer threshold, as the official script does.

    The script orders equal no-answer scores as the file lists them, which may change the result.
    """
    predictions: Sequence[Any] = found.predictions
    return swept_in_order(predictions, examples, found.sweep_order)


def _of_columns(found: PredictionFile, _examples: Sequence[Any]) -> FileScores:
    """Compute the accuracy of tags without converting the file's tag scheme, as in conlleval."""
    return {tag_accuracy: words_share(found.columns)} if found.columns else {}


LABELS = Layout(read=read_labels)

LAYOUTS: Mapping[str, Layout] = {
    "class": LABELS,
    "number": LABELS,
    "labels": LABELS,
    "choice": LABELS,
    "tag": Layout(read=read_columns, own_scores=_of_columns),
    "squad": Layout(read=read_spans, own_scores=_swept, takes_scores=True),
}
"""Functions that read and score prediction files, keyed by the attribute `files` of a task, or by
`kind` for tasks without this attribute."""


def layout_of(task: Task) -> Layout:
    """Return the functions that read and score the prediction files of a task."""
    added, files = places("prediction_files"), getattr(task, "files", task.kind)
    if files in added:
        found: Layout = member(f"the prediction files of {files}", added[files])
        return found
    return LAYOUTS.get(files, Layout(read=read_none))


def read_predictions(
    path: Path, task: Task, rows: SplitRows, no_answer: NoAnswer | None = None
) -> PredictionFile:
    """Read a prediction file, and return one prediction per example, in the order of the examples.

    The formats are tables (GLUE, SNLI, SWAG, RACE), JSON lines (SuperGLUE), the JSON files of SQuAD
    and similar tasks, TREC run files, and CoNLL columns. In CoNLL columns, the last column is the
    prediction; for semantic roles, each predicate has a column with predictions.

    Args:
        path: Path of the file.
        task: Task that was predicted.
        rows: Examples of the split.
        no_answer: No-answer scores (na_prob.json) and threshold; only for tasks in the format of
            SQuAD 2.0.

    Raises:
        DataError: The file is malformed, or the prediction for an example is ambiguous, or is
            missing although the official script requires it; the message has the file and the
            problem. Or `no_answer` was passed for a task that is not in the format of SQuAD 2.0.
    """
    layout = layout_of(task)
    takes_scores = layout.takes_scores and getattr(task, "no_answer", False)
    if no_answer is not None and not takes_scores:
        option = "--na-prob-threshold" if no_answer.file is None else "--na-prob"
        raise DataError(f"{task.name} has no questions without an answer: remove {option}.")
    return layout.read(path, task, rows, no_answer or NoAnswer())
