"""Answer type of coreference."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import combinations
from json import dumps
from typing import Any

from benchharness.extensions.conll2012.metrics import b_cubed
from benchharness.extensions.conll2012.task import (
    ClusterPrediction,
    Clusters,
    DocumentExample,
    Mention,
)
from benchharness.tasks.answers.base import (
    AnswerType,
    Cell,
    Judged,
    Passage,
    Stretch,
    words_at,
)
from benchharness.tasks.answers.tags import starts_of

MENTION = {True: "a mention", False: "no mention"}
"""Names of rows and columns in the confusion matrix of spans: for gold or predicted mentions
(True), and for other spans (False).
"""


def _mentions(clusters: Clusters) -> set[Mention]:
    return {mention for cluster in clusters for mention in cluster}


def _clusters(found: Any) -> Clusters:
    return tuple(tuple((int(start), int(end)) for start, end in cluster) for cluster in found)


class Coreference(AnswerType):
    """Answer type of coreference: an answer is the clusters of mentions in a document."""

    prediction = ClusterPrediction
    matrix = ("spans", "Spans that are a gold or a predicted mention; clusters are ignored")

    def unpublished(self) -> str:
        return "coreference"

    def from_python(self, example: DocumentExample, answer: Any) -> ClusterPrediction:
        try:
            clusters = _clusters(answer)
        except (TypeError, ValueError):
            expected = "expected clusters, each a list of (start, end)"
            raise self.refuse(example, answer, expected) from None
        mentions = [mention for cluster in clusters for mention in cluster]
        words = len(example.words)
        if len(set(mentions)) < len(mentions) or any(not 0 <= a < b <= words for a, b in mentions):
            expected = f"expected distinct mentions, each within the document's {words} words"
            raise self.refuse(example, answer, expected)
        return ClusterPrediction(id=example.id, clusters=clusters)

    def fits(self, prediction: ClusterPrediction, example: DocumentExample) -> bool:
        words = range(len(example.words) + 1)
        return all(a in words and b in words for each in prediction.clusters for a, b in each)

    def key(self, prediction: ClusterPrediction) -> Hashable:
        return frozenset(map(frozenset, prediction.clusters))

    def near(self, prediction: Any, example: Any, *, right: bool) -> float:
        return b_cubed(example.clusters, prediction.clusters).f1

    def near_words(self, near: float, prediction: Any) -> str:
        return f"B3 F1 {100 * near:.1f}"

    def cells(self, prediction: Any, example: Any, judged: Judged) -> Iterator[Cell]:
        gold, guessed = _mentions(example.clusters), _mentions(prediction.clusters)
        for mention in sorted(gold | guessed):
            yield MENTION[mention in gold], MENTION[mention in guessed]

    def rows(self) -> tuple[str, ...]:
        return tuple(MENTION.values())

    def average(self, predictions: Sequence[ClusterPrediction]) -> ClusterPrediction:
        """Combine the predictions of an ensemble's members by majority vote.

        Two mentions are linked if more than half of the members put them into the same cluster.
        Mentions that are linked directly or through other mentions form a cluster.
        """
        votes = Counter(
            pair
            for prediction in predictions
            for cluster in prediction.clusters
            for pair in combinations(sorted(cluster), 2)
        )
        found: dict[Mention, set[Mention]] = {}
        for (one, other), count in votes.items():
            if 2 * count > len(predictions):
                # All mentions in a cluster share one set object, so this merges whole clusters.
                merged = found.get(one, {one}) | found.get(other, {other})
                found.update(dict.fromkeys(merged, merged))
        clusters = {tuple(sorted(cluster)) for cluster in found.values()}
        return ClusterPrediction(id=predictions[0].id, clusters=tuple(sorted(clusters)))

    def majority(self, examples: Sequence[Any]) -> Callable[[Any], ClusterPrediction]:
        """Return a function that predicts no clusters, because most spans are not mentions."""
        return lambda asked: ClusterPrediction(id=asked.id, clusters=())

    def said(
        self, prediction: ClusterPrediction, example: Any = None, *, texts: bool = True
    ) -> str:
        """Describe the clusters, e.g. "Anna = she | the cart = it".

        If `example` is None or `texts` is false, mentions are described by the positions of their
        words.
        """
        words = example.words if texts and example is not None else ()
        named = (" = ".join(words_at(words, *m) for m in each) for each in prediction.clusters)
        return " | ".join(named) or "(no cluster)"

    def written(self, prediction: ClusterPrediction, *, texts: bool = True) -> str:
        return dumps(prediction.clusters)

    def passages(self, example: DocumentExample) -> Iterator[Passage]:
        yield Passage("document", " ".join(example.words), holds_answers=True)

    def stretches(self, prediction: Any, example: DocumentExample) -> Iterator[Stretch]:
        starts = starts_of(example.words)
        for cluster in prediction.clusters:
            yield from ((starts[start], starts[end] - 1) for start, end in cluster)

    def facts(self, prediction: ClusterPrediction, example: Any) -> dict[str, Any]:
        return {"clusters": [[list(words) for words in one] for one in prediction.clusters]}
