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
    """Corpus of documents that queries search.

    Attributes:
        ids: Ids of the documents.
        texts: Texts of the documents, including their titles.
        digest: SHA-256 (hex) of all ids and texts.
        oddities: One sentence per irregularity in the released corpus, as in `Example`.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    digest: str
    oddities: tuple[str, ...] = ()

    @cached_property
    def places(self) -> dict[str, int]:
        """Indices of the documents, keyed by their ids."""
        return {name: place for place, name in enumerate(self.ids)}

    def text(self, document: str) -> str:
        """Return the title and text of a document, or its id if the corpus does not contain it."""
        place = self.places.get(document)
        return document if place is None else self.texts[place]


@dataclass(frozen=True, kw_only=True)
class QueryExample(Example):
    """Query that searches a corpus, with the documents that were judged for it.

    Attributes:
        text: Text of the query.
        relevant: (document id, grade) of each judged document; None if hidden.
        documents: Digest of the corpus.
        positive: In a training pair, the id of the relevant document.
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
    """Predicted documents for a query: their ids, and the scores by which they are ranked."""

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
