"""Answers with one tag per word, for named entities or the arguments of a predicate."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from benchharness.tasks.answers.base import (
    AnswerType,
    Cell,
    Judged,
    Passage,
    Stretch,
    Things,
    words_at,
)
from benchharness.tasks.examples import TagExample, TagPrediction
from benchharness.tasks.metrics.entities import arguments, named

OUTSIDE = "O"

Named = list[tuple[str, tuple[tuple[int, int], ...]]]
"""Entities or arguments in a sentence: for each, its type and the word spans that it covers.

A word span consists of the index of its first word and the index of the word after it.
"""


def starts_of(words: Sequence[str]) -> list[int]:
    """Return the character offset of each word in the text of the words joined by spaces.

    The list has one additional item: the offset that another word at the end would have.
    """
    return list(accumulate((len(word) + 1 for word in words), initial=0))


def _kind(tag: str) -> str:
    return tag.partition("-")[2] or tag


def _entities_of(kind: str) -> Things:
    return lambda found: {each for each in named(found.tags or ()) if each.kind == kind}


def _arguments_of(role: str) -> Things:
    return lambda found: {each for each in arguments(found.tags or ()) if each.role == role}


class Tags(AnswerType):
    """Answer type for tagging: an answer has one tag per word."""

    prediction = TagPrediction
    matrix = ("words", "Words with a gold or a predicted entity, by type; O means no entity")
    type_noun = "type"

    def from_python(self, example: TagExample, answer: Any) -> TagPrediction:
        is_list = hasattr(answer, "__iter__") and not isinstance(answer, str | bytes)
        tags = tuple(map(str, answer)) if is_list else None
        if tags is None:
            raise self.refuse(example, answer, "expected a list of tags")
        if len(tags) != len(example.words):
            count = f"{len(example.words)} tags, one per word, but got {len(tags)}"
            raise self.refuse(example, answer, f"expected {count}")
        return TagPrediction(id=example.id, tags=tags)

    def fits(self, prediction: TagPrediction, example: TagExample) -> bool:
        tags = prediction.tags
        is_text = isinstance(tags, tuple) and all(isinstance(tag, str) for tag in tags)
        return is_text and len(tags) == len(example.words)

    def wrong(self, example: TagExample, other: TagPrediction) -> TagPrediction:
        return TagPrediction(id=example.id, tags=(OUTSIDE,) * len(example.words))

    def key(self, prediction: TagPrediction) -> Hashable:
        return prediction.tags

    def collapsed(self, prediction: TagPrediction) -> Hashable:
        # Sentences differ in length, so predictions that repeat a single tag are compared by that
        # tag only. A run that predicts several tags in a sentence has not collapsed.
        tags = frozenset(prediction.tags)
        return tags if len(tags) < 2 else prediction.tags

    def near(self, prediction: Any, example: Any, *, right: bool) -> float:
        return -float(sum(a != b for a, b in zip(prediction.tags, example.tags, strict=True)))

    def near_words(self, near: float, prediction: Any) -> str:
        return f"{-near:g} wrong word{'' if near == -1 else 's'}"

    def cells(self, prediction: Any, example: Any, judged: Judged) -> Iterator[Cell]:
        for gold, guess in zip(example.tags, prediction.tags, strict=True):
            if (gold, guess) != (OUTSIDE, OUTSIDE):
                yield _kind(gold), _kind(guess)

    def rows(self) -> tuple[str, ...]:
        return (*dict.fromkeys(_kind(tag) for tag in self.task.tags if tag != OUTSIDE), OUTSIDE)

    def types(self, found: Iterable[Any]) -> Iterator[tuple[str, Things]]:
        for kind in self.rows()[:-1]:
            yield kind, _entities_of(kind)

    def average(self, predictions: Sequence[TagPrediction]) -> TagPrediction:
        """Predict for each word the most frequent tag among several models' predictions.

        If several tags are equally frequent, the one that comes first in the predictions is chosen.
        """
        columns = zip(*(p.tags for p in predictions), strict=True)
        # Counter sorts tags with equal counts by their first occurrence in the predictions.
        tags = (Counter(column).most_common(1)[0][0] for column in columns)
        return TagPrediction(id=predictions[0].id, tags=tuple(tags))

    def majority(self, examples: Sequence[TagExample]) -> Callable[[Any], TagPrediction]:
        (tag, _), *_ = Counter(tag for e in examples for tag in e.tags or ()).most_common(1)
        return lambda asked: TagPrediction(id=asked.id, tags=(tag,) * len(asked.words))

    def named(self, tags: Sequence[str]) -> Named:
        """Return the entities (types and word spans) that the tags of a sentence encode."""
        return [(found.kind, ((found.start, found.end),)) for found in named(tags)]

    def said(self, prediction: TagPrediction, example: Any = None, *, texts: bool = True) -> str:
        """Describe the entities or arguments for a reader, e.g. "Anna Meyer (PER)".

        Without an example, or if `texts` is false, the words are described by their position, e.g.
        "words 3 to 4 (PER)". The pieces of a discontinuous argument are joined by " ... ".
        """
        words = example.words if texts and example is not None else ()
        return (
            ", ".join(
                f"{' ... '.join(words_at(words, *place) for place in places)} ({kind})"
                for kind, places in self.named(prediction.tags)
            )
            or "(no entity)"
        )

    def written(self, prediction: TagPrediction, *, texts: bool = True) -> str:
        return " ".join(prediction.tags)

    def passages(self, example: TagExample) -> Iterator[Passage]:
        yield Passage("words", " ".join(example.words), holds_answers=True)

    def stretches(self, prediction: TagPrediction, example: TagExample) -> Iterator[Stretch]:
        starts = starts_of(example.words)
        yield from ((starts[e.start], starts[e.end] - 1) for e in named(prediction.tags))

    def facts(self, prediction: TagPrediction, example: Any) -> dict[str, Any]:
        return {"words": list(example.words), "tags": list(prediction.tags)}


class Roles(Tags):
    """Answer type for semantic roles: an answer has one tag per word, for one predicate."""

    matrix = ("words", "Words with a gold or a predicted role; O means no role")
    type_noun = "role"

    def unpublished(self) -> str:
        return "a BiLSTM for semantic roles"

    def rows(self) -> tuple[str, ...]:
        return ()  # most roles do not occur, so rows are added only for roles that occur

    def types(self, found: Iterable[Any]) -> Iterator[tuple[str, Things]]:
        for role in sorted({a.role for each in found for a in arguments(each.tags or ())}):
            yield role, _arguments_of(role)

    def named(self, tags: Sequence[str]) -> Named:
        return [(argument.role, argument.spans) for argument in arguments(tags)]

    def passages(self, example: Any) -> Iterator[Passage]:
        if example.predicate >= 0:
            yield Passage("predicate", example.words[example.predicate])
        yield from super().passages(example)
