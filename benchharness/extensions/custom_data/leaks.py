"""Find texts of dev or test that also occur in train, exactly or nearly.

Two texts are identical if they have the same words, ignoring case and punctuation. They are nearly
identical if difflib's ratio of their sequences of words is at least 0.85. A row of train is
compared only with rows of the other split that share pairs of neighbouring words with it, so that
the cost grows with the rows of both splits and not with their product.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from benchharness.tasks.examples import (
    Example,
)

Words = tuple[str, ...]

LIKE = 0.85
"""Minimum difflib ratio between the words of two nearly identical texts."""

FEWEST = 5
"""Minimum number of words for a near match. Shorter texts, such as "a good film" and "a bad film",
only match exactly.
"""

MOST_WORDS = 400
"""Maximum number of words per text that the search for near matches reads. The rest of a longer
text is ignored.
"""

MOST_ROWS = 100
"""Maximum number of texts in which a pair of neighbouring words may occur. The search for near
matches ignores more frequent pairs, because they are weak evidence of a match.
"""


class Leak(NamedTuple):
    """A row of dev or test that has the same text, or nearly the same, as a row of train.

    Attributes:
        row: The id of the row in dev or test.
        train: The id of the row in train.
        is_same: True if the texts have the same words, False if they are only nearly identical.
    """

    row: str
    train: str
    is_same: bool


def words_of(example: Example) -> tuple[str, ...]:
    """Return the words by which the text of an example is compared with others, in lower case.

    If the example lists the texts to compare (`Traits.own_texts`), only these are used, else all of
    its texts. If they have no words, the result has one item: the texts, joined unchanged.
    """
    texts = example.traits.own_texts or example.traits.texts
    found = [word for text in texts for word in re.findall(r"\w+", text.lower())]
    # A text without letters and digits, such as ":-)", has no words and is compared as it is.
    return tuple(found or ["".join(texts)])


def find_leaks(train: Sequence[Example], others: Sequence[Example]) -> list[Leak]:
    """Find the rows whose text also occurs in train, exactly or nearly.

    Args:
        train: The examples of train.
        others: The examples of dev or test.

    Returns:
        One leak for each row of `others` whose text occurs in train, exactly or nearly, in the
        order of `others`.
    """
    asked: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, example in enumerate(others):
        asked[words_of(example)].append(number)
    learned = {words_of(example): example.id for example in reversed(train)}
    like = {words: (name, True) for words, name in learned.items() if words in asked}
    # `like` grows while `_near` reads it, so that a text that was found is not compared again.
    for words, text in _near(list(learned), list(asked), like):
        like[text] = (learned[words], False)
    found = {n: Leak(others[n].id, *name) for text, name in like.items() for n in asked[text]}
    return [found[number] for number in sorted(found)]


def duplicate_groups(
    examples: Sequence[Example], given: Mapping[str, Any], *, is_near: bool
) -> dict[str, str]:
    """Group the rows that share a text or a value.

    If an example has a passage, only its passage is compared, and not the question about it.

    Args:
        examples: The examples of the rows.
        given: A value for some rows, keyed by the id of the row. Rows with the same value are in
            one group.
        is_near: True if rows with nearly identical texts are grouped too.

    Returns:
        The name of each row's group, keyed by the id of the row. A row that shares nothing is alone
        in its group.
    """
    keys = tuple(
        tuple(re.findall(r"\w+", e.traits.passage.lower())) if e.traits.passage else words_of(e)
        for e in examples
    )
    texts = {words: number for number, words in enumerate(dict.fromkeys(keys))}
    parents = list(_near_parents(tuple(texts)) if is_near else range(len(texts)))
    firsts: dict[str, int] = {}
    for example, words in zip(examples, keys, strict=True):
        if (value := given.get(example.id)) is not None:
            first = firsts.setdefault(str(value), texts[words])
            parents[_root(parents, texts[words])] = _root(parents, first)
    pairs = zip(examples, keys, strict=True)
    return {example.id: str(_root(parents, texts[words])) for example, words in pairs}


@lru_cache(maxsize=1)
def _near_parents(texts: tuple[Words, ...]) -> list[int]:
    """Return a union-find list of parents in which nearly identical texts are joined.

    The last result is cached, because dev is read right after train.
    """
    place = {words: number for number, words in enumerate(texts)}
    parents = list(range(len(texts)))
    for words, text in _near(texts, texts, ()):
        parents[_root(parents, place[words])] = _root(parents, place[text])
    return parents


def _root(parents: list[int], number: int) -> int:
    """Return the index of the text that represents the group of a text."""
    while parents[number] != number:
        # Union-find with path halving, which shortens the path to the root for later calls.
        parents[number] = parents[parents[number]]
        number = parents[number]
    return number


def _near(
    texts: Sequence[Words], others: Sequence[Words], done: Container[Words]
) -> Iterator[tuple[Words, Words]]:
    """Yield pairs of nearly identical texts from `texts` and `others`, except texts in `done`."""
    rows: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, words in enumerate(others):
        for pair in _pairs(words):
            rows[pair].append(number)
    for words in texts:
        for number in _candidates(words, rows):
            other = others[number]
            if other is not words and other not in done and _alike(words, other):
                yield words, other


def _pairs(words: Sequence[str]) -> set[tuple[str, str]]:
    """Return the set of neighbouring word pairs in a text; it is empty for a short text."""
    return set(pairwise(words[:MOST_WORDS])) if len(words) >= FEWEST else set()


def _candidates(
    words: Sequence[str],
    rows: Mapping[tuple[str, str], Sequence[int]],
) -> list[int]:
    """Return the indices of rows that share at least a third of a text's informative word pairs."""
    shared: Counter[int] = Counter()
    counted = 0
    for pair in _pairs(words):
        places = rows.get(pair, ())
        counted += len(places) <= MOST_ROWS
        if len(places) <= MOST_ROWS:
            shared.update(places)
    # Pairs that no other text has are counted too: they are evidence against a match.
    least = max(1, counted // 3)
    return [number for number, count in shared.items() if count >= least]


def _alike(words: Sequence[str], other: Sequence[str]) -> bool:
    one, two = words[:MOST_WORDS], other[:MOST_WORDS]
    # With autojunk difflib would ignore frequent words in texts of 200 words or more. Both quick
    # ratios are upper bounds of the ratio, and rule out most pairs.
    matcher = SequenceMatcher(None, one, two, autojunk=False)
    return (
        matcher.real_quick_ratio() >= LIKE
        and matcher.quick_ratio() >= LIKE
        and matcher.ratio() >= LIKE
    )
