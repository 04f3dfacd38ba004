"""Answer type of retrieval."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from json import dumps
from typing import Any

from benchharness.extensions.retrieval.metrics import ndcg, ranked
from benchharness.extensions.retrieval.task import QueryExample, RankingPrediction
from benchharness.tasks.answers.base import AnswerType, Passage, is_number

SHOWN = 3
"""Number of documents that the description of a ranking lists."""

FUSION = 60
"""Constant k in reciprocal rank fusion (Cormack et al., SIGIR 2009)."""


class Rankings(AnswerType):
    """Answer type of retrieval: an answer is a ranking of documents for a query.

    A ranking counts as right if its first document is relevant. Its similarity to the gold answer
    is its nDCG@10.
    """

    prediction = RankingPrediction
    noun = "document"
    matrix = ("queries", "Whether the first document is relevant")
    is_words = True

    def from_python(self, example: QueryExample, answer: Any) -> RankingPrediction:
        """Convert an answer to a prediction.

        The answer is a list of document ids, best first, or a mapping from ids to scores.

        Raises:
            DataError: A document of the answer is neither in the corpus nor judged for the query.
        """
        found = answer if isinstance(answer, Mapping) else _falling(answer)
        ids = tuple(map(str, found))
        known = example.corpus.places | dict(example.relevant or ())
        if unknown := next((each for each in ids if each not in known), None):
            expected = f"{unknown!r} is not a document in the corpus"
            raise self.refuse(example, answer, expected)
        return RankingPrediction(id=example.id, documents=ids, scores=tuple(found.values()))

    def fits(self, prediction: RankingPrediction, example: QueryExample) -> bool:
        is_text = all(isinstance(document, str) for document in prediction.documents)
        is_whole = len(prediction.documents) == len(prediction.scores)
        return is_text and is_whole and all(map(is_number, prediction.scores))

    def golds(self, example: QueryExample) -> tuple[RankingPrediction, ...]:
        """Return the ideal ranking: all relevant documents, those with the highest grades first.

        Returns an empty tuple if the judgements are hidden.
        """
        if example.relevant is None:
            return ()
        grades = {document: float(grade) for document, grade in example.relevant if grade > 0}
        best = sorted(grades, key=lambda each: (-grades[each], each))
        scores = tuple(grades[document] for document in best)
        return (RankingPrediction(id=example.id, documents=tuple(best), scores=scores),)

    def key(self, prediction: RankingPrediction) -> Hashable:
        return tuple(ranked(prediction)[:1])

    def is_right(self, prediction: RankingPrediction, example: Any) -> bool:
        relevant = {document for document, grade in example.relevant if grade > 0}
        return bool(relevant & set(ranked(prediction)[:1]))

    def near(self, prediction: Any, example: Any, *, right: bool) -> float:
        return ndcg(prediction, example)

    def near_words(self, near: float, prediction: Any) -> str:
        return f"nDCG {100 * near:.1f}"

    def average(self, predictions: Sequence[RankingPrediction]) -> RankingPrediction:
        """Combine rankings by reciprocal rank fusion, which uses only ranks and not scores."""
        fused = Counter[str]()
        for prediction in predictions:
            for place, document in enumerate(ranked(prediction), start=1):
                fused[document] += 1 / (FUSION + place)  # type: ignore[assignment]
        best = fused.most_common(max(len(p.documents) for p in predictions))
        documents, scores = zip(*best, strict=True) if best else ((), ())
        return RankingPrediction(id=predictions[0].id, documents=documents, scores=scores)

    def majority(self, examples: Sequence[Any]) -> Callable[[Any], RankingPrediction]:
        """Return a function that predicts the same documents for all queries.

        They are the documents that are relevant to the most queries in `examples`, at most 100.
        """
        pairs = ((e.corpus, *judged) for e in examples for judged in e.relevant or ())
        counts = Counter(d for corpus, d, grade in pairs if grade > 0 and d in corpus.places)
        best = [document for document, _ in counts.most_common(100)]
        scores = tuple(map(float, range(len(best), 0, -1)))
        return lambda asked: RankingPrediction(id=asked.id, documents=tuple(best), scores=scores)

    def said(
        self, prediction: RankingPrediction, example: Any = None, *, texts: bool = True
    ) -> str:
        """Describe the highest-ranked documents by their texts.

        The ids of the documents are used instead if `example` is None or `texts` is false.
        """
        best = ranked(prediction)[:SHOWN]
        if texts and example is not None:
            best = [example.corpus.text(document) for document in best]
        return " | ".join(best) or "(no document)"

    def written(self, prediction: RankingPrediction, *, texts: bool = True) -> str:
        return dumps(ranked(prediction))

    def gold_written(self, example: Any, *, texts: bool = True) -> str | None:
        return dumps(dict(example.relevant))

    def scores(self, prediction: Any) -> list[float]:
        """Return an empty list, because a ranking task has no options that could be scored."""
        return []

    def passages(self, example: QueryExample) -> Iterator[Passage]:
        yield Passage("query", example.text)
        for gold in self.golds(example):
            for document in gold.documents[:SHOWN]:
                yield Passage(f"relevant: {document}", example.corpus.text(document), folded=True)


def _falling(ids: Any) -> dict[str, float]:
    return {str(each): 1.0 / place for place, each in enumerate(ids, start=1)}
