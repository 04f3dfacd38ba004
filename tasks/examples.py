"""What goes into an encoder and what comes out: one example and one prediction per head type.

An example's label is None where the benchmark hides it; scoring such an example raises. Labels are
names ("entailment"), never integers, because the integers differ between sources.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple


def _later(default: Any) -> Any:
    """A field that came later: at its default a split's fingerprint is as it was without it."""
    return field(default=default, metadata={"later": True})


_BESIDE = {"beside": True}
"""Says of a field that no fingerprint has it: stored results are older."""


class Traits(NamedTuple):
    """What code that knows no kind of answer asks of an example.

    texts:     all that is read, the context first, then what is asked
    shown:     what the question was, for a reader; the text where there is no question
    asked:     the question, "" where there is none
    claims:    the texts where a "not" matters: nearly every long passage holds some
    passage:   what other rows have too, and would give this one away; None where each has its own
    own_texts: what would give the row away where it stands in train, if that is not all texts
    stratum:   a sample has the share of each stratum: mostly of each label
    slices:    the benchmark's own slices that the row is in
    labels:    the names of its labels or tags
    is_blank, is_unlearnable: lacks a text; has an answer that cannot be learned
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
    """A row of a task; `gold_field` is the field that holds its gold answer.

    Where rows of a `group` are scored together it `is_in_unit`. `oddities` are sentences on what
    is odd about the row as it was released, and how it counts, one for each time; no fingerprint
    has them.
    """

    id: str
    oddities: tuple[str, ...] = field(default=(), compare=False, repr=False, metadata=_BESIDE)
    gold_field: ClassVar[str]
    is_in_unit: ClassVar[bool] = False

    @property
    def unit(self) -> str | None:
        """The group of rows that it is scored together with."""
        return getattr(self, "group", None) if self.is_in_unit else None

    @property
    def content(self) -> Hashable:
        """Equal for rows that say the same, but for id and answer. Asked of every row: quick."""
        return self.traits.texts

    @property
    def traits(self) -> Traits:
        """What the row is, whatever its kind."""
        raise NotImplementedError

    @property
    def is_hidden(self) -> bool:
        """True where the benchmark hides the gold answer."""
        return getattr(self, self.gold_field) is None

    def count_words(self) -> int:
        """The words of a row that is read whole, and cut where it is too long; 0 of any other."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What was answered to the example of that id."""

    id: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A marked stretch of a text: characters [start, end) of text "a" or "b" (WiC, WSC)."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class PairExample(Example):
    """One text, or two, with a class name, a number, or the names of several labels (or none).

    `group` ties rows that are scored together (MultiRC question, AX-g minimal pair); `categories`
    are the slices that a score is also given for (AX: "logic", ...). `about` is what the row names
    beside its texts: the question that text b begins with (MultiRC), the dictionary's form of the
    marked word (WiC). It follows from the rest but for its spelling, and no fingerprint has it.
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
        """Its texts, and what is marked in them."""
        return self.text_a, self.text_b, self.marks

    @property
    def traits(self) -> Traits:
        """As of every example."""
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
        """Those of both texts."""
        return sum(len(text.split()) for text in self.traits.texts)


@dataclass(frozen=True, kw_only=True)
class TimedExample(PairExample):
    """A document that encoders are timed on: so many random `tokens`, or (0) those of its texts."""

    text_a: str = ""
    label: str | float | tuple[str, ...] | None = ""
    tokens: int = 0

    @property
    def content(self) -> Hashable:
        """Its texts, if it has any."""
        return super().content if self.text_a else self.id


@dataclass(frozen=True, kw_only=True)
class SpanExample(Example):
    """A question on a context. `answers` are (text, start character) of every gold answer.

    An empty `answers` means that the context holds no answer (SQuAD 2.0); None means hidden. An
    answer that the context does not hold has the start -1 and stands after all others: it counts
    for scoring, and there is nothing in it to learn.

    The rest only some tasks have. `group` ties questions that are scored together (a conversation);
    `categories` are the slices that a score is also given for. `span` are the characters [start,
    end) to learn where they are not those of the first answer. The first `lead` characters of the
    context are answers that no text holds ("yes no"), a word each; they stand in every window.
    `evidence` is what an answer rests on: of windows without any of it none answers by such a word.
    `classes` are what is said of the question beside its answer, one of each of the task's;
    `sentences` the context's, of which `facts` are the numbers of those that support the answer; a
    number that is no sentence's is of one that is not in the context, and `absent` says what the
    benchmark calls those, in their order. `language` is that of the answers, for scorers that go by
    it.
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
        """The texts of the right answers, each once."""
        return tuple(dict.fromkeys(text for text, _ in self.answers or ()))

    @property
    def traits(self) -> Traits:
        """As of every example."""
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
    """What the official files call a question's sentences, and its facts that name none."""
    names = _sentence_names(example.context, example.sentences)
    absent = (fact for fact in example.facts if fact >= len(names))
    return dict(enumerate(names)) | dict(zip(absent, example.absent, strict=True))


@lru_cache(maxsize=2**13)  # more than the questions of dev: nine metrics ask for each
def _sentence_names(
    context: str, sentences: tuple[tuple[int, int], ...]
) -> tuple[tuple[str, int], ...]:
    lines = context.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    counts: Counter[int] = Counter()
    names = list[tuple[str, int]]()
    for start, _ in sentences:
        # A paragraph's line follows its title's; an empty sentence may end it.
        line = bisect_right(starts, start) - 1
        names.append((lines[line - 1], counts[line]))
        counts[line] += 1
    return tuple(names)


@dataclass(frozen=True, kw_only=True)
class ChoiceExample(Example):
    """A context, a question (may be empty) and options; `gold` are the right ones' indices.

    Training takes the first of several right options (only ReCoRD has several). `answers` are right
    answers that are none of the options: they count for scores of texts. `group` is the slice or
    passage that the example belongs to (RACE: "middle" or "high").
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
        """As of every example."""
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
        """Those of the row of the longest option."""
        context, question, *options = (len(text.split()) for text in self.traits.texts)
        return context + question + max(options, default=0)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The words of the document that a sentence stands in, and the place of its first one."""

    words: tuple[str, ...]
    start: int


@dataclass(frozen=True, kw_only=True)
class TagExample(Example):
    """A sentence of words with one tag each, in IOB2.

    `document` is what it stands in, None where the source does not say where documents begin. No
    fingerprint has it; a job that reads it has a digest of its own (`document_digest`).
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: Surroundings | None = field(default=None, compare=False, repr=False, metadata=_BESIDE)
    gold_field: ClassVar[str] = "tags"

    @property
    def traits(self) -> Traits:
        """As of every example."""
        text = " ".join(self.words)
        return Traits(
            texts=(text,),
            shown=text,
            claims=(text,),
            labels=tuple(dict.fromkeys(self.tags or ())),
        )


@dataclass(frozen=True, kw_only=True)
class RoleExample(TagExample):
    """A sentence and its word `predicate`, whose arguments the tags are; -1 for none.

    The id is that of the sentence, a slash and the predicate's number in it.
    """

    predicate: int

    @property
    def sentence(self) -> str:
        """The id of the sentence."""
        return self.id.rpartition("/")[0]

    @property
    def content(self) -> Hashable:
        """The words and which of them is the predicate."""
        return self.words, self.predicate

    @property
    def traits(self) -> Traits:
        """As of every example."""
        found = super().traits
        shown = f"{found.shown} ({self.words[self.predicate]})"
        return found._replace(
            shown=shown,
            passage=found.shown,
        )


Mention = tuple[int, int]
"""Words [start, end) of a document, counted through its sentences."""

Clusters = tuple[tuple[Mention, ...], ...]
"""What is the same, each mention in one cluster."""


@dataclass(frozen=True, kw_only=True)
class DocumentExample(Example):
    """The sentences of a document, who says each, and what in them is the same.

    `genre` is OntoNotes' ("nw" for newswire). `chains` are the gold clusters as they are marked,
    where some of them share a mention: the official scorer counts these.
    """

    sentences: tuple[tuple[str, ...], ...]
    speakers: tuple[str, ...]
    genre: str = ""
    clusters: Clusters | None = None
    chains: Clusters = field(default=(), metadata={"later": True})
    gold_field: ClassVar[str] = "clusters"

    @property
    def words(self) -> tuple[str, ...]:
        """The words of all sentences."""
        return tuple(word for sentence in self.sentences for word in sentence)

    @property
    def traits(self) -> Traits:
        """As of every example."""
        text = " ".join(self.words)
        return Traits(
            texts=(text,),
            shown=text,
            passage=self.id.rpartition("/")[0],
            slices=(f"genre {self.genre}",) if self.genre else (),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Corpus:
    """What is searched: documents by id, and the SHA-256 (hex) of them all.

    `oddities` are sentences on what is odd about it, as those of an example.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    digest: str
    oddities: tuple[str, ...] = ()

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each document stands."""
        return {name: place for place, name in enumerate(self.ids)}

    def text(self, document: str) -> str:
        """A document's title and text; its id where it is not there."""
        place = self.places.get(document)
        return document if place is None else self.texts[place]


@dataclass(frozen=True, kw_only=True)
class QueryExample(Example):
    """A query on a corpus, with the documents that were judged and the grade of each.

    `documents` is the digest of the corpus, which all queries of a set share. A training pair has
    the id of its document in `positive`.
    """

    text: str
    relevant: tuple[tuple[str, int], ...] | None = None
    documents: str
    positive: str = _later("")
    corpus: Corpus = field(metadata=_BESIDE, compare=False, repr=False)
    gold_field: ClassVar[str] = "relevant"

    @property
    def traits(self) -> Traits:
        """As of every example."""
        return Traits(
            texts=(self.text,),
            shown=self.text,
            asked=self.text,
            claims=(self.text,),
            is_blank=not self.text.strip(),
        )


@dataclass(frozen=True, kw_only=True)
class PairPrediction(Prediction):
    """A class name with the probability of every class in the task's order, or a number.

    For a regression `label` is the predicted number and `scores` is empty. Where an example has
    several labels, `label` are their names and `scores` each label's own probability. `text` is the
    answer of a model that answers in words where it is no label: the label is "" then, which no
    task has, or a number outside of the range.
    """

    label: str | float | tuple[str, ...]
    scores: tuple[float, ...] = ()
    text: str | None = None


@dataclass(frozen=True, kw_only=True)
class TimedPrediction(Prediction):
    """What a document of so many real `tokens` took, in seconds as medians over passes.

    `train` and `predict` are its share, by tokens, of a pass over all documents: by the clock, of
    the processor (0 on a GPU), and what the reference takes of the latter (on a GPU by the clock).
    `alone` are clock and processor where it is predicted alone. `peaks` are the bytes that the
    process held at most in prediction and in training, `largest` how many documents fit into one
    micro-batch of a training on a GPU, 0 on a CPU; both are of the whole split.
    """

    tokens: int
    train: tuple[float, float, float]
    predict: tuple[float, float, float]
    alone: tuple[float, float]
    peaks: tuple[int, int]
    largest: int = 0


@dataclass(frozen=True, kw_only=True)
class SpanPrediction(Prediction):
    """The best answer text and how much more the model believes in "no answer".

    `text` is the best non-empty span (before any threshold), `no_answer_score` the null score minus
    that span's score, in logits, or what a classifier or a file has in its place: the answer is ""
    where it exceeds the `threshold`, which is 0 for every model. `missing` marks a question that a
    file leaves out. `classes` and `facts` are as the example's. `start` is the character of the
    context where the text begins, -1 where nobody says; it is not stored.
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
        """Whether "no answer" is preferred to the text."""
        return self.no_answer_score > self.threshold


@dataclass(frozen=True, kw_only=True)
class ChoicePrediction(Prediction):
    """The chosen option's index and the probability of every option.

    The option is -1 where a file answers with none of them: with `text` instead, in its own words
    (ReCoRD), or with nothing at all. Where texts are weighed, the score of the only option is the
    geometric mean of its `tokens`' probabilities.
    """

    option: int
    scores: tuple[float, ...] = ()
    text: str | None = None
    tokens: int = 0

    @property
    def missing(self) -> bool:
        """Whether a file says nothing of the example."""
        return self.option < 0 and self.text is None


@dataclass(frozen=True, kw_only=True)
class TagPrediction(Prediction):
    """One tag per word."""

    tags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClusterPrediction(Prediction):
    """The clusters of one document."""

    clusters: Clusters


@dataclass(frozen=True, kw_only=True)
class RankingPrediction(Prediction):
    """The ids of the best documents for a query, with their scores; the order is the scores'."""

    documents: tuple[str, ...]
    scores: tuple[float, ...]
