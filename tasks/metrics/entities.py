"""What texts name: entities as conlleval counts, roles as srl-eval.pl does, and who is who.

The last by MUC, B3 and CEAF-e.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from benchharness.tasks.errors import BenchError
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
"""Predicted and gold tags."""


class Entity(NamedTuple):
    """Words [start, end) of a sentence and what they name ("PER")."""

    start: int
    end: int
    kind: str


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence's tags, in their order, read as conlleval reads them.

    B-X always begins an entity; I-X goes on with one of kind X and begins one after anything else,
    which reads IOB1, IOB2 and a model's faulty tags alike. BenchError where a tag is none of these.
    """
    found: list[Entity] = []
    for index, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        if tag == "O":
            continue
        if prefix not in {"B", "I"} or not kind:
            raise BenchError(f"the tag {tag!r} is not O, B-... or I-...: give IOB1 or IOB2 tags.")
        last = found[-1] if found else None
        # "B-PER O I-PER" and "B-PER I-LOC" are two entities each, "B-PER I-PER" is one.
        if prefix == "I" and last and last.end == index and last.kind == kind:
            found[-1] = last._replace(end=index + 1)
        else:
            found.append(Entity(index, index + 1, kind))
    return found


def are_entity_tags(tags: Iterable[str]) -> bool:
    """Return whether each is O, or begins or goes on with something; parts of speech do neither."""
    return all(tag == "O" or (tag[:2] in ("B-", "I-") and len(tag) > 2) for tag in tags)


def named(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence's tags; of parts of speech each word is one."""
    if are_entity_tags(tags):
        return entities(tags)
    return [Entity(place, place + 1, tag) for place, tag in enumerate(tags)]


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """The same entities in IOB2: each begins with B-."""
    result = ["O"] * len(tags)
    for entity in entities(tags):
        result[entity.start : entity.end] = [f"I-{entity.kind}"] * (entity.end - entity.start)
        result[entity.start] = f"B-{entity.kind}"
    return tuple(result)


def to_iob1(tags: Sequence[str]) -> tuple[str, ...]:
    """The same entities in IOB1, as CoNLL-2003's files write them.

    B- stands only where an entity follows one of its own kind at once.
    """
    result = list(to_iob2(tags))
    for index, tag in enumerate(result):
        kind = tag.partition("-")[2]
        # The tag before may be changed already, but its kind is what it was.
        if tag != "O" and (index == 0 or result[index - 1].partition("-")[2] != kind):
            result[index] = f"I-{kind}"
    return tuple(result)


def is_iob1(tags: Sequence[str]) -> bool:
    """Whether B- stands only where IOB1 needs it; without any such place IOB2 is IOB1 too."""
    return to_iob1(tags) == tuple(tags)


def tagged_pairs(predictions: Tagged, examples: Sentences) -> Iterable[Sentence]:
    """Predicted and gold tags, sentence by sentence; BenchError where they do not pair."""
    for prediction, example in zip(predictions, examples, strict=True):
        if example.tags is None:
            raise BenchError(f"sentence {example.id} hides its tags, so it cannot be scored.")
        if len(prediction.tags) != len(example.tags):
            raise BenchError(
                f"sentence {example.id} has {len(prediction.tags)} predicted tags, "
                f"expected {len(example.tags)}: one per word."
            )
        yield prediction.tags, example.tags


class Counts(NamedTuple):
    """How many things are right (the same words and kind), predicted and gold."""

    right: int
    predicted: int
    gold: int


Ratio = Callable[[Counts], tuple[int, int]]


def precision(counts: Counts) -> tuple[int, int]:
    """The right ones of the predicted."""
    return counts.right, counts.predicted


def recall(counts: Counts) -> tuple[int, int]:
    """The right ones of the gold."""
    return counts.right, counts.gold


def f1(counts: Counts) -> tuple[int, int]:
    """The harmonic mean of both."""
    # 2 P R / (P + R) with P = right / predicted and R = right / gold.
    return 2 * counts.right, counts.predicted + counts.gold


Find = Callable[[Sequence[str]], Iterable[Hashable]]
"""What the tags of a sentence name."""


def _counts(sentences: Iterable[Sentence], find: Find = entities) -> Counts:
    right = predicted = gold = 0
    for guess_tags, gold_tags in sentences:
        guessed, wanted = set(find(guess_tags)), set(find(gold_tags))
        right += len(guessed & wanted)
        predicted += len(guessed)
        gold += len(wanted)
    return Counts(right, predicted, gold)


def ratio_metric(name: str, ratio: Ratio, find: Find = entities) -> TagMetric:
    """A ratio of the counts over all sentences; 0 for 0/0, as the CoNLL scripts print."""

    def compute(predictions: Tagged, examples: Sentences) -> float:
        counts = _counts(tagged_pairs(predictions, examples), find)
        part, whole = ratio(counts)
        return Printed(part / whole if whole else 0.0, _in_percent(ratio, counts))

    return Metric(name=name, compute=compute)


def _in_percent(ratio: Ratio, counts: Counts) -> float:
    """A ratio as conlleval prints it, which makes its F1 of both in percent."""
    if ratio is f1:
        return harmonic(_in_percent(precision, counts), _in_percent(recall, counts))
    part, whole = ratio(counts)
    return 100 * part / whole if whole else 0.0


def of_sentences(sentences: Iterable[Sentence], ratio: Ratio, find: Find = entities) -> float:
    """A ratio of the counts over some sentences."""
    part, whole = ratio(_counts(sentences, find))
    return part / whole if whole else 0.0


entity_precision = ratio_metric("precision", precision)
"""The share of predicted entities that are right."""

entity_recall = ratio_metric("recall", recall)
"""The share of gold entities that are found."""

entity_f1 = ratio_metric("f1", f1)
"""The harmonic mean of entity precision and recall, in 0..1."""


def words_share(sentences: Iterable[Sentence]) -> float:
    """The share of words whose tag is right, in 0..1; 0 where there is none."""
    hits = [a == b for guess, gold in sentences for a, b in zip(guess, gold, strict=True)]
    count = len(hits) or 1
    return Printed(sum(hits) / count, 100 * sum(hits) / count)


def _tag_accuracy(predictions: Tagged, examples: Sentences) -> float:
    pairs = tagged_pairs(predictions, examples)
    return words_share((to_iob2(guess), to_iob2(gold)) for guess, gold in pairs)


tag_accuracy: TagMetric = Metric(name="accuracy", compute=_tag_accuracy)
"""The share of words whose tag is right, in 0..1; mostly O, so it says little beside F1.

It is what conlleval prints of columns in IOB2, which models predict; of a file in IOB1 conlleval
prints another number, because it compares the tags letter by letter, as they stand (`words_share`).
"""

CONLLEVAL = Script(
    lines={
        "accuracy": tag_accuracy,
        "precision": entity_precision,
        "recall": entity_recall,
        "FB1": entity_f1,
    }
)
"""conlleval; entities are the same in IOB1 and IOB2."""


# Semantic roles: the arguments of a predicate, as the script of CoNLL-2005 counts them, by which
# CoNLL-2012's are scored too (https://www.cs.upc.edu/~srlconll/soft.html).

CONTINUES = "C-"
PREDICATE = "V"
"""The role that the script leaves out of its overall numbers: everybody knows the predicate."""


class Argument(NamedTuple):
    """A role ("ARG0", "R-ARG0") and the stretches of words [start, end) that have it."""

    role: str
    spans: tuple[tuple[int, int], ...]


def arguments(tags: Sequence[str]) -> list[Argument]:
    """The arguments of one proposition's tags, without its predicate.

    "C-ARG1" goes on with the last ARG1 before it, whose words it joins to one argument; where there
    is none it is an ARG1 of its own. Tags are read as conlleval reads them, so that an "I-" which
    continues nothing begins an argument.
    """
    found: list[Argument] = []
    latest: dict[str, int] = {}
    for start, end, kind in entities(tags):
        role = kind.removeprefix(CONTINUES)
        # "B-ARG1 O B-V B-C-ARG1" is one ARG1 of two stretches.
        if role != kind and role in latest:
            before = found[latest[role]]
            found[latest[role]] = before._replace(spans=(*before.spans, (start, end)))
            continue
        latest[role] = len(found)
        found.append(Argument(role, ((start, end),)))
    return [argument for argument in found if argument.role != PREDICATE]


argument_precision = ratio_metric("precision", precision, arguments)
"""The share of predicted arguments that are right, in all their words and their role."""

argument_recall = ratio_metric("recall", recall, arguments)
"""The share of gold arguments that are found."""

argument_f1 = ratio_metric("f1", f1, arguments)
"""The harmonic mean of argument precision and recall, in 0..1."""


def _share_of_perfect(predictions: Tagged, examples: Sentences) -> float:
    pairs = tagged_pairs(predictions, examples)
    hits = [set(arguments(guess)) == set(arguments(gold)) for guess, gold in pairs]
    return sum(hits) / len(hits) if hits else 0.0


perfect_propositions: TagMetric = Metric(name="perfect", compute=_share_of_perfect)
"""The share of propositions with all arguments right and none too many, in 0..1."""


# Coreference: MUC, B3 and CEAF-e as reference-coreference-scorers counts, and their mean F1, by
# which the CoNLL-2012 shared task ranked. Version 8.01
# (https://github.com/conll/reference-coreference-scorers, lib/CorScorer.pm): of all documents the
# numerators and the denominators are added up, and then divided.

CorefMetric = Metric[ClusterPrediction, DocumentExample]
Clustered = Sequence[ClusterPrediction]
Documents = Sequence[DocumentExample]


class Sums(NamedTuple):
    """Numerators and denominators of recall and precision."""

    recalled: float
    gold: float
    precise: float
    predicted: float

    @property
    def recall(self) -> float:
        """0 for 0/0, as the scorer prints."""
        return self.recalled / self.gold if self.gold else 0.0

    @property
    def precision(self) -> float:
        """0 for 0/0."""
        return self.precise / self.predicted if self.predicted else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0 for 0/0."""
        return harmonic(self.precision, self.recall)


def _shared(gold: Clusters, predicted: Clusters) -> Counter[tuple[int, int]]:
    """How many mentions a gold and a predicted cluster, by their numbers, have in common.

    A mention that several gold clusters have is of the last of them, as in the scorer's index.
    """
    place = {mention: number for number, cluster in enumerate(gold) for mention in cluster}
    return Counter(
        (place[mention], number)
        for number, cluster in enumerate(predicted)
        for mention in cluster
        if mention in place
    )


def _common(gold: Iterable[Iterable[Mention]], predicted: Clusters) -> Counter[tuple[int, int]]:
    """The same with a mention in each gold cluster that has it, as often as that has it."""
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
    """Vilain et al. 1995: of a cluster's links, one fewer than its mentions, those that stay."""
    # A predicted cluster in as many gold ones as it meets: it has one right link fewer than
    # mentions in each of them.
    shared = sum(count - 1 for count in _shared(gold, predicted).values())
    links = [sum(len(cluster) - 1 for cluster in side) for side in (gold, predicted)]
    return Sums(shared, links[0], shared, links[1])


def b_cubed(gold: Clusters, predicted: Clusters) -> Sums:
    """Bagga and Baldwin 1998: for each mention the share of its cluster that is right."""
    shared = _shared(gold, predicted).items()
    common = _common(map(set, gold), predicted)
    # Each of the `count` mentions that two clusters share has the share common / size; both are
    # equal where no mention is in two gold clusters. Predicted mentions are those counted: that
    # a gold cluster has one again makes it larger alone.
    return Sums(
        total(count * common[both] / len(gold[both[0]]) for both, count in shared),
        sum(map(len, gold)),
        total(count * common[both] / len(predicted[both[1]]) for both, count in shared),
        sum(map(len, predicted)),
    )


def ceaf_e(gold: Clusters, predicted: Clusters) -> Sums:
    """Luo 2005, by entities: gold and predicted clusters are paired so that they are most alike.

    Two are as alike as twice what they share is to what both have.
    """
    import numpy as np  # noqa: PLC0415  (as scipy)
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  (a second)

    alike = np.zeros((len(gold), len(predicted)))
    for (one, other), count in _common(gold, predicted).items():
        # The paper's phi4: 2 |K and R| / (|K| + |R|) of a gold cluster K and a predicted one R.
        alike[one, other] = 2 * count / (len(gold[one]) + len(predicted[other]))
    best = float(alike[linear_sum_assignment(alike, maximize=True)].sum())
    return Sums(best, len(gold), best, len(predicted))


Measure = Callable[[Clusters, Clusters], Sums]

MEASURES: dict[str, Measure] = {"muc": muc, "b3": b_cubed, "ceafe": ceaf_e}
"""By the name that their scores begin with."""


def summed(measure: Measure, predictions: Clustered, examples: Documents) -> Sums:
    """A measure of all documents; BenchError where a document hides its clusters."""
    found = []
    for prediction, example in zip(predictions, examples, strict=True):
        if example.clusters is None:
            raise BenchError(f"document {example.id} hides its clusters: it cannot be scored.")
        found.append(measure(example.chains or example.clusters, prediction.clusters))
    # The numerators and denominators of all documents, as the scorer does: no mean of documents.
    return Sums(*map(sum, zip(*found, strict=True))) if found else Sums(0, 0, 0, 0)


def _coref(name: str, value: Callable[[Clustered, Documents], float]) -> CorefMetric:
    library = None if name.startswith(("muc", "b3")) else "scipy.optimize"
    # CEAF-e counts a mention as often as its gold cluster has it: two may be twice as alike, and
    # the mean of the three measures a third above 1.
    high = 2.0 if name.startswith("ceafe") else 4 / 3 if name == "f1" else 1.0
    return Metric(name=name, compute=value, library=library, bounds=(0.0, high))


coreference_f1 = _coref("f1", lambda *both: fmean(summed(m, *both).f1 for m in MEASURES.values()))
"""The mean of MUC's, B3's and CEAF-e's F1, in 0..1: the CoNLL score."""


def _detail(name: str, value: str) -> CorefMetric:
    measure = MEASURES[name]
    return _coref(f"{name}_{value}", lambda *both: float(getattr(summed(measure, *both), value)))


coreference_details = tuple(
    _detail(name, value) for name in MEASURES for value in ("precision", "recall", "f1")
)
"""Precision, recall and F1 of each of the three, as the papers' tables have them."""


# XTREME's. Checked against seqeval 1.2.2, which google-research/xtreme evaluate.py calls (838c13b).
#
# Parts of speech. seqeval takes the first letter of a tag for its prefix and the rest for its
# kind: NOUN is an "N" of kind "OUN", and CCONJ and SCONJ are of one kind, "CONJ".


def bare_chunks(tags: Sequence[str]) -> list[Entity]:
    """The entities that seqeval finds in tags of Universal Dependencies, "O" between sentences.

    Neighbours of one kind are one entity. After "O" the tag X, which has no kind, begins none: its
    entity begins where the last one began.
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
"""XTREME's "F1" of parts of speech, and what it is made of, in 0..1."""

word_accuracy: TagMetric = Metric(
    name="accuracy", compute=lambda ps, es: words_share(tagged_pairs(ps, es))
)
"""The share of words whose tag is right, in 0..1."""
