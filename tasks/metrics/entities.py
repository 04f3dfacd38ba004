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
"""Predicted tags and gold tags of a sentence."""


class Entity(NamedTuple):
    """Named entity: the words [start, end) of a sentence, and its type (`kind`), e.g. "PER"."""

    start: int
    end: int
    kind: str


def entities(tags: Sequence[str]) -> list[Entity]:
    """Decode the tags of a sentence as in conlleval, and return the entities in order.

    B-X always begins an entity. I-X continues an entity of type X, and begins an entity after any
    other tag. So IOB1, IOB2 and invalid sequences from a model can all be decoded. Raises
    BenchError for a tag that is not O, B-X or I-X.
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
    """Return whether every tag is O, B-X or I-X, unlike e.g. parts of speech."""
    return all(tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2) for tag in tags)


def named(tags: Sequence[str]) -> list[Entity]:
    """Return the entities that the tags of a sentence encode.

    If the tags are not entity tags (e.g. parts of speech), each word is returned as an entity.
    """
    if are_entity_tags(tags):
        return entities(tags)
    return [Entity(place, place + 1, tag) for place, tag in enumerate(tags)]


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Convert tags to IOB2, where every entity begins with B-."""
    result = ["O"] * len(tags)
    for entity in entities(tags):
        result[entity.start : entity.end] = [f"I-{entity.kind}"] * (entity.end - entity.start)
        result[entity.start] = f"B-{entity.kind}"
    return tuple(result)


def to_iob1(tags: Sequence[str]) -> tuple[str, ...]:
    """Convert tags to IOB1, the scheme of CoNLL-2003's files.

    In IOB1, B- occurs only where an entity directly follows another entity of the same type.
    """
    result = list(to_iob2(tags))
    for index, tag in enumerate(result):
        kind = tag.partition("-")[2]
        # The previous tag may be changed already, but it still has the same type.
        if tag != "O" and (index == 0 or result[index - 1].partition("-")[2] != kind):
            result[index] = f"I-{kind}"
    return tuple(result)


def is_iob1(tags: Sequence[str]) -> bool:
    """Return whether tags are valid IOB1, i.e. B- occurs only between entities of the same type."""
    return to_iob1(tags) == tuple(tags)


def tagged_pairs(predictions: Tagged, examples: Sentences) -> Iterable[Sentence]:
    """Yield the predicted and the gold tags of each sentence.

    Raises BenchError if the gold tags are hidden, or if the numbers of gold and predicted tags
    differ.
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
    """Number of right, predicted and gold items; an item is right if its words and type match."""

    right: int
    predicted: int
    gold: int


Ratio = Callable[[Counts], tuple[int, int]]


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
    """Create a metric from a ratio of counts that are summed over all sentences; 0/0 counts as 0.

    Args:
        name: Name of the metric.
        ratio: `precision`, `recall` or `f1` of this module.
        find: Function that returns the items in a sentence's tags.
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
    """Return a ratio of the counts that are summed over all sentences; 0/0 counts as 0."""
    part, whole = ratio(_counts(sentences, find))
    return part / whole if whole else 0.0


entity_precision = ratio_metric("precision", precision)
"""Share of predicted entities that are right, in 0..1."""

entity_recall = ratio_metric("recall", recall)
"""Share of gold entities that are found, in 0..1."""

entity_f1 = ratio_metric("f1", f1)
"""Harmonic mean of entity precision and recall, in 0..1."""


def words_share(sentences: Iterable[Sentence]) -> float:
    """Return the share of words whose tag is right, in 0..1; 0 if there are no words."""
    hits = [a == b for guess, gold in sentences for a, b in zip(guess, gold, strict=True)]
    count = len(hits) or 1
    return Printed(sum(hits) / count, 100 * sum(hits) / count)


def _tag_accuracy(predictions: Tagged, examples: Sentences) -> float:
    pairs = tagged_pairs(predictions, examples)
    return words_share((to_iob2(guess), to_iob2(gold)) for guess, gold in pairs)


tag_accuracy: TagMetric = Metric(name="accuracy", compute=_tag_accuracy)
"""Share of words whose tag is right, in 0..1. Most tags are O, so it is less informative than F1.

This is the accuracy that conlleval prints for IOB2 tags, which models predict. For a file in IOB1,
conlleval prints another number, because it compares the tags literally (`words_share`).
"""

CONLLEVAL = Script(
    lines={
        "accuracy": tag_accuracy,
        "precision": entity_precision,
        "recall": entity_recall,
        "FB1": entity_f1,
    }
)
"""Numbers that the script conlleval prints, with the metric for each of them."""


# Semantic roles: the arguments of a predicate, counted as in CoNLL-2005's script srl-eval.pl, which
# also scores CoNLL-2012 (https://www.cs.upc.edu/~srlconll/soft.html).

CONTINUES = "C-"
PREDICATE = "V"
"""Role of the predicate itself; the script excludes it from overall scores, as it is an input."""


class Argument(NamedTuple):
    """Argument of a predicate: its role ("ARG0", "R-ARG0") and its word spans [start, end)."""

    role: str
    spans: tuple[tuple[int, int], ...]


def arguments(tags: Sequence[str]) -> list[Argument]:
    """Return the arguments that the tags of a proposition encode, without the predicate.

    "C-ARG1" continues the last ARG1 before it, so both are one argument. If there is no ARG1 before
    "C-ARG1", it is an ARG1 itself. Tags are decoded as in conlleval, so an "I-" tag that does not
    continue an argument begins one.
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
"""Share of predicted arguments whose words and role are right, in 0..1."""

argument_recall = ratio_metric("recall", recall, arguments)
"""Share of gold arguments that are found, in 0..1."""

argument_f1 = ratio_metric("f1", f1, arguments)
"""Harmonic mean of argument precision and recall, in 0..1."""


def _share_of_perfect(predictions: Tagged, examples: Sentences) -> float:
    pairs = tagged_pairs(predictions, examples)
    hits = [set(arguments(guess)) == set(arguments(gold)) for guess, gold in pairs]
    return sum(hits) / len(hits) if hits else 0.0


perfect_propositions: TagMetric = Metric(name="perfect", compute=_share_of_perfect)
"""Share of propositions whose predicted arguments are exactly the gold arguments, in 0..1."""


word_accuracy: TagMetric = Metric(
    name="accuracy", compute=lambda ps, es: words_share(tagged_pairs(ps, es))
)
"""Share of words whose predicted tag is identical to the gold tag, in 0..1."""
