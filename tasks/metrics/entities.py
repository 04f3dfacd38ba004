"""Metrics of named entities (conlleval), semantic roles (srl-eval.pl) and coreference (scorer.pl).

The coreference metrics are MUC, B3 and CEAF-e.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from benchharness.errors import BenchError
from benchharness.tasks.examples import (
    ClusterPrediction,
    Clusters,
    DocumentExample,
    Mention,
    TagExample,
    TagPrediction,
)
from benchharness.tasks.task import Metric, Printed, Script, harmonic, total

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


# Coreference: MUC, B3 and CEAF-e as in version 8.01 of the official scorer
# (https://github.com/conll/reference-coreference-scorers, lib/CorScorer.pm), and their mean F1, by
# which the CoNLL-2012 shared task was ranked. Numerators and denominators are summed over all
# documents before they are divided.

CorefMetric = Metric[ClusterPrediction, DocumentExample]
Clustered = Sequence[ClusterPrediction]
Documents = Sequence[DocumentExample]


class Sums(NamedTuple):
    """Numerators and denominators of recall and precision for a coreference metric.

    Recall is `recalled / gold`, and precision is `precise / predicted`.
    """

    recalled: float
    gold: float
    precise: float
    predicted: float

    @property
    def recall(self) -> float:
        """Recall; it is 0 instead of 0/0, as in the official scorer."""
        return self.recalled / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """Precision; it is 0 instead of 0/0, as in the official scorer."""
        return self.precise / self.predicted if self.predicted else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are 0."""
        return harmonic(self.precision, self.recall)


def _shared(gold: Clusters, predicted: Clusters) -> Counter[tuple[int, int]]:
    """Count the mentions that are in both a gold and a predicted cluster.

    The counts are keyed by (index of the gold cluster, index of the predicted cluster). A mention
    in several gold clusters counts for the last of them, as in the official scorer.
    """
    place = {mention: number for number, cluster in enumerate(gold) for mention in cluster}
    return Counter(
        (place[mention], number)
        for number, cluster in enumerate(predicted)
        for mention in cluster
        if mention in place
    )


def _common(gold: Iterable[Iterable[Mention]], predicted: Clusters) -> Counter[tuple[int, int]]:
    """Count shared mentions like `_shared`, but for every gold cluster that contains the mention.

    If a gold cluster contains a mention several times, the mention is counted several times.
    """
    places = defaultdict[Mention, list[int]](list)
    for number, cluster in enumerate(gold):
        for mention in cluster:
            places[mention].append(number)
    return Counter(
        (one, number)
        for number, cluster in enumerate(predicted)
        for mention in cluster
        for one in places.get(mention, ())
    )


def muc(gold: Clusters, predicted: Clusters) -> Sums:
    """Compute the sums of MUC (Vilain et al. 1995), which counts links between mentions.

    A cluster with n mentions has n - 1 links. A link is right if its mentions are in the same gold
    cluster and in the same predicted cluster.
    """
    # A gold cluster and a predicted cluster with n common mentions share n - 1 links.
    shared = sum(count - 1 for count in _shared(gold, predicted).values())
    links = [sum(len(cluster) - 1 for cluster in side) for side in (gold, predicted)]
    return Sums(shared, links[0], shared, links[1])


def b_cubed(gold: Clusters, predicted: Clusters) -> Sums:
    """Compute the sums of B3 (Bagga and Baldwin 1998).

    For each mention, B3 computes the share of the mention's cluster that is right.
    """
    shared = _shared(gold, predicted).items()
    common = _common(map(set, gold), predicted)
    # Each of the `count` mentions that are in both clusters scores common / size. `count` and
    # `common` are equal unless a mention is in two gold clusters. A mention that a gold cluster
    # repeats only makes this cluster larger, because the sum is over predicted mentions.
    return Sums(
        total(count * common[both] / len(gold[both[0]]) for both, count in shared),
        sum(map(len, gold)),
        total(count * common[both] / len(predicted[both[1]]) for both, count in shared),
        sum(map(len, predicted)),
    )


def ceaf_e(gold: Clusters, predicted: Clusters) -> Sums:
    """Compute the sums of CEAF-e (Luo 2005).

    CEAF-e is the total similarity of gold and predicted clusters in the best one-to-one alignment.
    The similarity of two clusters is twice the number of shared mentions, divided by the sum of
    their sizes.
    """
    import numpy as np  # noqa: PLC0415  (needed only with scipy)
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  (importing takes a second)

    alike = np.zeros((len(gold), len(predicted)))
    for (one, other), count in _common(gold, predicted).items():
        # This is phi4 in the paper, 2 |K and R| / (|K| + |R|), of a gold cluster K and a predicted
        # cluster R.
        alike[one, other] = 2 * count / (len(gold[one]) + len(predicted[other]))
    best = float(alike[linear_sum_assignment(alike, maximize=True)].sum())
    return Sums(best, len(gold), best, len(predicted))


Measure = Callable[[Clusters, Clusters], Sums]

MEASURES: dict[str, Measure] = {"muc": muc, "b3": b_cubed, "ceafe": ceaf_e}
"""Coreference metrics, keyed by the prefix of their scores' names."""


def summed(measure: Measure, predictions: Clustered, examples: Documents) -> Sums:
    """Sum numerators and denominators of a coreference metric over all documents.

    Raises BenchError if a document hides its clusters.
    """
    found = []
    for prediction, example in zip(predictions, examples, strict=True):
        if example.clusters is None:
            raise BenchError(
                f"the clusters of document {example.id} are hidden: this document cannot be scored."
            )
        found.append(measure(example.chains or example.clusters, prediction.clusters))
    # As in the official scorer, the result is not a mean over documents.
    return Sums(*map(sum, zip(*found, strict=True))) if found else Sums(0, 0, 0, 0)


def _coref(name: str, value: Callable[[Clustered, Documents], float]) -> CorefMetric:
    library = None if name.startswith(("muc", "b3")) else "scipy.optimize"
    # CEAF-e counts a mention as often as its gold cluster repeats it. So a similarity may be as
    # high as 2, and the mean of the three metrics as high as 4/3.
    high = 2.0 if name.startswith("ceafe") else 4 / 3 if name == "f1" else 1.0
    return Metric(name=name, compute=value, library=library, bounds=(0.0, high))


coreference_f1 = _coref("f1", lambda *both: fmean(summed(m, *both).f1 for m in MEASURES.values()))
"""CoNLL score: the mean F1 of MUC, B3 and CEAF-e. It exceeds 1 only if gold clusters repeat
mentions.
"""


def _detail(name: str, value: str) -> CorefMetric:
    measure = MEASURES[name]
    return _coref(f"{name}_{value}", lambda *both: float(getattr(summed(measure, *both), value)))


coreference_details = tuple(
    _detail(name, value) for name in MEASURES for value in ("precision", "recall", "f1")
)
"""Precision, recall and F1 of each coreference metric, as in the tables of papers."""


# XTREME's metrics. They were checked against seqeval 1.2.2, which evaluate.py of
# google-research/xtreme (838c13b) uses.
#
# For parts of speech, seqeval takes the first letter of a tag as its prefix and the rest as its
# kind: NOUN is an "N" of type "OUN", and CCONJ and SCONJ have the same type, "CONJ".


def bare_chunks(tags: Sequence[str]) -> list[Entity]:
    """Return the entities that seqeval decodes from part-of-speech tags of Universal Dependencies.

    "O" marks the end of a sentence. Adjacent words of the same type form one entity. As in seqeval,
    the tag X after "O" does not set a new start, so an entity of type X starts where the previous
    entity did.
    """
    found: list[Entity] = []
    begin, last, last_kind = 0, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        letter, kind = tag[0], tag[1:] or "_"
        is_other = kind != last_kind
        if last == "S" or (last == "I" and letter in "SO") or (last != "O" and is_other):
            found.append(Entity(begin, place, last_kind))
        if letter == "S" or (letter == "I" and last in "SO") or (letter != "O" and is_other):
            begin = place
        last, last_kind = letter, kind
    return found


def _bare(name: str, ratio: Ratio) -> TagMetric:
    def compute(predictions: Tagged, examples: Sentences) -> float:
        sides = zip(*tagged_pairs(predictions, examples), strict=True)
        guess, gold = ([tag for tags in side for tag in (*tags, "O")] for side in sides)
        return of_sentences([(guess, gold)], ratio, bare_chunks)

    return Metric(name=name, compute=compute)


BARE_METRICS = _bare("f1", f1), _bare("precision", precision), _bare("recall", recall)
"""XTREME's F1, precision and recall of parts of speech, in 0..1."""

word_accuracy: TagMetric = Metric(
    name="accuracy", compute=lambda ps, es: words_share(tagged_pairs(ps, es))
)
"""Share of words whose predicted tag is identical to the gold tag, in 0..1."""
