"""Texts of dev or test that stand in train too, as they are or nearly so.

Two texts are the same if their words are, whatever their case and punctuation, and nearly the same
if 85 % of their words agree in their order (difflib's ratio). Every row of train is compared with
those of the other split that share words pairs with it, so the cost grows with the rows of both,
not with their product.
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
"""How much of two texts agrees where they are nearly the same."""

FEWEST = 5
"""Shorter texts are only compared as they are: "a good film" and "a bad film" are two texts."""

MOST_WORDS = 400
"""How much of a text is looked at."""

MOST_ROWS = 100
"""A pair of words that more rows have tells nothing of any of them."""


class Leak(NamedTuple):
    """A row of a split and a row of train that it is like, by their ids."""

    row: str
    train: str
    is_same: bool


def words_of(example: Example) -> tuple[str, ...]:
    """The words that would give an example away, in lower case: all, or those of its passage."""
    texts = example.traits.own_texts or example.traits.texts
    found = [word for text in texts for word in re.findall(r"\w+", text.lower())]
    # A text of signs alone, such as ":-)", has no words and is compared as it is.
    return tuple(found or ["".join(texts)])


def find_leaks(train: Sequence[Example], others: Sequence[Example]) -> list[Leak]:
    """The rows of another split that are in train too, in their order."""
    asked: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, example in enumerate(others):
        asked[words_of(example)].append(number)
    learned = {words_of(example): example.id for example in reversed(train)}
    like = {words: (name, True) for words, name in learned.items() if words in asked}
    # `like` grows while `_near` looks into it: a text that was found is not compared again.
    for words, text in _near(list(learned), list(asked), like):
        like[text] = (learned[words], False)
    found = {n: Leak(others[n].id, *name) for text, name in like.items() for n in asked[text]}
    return [found[number] for number in sorted(found)]


def duplicate_groups(
    examples: Sequence[Example], given: Mapping[str, Any], *, is_near: bool
) -> dict[str, str]:
    """The group of each row by id: rows of one text, or nearly so, and those `given` one value.

    Rows of one context are of one text, whatever is asked about it.
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
    """A forest of texts that are nearly the same; kept, because dev is read right after train."""
    place = {words: number for number, words in enumerate(texts)}
    parents = list(range(len(texts)))
    for words, text in _near(texts, texts, ()):
        parents[_root(parents, place[words])] = _root(parents, place[text])
    return parents


def _root(parents: list[int], number: int) -> int:
    """The number that stands for a group."""
    while parents[number] != number:
        # Union-find with path halving: the way to the root is shorter for the next one who asks.
        parents[number] = parents[parents[number]]
        number = parents[number]
    return number


def _near(
    texts: Sequence[Words], others: Sequence[Words], done: Container[Words]
) -> Iterator[tuple[Words, Words]]:
    """Each text with those of the others that are nearly the same and not `done` by then."""
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
    """The neighbours among the words; none of a short text."""
    return set(pairwise(words[:MOST_WORDS])) if len(words) >= FEWEST else set()


def _candidates(
    words: Sequence[str],
    rows: Mapping[tuple[str, str], Sequence[int]],
) -> list[int]:
    """The rows that share at least a third of the pairs that are rare enough to count."""
    shared: Counter[int] = Counter()
    counted = 0
    for pair in _pairs(words):
        places = rows.get(pair, ())
        counted += len(places) <= MOST_ROWS
        if len(places) <= MOST_ROWS:
            shared.update(places)
    # Pairs of `words` that no other text has count too: they speak against a likeness.
    least = max(1, counted // 3)
    return [number for number, count in shared.items() if count >= least]


def _alike(words: Sequence[str], other: Sequence[str]) -> bool:
    one, two = words[:MOST_WORDS], other[:MOST_WORDS]
    # Without autojunk: from 200 words on difflib would leave out those that come often. Both quick
    # ratios are upper bounds of the ratio, and settle most pairs.
    matcher = SequenceMatcher(None, one, two, autojunk=False)
    return (
        matcher.real_quick_ratio() >= LIKE
        and matcher.quick_ratio() >= LIKE
        and matcher.ratio() >= LIKE
    )
