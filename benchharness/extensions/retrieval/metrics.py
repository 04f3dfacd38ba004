"""Metrics for rankings as in trec_eval. The score is the mean of one value per query.

Documents are sorted by their fp32 scores, and by their ids on a tie, both in descending order. The
gain of a document is its grade. Documents that have a grade below 1 or no grade are not relevant. A
query without a relevant document scores 0.
"""

import math
from array import array

from benchharness.extensions.retrieval.task import QueryExample, RankingPrediction
from benchharness.tasks.task import mean_metric

DEPTH = 10
"""Number of top-ranked documents that nDCG and MRR consider."""


def ranked(prediction: RankingPrediction) -> list[str]:
    """Return the ids of the documents in ranked order, best first."""
    scores = array("f", prediction.scores)
    pairs = zip(scores, prediction.documents, strict=True)
    return [document for _, document in sorted(pairs, reverse=True)]


def _relevant(example: QueryExample) -> dict[str, int]:
    return {document: grade for document, grade in example.relevant or () if grade > 0}


def _discounted(gains: list[int]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains[:DEPTH]))


def ndcg(prediction: RankingPrediction, example: QueryExample) -> float:
    """Return nDCG@10 of a ranking: its discounted gain, divided by that of an ideal ranking.

    The discounted gain is the sum of the grades of the first ten documents, each divided by
    log2(rank + 1).
    """
    relevant = _relevant(example)
    best = _discounted(sorted(relevant.values(), reverse=True))
    gains = [relevant.get(document, 0) for document in ranked(prediction)]
    return _discounted(gains) / best if best else 0.0


def recall(prediction: RankingPrediction, example: QueryExample) -> float:
    """Return recall@100: the share of the relevant documents that are among the first hundred."""
    relevant = _relevant(example)
    return len(relevant.keys() & ranked(prediction)[:100]) / len(relevant) if relevant else 0.0


def reciprocal_rank(prediction: RankingPrediction, example: QueryExample) -> float:
    """Return 1 / rank of the first relevant document; 0 if it is not among the first ten."""
    relevant = _relevant(example)
    first = enumerate(ranked(prediction)[:DEPTH], start=1)
    return next((1 / place for place, document in first if document in relevant), 0.0)


ndcg_10 = mean_metric("ndcg_10", ndcg)
recall_100 = mean_metric("recall_100", recall)
mrr_10 = mean_metric("mrr_10", reciprocal_rank)
