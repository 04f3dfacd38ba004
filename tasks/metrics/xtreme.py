"""XTREME's two odd scorers: tags without B- and I- by seqeval, and MLQA's normalised answers.

Checked against seqeval 1.2.2, which google-research/xtreme evaluate.py (838c13b) calls, and
facebookresearch/MLQA mlqa_evaluation_v1.py (24bf470).
"""

import re
import string
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from unicodedata import category

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
    words_share,
)
from benchharness.tasks.metrics.squad import (
    Examples,
    Predictions,
    SpanMetric,
    exact_match,
    token_f1,
    v1_points,
)
from benchharness.tasks.task import Metric

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


# MLQA.

_ARTICLES = {
    "en": r"\b(a|an|the)\b",
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    # Of the official pattern the first half fits nothing: the article goes within words too.
    "ar": "ال",
}
"""By language; Hindi and Chinese have none."""


@lru_cache(maxsize=2**16)
def _is_punctuation(character: str) -> bool:
    return category(character).startswith("P") or character in string.punctuation


@lru_cache(maxsize=2**17)  # both metrics normalise the same answers
def normalise(answer: str, language: str) -> str:
    """An answer in lower case without Unicode's punctuation, a language's articles, and blanks.

    Each Chinese character is a word of its own.
    """
    kept = "".join(c for c in answer.lower() if not _is_punctuation(c))
    if language in _ARTICLES:
        kept = re.sub(_ARTICLES[language], " ", kept)
    if language == "zh":
        kept = re.sub(r"([\u4e00-\u9fa5])", r" \1 ", kept)
    return " ".join(kept.split())


def _mlqa(name: str, measure: Callable[..., float]) -> SpanMetric:
    def compute(predictions: Predictions, examples: Examples) -> float:
        read = partial(normalise, language=examples[0].language)
        return v1_points(predictions, examples, partial(measure, read=read)) / len(examples)

    return Metric(name=name, compute=compute)


MLQA_METRICS = (_mlqa("em", exact_match), _mlqa("f1", token_f1))
"""Exact match and F1, of questions in one language (`SpanExample.language`)."""
