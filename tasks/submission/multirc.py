"""MultiRC's file: a JSON object for each paragraph, its questions in it, their answers in them.

The ids of questions and answers run on over the whole file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from tasks.submission.answer_file import AnswerFile, Reading, conclude
from tasks.submission.faults import Faults
from tasks.submission.json_lines import Object, read_objects, write_objects
from tasks.submission.order import Numbered, in_order

__all__ = ["Option", "read_multirc", "write_multirc"]


class Option(NamedTuple):
    """One answer option of a question: where it stands, and the label given to it."""

    paragraph: int
    question: int
    label: int


def write_multirc(options: Sequence[Option]) -> bytes:
    """The file's bytes; `options` are in order, and their places are their ids."""
    numbered = list(enumerate(options))
    return write_objects(
        {"idx": paragraph, "passage": {"questions": _questions(inside)}}
        for paragraph, inside in groupby(numbered, key=lambda item: item[1].paragraph)
    )


def _questions(options: Iterable[tuple[int, Option]]) -> list[dict[str, Any]]:
    return [
        {"idx": question, "answers": [{"idx": i, "label": option.label} for i, option in inside]}
        for question, inside in groupby(options, key=lambda item: item[1].question)
    ]


def read_multirc(file: AnswerFile, content: bytes, ids: Sequence[int]) -> Reading:
    """The options of a file by anybody, with everything that is wrong with it."""
    faults = Faults(file.name)
    objects = read_objects(content, faults)
    rows = [
        Numbered(line, answer, _option(file, line, place, label, faults))
        for line, answer, place, label in _flat(objects, faults)
    ]
    options = in_order(rows, ids, faults)
    if options is not None:
        _check_places(file, options, faults)
    return conclude(options, faults)


class _Found(NamedTuple):
    line: int
    answer: Any
    place: tuple[Any, Any]
    label: Any


def _flat(objects: Sequence[Object], faults: Faults) -> Iterator[_Found]:
    """Every answer of every object; also of rows that were never put together again."""
    for line, found in objects:
        idx = found.get("idx")
        if isinstance(idx, Mapping):
            faults.add(
                "the object is one answer, expected a paragraph with its questions",
                line,
                mendable=True,
            )
            place = (idx.get("paragraph"), idx.get("question"))
            yield _Found(line, idx.get("answer"), place, found.get("label"))
            continue
        try:
            yield from _nested(line, found)
        except (KeyError, TypeError, AttributeError):
            faults.add(
                'the object is not {"idx", "passage": {"questions": [{"idx", "answers": [{"idx", '
                '"label"}]}]}}',
                line,
            )


def _nested(line: int, paragraph: Mapping[str, Any]) -> list[_Found]:
    return [
        _Found(line, answer["idx"], (paragraph["idx"], question["idx"]), answer["label"])
        for question in paragraph["passage"]["questions"]
        for answer in question["answers"]
    ]


def _option(
    file: AnswerFile, line: int, place: tuple[Any, Any], label: Any, faults: Faults
) -> Option:
    value, problem = file.answers.understand(label)
    if problem:
        faults.add(problem, line, mendable=value is not None)
    for kind, number in zip(("paragraph", "question"), place, strict=True):
        if not isinstance(number, int) or isinstance(number, bool):
            faults.add(f"the idx of a {kind} is {number!r}, expected a whole number", line)
    return Option(*place, value if isinstance(value, int) else -1)


def _check_places(file: AnswerFile, options: Sequence[Option], faults: Faults) -> None:
    """Paragraphs and questions must be numbered as they come: ids run on over the file."""
    paragraphs = [paragraph for paragraph, _ in groupby(option.paragraph for option in options)]
    if file.paragraphs is not None and paragraphs != list(range(file.paragraphs)):
        last = file.paragraphs - 1
        faults.add(f"its answers do not belong to the paragraphs 0 to {last} in turn")
    questions = [question for question, _ in groupby(option.question for option in options)]
    if file.questions is not None and questions != list(range(file.questions)):
        faults.add(
            f"its answers do not belong to the questions 0 to {file.questions - 1} in turn: the "
            "ids of questions run on over the whole file"
        )
