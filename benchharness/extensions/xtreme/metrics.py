"""XTREME's metrics of parts of speech.

They were checked against seqeval 1.2.2, which evaluate.py of google-research/xtreme (838c13b) uses.
seqeval expects tags such as B-PER. For a part of speech, it takes the first letter as the prefix
and the rest as the type of an entity: NOUN is an "N" of type "OUN", and CCONJ and SCONJ have the
same type, "CONJ".
"""

from collections.abc import Sequence

from benchharness.tasks.metrics.entities import (
    Entity,
    Ratio,
    Sentences,
    Tagged,
    TagMetric,
    f1,
    of_sentences,
    precision,
    recall,
    tagged_pairs,
)
from benchharness.tasks.task import Metric


def bare_chunks(tags: Sequence[str]) -> list[Entity]:
    """Return the entities that seqeval decodes from part-of-speech tags of Universal Dependencies.

    seqeval takes the first letter of a tag as a prefix, and the rest as the type. Adjacent words of
    the same type form one entity. There are two exceptions. A word whose tag begins with "S"
    (SCONJ, SYM) is always an entity of its own, and a CCONJ directly before an SCONJ is lost. The
    tag X has the same (empty) type as "O": directly after an "O", a word with the tag X gets the
    start of the previous entity; directly before an "O", it forms no entity.

    Args:
        tags: Tags of all words in all sentences. An "O" after each sentence marks its end.
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
