"""Damage to a file: to its bytes, lines, fields, or the values of its JSON.

All draws come from a `Random`: hypothesis passes one whose draws it can shrink, a long run an
ordinary one, which is faster.
"""

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Edit = Callable[[Random, bytes], bytes]

PIECES = (
    *(b"\t", b"\n", b"\r\n", b" ", b",", b'"', b"'", b":", b"=", b"#", b"-", b".", b"/", b"../"),
    *(b"{", b"}", b"[", b"]", b"\\", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"null", b"true", b"-1", b"1e999", b"NaN", b"9" * 5000, b"\\ud800", b"[" * 3000),
    *("\u2028".encode(), "\u200b".encode(), "e\u0301".encode(), "\u0665".encode()),
)
"""Byte strings that some reader interprets, and some that none does."""

FIELDS = (
    *("", " ", "NA", "null", "-1", "0", "1", "2", "7", "1.5", "1e999", "nan", "inf", "-0", "+1"),
    *("one", "True", "true", "0x1", "1_0", "\u0665", "\u00b2", "9" * 400, "x" * 3000, "\0"),
)
"""Field values; Python takes digits of other scripts for digits too."""

VALUES = (
    *(None, True, False, 0, 1, -1, 2.5, 10**30, -(10**400), float("nan"), float("inf"), -0.0),
    *("", "x", "\ud800", "\0", "\u2028", "1", "nan", "../x", "x" * 3000),
    *([], {}, [[]], [None], {"": None}, [{}], {"value": 1}, {"idx": -1}),
)
"""JSON values of every type; Python's json reads NaN, Infinity and integers of any size."""

KEYS = ("", "x", "idx", "value", "sha256", "model_type", "label")


def damaged(draw: Random, content: bytes) -> bytes:
    """Return the file with one to four edits."""
    for _ in range(draw.randint(1, 4)):
        content = draw.choice(EDITS)(draw, content)
    return content


def anything(draw: Random) -> bytes:
    """Return unrelated content: random bytes, JSON of any shape, or something like a table."""
    match draw.randrange(3):
        case 0:
            return bytes(draw.randrange(256) for _ in range(draw.randrange(200)))
        case 1:
            return _dumped(_document(draw, 3))
    rows = [[draw.choice(FIELDS) for _ in range(draw.randrange(4))] for _ in range(4)]
    return "\n".join(map("\t".join, rows)).encode()


def _document(draw: Random, depth: int) -> Any:
    match draw.randrange(4) if depth else 0:
        case 1:
            return [_document(draw, depth - 1) for _ in range(draw.randrange(4))]
        case 2:
            return {draw.choice(KEYS): _document(draw, depth - 1) for _ in range(3)}
    return draw.choice(VALUES)


def _place(draw: Random, content: bytes) -> int:
    return draw.randint(0, len(content))


def _put_in(draw: Random, content: bytes) -> bytes:
    place = _place(draw, content)
    return content[:place] + draw.choice(PIECES) + content[place:]


def _take_out(draw: Random, content: bytes) -> bytes:
    place = _place(draw, content)
    return content[:place] + content[place + draw.randint(1, 12) :]


def _flip(draw: Random, content: bytes) -> bytes:
    place, bit = _place(draw, content), draw.randrange(8)
    flipped = bytes(byte ^ 1 << bit for byte in content[place : place + 1])
    return content[:place] + flipped + content[place + 1 :]


def _cut(draw: Random, content: bytes) -> bytes:
    return content[: _place(draw, content)]


def _shuffle_lines(draw: Random, content: bytes) -> bytes:
    """Delete, repeat or move one line."""
    lines = content.split(b"\n")
    line = lines.pop(draw.randrange(len(lines)))
    for _ in range(draw.randrange(3)):
        lines.insert(draw.randint(0, len(lines)), line)
    return b"\n".join(lines)


def _change_field(draw: Random, content: bytes) -> bytes:
    """Replace, delete or repeat a field of a line."""
    lines = content.split(b"\n")
    number, between = draw.randrange(len(lines)), draw.choice((b"\t", b" ", b",", b"="))
    fields = lines[number].split(between)
    place, new = draw.randrange(len(fields)), draw.choice(FIELDS).encode()
    fields[place : place + 1] = draw.choice(([new], [], [fields[place]] * 2))
    lines[number] = between.join(fields)
    return b"\n".join(lines)


def _change_value(draw: Random, content: bytes) -> bytes:
    """Replace, delete or rename a value in the JSON of the file, or of one of its lines."""
    parts = [content] if _parsed(content) is not None else content.split(b"\n")
    number = draw.randrange(len(parts))
    document = _parsed(parts[number])
    places = list(_places(document))
    if not places:
        return content
    inside, key = draw.choice(places)
    match draw.randrange(5):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, dict):
            inside[draw.choice(KEYS)] = inside.pop(key)
        case 2:
            inside[key] = [inside[key]]
        case _:
            inside[key] = draw.choice(VALUES)
    parts[number] = _dumped(document)
    return b"\n".join(parts)


def _recode(draw: Random, content: bytes) -> bytes:
    """Encode the text in another encoding."""
    encoding = draw.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "utf-8-sig"))
    return content.decode(errors="replace").encode(encoding, errors="replace")


def _repeat(draw: Random, content: bytes) -> bytes:
    """Append the last lines again, 1 or 60 times."""
    lines = content.split(b"\n")
    some = lines[draw.randrange(len(lines)) :]
    return b"\n".join(lines + some * draw.choice((1, 1, 60)))


def _double_key(draw: Random, content: bytes) -> bytes:
    """Repeat a key of an object with another value."""
    places = [place for place in range(len(content)) if content.startswith(b'": ', place)]
    if not places:
        return content
    place = draw.choice(places)
    start = content.rfind(b'"', 0, place)
    again = content[start:place] + b'": ' + _dumped(draw.choice(VALUES)) + b", "
    return content[:start] + again + content[start:]


def _change_kind(draw: Random, content: bytes) -> bytes:
    """Turn every value of a flat object into a number, a text, or both in turn."""
    document = _parsed(content)
    if not isinstance(document, dict):
        return content
    make = draw.choice((lambda _: draw.random() * 1e-17, str, lambda _: 0.5))
    some = draw.randint(1, max(1, len(document)))
    changed = {key: make(value) for key, value in list(document.items())[:some]}
    return _dumped({**document, **changed})


EDITS: tuple[Edit, ...] = (
    _put_in,
    _take_out,
    _flip,
    _cut,
    _shuffle_lines,
    _change_field,
    _change_value,
    _change_value,
    _recode,
    _repeat,
    _double_key,
    _change_kind,
)


def _parsed(text: bytes) -> Any:
    """Return the JSON object or list of a text, or None."""
    if text.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _dumped(document: Any) -> bytes:
    return json.dumps(document).encode()


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Return every (container, index or key) of a document that can be changed."""
    if isinstance(document, dict | list):
        keys = list(document) if isinstance(document, dict) else range(len(document))
        for key in keys:
            yield document, key
            yield from _places(document[key])
