"""CoNLL's columns: a word a line, the last column its predicted tag, an empty line in between."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.errors import BenchError, DataError
from tasks.examples import TagExample, TagPrediction
from tasks.metrics import to_iob2
from tasks.prediction_files.prediction_file import PredictionFile, content_of
from tasks.read import SplitRows
from tasks.task import TagTask

__all__ = ["read_columns"]

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
