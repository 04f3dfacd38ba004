"""The most frequent tag of each word."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from benchharness.floors.floor import Predictor
from tasks.examples import TagExample, TagPrediction

__all__ = ["learn_words"]


def learn_words(examples: Sequence[TagExample]) -> Predictor:
    """A word that was never seen gets the most frequent tag of all."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in examples:
        for word, tag in zip(example.words, example.tags or (), strict=True):
            counts[word][tag] += 1
    overall = sum(counts.values(), Counter[str]())
    tags = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    unknown = overall.most_common(1)[0][0]

    def predict(asked: Sequence[TagExample]) -> tuple[TagPrediction, ...]:
        return tuple(
            TagPrediction(id=e.id, tags=tuple(tags.get(word, unknown) for word in e.words))
            for e in asked
        )

    return predict
