"""Decode the bytes of a file, with a note for the user if the encoding had to be guessed."""

import re
from collections.abc import Mapping
from itertools import pairwise

from benchharness.errors import BenchError, DataError
from benchharness.tasks.sources.source import Place

MAGIC = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x1f\x8b": "a gzip file (which can be read if its name ends in .gz)",
    b"SQLite": "an SQLite database",
    b"PAR1": "Parquet",
    b"\x80\x03": "a pickle of Python",
    b"\x80\x04": "a pickle of Python",
    b"\x80\x05": "a pickle of Python",
    b"$FL2@(#)": "an SPSS file",
    b"<stata_dta>": "a Stata file",
}
"""Descriptions of file formats that are not text, keyed by the first bytes of such files."""


def text_of(
    path: Place, content: bytes, encoding: str, above: int = 0
) -> tuple[str, tuple[str, ...]]:
    """Decode the bytes of a file.

    Args:
        path: The file, for error messages.
        content: The bytes of the file, or of a part of it.
        encoding: The encoding that the user gave; "" to guess it.
        above: The number of the file's lines before `content`.

    Returns:
        The text, and notes for the user: one note if the encoding was guessed and is not UTF-8,
        else none.

    Raises:
        DataError: The content is not text or not in the given encoding, or the encoding cannot be
            guessed.
        BenchError: Python does not know the encoding.
    """
    check_is_text(path, content)
    if encoding:
        return _decoded(path, content, encoding, above), ()
    note = (
        f"{path.name} is read as {{}}, because it is not UTF-8 (--encoding sets another encoding)"
    )
    # Texts in UTF-16, such as Excel's "Unicode text", usually begin with a byte order mark.
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _decoded(path, content, "utf-16"), (note.format("utf-16"),)
    # A zero byte is valid UTF-8, but UTF-16 without a byte order mark has one next to every ASCII
    # letter.
    if b"\0" in content:
        line = above + content.count(b"\n", 0, content.index(b"\0")) + 1
        raise DataError(
            f"{path.name} line {line} has a zero byte, so it is not text: save it as UTF-8."
        )
    try:
        return content.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        if eastern := _eastern(content, error.start):
            return content.decode(eastern), (note.format(COMMON[eastern][0]),)
        return _western(path, content, error.start, above), (note.format("cp1252"),)


def check_is_text(path: Place, content: bytes) -> None:
    """Raise DataError if a file begins with the first bytes of a known binary format."""
    for magic, what in MAGIC.items():
        if content.startswith(magic):
            raise DataError(f"{path.name} is {what}: save its rows as CSV, JSON lines or Parquet.")


_BOTH = "的一是不了在人有我他上大中和地到以就出也可你生能而子那得下自之年作用道行所然家事成方多"
_KANA = "のにはをたがでてとしれさいるあもなからうりっこまくすきそどけ"
COMMON: Mapping[str, tuple[str, str]] = {
    "gb18030": ("GB18030", _BOTH + "这个们来为国说时要会对着过发后里种经么去学现没动还进样很"),
    "cp950": ("Big5", _BOTH + "這個們來為國說時要會對著過發後裡種經麼去學現沒動還進樣很"),
    "cp932": ("Shift-JIS", _KANA),
    "euc_jp": ("EUC-JP", _KANA),
    "cp949": ("EUC-KR", "이다는의에고을가하지를은도로한자기나사리어서아시인대그해일들부정수여있었"),
}
"""East Asian encodings, keyed by their names in Python. A value is the usual name of the encoding,
and the most common characters of its language.
"""

CONVINCING, FEWEST_LETTERS, LOOKED_AT = 0.2, 20, 2**16
"""A text is decoded with an East Asian encoding only if it has at least FEWEST_LETTERS non-ASCII
letters, and if at least the share CONVINCING of them are common characters of the language. At most
LOOKED_AT bytes of the text are examined.
"""


_NO_LETTER = re.compile("[\x80-\x9f\ue000-\uf8ff\ufffd]")
"""Pattern of characters that result from bytes to which an encoding assigns no letter."""


def _eastern(content: bytes, odd: int) -> str:
    """Return the only East Asian encoding in which a text has enough common characters, else "".

    With a wrong encoding the bytes become random characters of the same script, of which about 3 %
    are common. `odd` is the index of the first byte that is not UTF-8.
    """
    start = content.rfind(b"\n", 0, odd) + 1
    part = content[start : start + LOOKED_AT]
    part = part[: part.rfind(b"\n") + 1] or part
    found = [name for name in COMMON if _has_common_letters(part, name)]
    if len(found) != 1 or _NO_LETTER.search(content.decode(found[0], "replace")):
        return ""
    return found[0]


def _has_common_letters(part: bytes, encoding: str) -> bool:
    try:
        letters = [c for c in part.decode(encoding) if ord(c) > 127 and c.isalpha()]
    except UnicodeDecodeError:
        return False
    common = sum(map(COMMON[encoding][1].__contains__, letters))
    return len(letters) >= FEWEST_LETTERS and common >= CONVINCING * len(letters)


MOST_STRANGE = 0.4
"""Maximum share of non-ASCII letters among the letters of a text in a western language."""

_LATIN = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ff\u0152\u0153\u0160\u0161\u0178\u017d\u017e"
_SYMBOLS = (
    "\u00a1-\u00ac\u00ae-\u00b3\u00b5\u00b6\u00b8-\u00bf\u00d7\u00f7\u201a\u201d\u201e\u2020\u2021\u02c6\u2030\u2039\u203a\u02dc"
    "\u2122"
)
_WITHIN = re.compile(
    f"(?<=[{_LATIN}])[{_SYMBOLS}](?=[{_LATIN}])|"
    "(?<=[a-z\u00df-\u00ff])[\u00c0-\u00de\u0152\u0160\u0178\u017d]"
)
"""Pattern of signs of a wrong encoding: a symbol between two Latin letters, or an upper-case letter
with an accent after a lower-case letter. The acute accent is not one of the symbols, because people
type it instead of an apostrophe.
"""

_UNUSUAL = re.compile("[\u00c0-\u024f]{3}|[A-Za-z][\u0370-\u04ff]|\ufffd")
"""Pattern of text that was probably decoded wrongly.

It matches three Latin letters with accents in a row, a Greek or Cyrillic letter after a Latin one,
or U+FFFD, which replaces bytes that could not be decoded.
"""

OTHERS = ("cp1250", "cp1251", "mac_roman", "cp850", "cp1253", "cp1254", "koi8_r", "cp1252")
"""Encodings that an error message offers if the encoding of a file cannot be detected."""

MOST_OFFERED = 3
"""Maximum number of encodings that an error message offers."""


def _offers(content: bytes, odd: int) -> str:
    """Return the likely encodings as options, each with the word that it gives at index `odd`."""
    start, end = odd, odd + 1
    while start > 0 and _is_in_word(content[start - 1 : start]):
        start -= 1
    while end < len(content) and _is_in_word(content[end : end + 1]):
        end += 1
    part = content[content.rfind(b"\n", 0, odd) + 1 :][:LOOKED_AT]
    words: dict[str, tuple[int, str]] = {}
    for name in OTHERS:
        text, word = (some.decode(name, "replace") for some in (part, content[start:end][:40]))
        if word.isalpha() and word not in words:
            capitals = sum(b.isupper() and a.isalpha() for a, b in pairwise(text))
            signs = len(_WITHIN.findall(text)) + len(_UNUSUAL.findall(text))
            words[word] = capitals + signs, name
    ranked = sorted(words, key=lambda word: words[word][0])[:MOST_OFFERED]
    return " or ".join(
        f"--encoding {words[word][1]} (which reads {word!r} there)" for word in ranked
    )


def _is_in_word(byte: bytes) -> bool:
    return byte.isalnum() or byte >= b"\x80"


def _western(path: Place, content: bytes, odd: int, above: int) -> str:
    """Decode cp1252, the western encoding of Windows; raise DataError if the result is implausible.

    `odd` is the index of the first byte that is not UTF-8.
    """
    found = content.decode("cp1252", "replace")
    # cp1252 leaves five bytes undefined (81, 8D, 8F, 90 and 9D). If a text has another encoding,
    # decoding it as cp1252 gives undefined bytes, symbols or capitals within words ("wa\u00bfny",
    # "f\u0178r"), or many non-ASCII letters. A single odd symbol may be meant ("Coca\u00aeCola").
    strange = [letter for letter in found if ord(letter) > 127]
    letters = sum(map(str.isalpha, found))
    is_foreign = sum(map(str.isalpha, strange)) > MOST_STRANGE * letters
    if "\ufffd" in found or is_foreign or len(_WITHIN.findall(found)) > max(1, len(strange) / 10):
        line = above + content.count(b"\n", 0, odd) + 1
        column = odd - content.rfind(b"\n", 0, odd)
        offers = _offers(content, odd) or "its encoding with --encoding"
        raise DataError(
            f"{path.name} line {line} column {column} is not UTF-8, and its encoding cannot be "
            f"detected: pass {offers}."
        )
    return found


def _decoded(path: Place, content: bytes, encoding: str, above: int = 0) -> str:
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeError as error:
        odd = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = above + content.count(b"\n", 0, odd) + 1
        raise DataError(
            f"{path.name} line {line} cannot be read as {encoding}: {error}."
        ) from error
    except LookupError as error:
        raise BenchError(
            f"--encoding is {encoding!r}, which is not a text encoding of Python: use one such as "
            "latin-1 or utf-16."
        ) from error
