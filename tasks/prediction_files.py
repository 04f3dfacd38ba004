"""Prediction files that anyone made, read for a split whose labels are known."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchharness.tasks.answers import answer_type
from benchharness.tasks.answers.base import AnswerType
from benchharness.tasks.errors import BenchError, DataError
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
from benchharness.tasks.submission import SUBMISSIONS, read_answer_file
from benchharness.tasks.submission.answer_file import (
    AnswerFile,
    Answers,
    Labels,
    LabelSet,
    Number,
    PredictionFile,
    Text,
    require_clear,
)
from benchharness.tasks.submission.columns import read_clusters, read_columns, read_roles
from benchharness.tasks.submission.json_lines import Option
from benchharness.tasks.submission.questions import read_answers, read_conversations
from benchharness.tasks.submission.table import LETTERS, RACE_HEADER
from benchharness.tasks.submission.trec import read_run
from benchharness.tasks.task import Metric, SpanTask, Task


@dataclass(frozen=True, kw_only=True)
class NoAnswer:
    """SQuAD 2.0's no-answer scores, and the threshold above which they mean "no answer".

    Without a `file` every score is 0, without a `threshold` it is `THRESHOLD`: so does
    evaluate-v2.0.py.
    """

    file: Path | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise BenchError(
                f"the no-answer threshold is {self.threshold}, expected a finite number: a large "
                "one, such as 1e9, lets every answer stand."
            )


THRESHOLD = 1.0
"""Of evaluate-v2.0.py: a probability never exceeds it."""


# SQuAD's predictions.json, with na_prob.json or null_odds.json beside it or without.


def read_spans(path: Path, task: SpanTask, rows: SplitRows, no_answer: NoAnswer) -> PredictionFile:
    """Each question's answer, "" for none, with its no-answer score or 0 where there are none.

    Of a task whose questions all have answers some may be missing, as for evaluate-v1.1.py.
    """
    ids = [example.id for example in rows.examples]
    content = content_of(path)
    reading = read_answers(
        path.name, content, ids, kind="texts", missing_are_wrong=not task.no_answer
    )
    notes = require_clear(path, reading.faults)
    answers, listed = dict(reading.answers or ()), reading.no_answer_scores
    if listed is not None and not task.no_answer:
        raise DataError(f"{path} has no-answer probabilities, which {task.name} does not take.")
    if listed is not None and no_answer.file is not None:
        raise DataError(
            f"{path} has no-answer probabilities of its own, and {no_answer.file} has others: "
            "leave one of them out."
        )
    scores = None if listed is None else dict(listed)
    if no_answer.file is not None:
        odds = read_answers(no_answer.file.name, content_of(no_answer.file), ids, kind="scores")
        notes += require_clear(no_answer.file, odds.faults)
        scores = dict(odds.answers or ())
    threshold = no_answer.threshold
    if threshold is None:  # without any score every answer stands, as at the threshold of a model
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


# QuAC's lines of dialogs, CoQA's list of turns, HotpotQA's answers and supporting facts.


def read_questions(path: Path, task: SpanTask, rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """Each question's answer, and what the task asks beside it; missing ones count as wrong."""
    examples: Sequence[Any] = rows.examples
    reading = read_conversations(path.name, content_of(path), task.files, examples)
    notes = require_clear(path, reading.faults)
    answers = dict(reading.answers or ())
    predictions = tuple(
        answers.get(e.id) or SpanPrediction(id=e.id, text="", missing=True) for e in examples
    )
    return PredictionFile(predictions=predictions, notes=notes)


# One answer a row: GLUE's tables, SuperGLUE's JSON lines, tables of SNLI, SWAG and RACE.

OFFICIAL: Mapping[str, AnswerFile] = {
    file.task: file for submission in SUBMISSIONS.values() for file in submission.files
}
"""The server's file by task; of MNLI's two, which are alike, the second."""


def read_labels(path: Path, task: Task, rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """The answer to every example, whatever the file calls it and in whatever order.

    Of ReCoRD some may be missing, as for its script. A file of answers alone, one a line, has them
    in the order of the rows.
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
    # The first way that leaves no doubt; if all do, the faults of the likeliest one are said.
    ids, places, reading = next((found for found in tries if found[2].answers), tries[0])
    notes = require_clear(path, reading.faults)
    answers = dict(zip(ids, reading.answers or (), strict=True))
    predictions = tuple(
        _prediction(file, kind, example, answers[place])
        for example, place in zip(rows.examples, places, strict=True)
    )
    return PredictionFile(predictions=predictions, notes=notes)


def _file_for(path: Path, task: Task, rows: SplitRows) -> AnswerFile:
    """How the task's answers are written: as its server wants them, or by their names."""
    file = OFFICIAL.get(task.name) or AnswerFile(
        name=path.name, task=task.name, rows=0, answers=_plain(task, rows), fill=""
    )
    if task.suite == "race":
        file = replace(file, header=RACE_HEADER)
    answers = file.answers
    if isinstance(answers, Number):  # only a submission is clipped
        answers = Number(low=-math.inf, high=math.inf)
    if isinstance(answers, Text):  # ReCoRD's script takes any
        answers = Text(may_be_empty=True)
    is_lines = path.suffix in (".jsonl", ".json")
    lines = file.format if file.format != "tsv" else "jsonl"
    # A dev split has other numbers of paragraphs and questions than the server's test split.
    return replace(
        file,
        name=path.name,
        answers=answers,
        format=lines if is_lines else "tsv",
        paragraphs=None,
        questions=None,
    )


def _plain(task: Task, rows: SplitRows) -> Answers:
    """Labels by their names, options from 0 or by RACE's letters, or a regression's number."""
    names = answer_type(task).names(rows.examples)
    if task.kind == "labels":
        return LabelSet(names=names)
    if task.suite == "race":
        names = LETTERS[: len(names)]
    return Labels(written={n: n for n in names}) if names else Number(low=-math.inf, high=math.inf)


NUMBERED = re.compile(r"(?:.*-)?(\d+)", re.ASCII)
"""An id that ends in a number: "12" and MultiRC's "3-40-212" are the rows 12 and 212."""

Numbering = tuple[Sequence[int], Sequence[int], Mapping[str, int]]


def _numberings(rows: SplitRows) -> Iterator[Numbering]:
    """The indices that a file may have, the likeliest first, with those of the examples.

    They are the ids; or simply count the rows; or, where the benchmark leaves rows out, they are
    the ids in a file that has the others too. Ids that are words stand for the rows' numbers.
    """
    count = range(len(rows.examples))
    found = [NUMBERED.fullmatch(example.id) for example in rows.examples]
    ids = [int(match[1]) for match in found if match]
    # Ids without a number at their end, or with one number twice, cannot stand for places.
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
    """The option that a text is, but for what SQuAD's normalisation takes away; -1 for none."""
    if text in options:
        return options.index(text)
    alike = [normalise(option) for option in options]
    return alike.index(normalise(text)) if normalise(text) in alike else -1


def read_none(path: Path, task: Task, _rows: SplitRows, _: NoAnswer) -> PredictionFile:
    """Raises DataError: a measurement is no answer that anyone could write down."""
    raise DataError(
        f"{path} cannot be scored: {task.name} is measured, and `bench run` alone measures it."
    )


# What a file alone tells of its scores, by metric; None for what a script then does not count.

FileScores = Mapping[Metric[Any, Any], float | None]


def _swept(found: PredictionFile, examples: Sequence[Any]) -> FileScores:
    """The sweep in the order in which the file of no-answer scores has equal ones."""
    predictions: Sequence[Any] = found.predictions
    return swept_in_order(predictions, examples, found.sweep_order)


def _of_columns(found: PredictionFile, _examples: Sequence[Any]) -> FileScores:
    """The accuracy of tags in the scheme of the file."""
    return {tag_accuracy: words_share(found.columns)} if found.columns else {}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A form of prediction files.

    `own_scores` are those that only the file can tell: they depend on the order of equal no-answer
    scores, or on the scheme of the tags. `takes_scores` says that no-answer scores may stand in a
    second file.
    """

    read: Callable[[Path, Any, SplitRows, NoAnswer], PredictionFile]
    own_scores: Callable[[PredictionFile, Sequence[Any]], FileScores] = lambda *_: {}
    takes_scores: bool = False


LABELS = Layout(read=read_labels)

LAYOUTS: Mapping[str, Layout] = {
    "class": LABELS,
    "number": LABELS,
    "labels": LABELS,
    "choice": LABELS,
    "tag": Layout(read=read_columns, own_scores=_of_columns),
    "role": Layout(read=read_roles),
    "ranking": Layout(read=read_run),
    "coref": Layout(read=read_clusters),
    "squad": Layout(read=read_spans, own_scores=_swept, takes_scores=True),
    **dict.fromkeys(("quac", "coqa", "hotpotqa"), Layout(read=read_questions)),
}
"""By the layout that a task names, else by its kind of answer."""


def layout_of(task: Task) -> Layout:
    """How prediction files of a task look."""
    return LAYOUTS.get(getattr(task, "files", task.kind), Layout(read=read_none))


def read_predictions(
    path: Path, task: Task, rows: SplitRows, no_answer: NoAnswer | None = None
) -> PredictionFile:
    """One prediction for each of the split's examples, in their order.

    Tables (GLUE, SNLI, SWAG, RACE), JSON lines (SuperGLUE), SQuAD's predictions.json with the file
    of `no_answer` (na_prob.json) beside it, TREC's run files, and CoNLL's columns, the last of
    which is the prediction; roles have a column for each predicate. Raises DataError, naming file,
    line and fault, where it is not clear what was predicted for every example.
    """
    layout = layout_of(task)
    takes_scores = layout.takes_scores and getattr(task, "no_answer", False)
    if no_answer is not None and not takes_scores:
        option = "--na-prob-threshold" if no_answer.file is None else "--na-prob"
        raise DataError(
            f"{task.name} takes no scores of questions without an answer: only SQuAD 2.0 takes "
            f"{option}."
        )
    return layout.read(path, task, rows, no_answer or NoAnswer())
