"""Recognise how tags of words are spelled: spans in one of the usual schemes, or plain tags.

Tags of spans may be written B-PER and I-PER (IOB1, IOB2), with the letters E, S, L, U or M (IOBES,
BILOU, BMES), with another separator, with a lower-case letter (b-PER), or with the letter at the
end (PER-B). They may also be a letter alone (B, I) or, if most words are outside of spans, a label
alone (PER, PER, O). All of them are converted to tags that begin with B- and I-.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

OUTSIDE = "O"

IN_IOB = {"B": "B", "I": "I", "E": "I", "L": "I", "M": "I", "S": "B", "U": "B"}
"""Letter of IOB (B or I) that replaces a letter of IOBES, BILOU or BMES, keyed by that letter."""

OUTSIDES = frozenset(("o", "0", "_", "-", "out", "outside", "none", "null", "nil", "other"))
"""Tags of words outside of all spans, in lower case."""

SPAN = "SPAN"
"""Label of all spans if the data do not name their labels, as with the tags "B" and "I"."""

MOSTLY = 0.5
"""Minimum share of words outside of spans in a file whose tags are bare labels such as PER. With a
smaller share, the tags are not read as tags of spans.
"""

FEW_MISTAKES = 0.25
"""Maximum number of tags that break a scheme, divided by the number of tags that mark spans in this
scheme. Above it, the file is assumed not to use the scheme.
"""

_BEFORE = re.compile(r"([BIESLUMbieslum])[-_.:/|](.+)")
_BEHIND = re.compile(r"(.+)[-_.:/|]([BIESLUM])")
_ALONE = re.compile(r"([BIESLUM])[-_]?")


class Spelling(NamedTuple):
    """Scheme that the tags in a file follow.

    Attributes:
        kinds: The labels of the spans, such as PER; empty if the tags do not mark spans.
        odd: Tags that break the scheme.
        said: A note for the user on an unusual scheme, or "".
    """

    kinds: frozenset[str]
    odd: tuple[str, ...] = ()
    said: str = ""


def is_entity_tag(tag: str) -> bool:
    """Return whether a tag is O or consists of a letter, a hyphen and a label, such as B-PER.

    The letter must belong to IOB, IOBES, BILOU or BMES.
    """
    return tag == OUTSIDE or (tag[:1] in IN_IOB and tag[1:2] == "-" and len(tag) > 2)


def spelling_of(tags: Mapping[str, int]) -> Spelling:
    """Detect the scheme that tags follow.

    Args:
        tags: The number of occurrences of each tag, keyed by tag.

    Returns:
        The scheme. Its `kinds` are empty if the tags mark no spans.
    """
    for scheme in (_usual, _before, _behind, _alone):
        if (found := scheme(tags)) is not None:
            return found
    return _by_name(tags) or Spelling(frozenset())


def to_iob(tag: str, kinds: Collection[str]) -> str | None:
    """Convert a tag to O, or to B- or I- with a label.

    Args:
        tag: The tag as it is written in the file.
        kinds: The known labels of spans. If a tag can be split into a letter and a label in several
            ways, a label in `kinds` is preferred. A tag that is itself in `kinds`, such as PER,
            gets the prefix I-.

    Returns:
        The converted tag, or None if the tag follows no scheme.
    """
    for letter, kind in _parts(tag):
        if kind in kinds:
            return f"{IN_IOB[letter]}-{kind}"
    if tag in kinds:
        return f"I-{tag}"
    if is_entity_tag(tag):  # the tag is O, or train lacks the label of its span
        return tag if tag == OUTSIDE else f"{IN_IOB[tag[0]]}-{tag[2:]}"
    for letter, kind in _parts(tag):
        if kind != SPAN:
            return f"{IN_IOB[letter]}-{kind}"
    return OUTSIDE if tag.lower() in OUTSIDES else None


def kinds_of(labels: Sequence[str]) -> frozenset[str]:
    """Return the span labels, such as PER, in IOB tags; empty if some tag is not an IOB tag."""
    if not all(label == OUTSIDE or label[:2] in ("B-", "I-") for label in labels):
        return frozenset()
    return frozenset(label[2:] for label in labels if label != OUTSIDE)


def _parts(tag: str) -> Iterator[tuple[str, str]]:
    """Yield the letter and the kind of a tag for each way to read it."""
    if before := _BEFORE.fullmatch(tag):
        yield before[1].upper(), before[2]
    if behind := _BEHIND.fullmatch(tag):
        yield behind[2], behind[1]
    if alone := _ALONE.fullmatch(tag):
        yield alone[1], SPAN


def _usual(tags: Mapping[str, int]) -> Spelling | None:
    kinds = {tag[2:] for tag in tags if is_entity_tag(tag) and tag != OUTSIDE}
    odd = [tag for tag in tags if not is_entity_tag(tag)]
    if not kinds or not _are_mistakes(tags, odd, is_entity_tag):
        return None
    return Spelling(frozenset(kinds), tuple(odd))


def _before(tags: Mapping[str, int]) -> Spelling | None:
    def parts(tag: str) -> tuple[str, str] | None:
        found = _BEFORE.fullmatch(tag)
        return (found[1].upper(), found[2]) if found else None

    return _spelled(tags, parts)


def _behind(tags: Mapping[str, int]) -> Spelling | None:
    def parts(tag: str) -> tuple[str, str] | None:
        found = _BEHIND.fullmatch(tag)
        return (found[2], found[1]) if found else None

    return _spelled(tags, parts)


def _alone(tags: Mapping[str, int]) -> Spelling | None:
    def parts(tag: str) -> tuple[str, str] | None:
        found = _ALONE.fullmatch(tag)
        return (found[1], SPAN) if found else None

    # If all tags are letters, every word is in a span, as in Chinese word segmentation.
    letters = {tag[0] for tag in tags if parts(tag)}
    is_whole = all(map(parts, tags)) and "B" in letters and bool(letters & set("IME"))
    return _spelled(tags, parts, has_outside=not is_whole)


def _spelled(
    tags: Mapping[str, int],
    parts: Callable[[str], tuple[str, str] | None],
    *,
    has_outside: bool = True,
) -> Spelling | None:
    """Return the scheme whose tags `parts` can split; None if the tags do not follow it."""
    read = {tag: found for tag in tags if (found := parts(tag))}
    rest = [tag for tag in tags if tag not in read]
    outside = next((tag for tag in rest if tag.lower() in OUTSIDES), None)
    odd = [tag for tag in rest if tag != outside]
    begins = any(letter in "BSU" for letter, _ in read.values())
    if (outside is None and has_outside) or not begins:
        return None
    if not _are_mistakes(tags, odd, read.__contains__):
        return None
    first = next(iter(read))
    letter, kind = read[first]
    said = f"tags such as {first} are read as {IN_IOB[letter]}-{kind}"
    if outside not in (None, OUTSIDE):
        said += f", and {outside} as {OUTSIDE}"
    return Spelling(frozenset(kind for _, kind in read.values()), tuple(odd), said)


def _by_name(tags: Mapping[str, int]) -> Spelling | None:
    """Detect bare names as tags of spans, if most words are outside; "0" does not mean outside."""
    words = sum(tags.values())
    outside = next((tag for tag in tags if tag.lower() in OUTSIDES - {"0"}), None)
    kinds = frozenset(tag for tag in tags if tag != outside)
    if outside is None or not kinds or tags[outside] < MOSTLY * words:
        return None
    first = next(tag for tag in tags if tag in kinds)
    said = f"tags such as {first} are read as spans, and neighbours with the same tag as one span"
    return Spelling(kinds, (), f"{said}; {outside} means outside of spans")


def _are_mistakes(
    tags: Mapping[str, int], odd: Sequence[str], is_read: Callable[[str], bool]
) -> bool:
    """Return whether the tags that break a scheme are few enough to be mistakes."""
    counted = Counter(tags)
    spans = sum(n for tag, n in counted.items() if is_read(tag) and tag.lower() not in OUTSIDES)
    return sum(counted[tag] for tag in odd) <= FEW_MISTAKES * spans
