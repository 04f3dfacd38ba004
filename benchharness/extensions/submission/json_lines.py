"""Read and write SuperGLUE's files, which have one JSON object with idx and label per line."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from benchharness.extensions.submission.answer_file import (
    AnswerFile,
    Faults,
    LabelSet,
    Line,
    Reading,
    Scalar,
    Text,
    conclude,
    lines_of,
)
from benchharness.extensions.submission.table import Numbered, in_order, missing_indices

Object = tuple[int, Mapping[str, Any]]
"""Number of a line, counted from 1, and the JSON object on it."""

LABEL_NAMES = ("label", "prediction", "pred", "answer")
"""Accepted keys of the label; the server expects the first one."""


def write_json_lines(answers: Sequence[str | int]) -> bytes:
    """Return the bytes of a file with one JSON object per answer, in the order of the rows.

    An object has the keys "idx" (the index of the row) and "label" (the answer).
    """
    return write_objects({"idx": index, "label": answer} for index, answer in enumerate(answers))


def write_objects(objects: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the bytes of a file with one JSON object per line."""
    return "".join(json.dumps(each) + "\n" for each in objects).encode()


def read_json_lines(file: AnswerFile, content: bytes, ids: Sequence[int]) -> Reading:
    """Read the answers in a JSON Lines file, whichever program wrote it.

    All problems in the file are reported in the result.

    Args:
        file: Description of the file.
        content: Content of the file.
        ids: Expected indices of the rows.
    """
    faults = Faults(file.name)
    objects = read_objects(content, faults)
    if not objects:
        return conclude(None, faults)
    rows = [
        Numbered(line, _index(file, line, found, faults), _answer(file, line, found, faults))
        for line, found in objects
    ]
    if not file.missing_are_wrong:
        return conclude(in_order(rows, ids, faults, file.names), faults)
    places = {row.place for row in rows}
    # Rows may be missing, so only the indices in the file are checked. Missing answers are None.
    there = [place for place in ids if place in places]
    answers = in_order(rows, there, faults)
    if len(there) < len(ids):
        missing = missing_indices([place for place in ids if place not in places])
        sentence = f"{missing}: each counts as wrong, as in ReCoRD's script"
        faults.add(sentence, mendable=bool(there))
    by_place = dict(zip(there, answers or (), strict=False))
    return conclude(answers and [by_place.get(place) for place in ids], faults)


def read_objects(content: bytes, faults: Faults) -> list[Object]:
    """Return the JSON objects in a file, with their line numbers.

    If the file is a JSON array instead, this is reported, and the objects in the array are returned
    with their positions, counted from 1.

    Args:
        content: Bytes of the file.
        faults: Collector of problems. Lines that are not objects, and an empty file, are added.
    """
    objects: list[Object] = []
    for number, value in _values(lines_of(content, faults, "an object on each line"), faults):
        if isinstance(value, dict):
            objects.append((number, value))
        else:
            what = "not JSON" if value is _NO_JSON else "JSON, but not an object"
            faults.add(f"the line is {what}", number)
    return objects


def _values(lines: Sequence[Line], faults: Faults) -> Iterator[tuple[int, Any]]:
    """Yield (number, JSON value) for each line.

    If the whole file is one JSON array, this is reported, and the items of the array are yielded
    instead of lines.
    """
    text = "\n".join(line for _, line in lines)
    # An array may have any number of lines, so the whole file is parsed as one text.
    whole = _loaded(text, 1, faults) if text.lstrip().startswith("[") else None
    if not isinstance(whole, list):
        yield from ((number, _loaded(line, number, faults)) for number, line in lines)
        return
    faults.add("it is a JSON array, expected an object on each line", 1, mendable=True)
    if not whole:
        faults.add("it is empty, expected an object on each line")
    yield from enumerate(whole, start=1)


_NO_JSON = object()


def _loaded(text: str, line: int, faults: Faults) -> Any:
    """Parse JSON; return _NO_JSON if it is malformed, and report keys that an object repeats."""
    # If a key is repeated, Python keeps the last value without an error.
    doubled: list[str] = []

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            doubled.append(Counter(key for key, _ in pairs).most_common(1)[0][0])
        return found

    try:
        value = json.loads(text, object_pairs_hook=read)
    except (ValueError, RecursionError):
        return _NO_JSON
    for key in doubled:
        faults.add(f"an object has the key {key!r:.40} twice", line)
    return value


def _index(file: AnswerFile, line: int, found: Mapping[str, Any], faults: Faults) -> Scalar:
    if "UID" in found and "pairID" in found:  # BLiMP's ids consist of both values
        return f"{found['UID']}/{found['pairID']}"
    index = found.get("idx")
    if isinstance(file.answers, Text) and isinstance(index, Mapping) and "query" in index:
        sentence = "the idx is an object, as on the hub, expected only the number of its query"
        faults.add(sentence, line, mendable=True)
        index = index["query"]
    return index if isinstance(index, Scalar) else repr(index)


def _answer(
    file: AnswerFile, line: int, found: Mapping[str, Any], faults: Faults
) -> str | int | None:
    """Return the label of an object in the server's form.

    If there is no label, or its meaning is not clear, this is reported and None is returned.
    """
    _check_keys(line, found, faults)
    name = next((name for name in LABEL_NAMES if name in found), None)
    if name is None:
        names = ", ".join(map(repr, found)) or "none"
        faults.add(f"the object has no label: its keys are {names:.60}", line)
        return None
    label = found[name]
    if isinstance(label, list) and isinstance(file.answers, LabelSet):
        label = json.dumps(label)
    if not isinstance(label, Scalar):
        faults.add(f"the label is a {type(label).__name__}, expected a single value", line)
        return None
    value, problem = file.answers.understand(label)
    if problem:
        faults.add(problem, line, mendable=value is not None)
    return value


def _check_keys(line: int, found: Mapping[str, Any], faults: Faults) -> None:
    """Report keys that the server does not expect."""
    others = [name for name in found if name not in ("idx", "label")]
    if others and "idx" in found:
        names = ", ".join(map(repr, others))
        faults.add(f"the object has {names}, expected only idx and label", line, mendable=True)


# MultiRC's file has one JSON object per paragraph, with the questions and their answer options.
# Questions and options are numbered over the whole file.


class Option(NamedTuple):
    """Answer option of MultiRC.

    Attributes:
        paragraph: Id of the paragraph to which the option belongs.
        question: Id of the question to which the option belongs.
        label: 1 if the option is predicted to be a right answer, 0 if not; -1 if a file has no
            valid label.
    """

    paragraph: int
    question: int
    label: int


def write_multirc(options: Sequence[Option]) -> bytes:
    """Return the bytes of MultiRC's file, given the options in the order of their ids."""
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
    """Read MultiRC's answer options in a file, whichever program wrote it.

    All problems in the file are reported in the result.

    Args:
        file: Description of the file.
        content: Content of the file.
        ids: Expected ids of the options.
    """
    faults = Faults(file.name)
    objects = read_objects(content, faults)
    if not objects:
        return conclude(None, faults)
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
    """Yield every answer option in the objects.

    Objects that have a single option instead of a paragraph are accepted and reported. Malformed
    objects are reported and skipped.
    """
    for line, found in objects:
        idx = found.get("idx")
        if isinstance(idx, Mapping):
            faults.add(
                "the object is a single answer, expected a paragraph with its questions",
                line,
                mendable=True,
            )
            place = (idx.get("paragraph"), idx.get("question"))
            yield _Found(line, idx.get("answer"), place, found.get("label"))
            continue
        try:
            # The list is complete before it is yielded, so a malformed object yields no options.
            yield from [
                _Found(line, answer["idx"], (found["idx"], question["idx"]), answer["label"])
                for question in found["passage"]["questions"]
                for answer in question["answers"]
            ]
        except (KeyError, TypeError, AttributeError):
            faults.add(
                'the object does not have the structure {"idx", "passage": {"questions": [{"idx", '
                '"answers": [{"idx", "label"}]}]}}',
                line,
            )


def _option(
    file: AnswerFile, line: int, place: tuple[Any, Any], label: Any, faults: Faults
) -> Option:
    value, problem = file.answers.understand(label)
    if problem:
        faults.add(problem, line, mendable=value is not None)
    for kind, number in zip(("paragraph", "question"), place, strict=True):
        if not isinstance(number, int) or isinstance(number, bool):
            sentence = f"the idx of a {kind} is {number!r:.60}, expected a whole number"
            faults.add(sentence, line, kind=f"the idx of a {kind} is not a whole number")
    return Option(*place, value if isinstance(value, int) else -1)


def _check_places(file: AnswerFile, options: Sequence[Option], faults: Faults) -> None:
    """Report paragraphs and questions that are not numbered in order over the whole file."""
    # If the options of a paragraph are not contiguous, the paragraph is in this list twice.
    paragraphs = [paragraph for paragraph, _ in groupby(option.paragraph for option in options)]
    if file.paragraphs is not None and paragraphs != list(range(file.paragraphs)):
        last = file.paragraphs - 1
        faults.add(f"its paragraphs are not numbered from 0 to {last} in this order")
    questions = [question for question, _ in groupby(option.question for option in options)]
    if file.questions is not None and questions != list(range(file.questions)):
        faults.add(
            f"its questions are not numbered from 0 to {file.questions - 1} in this order: number "
            "the questions over the whole file, not per paragraph"
        )
