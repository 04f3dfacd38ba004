"""Baseline of coreference: it learns which spans are mentions, and clusters equal mentions."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from benchharness.baselines.learners import Predictor
from benchharness.extensions.conll2012.task import (
    ClusterPrediction,
    Clusters,
    DocumentExample,
    Mention,
)
from benchharness.tasks.task import Task

LONGEST_MENTION = 10
"""Maximum number of words in a mention that is predicted."""


def learn_mentions(
    _task: Task, examples: Sequence[DocumentExample], _values: Mapping[str, Any]
) -> Predictor:
    """Learn which sequences of words are mentions in most of their occurrences in train.

    The predictor that is returned groups mentions with the same words (ignoring case) into a
    cluster. A mention without an equal one is dropped, and of overlapping mentions only the first
    or, if they begin together, the longest is kept.

    Args:
        _task: Not used.
        examples: The documents of train.
        _values: Not used.
    """
    known, seen = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    for example in examples:
        words = _lower(example)
        known.update(words[a:b] for cluster in example.clusters or () for a, b in cluster)
        seen.update(words[a:b] for a, b in _stretches(example))
    likely = {words for words, count in known.items() if 2 * count > seen[words]}

    def clusters_of(example: DocumentExample) -> Clusters:
        words, end = _lower(example), 0
        clusters: defaultdict[tuple[str, ...], list[Mention]] = defaultdict(list)
        for start, last in _stretches(example):
            # A span that begins before `end` overlaps the last mention, which begins earlier or is
            # longer.
            if start >= end and words[start:last] in likely:
                clusters[words[start:last]].append((start, last))
                end = last
        return tuple(tuple(cluster) for cluster in clusters.values() if len(cluster) > 1)

    return lambda asked: tuple(ClusterPrediction(id=e.id, clusters=clusters_of(e)) for e in asked)


def _lower(example: DocumentExample) -> tuple[str, ...]:
    return tuple(word.lower() for word in example.words)


def _stretches(example: DocumentExample) -> Iterator[Mention]:
    """Yield all spans within a sentence, up to LONGEST_MENTION words, sorted by start.

    Spans with the same start are sorted by length, the longest first.
    """
    ends = accumulate(len(sentence) for sentence in example.sentences)
    first = 0
    for end in ends:
        for start in range(first, end):
            yield from (
                (start, last) for last in range(min(start + LONGEST_MENTION, end), start, -1)
            )
        first = end
