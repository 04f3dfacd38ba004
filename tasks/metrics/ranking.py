"""Rankings as trec_eval counts them, a value for each query; the score is their mean.

Documents go by their score in fp32, equal scores by their id, the higher one first. A grade is the
gain as it is, one below 0 is none, a document without a judgement is not relevant, and a query
without a relevant document counts 0.
"""

from array import array
from math import log2

from benchharness.tasks.examples import QueryExample, RankingPrediction
from benchharness.tasks.task import mean_metric

DEPTH = 10
"""Of nDCG and MRR: how many documents count."""


def ranked(prediction: RankingPrediction) -> list[str]:
    """The ids of the documents, the best first."""
    scores = array("f", prediction.scores)
    pairs = zip(scores, prediction.documents, strict=True)
    return [document for _, document in sorted(pairs, reverse=True)]


def _relevant(example: QueryExample) -> dict[str, int]:
    return {document: grade for document, grade in example.relevant or () if grade > 0}


def _discounted(gains: list[int]) -> float:
    return sum(gain / log2(place + 2) for place, gain in enumerate(gains[:DEPTH]))


def ndcg(prediction: RankingPrediction, example: QueryExample) -> float:
    """The discounted gain of the first ten, as a share of the best there could be."""
    relevant = _relevant(example)
    best = _discounted(sorted(relevant.values(), reverse=True))
    gains = [relevant.get(document, 0) for document in ranked(prediction)]
    return _discounted(gains) / best if best else 0.0


def recall(prediction: RankingPrediction, example: QueryExample) -> float:
    """The share of the relevant documents that are among the first hundred."""
    relevant = _relevant(example)
    return len(relevant.keys() & ranked(prediction)[:100]) / len(relevant) if relevant else 0.0


def reciprocal_rank(prediction: RankingPrediction, example: QueryExample) -> float:
    """1 over the place of the first relevant document, 0 where none is among the first ten."""
    relevant = _relevant(example)
    first = enumerate(ranked(prediction)[:DEPTH], start=1)
    return next((1 / place for place, document in first if document in relevant), 0.0)


ndcg_10 = mean_metric("ndcg_10", ndcg)
recall_100 = mean_metric("recall_100", recall)
mrr_10 = mean_metric("mrr_10", reciprocal_rank)
