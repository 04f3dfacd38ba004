"""Damage to a file, drawn by hypothesis: to its bytes, lines, fields, or the values of its JSON."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

__all__ = ["anything", "damaged"]

Draw = Callable[[st.SearchStrategy[Any]], Any]
Edit = Callable[[Draw, bytes], bytes]

PIECES = (
    *(b"\t", b"\n", b"\r\n", b" ", b",", b'"', b"'", b":", b"=", b"#", b"-", b".", b"/", b"../"),
    *(b"{", b"}", b"[", b"]", b"\\", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"null", b"true", b"-1", b"1e999", b"NaN", b"9" * 5000, b"\\ud800", b"[" * 3000),
    *("\u2028".encode(), "\u200b".encode(), "e\u0301".encode(), "\u0665".encode()),
)
"""Bytes that mean something to one reader or another, and some that mean nothing to any."""

FIELDS = (
    *("", " ", "NA", "null", "-1", "0", "1", "2", "7", "1.5", "1e999", "nan", "inf", "-0", "+1"),
    *("one", "True", "true", "0x1", "1_0", "\u0665", "\u00b2", "9" * 400, "x" * 3000, "\0"),
)
"""Values of a field between separators; digits of other scripts are digits to Python too."""

VALUES = (
    *(None, True, False, 0, 1, -1, 2.5, 10**30, -(10**400), float("nan"), float("inf"), -0.0),
    *("", "x", "\ud800", "\0", "\u2028", "1", "nan", "../x", "x" * 3000),
    *([], {}, [[]], [None], {"": None}, [{}], {"value": 1}, {"idx": -1}),
)
"""JSON values of every type; Python's json reads NaN and Infinity, and integers of any size."""


def anything() -> st.SearchStrategy[bytes]:
    """Bytes of no file at all: random ones, JSON of any shape, and what looks like a table."""
    leaves = st.sampled_from(VALUES)
    documents = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
        max_leaves=12,
    ).map(_dumped)
    rows = st.lists(st.lists(st.sampled_from(FIELDS), max_size=4).map("\t".join), max_size=5)
    return st.binary(max_size=200) | documents | rows.map(lambda lines: "\n".join(lines).encode())


def damaged(contents: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """One of these files with one to four edits."""
    return _damaged(tuple(contents))


@st.composite
def _damaged(draw: Draw, contents: tuple[bytes, ...]) -> bytes:
    content: bytes = draw(st.sampled_from(contents))
    for edit in draw(st.lists(st.sampled_from(EDITS), min_size=1, max_size=4)):
        content = edit(draw, content)
    return content


def _place(draw: Draw, content: bytes) -> int:
    return int(draw(st.integers(0, len(content))))


def _put_in(draw: Draw, content: bytes) -> bytes:
    place = _place(draw, content)
    return content[:place] + bytes(draw(st.sampled_from(PIECES))) + content[place:]


def _take_out(draw: Draw, content: bytes) -> bytes:
    place = _place(draw, content)
    return content[:place] + content[place + draw(st.integers(1, 12)) :]


def _flip(draw: Draw, content: bytes) -> bytes:
    place, bit = _place(draw, content), draw(st.integers(0, 7))
    flipped = bytes(byte ^ 1 << bit for byte in content[place : place + 1])
    return content[:place] + flipped + content[place + 1 :]


def _cut(draw: Draw, content: bytes) -> bytes:
    return content[: _place(draw, content)]


def _shuffle_lines(draw: Draw, content: bytes) -> bytes:
    """One line lost, doubled, or moved to another place."""
    lines = content.split(b"\n")
    number = draw(st.integers(0, len(lines) - 1))
    line = lines.pop(number)
    for _ in range(draw(st.integers(0, 2))):
        lines.insert(draw(st.integers(0, len(lines))), line)
    return b"\n".join(lines)


def _change_field(draw: Draw, content: bytes) -> bytes:
    """A field of a line replaced, lost, or doubled."""
    lines = content.split(b"\n")
    number = draw(st.integers(0, len(lines) - 1))
    between = draw(st.sampled_from((b"\t", b" ", b",", b"=")))
    fields = lines[number].split(between)
    place = draw(st.integers(0, len(fields) - 1))
    new = draw(st.sampled_from(FIELDS)).encode()
    fields[place : place + 1] = draw(st.sampled_from(([new], [], [fields[place]] * 2)))
    lines[number] = between.join(fields)
    return b"\n".join(lines)


def _change_value(draw: Draw, content: bytes) -> bytes:
    """A value inside the JSON of the file, or of one of its lines, replaced, lost, or renamed."""
    parts = [content] if _parsed(content) is not None else content.split(b"\n")
    number = draw(st.integers(0, len(parts) - 1))
    document = _parsed(parts[number])
    places = list(_places(document))
    if not places:
        return content
    inside, key = draw(st.sampled_from(places))
    match draw(st.integers(0, 4)):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, dict):
            inside[draw(st.sampled_from(("", "x", "idx", "sha256")))] = inside.pop(key)
        case 2:
            inside[key] = [inside[key]]
        case _:
            inside[key] = draw(st.sampled_from(VALUES))
    parts[number] = _dumped(document)
    return b"\n".join(parts)


EDITS: tuple[Edit, ...] = (
    _put_in,
    _take_out,
    _flip,
    _cut,
    _shuffle_lines,
    _change_field,
    _change_value,
    _change_value,
)


def _parsed(text: bytes) -> Any:
    """The JSON object or list that a text is, else None."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def _dumped(document: Any) -> bytes:
    return json.dumps(document).encode()


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document that can be changed: the list or object, and the index or key."""
    if isinstance(document, dict | list):
        keys = list(document) if isinstance(document, dict) else range(len(document))
        for key in keys:
            yield document, key
            yield from _places(document[key])
