"""What goes into an encoder and what comes out: one example and one prediction per head type.

An example's label is None where the benchmark hides it; scoring such an example raises. Labels are
names ("entailment"), never integers, because the integers differ between sources.
"""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any


def _later(default: Any) -> Any:
    """A field that came later: at its default a split's fingerprint is as it was without it."""
    return field(default=default, metadata={"later": True})


_BESIDE = {"beside": True}
"""Says of a field that no fingerprint has it: stored results are older."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A marked stretch of a text: characters [start, end) of text "a" or "b" (WiC, WSC)."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class PairExample:
    """One text, or two, with a class name, a number, or the names of several labels (or none).

    `group` ties rows that are scored together (MultiRC question, AX-g minimal pair); `categories`
    are the slices that a score is also given for (AX: "logic", ...). `about` is what the row names
    beside its texts: the question that text b begins with (MultiRC), the dictionary's form of the
    marked word (WiC). It follows from the rest but for its spelling, and no fingerprint has it.
    """

    id: str
    text_a: str
    text_b: str | None = None
    label: str | float | tuple[str, ...] | None = None
    group: str | None = None
    categories: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    about: str = field(default="", metadata=_BESIDE)


@dataclass(frozen=True, kw_only=True)
class SpanExample:
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
    benchmark calls those, in their order.
    """

    id: str
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
class ChoiceExample:
    """A context, a question (may be empty) and options; `gold` are the right ones' indices.

    Training takes the first of several right options (only ReCoRD has several). `group` is the
    slice or passage that the example belongs to (RACE: "middle" or "high").
    """

    id: str
    context: str
    question: str
    options: tuple[str, ...]
    gold: tuple[int, ...] | None = None
    group: str | None = None


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The words of the document that a sentence stands in, and the place of its first one."""

    words: tuple[str, ...]
    start: int


@dataclass(frozen=True, kw_only=True)
class TagExample:
    """A sentence of words with one tag each, in IOB2.

    `document` is what it stands in, None where the source does not say where documents begin. No
    fingerprint has it; a job that reads it has a digest of its own (`document_digest`).
    """

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: Surroundings | None = field(default=None, compare=False, repr=False, metadata=_BESIDE)


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


Mention = tuple[int, int]
"""Words [start, end) of a document, counted through its sentences."""

Clusters = tuple[tuple[Mention, ...], ...]
"""What is the same, each mention in one cluster."""


@dataclass(frozen=True, kw_only=True)
class DocumentExample:
    """The sentences of a document, who says each, and what in them is the same.

    `genre` is OntoNotes' ("nw" for newswire).
    """

    id: str
    sentences: tuple[tuple[str, ...], ...]
    speakers: tuple[str, ...]
    genre: str = ""
    clusters: Clusters | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words of all sentences."""
        return tuple(word for sentence in self.sentences for word in sentence)


@dataclass(frozen=True, kw_only=True)
class PairPrediction:
    """A class name with the probability of every class in the task's order, or a number.

    For a regression `label` is the predicted number and `scores` is empty. Where an example has
    several labels, `label` are their names and `scores` each label's own probability. `text` is the
    answer of a model that answers in words where it is no label: the label is "" then, which no
    task has, or a number outside of the range.
    """

    id: str
    label: str | float | tuple[str, ...]
    scores: tuple[float, ...] = ()
    text: str | None = None


@dataclass(frozen=True, kw_only=True)
class SpanPrediction:
    """The best answer text and how much more the model believes in "no answer".

    `text` is the best non-empty span (before any threshold), `no_answer_score` the null score minus
    that span's score, in logits, or what a classifier or a file has in its place: the answer is ""
    where it exceeds the `threshold`, which is 0 for every model. `missing` marks a question that a
    file leaves out. `classes` and `facts` are as the example's.
    """

    id: str
    text: str
    no_answer_score: float = 0.0
    threshold: float = 0.0
    missing: bool = False
    classes: tuple[str, ...] = ()
    facts: tuple[int, ...] = ()

    @property
    def abstains(self) -> bool:
        """Whether "no answer" is preferred to the text."""
        return self.no_answer_score > self.threshold


@dataclass(frozen=True, kw_only=True)
class ChoicePrediction:
    """The chosen option's index and the probability of every option.

    The option is -1 where a file answers with none of them: with `text` instead, in its own words
    (ReCoRD), or with nothing at all.
    """

    id: str
    option: int
    scores: tuple[float, ...] = ()
    text: str | None = None

    @property
    def missing(self) -> bool:
        """Whether a file says nothing of the example."""
        return self.option < 0 and self.text is None


@dataclass(frozen=True, kw_only=True)
class TagPrediction:
    """One tag per word."""

    id: str
    tags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ClusterPrediction:
    """The clusters of one document."""

    id: str
    clusters: Clusters


Example = PairExample | SpanExample | ChoiceExample | TagExample | DocumentExample
Prediction = PairPrediction | SpanPrediction | ChoicePrediction | TagPrediction | ClusterPrediction
