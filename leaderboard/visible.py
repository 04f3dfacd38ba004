"""Text from elsewhere, made safe to look at: what cannot be seen is spelled out."""

import unicodedata

__all__ = ["visible"]

# Control and format characters (U+202E turns the text after it around), lone surrogates (which no
# file can hold), unassigned and private ones, and the two invisible line ends.
_UNSEEN = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}


def visible(text: str, keep: str = "") -> str:
    r"""The text with every unseen character, except those in `keep`, as an escape (`\u202e`)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if _is_unseen(c) and c not in keep else c for c in text)


def _is_unseen(character: str) -> bool:
    return unicodedata.category(character) in _UNSEEN


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
