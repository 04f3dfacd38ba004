"""Read CoNLL's columns, with one word per line; the last column is the predicted tag."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchharness.errors import BenchError, DataError
from benchharness.extensions.submission.answer_file import PredictionFile, Tags, text_of
from benchharness.tasks.examples import TagExample, TagPrediction
from benchharness.tasks.metrics.entities import are_entity_tags, is_iob1, to_iob1, to_iob2
from benchharness.tasks.read import SplitRows
from benchharness.tasks.sources.formats import DOCUMENT, Word, sentences_of
from benchharness.tasks.task import TagTask

# Files of tags have one word per line, with the predicted tag in the last column, and an empty line
# between sentences.


def read_columns(path: Path, task: TagTask, rows: SplitRows, _: object) -> PredictionFile:
    """Read a file with the predicted tags of every sentence, and convert entity tags to IOB2.

    If the file contains words, they must equal the words of the examples, so that tags cannot be
    assigned to wrong words.

    Args:
        path: Path of the file.
        task: Tagging task.
        rows: Examples of the split.

    Raises:
        DataError: The words or the lengths of sentences differ from the examples, or a tag is
            unknown.
    """
    text, notes = text_of(path)
    sentences = list(sentences_of(text.split("\n")))
    examples: Sequence[Any] = rows.examples
    own = [sentence for sentence in sentences if sentence[0].columns[0] != DOCUMENT]
    check_sentences(path, own, "sentences", examples)
    predictions = tuple(
        TagPrediction(id=example.id, tags=_tags(path, task, sentence, example))
        for sentence, example in zip(own, examples, strict=True)
    )
    is_iob = are_entity_tags(task.tags)  # conlleval accepts only entity tags
    columns = tuple(_columns(task, sentences, examples)) if is_iob else ()
    return PredictionFile(predictions=predictions, notes=notes, columns=columns)


def check_sentences(
    path: Path, found: Sequence[Sequence[Word]], noun: str, examples: Sequence[Any]
) -> None:
    """Raise DataError if a file has another number of sentences, or a sentence of another length.

    Args:
        path: Path of the file.
        found: Sentences in the file.
        noun: Name of the sentences in an error message, such as "sentences".
        examples: Examples of the split.
    """
    if len(found) != len(examples):
        raise DataError(
            f"{path} has {len(found)} {noun}, expected {len(examples)}: put an empty line after "
            "each, and leave none out."
        )
    for sentence, example in zip(found, examples, strict=True):
        if len(sentence) != len(example.words):
            raise DataError(
                f"{path} line {sentence[0].line} starts a sentence with {len(sentence)} words, "
                f"expected {len(example.words)}: {' '.join(example.words[:8])} ..."
            )


def _tags(path: Path, task: TagTask, sentence: Sequence[Word], example: TagExample) -> Tags:
    for (line, columns), expected in zip(sentence, example.words, strict=True):
        word, tag = columns[0], columns[-1]
        if len(columns) > 1 and word != expected:
            raise DataError(f"{path} line {line} has the word {word!r}, expected {expected!r}.")
        if tag not in task.tags:
            known = ", ".join(task.tags)
            raise DataError(f"{path} line {line} has the tag {tag!r}, expected one of {known}.")
    try:
        tags = tuple(columns[-1] for _, columns in sentence)
        return to_iob2(tags) if are_entity_tags(task.tags) else tags
    except BenchError as error:
        raise DataError(f"{path} line {sentence[0].line}: {error}") from error


def _columns(
    task: TagTask, sentences: Sequence[Sequence[Word]], examples: Sequence[TagExample]
) -> Iterator[tuple[Tags, Tags]]:
    """Yield the predicted and the gold tags of each sentence, as conlleval reads them in the file.

    If the second-to-last column has the gold tags, they are taken from it, and lines that begin a
    document are yielded too. Otherwise, gold tags are taken from the examples, and are converted to
    IOB1 if the predictions use IOB1.
    """
    own = [sentence for sentence in sentences if sentence[0].columns[0] != DOCUMENT]
    if all(_has_gold(task, sentence, e) for sentence, e in zip(own, examples, strict=True)):
        for sentence in sentences:
            if len(sentence[0].columns) >= WITH_GOLD:
                yield column_of(sentence, -1), column_of(sentence, -2)
        return
    guesses = [column_of(sentence, -1) for sentence in own]
    convert = to_iob1 if all(map(is_iob1, guesses)) else to_iob2
    for guess, example in zip(guesses, examples, strict=True):
        yield guess, convert(example.tags or ())


WITH_GOLD = 3
"""Minimum number of columns in a file with gold tags: the word, its gold tag, its predicted tag."""


def column_of(sentence: Sequence[Word], place: int) -> Tags:
    """Return the cells of a column, one per word.

    Args:
        sentence: Words with their columns.
        place: Index of the column; negative indices count from the last column.
    """
    return tuple(word.columns[place] for word in sentence)


def _has_gold(task: TagTask, sentence: Sequence[Word], example: TagExample) -> bool:
    """Return whether the second-to-last column has the gold tags of the example."""
    if any(len(word.columns) < WITH_GOLD for word in sentence):
        return False
    found = column_of(sentence, -2)
    return set(found) <= set(task.tags) and to_iob2(found) == to_iob2(example.tags or ())
