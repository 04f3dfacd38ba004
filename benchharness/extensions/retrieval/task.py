"""Tasks that rank the documents of a corpus for a query: their examples and predictions."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from benchharness.tasks.examples import NOT_IN_FINGERPRINT, Example, Prediction, Traits, later
from benchharness.tasks.sources.source import Row
from benchharness.tasks.task import Metric, Task


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """Collection of documents that is searched with queries.

    Attributes:
        ids: Ids of the documents.
        texts: Texts of the documents, including their titles.
        digest: SHA-256 (hex) of all ids and texts.
        oddities: One sentence per irregularity in the released corpus, such as a repeated document.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    digest: str
    oddities: tuple[str, ...] = ()

    @cached_property
    def places(self) -> dict[str, int]:
        """Index of each document, keyed by its id."""
        return {name: place for place, name in enumerate(self.ids)}

    def text(self, document: str) -> str:
        """Return the title and text of a document.

        Args:
            document: The id of the document. If the corpus lacks it, the id is returned.
        """
        place = self.places.get(document)
        return document if place is None else self.texts[place]


@dataclass(frozen=True, kw_only=True)
class QueryExample(Example):
    """Query for which documents are ranked, with the documents that were judged for it.

    Attributes:
        text: Text of the query.
        relevant: Pairs (document id, grade) of the judged documents; a grade below 1 means that the
            document is not relevant. None if the judgements are hidden.
        documents: Digest of the corpus.
        positive: Id of a relevant document if the example is a training pair of a query and a
            document, else "".
        corpus: The corpus, which all queries of a data set share. It is not part of the
            fingerprint.
    """

    text: str
    relevant: tuple[tuple[str, int], ...] | None = None
    documents: str
    positive: str = later("")
    corpus: Corpus = field(metadata=NOT_IN_FINGERPRINT, compare=False, repr=False)
    gold_field: ClassVar[str] = "relevant"

    @property
    def traits(self) -> Traits:
        """Properties of the example; see `Example.traits`."""
        return Traits(
            texts=(self.text,),
            shown=self.text,
            asked=self.text,
            claims=(self.text,),
            is_blank=not self.text.strip(),
        )


@dataclass(frozen=True, kw_only=True)
class RankingPrediction(Prediction):
    """Predicted documents for a query.

    Attributes:
        documents: Ids of the documents, in any order.
        scores: Score of each document. Documents are ranked by descending scores.
    """

    documents: tuple[str, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class RankingTask(Task):
    """Task that ranks the documents of a corpus for a query.

    The labels of its test split are public.
    """

    convert: Callable[[Row], QueryExample]
    metrics: tuple[Metric[RankingPrediction, QueryExample], ...]
    details: tuple[Metric[RankingPrediction, QueryExample], ...] = ()
    public_tests: bool = True
    head: ClassVar[str] = "ranking"
    example: ClassVar[type[Example]] = QueryExample
    hub_type: ClassVar[str] = "text-retrieval"
    has_weights: ClassVar[bool] = False
    has_outputs: ClassVar[bool] = False
    baseline_has_settings: ClassVar[bool] = False
