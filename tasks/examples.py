"""Inputs and outputs of an encoder: one example class and one prediction class per head type.

An example's label is None if the benchmark hides it; scoring such an example raises BenchError.
Labels are names ("entailment"), never integers, because the integers differ between sources.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple


def _later(default: Any) -> Any:
    """Create a field that was added later: at its default it does not change the fingerprint."""
    return field(default=default, metadata={"later": True})


_BESIDE = {"beside": True}
"""Metadata of a field that never enters a fingerprint, because stored results are older."""


class Traits(NamedTuple):
    """Properties of an example for code that does not depend on the kind of answer.

    Attributes:
        texts: All texts that are read, the context first, then the question.
        shown: Question as a reader sees it; the text itself if there is no question.
        own_texts: Texts that leak the row if they occur in train; empty if all `texts` together do.
        claims: Texts in which a negation matters; long passages are left out, since nearly all
            contain one.
        asked: Question, "" if there is none.
        passage: Text or group that other rows share and that would leak this row; None if no row
            shares it.
        stratum: Stratum for sampling, mostly the label; a sample has the share of each stratum.
        slices: The benchmark's own slices that contain the row.
        labels: Names of the row's labels or tags.
        is_blank: True if the row lacks a text.
        is_unlearnable: True if none of the row's answers can be learned.
    """

    texts: tuple[str, ...]
    shown: str
    own_texts: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    asked: str = ""
    passage: str | None = None
    stratum: str = ""
    slices: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    is_blank: bool = False
    is_unlearnable: bool = False


@dataclass(frozen=True, kw_only=True)
class Example:
    """Row of a task; `gold_field` is the name of the field with its gold answer.

    If the class is scored in groups, `is_in_unit` is true and rows with the same `group` are scored
    together. `oddities` are sentences about oddities of the released row and how they count, one
    per occurrence; they do not enter the fingerprint.
    """

    id: str
    oddities: tuple[str, ...] = field(default=(), compare=False, repr=False, metadata=_BESIDE)
    gold_field: ClassVar[str]
    is_in_unit: ClassVar[bool] = False

    @property
    def unit(self) -> str | None:
        """Group of rows that are scored together with this row, or None."""
        return getattr(self, "group", None) if self.is_in_unit else None

    @property
    def content(self) -> Hashable:
        """Content of the row without its id and answer: equal for duplicates. Must be fast."""
        return self.traits.texts

    @property
    def traits(self) -> Traits:
        """Properties that every kind of example has."""
        raise NotImplementedError

    @property
    def is_hidden(self) -> bool:
        """True if the benchmark hides the gold answer."""
        return getattr(self, self.gold_field) is None

    def count_words(self) -> int:
        """Return the number of words of a row that is read whole and may be truncated; else 0."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Answer to the example with this id."""

    id: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Marked span: characters [start, end) of text "a" or "b" (WiC, WSC)."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class PairExample(Example):
    """Text or pair of texts with a class name, a number, or the names of any number of labels.

    Attributes:
        group: Group of rows that are scored together (MultiRC question, AX-g minimal pair).
        categories: Slices for which a score is also given (AX: "logic", ...).
        marks: Marked spans.
        about: Further content of the row: the question with which text b begins (MultiRC), or the
            dictionary form of the marked word (WiC). Apart from its spelling it follows from the
            other fields, so it does not enter the fingerprint.
    """

    text_a: str
    text_b: str | None = None
    label: str | float | tuple[str, ...] | None = None
    group: str | None = None
    categories: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    about: str = field(default="", metadata=_BESIDE)
    gold_field: ClassVar[str] = "label"
    is_in_unit: ClassVar[bool] = True

    @property
    def content(self) -> Hashable:
        """Both texts and the marked spans."""
        return self.text_a, self.text_b, self.marks

    @property
    def traits(self) -> Traits:
        """Properties of the example; see `Example.traits`."""
        one, other = self.text_a, self.text_b or ""
        names = (self.label,) if isinstance(self.label, str) else self.label
        return Traits(
            texts=(one, other),
            shown=one if self.text_b is None else f"{one} / {other}",
            claims=(one, other),
            asked=next((text for text in (one, other) if text.rstrip().endswith("?")), ""),
            stratum=str(round(self.label) if isinstance(self.label, float) else self.label),
            slices=tuple(f"category {name}" for name in self.categories),
            labels=names if isinstance(names, tuple) else (),
            is_blank=not one.strip() or self.text_b == "",
        )

    def count_words(self) -> int:
        """Return the number of words of both texts."""
        return sum(len(text.split()) for text in self.traits.texts)


@dataclass(frozen=True, kw_only=True)
class TimedExample(PairExample):
    """Document on which encoders are timed: `tokens` random tokens, or its texts if that is 0."""

    text_a: str = ""
    label: str | float | tuple[str, ...] | None = ""
    tokens: int = 0

    @property
    def content(self) -> Hashable:
        """The texts and marks if there is a text, else the id."""
        return super().content if self.text_a else self.id


@dataclass(frozen=True, kw_only=True)
class SpanExample(Example):
    """Question on a context, with the (text, start character) of every gold answer.

    Only some tasks use the fields after `title`.

    Attributes:
        answers: Gold answers. Empty if the context has no answer (SQuAD 2.0), None if hidden. An
            answer that is not in the context has the start -1 and is last: it counts for scoring,
            but there is nothing to learn.
        group: Questions of one group (a conversation) are scored together.
        categories: Slices for which a score is also given.
        span: Characters [start, end) to learn if they are not those of the first answer.
        lead: Length of the context's beginning that consists of fixed answers, one word each ("yes
            no"), which no text contains. It is part of every window.
        evidence: Character spans on which the answer rests. A window without any of them is not
            trained to give a fixed answer.
        classes: Classes of the question in addition to its answer, one per group of the task's
            classes.
        sentences: Character spans of the context's sentences.
        facts: Indices of the sentences that support the answer. An index beyond `sentences` stands
            for a fact whose sentence is not in the context.
        absent: Official names (title, number) of the facts without a sentence, in their order.
        language: Language of the answers, for scorers that depend on it.
    """

    question: str
    context: str
    answers: tuple[tuple[str, int], ...] | None = None
    title: str = ""
    group: str | None = _later(None)
    categories: tuple[str, ...] = _later(())
    span: tuple[int, int] | None = _later(None)
    lead: int = _later(0)
    evidence: tuple[tuple[int, int], ...] = _later(())
    classes: tuple[str, ...] = _later(())
    sentences: tuple[tuple[int, int], ...] = _later(())
    facts: tuple[int, ...] = _later(())
    absent: tuple[tuple[str, int], ...] = field(default=(), metadata=_BESIDE)
    language: str = _later("")
    gold_field: ClassVar[str] = "answers"
    is_in_unit: ClassVar[bool] = True

    @property
    def content(self) -> Hashable:
        """Question and context."""
        return self.question, self.context

    @property
    def answer_texts(self) -> tuple[str, ...]:
        """Distinct texts of the gold answers."""
        return tuple(dict.fromkeys(text for text, _ in self.answers or ()))

    @property
    def traits(self) -> Traits:
        """Properties of the example; see `Example.traits`."""
        named = (f"category {name}" for name in self.categories)
        return Traits(
            texts=(self.context, self.question),
            shown=self.question,
            own_texts=(self.context,),
            claims=(self.question,),
            asked=self.question,
            passage=self.group or self.context,
            stratum=str(bool(self.answers)),
            slices=(*named, "HasAns" if self.answers else "NoAns"),
            is_unlearnable=bool(self.answers) and all(start < 0 for _, start in self.answers or ()),
        )


def fact_names(example: SpanExample) -> dict[int, tuple[str, int]]:
    """Return the official name (title, number) of each sentence and absent fact, by its index."""
    names = _sentence_names(example.context, example.sentences)
    absent = (fact for fact in example.facts if fact >= len(names))
    return dict(enumerate(names)) | dict(zip(absent, example.absent, strict=True))


@lru_cache(maxsize=2**13)  # larger than dev: nine metrics ask for each question
def _sentence_names(
    context: str, sentences: tuple[tuple[int, int], ...]
) -> tuple[tuple[str, int], ...]:
    lines = context.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    counts: Counter[int] = Counter()
    names = list[tuple[str, int]]()
    for start, _ in sentences:
        # The line after a title is its paragraph; the paragraph may end with an empty sentence.
        line = bisect_right(starts, start) - 1
        names.append((lines[line - 1], counts[line]))
        counts[line] += 1
    return tuple(names)


@dataclass(frozen=True, kw_only=True)
class ChoiceExample(Example):
    """Context, question (may be empty) and options; `gold` has the indices of the right options.

    Training uses the first right option (only ReCoRD has several).

    Attributes:
        answers: Right answers that are not among the options: they count for scores of texts.
        group: Slice or passage of the example (RACE: "middle" or "high").
    """

    context: str
    question: str
    options: tuple[str, ...]
    gold: tuple[int, ...] | None = None
    answers: tuple[str, ...] = _later(())
    group: str | None = None
    gold_field: ClassVar[str] = "gold"

    @property
    def traits(self) -> Traits:
        """Properties of the example; see `Example.traits`."""
        texts = (self.context, self.question, *self.options)
        return Traits(
            texts=texts,
            shown=self.question or self.context,
            claims=(self.question,),
            asked=self.question,
            passage=self.context or None,
            stratum=str((self.group, self.gold)),
            slices=(f"level {self.group}",) if self.group else (),
            is_unlearnable=self.gold == (),
        )

    def count_words(self) -> int:
        """Return the number of words of context, question and longest option."""
        context, question, *options = (len(text.split()) for text in self.traits.texts)
        return context + question + max(options, default=0)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Words of a document, and the index in it of the first word of one of its sentences."""

    words: tuple[str, ...]
    start: int


@dataclass(frozen=True, kw_only=True)
class TagExample(Example):
    """Sentence of words with one tag each, in IOB2.

    `document` contains the sentence; it is None if the source does not mark where documents begin.
    It does not enter the fingerprint; a job that reads it has its own digest (`document_digest`).
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: Surroundings | None = field(default=None, compare=False, repr=False, metadata=_BESIDE)
    gold_field: ClassVar[str] = "tags"

    @property
    def traits(self) -> Traits:
        """Properties of the example; see `Example.traits`."""
        text = " ".join(self.words)
        return Traits(
            texts=(text,),
            shown=text,
            claims=(text,),
            labels=tuple(dict.fromkeys(self.tags or ())),
        )


@dataclass(frozen=True, kw_only=True)
class RoleExample(TagExample):
    """Sentence and the index of its `predicate`, whose arguments are tagged; -1 for none.

    The id is the sentence's id, a slash and the number of the predicate in the sentence.
    """

    predicate: int

    @property
    def sentence(self) -> str:
        """Id of the sentence."""
        return self.id.rpartition("/")[0]

    @property
    def content(self) -> Hashable:
        """The words and the index of the predicate."""
        return self.words, self.predicate

    @property
    def traits(self) -> Traits:
        """Properties of the example; see `Example.traits`."""
        found = super().traits
        shown = f"{found.shown} ({self.words[self.predicate]})"
        return found._replace(
            shown=shown,
            passage=found.shown,
        )


Mention = tuple[int, int]
"""Words [start, end) of a document, counted across its sentences."""

Clusters = tuple[tuple[Mention, ...], ...]
"""Clusters of coreferent mentions."""


@dataclass(frozen=True, kw_only=True)
class DocumentExample(Example):
    """Sentences of a document with the speaker of each, and the document's coreference clusters.

    Attributes:
        genre: Genre in OntoNotes ("nw" for newswire).
        clusters: Gold clusters, each mention in one of them; None if hidden.
        chains: Gold clusters as annotated, if some share or repeat a mention: the official scorer
            counts these.
    """

    sentences: tuple[tuple[str, ...], ...]
    speakers: tuple[str, ...]
    genre: str = ""
    clusters: Clusters | None = None
    chains: Clusters = field(default=(), metadata={"later": True})
    gold_field: ClassVar[str] = "clusters"

    @property
    def words(self) -> tuple[str, ...]:
        """Words of all sentences."""
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """Documents to search: ids, texts, and the SHA-256 (hex) of all.

    `oddities` are sentences about oddities of the released corpus, as in Example.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    digest: str
    oddities: tuple[str, ...] = ()

    @cached_property
    def places(self) -> dict[str, int]:
        """Index of each document by its id."""
        return {name: place for place, name in enumerate(self.ids)}

    def text(self, document: str) -> str:
        """Return a document's title and text; the id itself if the corpus lacks the document."""
        place = self.places.get(document)
        return document if place is None else self.texts[place]


@dataclass(frozen=True, kw_only=True)
class QueryExample(Example):
    """Query on a corpus, with the judged documents and their grades.

    Attributes:
        relevant: (document id, grade) of each judged document; None if hidden.
        documents: Digest of the corpus, which all queries of a set share.
        positive: Id of the document of a training pair.
        corpus: The corpus; it does not enter the fingerprint.
    """

    text: str
    relevant: tuple[tuple[str, int], ...] | None = None
    documents: str
    positive: str = _later("")
    corpus: Corpus = field(metadata=_BESIDE, compare=False, repr=False)
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
class PairPrediction(Prediction):
    """Predicted class with the probability of every class in the task's order, or a number.

    Attributes:
        label: Class name, the predicted number of a regression, or the names of several labels.
        scores: Probability of each class, or of each label independently; empty for a regression.
        text: Output of a text-to-text model that is no label. `label` is then "", which no task
            has, or a number outside of the range.
    """

    label: str | float | tuple[str, ...]
    scores: tuple[float, ...] = ()
    text: str | None = None


@dataclass(frozen=True, kw_only=True)
class TimedPrediction(Prediction):
    """Measurements of a document with `tokens` real tokens: seconds, as medians over passes.

    Attributes:
        tokens: Number of tokens without padding.
        train: The document's share, by tokens, of a training pass over all documents: wall time,
            CPU time (0 on a GPU), and the reference model's CPU time (on a GPU its wall time).
        predict: The same for a prediction pass.
        alone: Wall and CPU time of predicting the document alone.
        peaks: Peak memory of the process in bytes, in prediction and in training, for the whole
            split.
        largest: Number of documents that fit into a micro-batch of a training on a GPU; 0 on a CPU.
            Also for the whole split.
    """

    tokens: int
    train: tuple[float, float, float]
    predict: tuple[float, float, float]
    alone: tuple[float, float]
    peaks: tuple[int, int]
    largest: int = 0


@dataclass(frozen=True, kw_only=True)
class SpanPrediction(Prediction):
    """Best answer text, and how strongly the model prefers "no answer" to it.

    Attributes:
        text: Best non-empty span, before any threshold.
        no_answer_score: Null score minus the score of the span, in logits, or the equivalent of a
            classifier or a file. The answer is "" if it exceeds `threshold`.
        threshold: Threshold of the no-answer score, 0 for every model.
        missing: True for a question that a file leaves out.
        classes: Predicted classes, as in SpanExample.
        facts: Indices of the predicted supporting sentences, as in SpanExample.
        start: Character of the context at which the text begins, -1 if unknown; not stored.
    """

    text: str
    no_answer_score: float = 0.0
    threshold: float = 0.0
    missing: bool = False
    classes: tuple[str, ...] = ()
    facts: tuple[int, ...] = ()
    start: int = field(default=-1, compare=False)

    @property
    def abstains(self) -> bool:
        """True if "no answer" is preferred to the text."""
        return self.no_answer_score > self.threshold


@dataclass(frozen=True, kw_only=True)
class ChoicePrediction(Prediction):
    """Index of the chosen option, and the probability of every option.

    The option is -1 if a file's answer is none of the options: then `text` is its wording (ReCoRD),
    or None if the file has no answer. If texts are weighed (pseudo-perplexity), the score of the
    only option is the geometric mean of the probabilities of its `tokens` tokens.
    """

    option: int
    scores: tuple[float, ...] = ()
    text: str | None = None
    tokens: int = 0

    @property
    def missing(self) -> bool:
        """True if a file has no answer for the example."""
        return self.option < 0 and self.text is None


@dataclass(frozen=True, kw_only=True)
class TagPrediction(Prediction):
    """Predicted tags, one per word."""

    tags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClusterPrediction(Prediction):
    """Predicted clusters of one document."""

    clusters: Clusters


@dataclass(frozen=True, kw_only=True)
class RankingPrediction(Prediction):
    """Ids of the best documents for a query with their scores, which determine the ranking."""

    documents: tuple[str, ...]
    scores: tuple[float, ...]
