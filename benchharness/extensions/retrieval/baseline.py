"""Bag-of-words baseline: it ranks documents that share rare words with the query."""

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.feature_extraction.text import TfidfVectorizer

from benchharness.baselines.learners import Predictor
from benchharness.extensions.retrieval.task import QueryExample, RankingPrediction
from benchharness.tasks.task import Task


def learn_documents(
    _task: Task, examples: Sequence[QueryExample], _values: Mapping[str, Any]
) -> Predictor:
    """Return a predictor that ranks documents by the cosine of TF-IDF vectors.

    Up to 100 documents that share a word with the query are ranked. On ties, the higher id comes
    first. A document with the same id as the query is skipped.

    Args:
        _task: Not used.
        examples: Queries of the corpus; only their corpus is used.
        _values: Not used.
    """
    corpus = examples[0].corpus
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    documents = vectorizer.fit_transform(corpus.texts)  # [documents, words]

    def predict(asked: Sequence[QueryExample]) -> tuple[RankingPrediction, ...]:
        return tuple(_ranking(e, documents @ vectorizer.transform([e.text]).T) for e in asked)

    def _ranking(asked: QueryExample, cosines: Any) -> RankingPrediction:
        column = cosines.tocoo()
        pairs = zip(column.data.tolist(), (corpus.ids[row] for row in column.row), strict=True)
        best = sorted((each for each in pairs if each[1] != asked.id), reverse=True)[:100]
        scores, names = zip(*best, strict=True) if best else ((), ())
        return RankingPrediction(id=asked.id, documents=names, scores=scores)

    return predict
