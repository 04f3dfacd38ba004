"""Examples and predictions: one example class and one prediction class per type of model head.

The label of an example is None if the benchmark hides it; scoring such an example raises
BenchError. Labels are names ("entailment") instead of integers, because data sources number the
same labels differently.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple


def later(default: Any) -> Any:
    """Create a dataclass field that is part of a fingerprint only if it differs from its default.

    A fingerprint is the digest of a split's examples, which is stored with results (see
    `read.fingerprint`). New fields of an existing example class must be created with this function.
    Otherwise all fingerprints would change, and stored results would no longer match the examples.

    Args:
        default: Default value of the field.
    """
    return field(default=default, metadata={"later": True})


NOT_IN_FINGERPRINT = {"beside": True}
"""Metadata of a field that is never part of a fingerprint."""


class Traits(NamedTuple):
    """Properties that examples of all types have in common, for code that handles any task.

    Attributes:
        texts: All input texts; the context comes first, then the question.
        shown: Text that identifies the example for a reader: the question, or else the main text.
        own_texts: Texts by which leakage is detected: an example is leaked if a training example
            has the same texts. Empty to compare all `texts`.
        claims: Texts that are searched for a negation, so that scores can be compared on examples
            with and without one. Long passages are left out, because nearly all of them contain a
            negation.
        asked: The question, or "" if there is none.
        passage: Text that several rows may share, or the name of a group of such rows. Rows with
            the same value must not be divided between train and dev, because the training rows
            would leak information. None if rows share nothing.
        stratum: Stratum for stratified sampling, usually the label.
        slices: Names of the slices, as defined by the benchmark, that contain the example.
        labels: Names of the example's labels or tags.
        is_blank: True if a text of the example is empty; always False for types of examples that do
            not set it, such as questions about a context.
        is_unlearnable: True if the example has gold answers, but none of them is in the context or
            among the options.
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
    """Base class of examples; an example is a row of a split, converted for a type of model head.

    Attributes:
        id: Id of the example, which is unique in its split.
        oddities: One sentence per irregularity in the released row; the sentence states how the
            irregularity is handled. The sentences are not part of the fingerprint.
        gold_field: Name of the field with the gold answer, e.g. "label".
        is_in_unit: True if examples of this class that have the same `group` are scored together.
    """

    id: str
    oddities: tuple[str, ...] = field(
        default=(), compare=False, repr=False, metadata=NOT_IN_FINGERPRINT
    )
    gold_field: ClassVar[str]
    is_in_unit: ClassVar[bool] = False

    @property
    def unit(self) -> str | None:
        """Name of the group of examples with which this one is scored; None if scored alone."""
        return getattr(self, "group", None) if self.is_in_unit else None

    @property
    def content(self) -> Hashable:
        """Content of the example without its id and answer; duplicates have the same content.

        Subclasses that override this property must compute it fast, because every row needs it.
        """
        return self.traits.texts

    @property
    def traits(self) -> Traits:
        """Properties that examples of all types have in common; see `Traits`."""
        raise NotImplementedError

    @property
    def is_hidden(self) -> bool:
        """True if the benchmark hides the gold answer."""
        return getattr(self, self.gold_field) is None

    def count_words(self) -> int:
        """Return the number of words in the example, from which its truncation is predicted.

        Returns 0 for classes of examples whose truncation is not predicted, e.g. because long
        contexts are read in windows.
        """
        return 0


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Base class of predictions.

    Attributes:
        id: Id of the example to which the prediction belongs.
    """

    id: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Span that is marked in a text, e.g. the word that a WiC example asks about.

    Attributes:
        text: "a" if the span is in the first text of the example, "b" if it is in the second.
        start: Offset of the first character of the span.
        end: Offset of the character after the span.
    """

    text: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class PairExample(Example):
    """Text or pair of texts with a class, a number, or any number of labels.

    Attributes:
        text_a: First text.
        text_b: Second text; None if there is only one.
        label: Name of the class, number, or names of the labels; None if hidden.
        group: Name of the group of rows that are scored together: a question in MultiRC, or a
            minimal pair in AX-g. None if the row is scored alone.
        categories: Names of the slices that contain the example and have scores of their own, e.g.
            "logic" in AX.
        marks: Spans of the texts that the example asks about (WiC, WSC).
        about: In MultiRC, the question with which text b begins; in WiC, the dictionary form of the
            marked word; else empty. The field only repeats what other fields contain, so it is not
            part of the fingerprint.
    """

    text_a: str
    text_b: str | None = None
    label: str | float | tuple[str, ...] | None = None
    group: str | None = None
    categories: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    about: str = field(default="", metadata=NOT_IN_FINGERPRINT)
    gold_field: ClassVar[str] = "label"
    is_in_unit: ClassVar[bool] = True

    @property
    def content(self) -> Hashable:
        """Both texts and the marked spans of the example."""
        return self.text_a, self.text_b, self.marks

    @property
    def traits(self) -> Traits:
        """Properties that examples of all types have in common; see `Traits`."""
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
        """Return the number of words in both texts."""
        return sum(len(text.split()) for text in self.traits.texts)


@dataclass(frozen=True, kw_only=True)
class SpanExample(Example):
    """Question about a context, with its gold answers.

    Most tasks use only the fields up to `title`.

    Attributes:
        question: Text of the question.
        context: The text in which the answer is searched.
        answers: Gold answers as (text, offset of the first character in the context). It is empty
            if the context has no answer (SQuAD 2.0), and None if the answers are hidden. An answer
            that does not occur in the context has the offset -1, comes last, and is used for
            scoring only.
        title: Title of the article that contains the context.
        group: Name of the group of questions, e.g. a conversation, that are scored together; None
            if the question is scored alone.
        categories: Names of the slices that contain the example and have scores of their own.
        span: Character span (start, end) in the context that a model learns to predict; None if it
            is the first answer.
        lead: Number of characters at the beginning of the context that list fixed one-word
            answers, such as "yes no", so that a span can be one of them. If a long context is
            divided into windows, every window begins with this list. 0 if there is none.
        evidence: Character spans (start, end) that support the answer. A window that contains none
            of them is not trained to predict a fixed answer.
        classes: Classes of the question in addition to its answer, one for each group in
            `SpanTask.classes`.
        sentences: Character spans (start, end) of the sentences in the context.
        facts: Indices into `sentences` of the sentences that support the answer. Indices beyond the
            last sentence stand for supporting sentences that are not in the context.
        absent: Official names (title of the paragraph, index of the sentence in it) of the
            supporting sentences that are not in the context, in the order of their indices.
        language: Language of the answers, if the metric depends on it; else empty.
    """

    question: str
    context: str
    answers: tuple[tuple[str, int], ...] | None = None
    title: str = ""
    group: str | None = later(None)
    categories: tuple[str, ...] = later(())
    span: tuple[int, int] | None = later(None)
    lead: int = later(0)
    evidence: tuple[tuple[int, int], ...] = later(())
    classes: tuple[str, ...] = later(())
    sentences: tuple[tuple[int, int], ...] = later(())
    facts: tuple[int, ...] = later(())
    absent: tuple[tuple[str, int], ...] = field(default=(), metadata=NOT_IN_FINGERPRINT)
    language: str = later("")
    gold_field: ClassVar[str] = "answers"
    is_in_unit: ClassVar[bool] = True

    @property
    def content(self) -> Hashable:
        """Question and context of the example."""
        return self.question, self.context

    @property
    def answer_texts(self) -> tuple[str, ...]:
        """Texts of the gold answers, without repetitions."""
        return tuple(dict.fromkeys(text for text, _ in self.answers or ()))

    @property
    def traits(self) -> Traits:
        """Properties that examples of all types have in common; see `Traits`."""
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
    """Return the official names of all sentences that can be supporting facts (HotpotQA).

    Returns:
        For each index that `SpanExample.facts` may contain, the title of the paragraph and the
        index of the sentence in the paragraph.
    """
    names = _sentence_names(example.context, example.sentences)
    absent = (fact for fact in example.facts if fact >= len(names))
    return dict(enumerate(names)) | dict(zip(absent, example.absent, strict=True))


@lru_cache(maxsize=2**13)  # several metrics read the same questions, and dev has fewer than 2**13
def _sentence_names(
    context: str, sentences: tuple[tuple[int, int], ...]
) -> tuple[tuple[str, int], ...]:
    lines = context.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    counts: Counter[int] = Counter()
    names = list[tuple[str, int]]()
    for start, _ in sentences:
        # Each paragraph is one line, and the line before it is its title. The last sentence of a
        # paragraph may be empty.
        line = bisect_right(starts, start) - 1
        names.append((lines[line - 1], counts[line]))
        counts[line] += 1
    return tuple(names)


@dataclass(frozen=True, kw_only=True)
class ChoiceExample(Example):
    """Context and question with several options.

    Attributes:
        context: Text of the context.
        question: The question, which may be empty.
        options: Texts of the options.
        gold: Indices of the right options; empty if no option is right, and None if hidden. Only
            ReCoRD has examples with several right options; training uses the first one.
        answers: Right answers that are not among the options. Only metrics that compare texts use
            them.
        group: Name of the slice or passage that the example belongs to, e.g. "middle" or "high" in
            RACE; None if there is none.
    """

    context: str
    question: str
    options: tuple[str, ...]
    gold: tuple[int, ...] | None = None
    answers: tuple[str, ...] = later(())
    group: str | None = None
    gold_field: ClassVar[str] = "gold"

    @property
    def traits(self) -> Traits:
        """Properties that examples of all types have in common; see `Traits`."""
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
        """Return the number of words in the context, the question and the longest option."""
        context, question, *options = (len(text.split()) for text in self.traits.texts)
        return context + question + max(options, default=0)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Document that contains a sentence, and the position of the sentence in it.

    Attributes:
        words: Words of the whole document.
        start: Index in `words` of the first word of the sentence.
    """

    words: tuple[str, ...]
    start: int


@dataclass(frozen=True, kw_only=True)
class TagExample(Example):
    """Sentence with one tag per word; entity tags are in IOB2.

    Attributes:
        words: Words of the sentence.
        tags: Tags of the words; None if hidden.
        document: Document that contains the sentence; None if the source does not mark where
            documents begin. The document is not part of the fingerprint. A job whose model reads
            whole documents records the digest of the documents (`document_digest`) separately.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    document: Surroundings | None = field(
        default=None, compare=False, repr=False, metadata=NOT_IN_FINGERPRINT
    )
    gold_field: ClassVar[str] = "tags"

    @property
    def traits(self) -> Traits:
        """Properties that examples of all types have in common; see `Traits`."""
        text = " ".join(self.words)
        return Traits(
            texts=(text,),
            shown=text,
            claims=(text,),
            labels=tuple(dict.fromkeys(self.tags or ())),
        )


@dataclass(frozen=True, kw_only=True)
class RoleExample(TagExample):
    """Sentence in which the arguments of one predicate are tagged (semantic role labelling).

    The id of the example is the id of the sentence, a slash, and the number of the predicate in the
    sentence.

    Attributes:
        predicate: Index of the predicate's word; -1 if no word is marked as the predicate.
    """

    predicate: int

    @property
    def sentence(self) -> str:
        """Id of the sentence, which the examples for all of its predicates share."""
        return self.id.rpartition("/")[0]

    @property
    def content(self) -> Hashable:
        """The words of the sentence, and the index of the predicate."""
        return self.words, self.predicate

    @property
    def traits(self) -> Traits:
        """Properties that examples of all types have in common; see `Traits`."""
        found = super().traits
        marked = f" ({self.words[self.predicate]})" if self.predicate >= 0 else ""
        shown = f"{found.shown}{marked}"
        return found._replace(
            shown=shown,
            passage=found.shown,
        )


@dataclass(frozen=True, kw_only=True)
class PairPrediction(Prediction):
    """Predicted class, number, or set of labels.

    Attributes:
        label: Name of the predicted class, predicted number, or names of the predicted labels.
        scores: Probabilities of all classes in the order of `PairTask.labels`, or independent
            probabilities of all labels; empty for a regression.
        text: Output of a text-to-text model if it is not a valid label, else None. For an invalid
            output, `label` is "", or a number outside of the regression's range.
    """

    label: str | float | tuple[str, ...]
    scores: tuple[float, ...] = ()
    text: str | None = None


@dataclass(frozen=True, kw_only=True)
class SpanPrediction(Prediction):
    """Predicted answer to a question, with a score for "no answer".

    Attributes:
        text: Best non-empty span, before the threshold is applied; it is "" if a prediction file, a
            text-to-text model or a user answered "no answer".
        no_answer_score: Score of "no answer" minus the score of `text` (difference of logits), or a
            similar score from a classifier or a file. If it exceeds `threshold`, the prediction is
            "no answer".
        threshold: Threshold for `no_answer_score`. It is 0 for the predictions of models; another
            value can be chosen to score a prediction file.
        missing: True if a prediction file does not contain the question.
        classes: Predicted classes of the question, one for each group in `SpanTask.classes`.
        facts: Indices of the predicted supporting sentences in `SpanExample.sentences`.
        start: Character offset of the text in the context, -1 if unknown. It is not stored.
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
        """True if the prediction is "no answer" instead of `text`."""
        return self.no_answer_score > self.threshold


@dataclass(frozen=True, kw_only=True)
class ChoicePrediction(Prediction):
    """Predicted option.

    Attributes:
        option: Index of the chosen option; -1 if a prediction file has no answer, or if the answer
            from a file or a text-to-text model is not one of the options.
        scores: Probability of every option. For pseudo-perplexity, the only score is the geometric
            mean of the probabilities of the text's tokens.
        text: Answer from a prediction file or a text-to-text model if it is not one of the options,
            else None.
        tokens: For pseudo-perplexity, the number of tokens in the text; else 0.
    """

    option: int
    scores: tuple[float, ...] = ()
    text: str | None = None
    tokens: int = 0

    @property
    def missing(self) -> bool:
        """True if a prediction file has no answer to the example."""
        return self.option < 0 and self.text is None


@dataclass(frozen=True, kw_only=True)
class TagPrediction(Prediction):
    """Predicted tags of a sentence.

    Attributes:
        tags: Predicted tags, one per word.
    """

    tags: tuple[str, ...]
