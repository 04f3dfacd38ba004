"""SuperGLUE's files: a JSON object a line, with an idx and a label."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tasks.submission.answer_file import AnswerFile, Reading, conclude
from tasks.submission.answers import Scalar
from tasks.submission.faults import Faults
from tasks.submission.order import Numbered, in_order
from tasks.submission.text import decoded, lines_of

__all__ = ["Object", "read_json_lines", "read_objects", "write_json_lines", "write_objects"]

Object = tuple[int, Mapping[str, Any]]
"""A line's number from 1 and the object on it."""

LABEL_NAMES = ("label", "prediction", "pred", "answer")
"""What others call the label."""


def write_json_lines(answers: Sequence[str | int]) -> bytes:
    """The file's bytes, one answer a line."""
    return write_objects({"idx": index, "label": answer} for index, answer in enumerate(answers))


def write_objects(objects: Iterable[Mapping[str, Any]]) -> bytes:
    """Objects as JSON, one a line."""
    return "".join(json.dumps(each) + "\n" for each in objects).encode()


def read_json_lines(file: AnswerFile, content: bytes, ids: Sequence[int]) -> Reading:
    """The answers of a file by anybody, with everything that is wrong with it."""
    faults = Faults(file.name)
    objects = read_objects(content, faults)
    rows = [
        Numbered(line, _index(found), _answer(file, line, found, faults)) for line, found in objects
    ]
    return conclude(in_order(rows, ids, faults), faults)


def read_objects(content: bytes, faults: Faults) -> list[Object]:
    """The objects of a file; what is none is a fault."""
    text = decoded(content, faults)
    lines = [] if text is None else lines_of(text, faults)
    if not lines:
        faults.add("it is empty, expected an object on each line")
        return []
    whole = _array("\n".join(line for _, line in lines))
    if whole is not None:
        faults.add("it is one JSON array, expected an object on each line", 1, mendable=True)
        return _objects(((number, each) for number, each in enumerate(whole, start=1)), faults)
    return _objects(_parsed(lines, faults), faults)


def _array(text: str) -> list[Any] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def _parsed(lines: Sequence[tuple[int, str]], faults: Faults) -> Iterator[tuple[int, Any]]:
    for number, line in lines:
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError):
            faults.add("the line is not JSON", number)


def _objects(values: Iterable[tuple[int, Any]], faults: Faults) -> list[Object]:
    objects: list[Object] = []
    for number, value in values:
        if isinstance(value, dict):
            objects.append((number, value))
        else:
            faults.add("the line is JSON, but no object", number)
    return objects


def _index(found: Mapping[str, Any]) -> Scalar:
    index = found.get("idx")
    return index if isinstance(index, Scalar) else repr(index)


def _answer(
    file: AnswerFile, line: int, found: Mapping[str, Any], faults: Faults
) -> str | int | None:
    """What the label of an object means."""
    _check_keys(line, found, faults)
    name = next((name for name in LABEL_NAMES if name in found), None)
    if name is None:
        faults.add(f"the object has no label: found {', '.join(found) or 'nothing'}", line)
        return None
    label = found[name]
    if not isinstance(label, Scalar):
        faults.add(f"the label is a {type(label).__name__}, expected a single value", line)
        return None
    value, problem = file.answers.understand(label)
    if problem:
        faults.add(problem, line, mendable=value is not None)
    return value


def _check_keys(line: int, found: Mapping[str, Any], faults: Faults) -> None:
    """Names that are not the server's; the answer is what one of LABEL_NAMES says."""
    others = [name for name in found if name not in ("idx", "label")]
    if others and "idx" in found:
        names = ", ".join(map(repr, others))
        faults.add(f"the object has {names}, expected idx and label", line, mendable=True)
