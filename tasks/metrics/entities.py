"""Metrics of named entities (conlleval) and semantic roles (srl-eval.pl)."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from benchharness.errors import BenchError
from benchharness.tasks.examples import (
    TagExample,
    TagPrediction,
)
from benchharness.tasks.task import Metric, Printed, Script, harmonic

TagMetric = Metric[TagPrediction, TagExample]
Tagged = Sequence[TagPrediction]
Sentences = Sequence[TagExample]
Sentence = tuple[Sequence[str], Sequence[str]]
"""Pair of the predicted tags and the gold tags of a sentence."""


class Entity(NamedTuple):
    """Named entity in a sentence.

    Attributes:
        start: Index of the first word of the entity.
        end: Index of the word after the entity.
        kind: Type of the entity, e.g. "PER".
    """

    start: int
    end: int
    kind: str


def entities(tags: Sequence[str]) -> list[Entity]:
    """Decode the tags of a sentence as in conlleval, and return the entities in order.

    A tag "B-X" always begins an entity of type X. A tag "I-X" continues an entity of type X if one
    ends directly before it; otherwise it begins an entity. So IOB1, IOB2 and invalid sequences from
    a model can all be decoded.

    Raises:
        BenchError: If a tag is not "O", "B-X" or "I-X" with some type X.
    """
    found: list[Entity] = []
    for index, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        if tag == "O":
            continue
        if prefix not in {"B", "I"} or not kind:
            raise BenchError(f"the tag {tag!r} is not O, B-... or I-...: use IOB1 or IOB2 tags.")
        last = found[-1] if found else None
        # "B-PER O I-PER" and "B-PER I-LOC" are two entities each, "B-PER I-PER" is one.
        if prefix == "I" and last and last.end == index and last.kind == kind:
            found[-1] = last._replace(end=index + 1)
        else:
            found.append(Entity(index, index + 1, kind))
    return found


def are_entity_tags(tags: Iterable[str]) -> bool:
    """Return whether every tag is "O", "B-X" or "I-X" with some type X (unlike parts of speech)."""
    return all(tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2) for tag in tags)


def named(tags: Sequence[str]) -> list[Entity]:
    """Return the entities that the tags of a sentence encode.

    If the tags are not entity tags (e.g. parts of speech), the result has one Entity per word, and
    `kind` is the tag of the word.
    """
    if are_entity_tags(tags):
        return entities(tags)
    return [Entity(place, place + 1, tag) for place, tag in enumerate(tags)]


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Convert entity tags to IOB2, in which the first word of every entity is tagged "B-..."."""
    result = ["O"] * len(tags)
    for entity in entities(tags):
        result[entity.start : entity.end] = [f"I-{entity.kind}"] * (entity.end - entity.start)
        result[entity.start] = f"B-{entity.kind}"
    return tuple(result)


def to_iob1(tags: Sequence[str]) -> tuple[str, ...]:
    """Convert entity tags to IOB1, the scheme of CoNLL-2003's files.

    In IOB1, the first word of an entity is tagged "B-..." only if the entity directly follows
    another entity of the same type. All other words of entities are tagged "I-...".
    """
    result = list(to_iob2(tags))
    for index, tag in enumerate(result):
        kind = tag.partition("-")[2]
        # The previous tag may have been converted already, but conversion does not change its type.
        if tag != "O" and (index == 0 or result[index - 1].partition("-")[2] != kind):
            result[index] = f"I-{kind}"
    return tuple(result)


def is_iob1(tags: Sequence[str]) -> bool:
    """Return whether entity tags are valid IOB1 (see `to_iob1`)."""
    return to_iob1(tags) == tuple(tags)


def tagged_pairs(predictions: Tagged, examples: Sentences) -> Iterable[Sentence]:
    """Yield the predicted and the gold tags of each sentence.

    Raises:
        BenchError: If the gold tags are hidden, or if a sentence has another number of predicted
            tags than of gold tags.
    """
    for prediction, example in zip(predictions, examples, strict=True):
        if example.tags is None:
            raise BenchError(
                f"the tags of sentence {example.id} are hidden: this sentence cannot be scored."
            )
        if len(prediction.tags) != len(example.tags):
            raise BenchError(
                f"sentence {example.id} has {len(prediction.tags)} predicted tags, "
                f"expected {len(example.tags)} (one per word)."
            )
        yield prediction.tags, example.tags


class Counts(NamedTuple):
    """Counts from which precision and recall of items (entities or arguments) are computed.

    Attributes:
        right: Number of predicted items that are equal to a gold item in words and type.
        predicted: Number of predicted items.
        gold: Number of gold items.
    """

    right: int
    predicted: int
    gold: int


Ratio = Callable[[Counts], tuple[int, int]]
"""Function that returns precision, recall or F1 as a pair (numerator, denominator)."""


def precision(counts: Counts) -> tuple[int, int]:
    """Return precision as a pair (numerator, denominator)."""
    return counts.right, counts.predicted


def recall(counts: Counts) -> tuple[int, int]:
    """Return recall as a pair (numerator, denominator)."""
    return counts.right, counts.gold


def f1(counts: Counts) -> tuple[int, int]:
    """Return F1 as a pair (numerator, denominator)."""
    # This equals 2 P R / (P + R) with P = right / predicted and R = right / gold.
    return 2 * counts.right, counts.predicted + counts.gold


Find = Callable[[Sequence[str]], Iterable[Hashable]]
"""Function that returns the items which the tags of a sentence encode, e.g. entities."""


def _counts(sentences: Iterable[Sentence], find: Find = entities) -> Counts:
    right = predicted = gold = 0
    for guess_tags, gold_tags in sentences:
        guessed, wanted = set(find(guess_tags)), set(find(gold_tags))
        right += len(guessed & wanted)
        predicted += len(guessed)
        gold += len(wanted)
    return Counts(right, predicted, gold)


def ratio_metric(name: str, ratio: Ratio, find: Find = entities) -> TagMetric:
    """Create a metric that computes precision, recall or F1 over the items of all sentences.

    The score is 0 if it would be 0/0.

    Args:
        name: Name of the metric.
        ratio: One of the functions `precision`, `recall` and `f1` in this module.
        find: Function that returns the items which the tags of a sentence encode; by default,
            entities.
    """

    def compute(predictions: Tagged, examples: Sentences) -> float:
        counts = _counts(tagged_pairs(predictions, examples), find)
        part, whole = ratio(counts)
        return Printed(part / whole if whole else 0.0, _in_percent(ratio, counts))

    return Metric(name=name, compute=compute)


def _in_percent(ratio: Ratio, counts: Counts) -> float:
    """Return the ratio in percent as in conlleval, which computes F1 from percentages."""
    if ratio is f1:
        return harmonic(_in_percent(precision, counts), _in_percent(recall, counts))
    part, whole = ratio(counts)
    return 100 * part / whole if whole else 0.0


def of_sentences(sentences: Iterable[Sentence], ratio: Ratio, find: Find = entities) -> float:
    """Return the precision, recall or F1 over the items of all sentences; 0 if it would be 0/0.

    Args:
        sentences: Predicted and gold tags of each sentence.
        ratio: One of the functions `precision`, `recall` and `f1` in this module.
        find: Function that returns the items which the tags of a sentence encode; by default,
            entities.
    """
    part, whole = ratio(_counts(sentences, find))
    return part / whole if whole else 0.0


entity_precision = ratio_metric("precision", precision)
"""Fraction of the predicted entities that are right (same words and type as a gold entity)."""

entity_recall = ratio_metric("recall", recall)
"""Fraction of the gold entities that are predicted with the same words and type."""

entity_f1 = ratio_metric("f1", f1)
"""Harmonic mean of the precision and the recall of entities."""


def words_share(sentences: Iterable[Sentence]) -> float:
    """Return the fraction of the words with the right tag; 0 if there are no words.

    Args:
        sentences: Predicted and gold tags of each sentence.
    """
    hits = [a == b for guess, gold in sentences for a, b in zip(guess, gold, strict=True)]
    count = len(hits) or 1
    return Printed(sum(hits) / count, 100 * sum(hits) / count)


def _tag_accuracy(predictions: Tagged, examples: Sentences) -> float:
    pairs = tagged_pairs(predictions, examples)
    return words_share((to_iob2(guess), to_iob2(gold)) for guess, gold in pairs)


tag_accuracy: TagMetric = Metric(name="accuracy", compute=_tag_accuracy)
"""Fraction of the words with the right tag, compared in IOB2.

Accuracy is less informative than F1, because most words have the tag O. conlleval prints the same
number for IOB2 tags, which models predict. For a file with IOB1 tags, conlleval prints another
number, because it compares the tags without converting them.
"""

CONLLEVAL = Script(
    lines={
        "accuracy": tag_accuracy,
        "precision": entity_precision,
        "recall": entity_recall,
        "FB1": entity_f1,
    }
)
"""Description of the script conlleval: the numbers that it prints, and the metric of each."""


# The arguments of predicates (semantic roles) are counted as in CoNLL-2005's script srl-eval.pl,
# which is also used for CoNLL-2012 (https://www.cs.upc.edu/~srlconll/soft.html).

CONTINUES = "C-"
PREDICATE = "V"
"""Role of the predicate itself, which the scores leave out because the predicate is given."""


class Argument(NamedTuple):
    """Argument of a predicate.

    Attributes:
        role: Role of the argument, e.g. "ARG0" or "R-ARG0".
        spans: Word spans of the argument, each with the index of its first word and the index of
            the word after it. A discontinuous argument has several spans.
    """

    role: str
    spans: tuple[tuple[int, int], ...]


def arguments(tags: Sequence[str]) -> list[Argument]:
    """Return the arguments that the tags of a sentence encode for one predicate.

    The role "C-ARG1" continues the last ARG1 before it, and both are one argument. If there is no
    ARG1 before it, "C-ARG1" counts as ARG1. An "I-" tag that does not continue an argument begins
    one, as in `entities`. The predicate itself (role "V") is left out.
    """
    found: list[Argument] = []
    latest: dict[str, int] = {}
    for start, end, kind in entities(tags):
        role = kind.removeprefix(CONTINUES)
        # "B-ARG1 O B-V B-C-ARG1" is one ARG1 with two spans.
        if role != kind and role in latest:
            before = found[latest[role]]
            found[latest[role]] = before._replace(spans=(*before.spans, (start, end)))
            continue
        latest[role] = len(found)
        found.append(Argument(role, ((start, end),)))
    return [argument for argument in found if argument.role != PREDICATE]


argument_precision = ratio_metric("precision", precision, arguments)
"""Fraction of the predicted arguments that are right (same words and role as a gold argument)."""

argument_recall = ratio_metric("recall", recall, arguments)
"""Fraction of the gold arguments that are predicted with the same words and role."""

argument_f1 = ratio_metric("f1", f1, arguments)
"""Harmonic mean of the precision and the recall of arguments."""


def _share_of_perfect(predictions: Tagged, examples: Sentences) -> float:
    pairs = tagged_pairs(predictions, examples)
    hits = [set(arguments(guess)) == set(arguments(gold)) for guess, gold in pairs]
    return sum(hits) / len(hits) if hits else 0.0


perfect_propositions: TagMetric = Metric(name="perfect", compute=_share_of_perfect)
"""Fraction of the predicates for which the predicted arguments are exactly the gold arguments."""


word_accuracy: TagMetric = Metric(
    name="accuracy", compute=lambda ps, es: words_share(tagged_pairs(ps, es))
)
"""Fraction of the words for which the predicted tag is identical to the gold tag."""
