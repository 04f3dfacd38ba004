"""Zero-shot scoring: log-probabilities of a task's candidate answers, each inserted into a text.

A masked language model scores a candidate by its pseudo-log-likelihood: the sum of the
log-probabilities of its tokens, each with that token masked (Salazar et al., arXiv:1910.14659).
This needs one masked copy of the text per token. Equal copies are computed only once: for example,
all candidates that consist of a single token have the same copy. With a causal model, the score is
the sum of the log-probabilities of all tokens from the answer to the end of the text, each given
the tokens before it.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchharness.encoder import check_reach
from benchharness.encoder.tokenizer import TYPES
from benchharness.errors import JobError
from benchharness.extensions.cloze.language_model import LanguageModel, Reading
from benchharness.extensions.cloze.prompts import PATTERN, WORD
from benchharness.heads.tokens import note_read, telling_refusals
from benchharness.tasks.examples import (
    ChoiceExample,
    ChoicePrediction,
    Mark,
    PairExample,
    PairPrediction,
    Prediction,
)
from benchharness.tasks.task import ChoiceTask, PairTask, Task
from benchharness.training.compute import Compute
from benchharness.training.predict import PREDICTION_TOKENS, each_batch

CHUNK = 1024
"""Number of examples that are scored together. Only the model inputs of these examples (e.g. the
masked copies of their texts) are in memory at once."""

NEVER = -1e4
"""Score of a candidate without tokens. It is so low that practically any candidate with tokens is
preferred.
"""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Text, in one or two segments, into which one candidate answer was inserted.

    Attributes:
        first: First segment of the text.
        second: Second segment; None if the text has only one segment.
        is_in_second: True if the scored characters are in `second`, False if they are in `first`.
        start: Index of the first scored character in its segment.
        end: Index after the last scored character.
    """

    first: str
    second: str | None
    is_in_second: bool
    start: int
    end: int


# Creating candidate texts from an example and a pattern.

ANSWER, CUT, START = "\ue000", "\ue001", "\ue002"
"""Special characters in a pattern into which an example was inserted. ANSWER is the position of the
answer, CUT the start of the second segment, and START the start of the scored characters. If there
is a START, everything from there to the end of its segment is scored, else only the answer."""

_NO_SIGNS = str.maketrans("", "", ANSWER + CUT + START)

LINKS = {"What was the cause of this?": " because", "What happened as a result?": ", so"}
"""Connectives that PET (pattern-exploiting training) inserts between the premise and an option of
COPA, keyed by the question."""

BLANK = re.compile(r"@placeholder|_+")
"""Pattern of the placeholders in questions of ReCoRD and RACE. An option replaces the first one."""


def candidates(
    task: Task, example: Any, values: Mapping[str, Any], kept: int | None = None
) -> list[Candidate]:
    """Return the candidate texts of an example: one per label of its task, or one per option.

    A regression task has two labels, "low" and "high", for the ends of its scale.

    Args:
        task: Task of the example.
        example: Example of a classification, regression or multiple-choice task.
        values: Settings with the pattern and the words for the labels.
        kept: Number of characters to which the example's longest text is cut; None to use all.
    """
    pattern = str(values[PATTERN])
    if isinstance(example, PairExample):
        fields = _pair_fields(example, kept)
        assert isinstance(task, PairTask)
        names = ("low", "high") if task.is_regression else task.labels
        answers = [str(values[WORD + name]) for name in names]
    else:
        fields = _choice_fields(example, kept)
        answers = list(example.options)
    # Remove the special characters from the example's own texts.
    clean = {name: text.translate(_NO_SIGNS) for name, text in fields.items()}
    # "{phrase}" is the answer as part of a sentence: "It rained." becomes "it rained".
    slots = {"answer": ANSWER, "phrase": ANSWER, "cut": CUT, "start": START}
    if "asked" in clean:
        clean["asked"] = BLANK.sub(ANSWER, clean["asked"], count=1)
        if ANSWER not in clean["asked"]:
            clean["asked"] = " ".join(filter(None, (clean["asked"], ANSWER)))
        if clean["context"]:
            clean["asked"] = f"{clean['context']} {clean['asked']}"
    text = pattern.format_map(clean | slots)
    if "{phrase}" in pattern:
        answers = [_phrase(answer) for answer in answers]
    return [_candidate(text, answer) for answer in answers]


def _candidate(text: str, answer: str) -> Candidate:
    answer = answer.translate(_NO_SIGNS)
    # Find the segment of the answer, and its characters in that segment.
    before = text.partition(ANSWER)[0]
    is_in_second = CUT in before
    start = len(before.rpartition(CUT)[2])
    end = start + len(answer)
    first, cut, second = text.replace(ANSWER, answer).partition(CUT)
    if START in text:
        is_in_second = START in second
        part = second if is_in_second else first
        start, end = part.index(START), len(part) - 1  # without START, which is removed below
        first, second = first.replace(START, ""), second.replace(START, "")
    return Candidate(
        first=first,
        second=second if cut else None,
        is_in_second=is_in_second,
        start=start,
        end=end,
    )


def _pair_fields(example: PairExample, kept: int | None) -> dict[str, str]:
    a, b = example.text_a, example.text_b or ""
    if len(a) >= len(b):
        a = a[:kept]
    else:
        b = b[:kept]
    # In MultiRC, the second text consists of a question and one of its answer options.
    question, mark, rest = b.partition("? ")
    return {
        "a": a,
        "b": b,
        "a_bare": _bare(a),
        "b_bare": _bare(b),
        "b_low": _low(b),
        "b_question": question + mark.strip(),
        "b_rest": _bare(rest),
        **{f"mark_{n}": _marked(example, mark) for n, mark in enumerate(example.marks, start=1)},
    }


def _choice_fields(example: ChoiceExample, kept: int | None) -> dict[str, str]:
    context, question = example.context, example.question
    if len(context) >= len(question):
        context = context[:kept]
    else:
        question = question[:kept]
    phrases = {f"option_{n}": _phrase(text) for n, text in enumerate(example.options, start=1)}
    return {
        "context": context,
        "context_bare": _bare(context),
        "asked": question,
        "tail": BLANK.split(question, maxsplit=1)[-1].strip(),
        "link": LINKS.get(example.question, ""),
        **phrases,
    }


def _longest(example: PairExample | ChoiceExample) -> int:
    if isinstance(example, PairExample):
        return max(len(example.text_a), len(example.text_b or ""))
    return max(len(example.context), len(example.question))


def _marked(example: PairExample, mark: Mark) -> str:
    text = example.text_a if mark.text == "a" else example.text_b or ""
    return text[mark.start : mark.end]


def _bare(text: str) -> str:
    """Return the text without the punctuation at its end."""
    return re.sub(r"[^\w\s]+\s*$", "", text)


def _low(text: str) -> str:
    return text[:1].lower() + text[1:]


def _phrase(text: str) -> str:
    return _bare(_low(text))


# Converting candidate texts to tokens.


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Tokens of a candidate's text.

    Attributes:
        token_ids: Tokens of the whole text.
        types: Token types (segment ids) of the whole text; None if the model has none.
        places: Positions of the tokens that are scored.
    """

    token_ids: tuple[int, ...]
    types: tuple[int, ...] | None
    places: tuple[int, ...]


def encode(model: LanguageModel, texts: Sequence[Candidate]) -> list[Encoded]:
    """Tokenize candidates, without truncation.

    For a causal model, the two segments of a text are joined by a space.

    Args:
        model: Language model.
        texts: Candidates. Either all or none of them have a second segment.

    Returns:
        The tokens of each candidate, in the same order.
    """
    tokenizer = model.tokenizer
    if model.is_causal:
        return [_encode_causal(model, text) for text in texts]
    firsts = [text.first for text in texts]
    seconds = None if texts[0].second is None else [text.second for text in texts]
    # Do not truncate, because `fitted` needs the full length.
    with telling_refusals():
        found = tokenizer(firsts, seconds, return_offsets_mapping=True, verbose=False)
    note_read([" ".join(filter(None, (t.first, t.second))) for t in texts], found["input_ids"])
    types = found[TYPES] if TYPES in tokenizer.model_input_names else [None] * len(texts)
    return [
        Encoded(
            token_ids=tuple(ids),
            types=None if kinds is None else tuple(kinds),
            places=_places(text, offsets, found.sequence_ids(row)),
        )
        for row, (text, ids, kinds, offsets) in enumerate(
            zip(texts, found["input_ids"], types, found["offset_mapping"], strict=True)
        )
    ]


def _places(
    text: Candidate, offsets: Sequence[tuple[int, int]], parts: Sequence[int | None]
) -> tuple[int, ...]:
    """Return the positions of the tokens that overlap with the scored characters."""
    part = int(text.is_in_second)
    return tuple(
        place
        for place, (begin, end) in enumerate(offsets)
        if parts[place] == part and begin < text.end and end > text.start
    )


def _encode_causal(model: LanguageModel, text: Candidate) -> Encoded:
    """Encode a candidate for a causal model.

    All tokens from the answer to the text's end are scored. The tokens after an answer count
    because their probability depends on the answer too.
    """
    offset = (
        0 if text.second is None or not text.is_in_second else len(text.first) + 1
    )  # + 1 for a space
    whole = " ".join(filter(None, (text.first, text.second)))
    with telling_refusals():
        found = model.tokenizer(
            whole, return_offsets_mapping=True, add_special_tokens=False, verbose=False
        )
    note_read([whole], [found["input_ids"]])
    begin = model.tokenizer.bos_token_id
    before = () if begin is None else (begin,)  # the model predicts the first token from it
    scored = [
        place
        for place, (_, end) in enumerate(found["offset_mapping"], start=len(before))
        # The very first token cannot be scored: there is no token before it.
        if end > offset + text.start and place > 0
    ]
    return Encoded(token_ids=(*before, *found["input_ids"]), types=None, places=tuple(scored))


def fitted(
    model: LanguageModel, task: Task, example: Any, values: Mapping[str, Any], limit: int
) -> list[Encoded]:
    """Encode the candidates of an example, and shorten its longest text until all of them fit.

    The shortened text is the same for all candidates.

    Args:
        model: Language model.
        task: Task of the example.
        example: Example of a classification, regression or multiple-choice task.
        values: Settings with the pattern and the words for the labels.
        limit: Maximum number of tokens of a candidate, including special tokens.

    Returns:
        The tokens of each candidate, in the order of the labels or options.

    Raises:
        JobError: The candidates do not fit even without the longest text.
    """
    found, kept = encode(model, candidates(task, example, values)), _longest(example)
    while (excess := max(len(each.token_ids) for each in found) - limit) > 0:
        if not kept:
            raise JobError(
                f"the candidates of example {example.id} in {task.name} do not fit into {limit} "
                "tokens, so this model cannot score them."
            )
        kept = max(0, kept - excess)  # each token has at least one character
        found = encode(model, candidates(task, example, values, kept))
    return found


class Scoring:
    """Collection of candidates to score. Each distinct model input is computed only once."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._readings: dict[tuple[Any, ...], dict[tuple[int, int], list[int]]] = {}
        self._count = 0
        self._empty: list[int] = []

    def add(self, encoded: Encoded) -> None:
        """Add one candidate to the collection."""
        number, self._count = self._count, self._count + 1
        ids = encoded.token_ids
        if not encoded.places:
            self._empty.append(number)  # its score is NEVER
        elif self._model.is_causal:
            read = tuple(place - 1 for place in encoded.places)  # a state predicts the next token
            asked = self._readings.setdefault((ids, encoded.types, read), {})
            for which, place in enumerate(encoded.places):
                asked.setdefault((which, ids[place]), []).append(number)
        else:
            mask = self._model.tokenizer.mask_token_id
            for place in encoded.places:
                copy = (*ids[:place], mask, *ids[place + 1 :])  # mask one token of the answer
                asked = self._readings.setdefault((copy, encoded.types, (place,)), {})
                # Candidates that differ only in this token share the copy.
                asked.setdefault((0, ids[place]), []).append(number)

    def scores(self, compute: Compute, done: Callable[[], None]) -> NDArray[np.float64]:
        """Return the score of every candidate, `[candidates]`, in the order of the `add` calls.

        Args:
            compute: Device and number format.
            done: Function that is called after each batch.
        """
        readings = [
            Reading(token_ids=ids, types=types, places=places, asked=tuple(asked))
            for (ids, types, places), asked in self._readings.items()
        ]
        owners = list(self._readings.values())
        scores = np.zeros(self._count)  # (candidates,)

        def read(rows: NDArray[np.int64]) -> NDArray[np.float64]:
            with torch.inference_mode(), compute.autocast():
                # One log-probability per requested token of each reading.
                found = self._model.log_probabilities([readings[row] for row in rows])
            return found.double().cpu().numpy()

        batches = list(self._batches(readings, compute))
        for step, found in enumerate(each_batch(batches, read)):
            answers = iter(found)
            for row in batches[step]:
                for numbers in owners[row].values():
                    scores[numbers] += next(answers)  # sum over the tokens of a candidate
            done()
        scores[self._empty] = NEVER
        return scores

    def _batches(
        self, readings: Sequence[Reading], compute: Compute
    ) -> Iterator[NDArray[np.int64]]:
        """Yield batches of inputs with equal lengths, or with similar ones if the model packs."""
        lengths = np.array([len(reading) for reading in readings])  # (readings,)
        order = np.argsort(lengths, kind="stable")  # the shortest first
        most = PREDICTION_TOKENS[compute.device.type]  # tokens without padding
        start = 0
        while start < len(order):
            stop, tokens = start, 0
            while stop < len(order) and (stop == start or tokens + lengths[order[stop]] <= most):
                if not self._model.packs and lengths[order[stop]] != lengths[order[start]]:
                    break
                tokens += lengths[order[stop]]
                stop += 1
            yield order[start:stop]
            start = stop


# Converting scores to predictions.


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Task that is scored without training, with the language model and the settings for this.

    Attributes:
        model: The language model.
        task: Task to score.
        values: Settings: the pattern, the words for the labels, and `max_tokens` (the maximum
            number of tokens of a candidate).
        compute: Device and number format.
    """

    model: LanguageModel
    task: Task
    values: Mapping[str, Any]
    compute: Compute

    def encoded(
        self, chunk: Sequence[Any], shortened: Callable[[str], None]
    ) -> Iterator[list[Encoded]]:
        """Yield the encoded candidates of each example.

        If the candidates of an example have too many tokens, its longest text is shortened. The
        candidates of all examples are tokenized in one call, which is fastest, and only those of
        shortened examples are tokenized again.

        Args:
            chunk: Examples to encode.
            shortened: Function that is called with the id of each example that was shortened.
        """
        limit = int(self.values["max_tokens"])
        texts = [candidates(self.task, example, self.values) for example in chunk]
        found = iter(encode(self.model, [each for them in texts for each in them]))
        for example, them in zip(chunk, texts, strict=True):
            encoded = [next(found) for _ in them]
            if max(len(each.token_ids) for each in encoded) > limit:
                encoded = fitted(self.model, self.task, example, self.values, limit)
                shortened(example.id)
            yield encoded


def predict_untrained(
    asked: Asked,
    examples: Sequence[Any],
    report: Callable[[int], None] = lambda _: None,
    shortened: Callable[[str], None] = lambda _: None,
) -> tuple[Prediction, ...]:
    """Predict the answers of examples without training, from the scores of their candidates.

    The candidate with the highest score is predicted, in a tie the first one. For a regression
    task, the prediction is the mean of the two ends of the scale, weighted by the softmax of their
    scores. For a task that measures pseudo-perplexity (`weighs_tokens`), the example's only text is
    predicted; its score is the geometric mean of the likelihoods of its tokens.

    Args:
        asked: The task, the language model and the settings.
        examples: Examples of the task.
        report: Function that is called with the number of finished examples.
        shortened: Function that is called with the id of each example whose text was shortened.

    Returns:
        One prediction per example, in the same order.

    Raises:
        ModelError: The model reads fewer tokens than the setting `max_tokens`.
        JobError: The candidates of an example do not fit into `max_tokens` tokens.
    """
    check_reach(int(asked.values["max_tokens"]), asked.model.max_tokens)
    predictions: list[Prediction] = []
    for start in range(0, len(examples), CHUNK):
        chunk = examples[start : start + CHUNK]
        scoring, sizes = Scoring(asked.model), []
        for texts in asked.encoded(chunk, shortened):
            sizes.append([len(text.places) for text in texts])
            for text in texts:
                scoring.add(text)
        ends = np.cumsum([*map(len, sizes)])
        found = scoring.scores(asked.compute, lambda: report(len(predictions)))
        parts = np.split(found, ends[:-1])
        predictions.extend(map(_prediction(asked.task), chunk, parts, sizes))
        report(len(predictions))
    return tuple(predictions)


def _prediction(task: Task) -> Callable[[Any, NDArray[np.float64], list[int]], Prediction]:
    def of_pair(example: PairExample, scores: NDArray[np.float64], _: list[int]) -> Prediction:
        assert isinstance(task, PairTask)
        shares = _shares(scores)
        if task.value_range is not None:
            low, high = task.value_range
            return PairPrediction(id=example.id, label=low + (high - low) * shares[1])
        return PairPrediction(
            id=example.id, label=task.labels[int(scores.argmax())], scores=tuple(shares)
        )

    def of_choice(example: ChoiceExample, scores: NDArray[np.float64], _: list[int]) -> Prediction:
        return ChoicePrediction(
            id=example.id, option=int(scores.argmax()), scores=tuple(_shares(scores))
        )

    def of_text(example: ChoiceExample, scores: NDArray[np.float64], n: list[int]) -> Prediction:
        likelihood = math.exp(scores[0] / max(n[0], 1))
        return ChoicePrediction(id=example.id, option=0, scores=(likelihood,), tokens=n[0])

    if isinstance(task, ChoiceTask) and task.weighs_tokens:
        return of_text
    return of_pair if isinstance(task, PairTask) else of_choice


def _shares(scores: NDArray[np.float64]) -> list[float]:
    """Return the softmax of the candidates' scores."""
    # Subtract the largest, so that the sum is not 0: the score of a long text may be -1000.
    weights = [math.exp(score - float(scores.max())) for score in scores]
    return [weight / sum(weights) for weight in weights]
