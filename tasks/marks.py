"""Marked stretches of a text: where the words are that a question is about (WiC, WSC)."""

import re
from string import punctuation

from tasks.examples import Mark

__all__ = ["character_mark", "word_mark"]


def character_mark(text: str, which: str, start: int, end: int) -> Mark:
    """The characters [start, end) of text "a" or "b"; ValueError where they are not inside it."""
    if not 0 <= start < end <= len(text):
        raise ValueError(f"its mark {start} to {end} is not inside {text!r}")
    return Mark(text=which, start=start, end=end)


def word_mark(text: str, index: int, span: str) -> Mark:
    """Where the words `span` stand in text "a", given the white-space word that they begin at.

    WSC's spans are often not what stands at their index: the word there may end in a comma or an
    "'s", the span may differ in case, in a line break or by a full stop of its own, or it may stand
    some words further on (SuperGLUE's data, and the repairs of the hub's "wsc.fixed"). So the mark
    is on the occurrence nearest to the index. A span that stands nowhere ("Kamenev and Zinoviev" of
    two men named apart) is marked by its number of words from the index.
    """
    words = list(re.finditer(r"\S+", text))
    if not 0 <= index < len(words):
        raise ValueError(f"its word index {index} is not inside the {len(words)} words of {text!r}")
    wanted = span.strip().strip(punctuation).split()
    pattern = r"\s+".join(re.escape(word) for word in wanted)
    start = words[index].start()
    found = re.finditer(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) if wanted else ()
    nearest = min(found, key=lambda match: abs(match.start() - start), default=None)
    if nearest is not None:
        return Mark(text="a", start=nearest.start(), end=nearest.end())
    last = words[min(index + max(len(wanted), 1), len(words)) - 1]
    return Mark(text="a", start=start, end=last.end())
