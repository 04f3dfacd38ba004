"""The documents that answer a query, the best first."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from json import dumps
from typing import Any

from benchharness.tasks.answers.base import AnswerType, Passage, is_number
from benchharness.tasks.examples import QueryExample, RankingPrediction
from benchharness.tasks.metrics import ndcg, ranked

SHOWN = 3
"""How many documents of a ranking a reader sees."""

FUSION = 60
"""Of reciprocal rank fusion: Cormack et al., SIGIR 2009."""


class Rankings(AnswerType):
    """A ranking is right where its first document is relevant, and near by its nDCG@10."""

    prediction = RankingPrediction
    noun = "document"
    matrix = ("queries", "Whether the first document is relevant")
    is_words = True

    def from_python(self, example: QueryExample, answer: Any) -> RankingPrediction:
        """Of ids, the best first, or of scores by id."""
        found = answer if isinstance(answer, Mapping) else _falling(answer)
        ids = tuple(map(str, found))
        known = example.corpus.places | dict(example.relevant or ())
        if unknown := next((each for each in ids if each not in known), None):
            expected = f"{unknown!r} is no document of the corpus"
            raise self.refuse(example, answer, expected)
        return RankingPrediction(id=example.id, documents=ids, scores=tuple(found.values()))

    def fits(self, prediction: RankingPrediction, example: QueryExample) -> bool:
        is_text = all(isinstance(document, str) for document in prediction.documents)
        is_whole = len(prediction.documents) == len(prediction.scores)
        return is_text and is_whole and all(map(is_number, prediction.scores))

    def golds(self, example: QueryExample) -> tuple[RankingPrediction, ...]:
        """What is relevant, the most relevant first."""
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
        """By reciprocal rank fusion, which takes scores of any scale."""
        fused = Counter[str]()
        for prediction in predictions:
            for place, document in enumerate(ranked(prediction), start=1):
                fused[document] += 1 / (FUSION + place)  # type: ignore[assignment]
        best = fused.most_common(max(len(p.documents) for p in predictions))
        documents, scores = zip(*best, strict=True) if best else ((), ())
        return RankingPrediction(id=predictions[0].id, documents=documents, scores=scores)

    def majority(self, examples: Sequence[Any]) -> Callable[[Any], RankingPrediction]:
        """The documents that are relevant to the most queries."""
        pairs = ((e.corpus, *judged) for e in examples for judged in e.relevant or ())
        counts = Counter(d for corpus, d, grade in pairs if grade > 0 and d in corpus.places)
        best = [document for document, _ in counts.most_common(100)]
        scores = tuple(map(float, range(len(best), 0, -1)))
        return lambda asked: RankingPrediction(id=asked.id, documents=tuple(best), scores=scores)

    def said(
        self, prediction: RankingPrediction, example: Any = None, *, texts: bool = True
    ) -> str:
        """The first documents, by their texts where an example has its corpus."""
        best = ranked(prediction)[:SHOWN]
        if texts and example is not None:
            best = [example.corpus.text(document) for document in best]
        return " | ".join(best) or "(no document)"

    def written(self, prediction: RankingPrediction, *, texts: bool = True) -> str:
        return dumps(ranked(prediction))

    def gold_written(self, example: Any, *, texts: bool = True) -> str | None:
        return dumps(dict(example.relevant))

    def scores(self, prediction: Any) -> list[float]:
        """None: they are of documents, not of answers to choose from."""
        return []

    def passages(self, example: QueryExample) -> Iterator[Passage]:
        yield Passage("query", example.text)
        for gold in self.golds(example):
            for document in gold.documents[:SHOWN]:
                yield Passage(f"relevant: {document}", example.corpus.text(document), folded=True)


def _falling(ids: Any) -> dict[str, float]:
    return {str(each): 1.0 / place for place, each in enumerate(ids, start=1)}
