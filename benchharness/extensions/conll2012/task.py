"""Task of coreference resolution, with its examples (documents) and predictions (clusters)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from benchharness.tasks.examples import Example, Prediction, Traits
from benchharness.tasks.sources.source import Row
from benchharness.tasks.task import Metric, Task

Mention = tuple[int, int]
"""Mention as a span [start, end) of words; indices count from 0 at the beginning of the document.
"""

Clusters = tuple[tuple[Mention, ...], ...]
"""Coreference clusters of a document; each cluster is a tuple of mentions."""


@dataclass(frozen=True, kw_only=True)
class DocumentExample(Example):
    """Document with its coreference clusters.

    Attributes:
        sentences: Words of each sentence.
        speakers: Speaker of each sentence.
        genre: Genre in OntoNotes, e.g. "nw" for newswire.
        clusters: Gold clusters; each mention is in exactly one. None if they are hidden.
        chains: Gold clusters as they were annotated, if some of them have a mention in common or
            contain a mention twice; otherwise empty. The official scorer uses these clusters.
    """

    sentences: tuple[tuple[str, ...], ...]
    speakers: tuple[str, ...]
    genre: str = ""
    clusters: Clusters | None = None
    chains: Clusters = field(default=(), metadata={"later": True})
    gold_field: ClassVar[str] = "clusters"

    @property
    def scored(self) -> Clusters | None:
        """Gold clusters as the official scorer counts them; None if they are hidden."""
        return self.chains or self.clusters

    @property
    def words(self) -> tuple[str, ...]:
        """Words of all sentences in the document."""
        return tuple(word for sentence in self.sentences for word in sentence)

    @property
    def traits(self) -> Traits:
        """Properties of the example; see `Example.traits`."""
        text = " ".join(self.words)
        return Traits(
            texts=(text,),
            shown=text,
            passage=self.id.rpartition("/")[0],
            slices=(f"genre {self.genre}",) if self.genre else (),
        )


@dataclass(frozen=True, kw_only=True)
class ClusterPrediction(Prediction):
    """Predicted coreference clusters of a document.

    Attributes:
        clusters: The clusters, each a tuple of mentions.
    """

    clusters: Clusters


@dataclass(frozen=True, kw_only=True)
class CorefTask(Task):
    """Task of finding the mentions in a document, and grouping those that refer to the same entity.

    Attributes:
        genres: Genres of documents. A model gets the genre of a document as an input.
    """

    convert: Callable[[Row], DocumentExample]
    metrics: tuple[Metric[ClusterPrediction, DocumentExample], ...]
    details: tuple[Metric[ClusterPrediction, DocumentExample], ...] = ()
    genres: tuple[str, ...] = ()
    head: ClassVar[str] = "coref"
    example: ClassVar[type[Example]] = DocumentExample
    hub_type: ClassVar[str] = "token-classification"
    has_outputs: ClassVar[bool] = False
    baseline_has_settings: ClassVar[bool] = False

    def problems(self, example: DocumentExample) -> Iterator[str]:
        """Check an example, and yield a phrase such as "has no words" for each problem.

        The words, the speakers and the mentions are checked; see `Task.problems`.
        """
        return _cluster_faults(example)


def _cluster_faults(example: DocumentExample) -> Iterator[str]:
    words = len(example.words)
    if not words:
        yield "has no words"
    if len(example.speakers) != len(example.sentences):
        yield f"has {len(example.sentences)} sentences and {len(example.speakers)} speakers"
    mentions = [mention for cluster in example.clusters or () for mention in cluster]
    for start, end in mentions:
        if not 0 <= start < end <= words:
            yield f"has a mention with the words {start} to {end}, but only {words} words"
    if len(set(mentions)) < len(mentions):
        yield "has a mention twice: expected each mention in exactly one cluster"
