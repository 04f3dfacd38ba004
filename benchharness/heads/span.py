"""Span head: answers a question with a span of its context, or with "no answer".

A context that is too long is read in overlapping windows. Each window is a row and is trained
separately; a window without the answer is trained to point at the classification token.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder import Encoder
from benchharness.errors import DataError, ModelError
from benchharness.heads import Head, Limits, best_windows, cut_windows, divergence
from benchharness.heads.classifiers import TokenClassifier, attend_globally
from benchharness.heads.tokens import Frame, Ids, Tokens, edges_of, join, spread, tokenize
from benchharness.recipes.recipe import MAX_ANSWER_TOKENS, SpanOptions
from benchharness.tasks.examples import SpanExample, SpanPrediction
from benchharness.tasks.task import SpanTask
from benchharness.training.batching import Features
from benchharness.training.compute import in_fp32


@dataclass(frozen=True, kw_only=True)
class SpanFeatures(Features):
    """Encoded examples of a span task, one row per window.

    A row is a window of an example's context, together with the question. The rows windows[i] to
    windows[i + 1] (exclusive) belong to example i.

    Attributes:
        windows: Index of each example's first row, followed by the number of rows:
            `[examples + 1]`.
        nulls: Position in each row of the token that stands for "no answer": the classification
            token (or its substitute, see `Frame.null`), or the last token if the encoder is causal:
            `[windows]`.
        char_starts: Index in the context of the first character that each token stands for:
            `[tokens]`. It equals `char_ends` for tokens outside of the context and for tokens of
            only white space.
        char_ends: Index in the context after the last character that each token stands for:
            `[tokens]`.
        places: Index of each token among all tokens of the context; 0 for tokens outside of the
            context: `[tokens]`.
        is_best: Whether this window is the one in which a token has the most context (the first
            one on ties): `[tokens]`. True in every window for the tokens of fixed answers.
        pieces: Number of the fixed answer that a token is part of, from 1; 0 for all other tokens:
            `[tokens]`. None unless contexts begin with fixed one-word answers ("yes no "), which
            every window then contains.
        sentences: Position in each row of the first token of each sentence, or -1 if the sentence
            does not begin in this window: `[windows, sentences]`. None if no example has sentences.
    """

    windows: NDArray[np.int64]
    nulls: NDArray[np.int64]
    char_starts: Ids
    char_ends: Ids
    places: Ids
    is_best: NDArray[np.bool_]
    pieces: Ids | None = None
    sentences: NDArray[np.int64] | None = None

    @cached_property
    def is_answer(self) -> NDArray[np.bool_]:
        """Mask of the tokens that can be part of an answer: `[tokens]`."""
        return self.char_ends > self.char_starts

    def touching(self, part: slice, start: int, end: int) -> NDArray[np.bool_]:
        """Return a mask of the tokens that overlap the characters [start, end) of the context.

        `part` is a range of tokens, all of the same example. The mask has one element per token of
        this range.
        """
        starts, ends = self.char_starts[part], self.char_ends[part]
        found: NDArray[np.bool_] = self.is_answer[part] & (ends > start) & (starts < end)
        return found

    def rows_at(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of the window that contains each token.

        `tokens` are indices in the concatenated tokens of all windows.
        """
        return np.searchsorted(self.starts, tokens, side="right") - 1

    def least_of_windows(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the smallest score among the windows of each example: `[examples]`.

        `scores` contains one score per window.
        """
        least: NDArray[np.float64] = np.minimum.reduceat(scores, self.windows[:-1])
        return least


@dataclass(frozen=True, kw_only=True)
class _Window:
    """Window of a context, encoded as a row.

    The window's tokens begin at position `first` of the row; `places` are their indices among all
    tokens of the context.
    """

    row: tuple[Ids, Ids]
    first: int
    places: Ids
    context: Tokens
    is_best: NDArray[np.bool_]


def encode(examples: Sequence[SpanExample], tokenizer: Any, limits: Limits) -> SpanFeatures:
    """Encode every example as windows, each with the question before a part of the context.

    A question is cut at the end, as in BERT's code: it has at most `limits.max_question_tokens`
    tokens, and at most half of the tokens of a window without special tokens. Raises ModelError if
    the limits leave no room for the context, or if the tokenizer does not map tokens to characters.
    """
    frame = Frame.of(tokenizer, texts=2)
    texts = [text for example in examples for text in (example.question, example.context)]
    tokens = tokenize(texts, tokenizer)
    most = _most_of_question(frame, limits)
    per_example = [
        list(_windows(tokens[e.question].ids[:most], tokens[e.context], e.lead, frame, limits))
        for e in examples
    ]
    windows = [window for found in per_example for window in found]
    columns = join([window.row for window in windows], frame, limits.max_tokens)
    starts = columns["starts"]
    columns |= _of_context(windows, starts)
    # Position in a row of the token for "no answer". A negative position counts from the end of the
    # row (XLNet, causal encoders).
    null = -1 if limits.is_causal else frame.null
    nulls = starts[:-1] + null if null >= 0 else starts[1:] + null  # (windows,)
    features = SpanFeatures(
        **columns,
        windows=np.cumsum([0, *map(len, per_example)]),
        nulls=nulls - starts[:-1],
        # Only questions are cut: windows cover the whole context.
        truncated=np.array([len(tokens[example.question]) > most for example in examples]),
    )
    if any(example.lead for example in examples):
        features = replace(features, pieces=_pieces(features, examples))
    if any(example.sentences for example in examples):
        features = replace(features, sentences=_sentences(features, examples))
    return features


def _most_of_question(frame: Frame, limits: Limits) -> int:
    """Return the maximum number of a question's tokens in each window."""
    room = limits.max_tokens - frame.size
    if room < 2:
        raise ModelError(
            f"max_tokens is {limits.max_tokens}, which leaves no room for a question and a context "
            f"next to {frame.size} special tokens: set a larger max_tokens."
        )
    return min(limits.max_question_tokens, room // 2)


def _windows(
    question: Ids, context: Tokens, lead: int, frame: Frame, limits: Limits
) -> Iterator[_Window]:
    room = limits.max_tokens - frame.size
    # Number of tokens of the fixed answers, which precede the part of the context in every window.
    ahead = int(np.searchsorted(context.ends, lead, side="right")) if lead else 0
    left = room - len(question) - ahead
    if left < 1:
        raise ModelError(
            f"max_tokens is {limits.max_tokens}, which leaves no room for a context next to the "
            f"question and {ahead} tokens of fixed answers: set a larger max_tokens."
        )
    parts = cut_windows(len(context) - ahead, left, limits.stride)
    best = best_windows(parts)
    for number, part in enumerate(parts):
        places = np.r_[:ahead, ahead + part.start : ahead + part.stop].astype(np.int32)
        text = context[places] if ahead else context[part]
        yield _Window(
            row=frame.row(question, text.ids),
            first=frame.first(question),
            places=places,
            context=text,
            is_best=np.r_[np.ones(ahead, dtype=np.bool_), best[part] == number],
        )


def _of_context(windows: Sequence[_Window], starts: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the per-token columns of SpanFeatures that describe the windows' contexts."""
    firsts = np.array([window.first for window in windows])  # (windows,)
    # All values are 0 outside of contexts. There char_starts equals char_ends, which marks tokens
    # that cannot be part of an answer.
    return {
        "char_starts": spread([window.context.starts for window in windows], firsts, starts),
        "char_ends": spread([window.context.ends for window in windows], firsts, starts),
        "places": spread([window.places for window in windows], firsts, starts),
        "is_best": spread([window.is_best for window in windows], firsts, starts),
    }


def _pieces(features: SpanFeatures, examples: Sequence[SpanExample]) -> Ids:
    """Return the number of each token's fixed answer, from 1, or 0 for other tokens: `[tokens]`."""
    pieces = np.zeros(len(features.token_ids), dtype=np.int32)
    for example, part in zip(examples, _parts(features), strict=True):
        # Number of the fixed answer per character: "yes no " -> 1 1 1 1 2 2 2. A 0 is appended for
        # all characters after the fixed answers.
        words = [1 + example.context.count(" ", 0, place) for place in range(example.lead)]
        starts = features.char_starts[part]
        inside = features.is_answer[part] & (starts < example.lead)
        pieces[part][inside] = np.array([*words, 0], dtype=np.int32)[starts[inside]]
    return pieces


def _sentences(features: SpanFeatures, examples: Sequence[SpanExample]) -> NDArray[np.int64]:
    """Return the position at which each sentence begins in each window: `[windows, sentences]`."""
    most = max(len(example.sentences) for example in examples)
    found = np.full((len(features), most), -1, dtype=np.int64)
    for number, example in enumerate(examples):
        for row in range(*features.windows[number : number + 2]):
            part = slice(*features.starts[row : row + 2])
            for place, (start, end) in enumerate(example.sentences):
                touching = np.flatnonzero(features.touching(part, start, end))
                # If a window begins within a sentence, the sentence begins in an earlier window.
                if len(touching) and features.char_starts[part][touching[0]] <= start:
                    found[row, place] = touching[0]
    return found


def _parts(features: SpanFeatures) -> Iterator[slice]:
    """Return the token range of each example over all of its windows."""
    edges = features.starts[features.windows]  # (examples + 1,)
    return (slice(*pair) for pair in pairwise(edges.tolist()))


def targets(
    features: SpanFeatures, examples: Sequence[SpanExample], task: SpanTask
) -> NDArray[np.int64]:
    """Return the positions of the answer's first and last token in every window: `[windows, 2]`.

    Both are the position of the token that stands for "no answer" if the window does not contain
    the whole answer. If an example has several gold answers, the first is learned.

    In some tasks, every window contains fixed answers, such as "yes". If the right answer is one of
    them, it is learned only in the windows that contain evidence for it (`SpanExample.evidence`),
    or in all windows if none contains evidence.

    Raises DataError if an answer is not published, or is not at the stated position in the context.
    """
    rows = np.stack([features.nulls, features.nulls], axis=1)  # (windows, 2)
    for number, example in enumerate(examples):
        answer = _answer(example, task)  # start and end, in characters
        if answer is not None:
            windows, places = _find(features, number, *answer)
            if answer[1] <= example.lead and example.evidence:
                kept = _with_evidence(features, windows, example)
                windows, places = windows[kept], places[kept]
            rows[windows] = places
    return rows


def _with_evidence(
    features: SpanFeatures, windows: NDArray[np.int64], example: SpanExample
) -> NDArray[np.bool_]:
    """Return a mask of the windows that contain evidence for the answer; all if there is none."""
    kept = np.zeros(len(windows), dtype=np.bool_)  # (windows,)
    for place, row in enumerate(windows):
        part = slice(*features.starts[row : row + 2])
        kept[place] = any(features.touching(part, *each).any() for each in example.evidence)
    return kept if kept.any() else ~kept


def _answer(example: SpanExample, task: SpanTask) -> tuple[int, int] | None:
    """Return the character range of the answer to learn; None if the context has no answer."""
    if example.answers is None:
        raise DataError(
            f"the answer of example {example.id} in {task.name} is not published, so this example "
            "cannot be used for training."
        )
    if not example.answers:
        return None
    if example.span is not None:
        return example.span
    text, start = example.answers[0]  # if there are several answers, the first is learned
    found = example.context[start : start + len(text)] if start >= 0 else ""
    if not text or found != text:
        raise DataError(
            f"{task.name} {example.id}: the answer {text!r} should begin at character {start} "
            f"of the context, but the text there is {found!r}."
        )
    return start, start + len(text)


def _find(
    features: SpanFeatures, example: int, start: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the windows of an example that contain all tokens of the characters [start, end).

    Returns the windows, and the positions of the first and last of these tokens in the row of each
    window: `[windows found, 2]`.
    """
    rows = features.windows[example : example + 2]
    low, high = features.starts[rows]
    touching = low + np.flatnonzero(features.touching(slice(low, high), start, end))
    # Compare indices in the whole context, because a window may contain only the answer's end.
    places = features.places[touching]  # (touching tokens,)
    if not len(places):
        return touching, np.zeros((0, 2), dtype=np.int64)
    first, last = edges_of(features.char_starts[touching], features.char_ends[touching], start, end)
    firsts, lasts = touching[places == places[first]], touching[places == places[last]]
    # Find the windows that contain both tokens. Each window contains a token at most once.
    both, with_first, with_last = np.intersect1d(
        features.rows_at(firsts), features.rows_at(lasts), return_indices=True
    )
    tokens = np.stack([firsts[with_first], lasts[with_last]], axis=1)  # (windows that have both, 2)
    return both, tokens - features.starts[both, None]


class SpanNetwork(nn.Module):
    """Encoder with the span layers of its family.

    Each token has two logits: for being the first token of the answer, and for being the last.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder.network
        self.classifier = TokenClassifier.for_spans(encoder.network, encoder.config)
        # Auxiliary outputs of a task: states (..., size) to logits (..., outputs).
        self.auxiliary: nn.Linear | None = None
        attend_globally(self.encoder, encoder.config, "span")

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return logits `[rows, tokens, 2]` of first and last tokens; they are -inf at padding.

        If the task has auxiliary outputs (heads/auxiliary.py), their logits follow in the last
        dimension.
        """
        states = self.classifier.read(self.encoder(**inputs)[0])  # (rows, tokens, size)
        logits = in_fp32(self.classifier.output, states)  # (rows, tokens, 2)
        logits = logits.masked_fill(inputs["attention_mask"][..., None] == 0, -torch.inf)
        return self.with_auxiliary(logits, states)

    def with_auxiliary(self, logits: Tensor, states: Tensor) -> Tensor:
        """Append the logits of the task's auxiliary outputs (heads/auxiliary.py), if it has any.

        Args:
            logits: Logits of the answer: `[rows, tokens, outputs]`.
            states: States from which the auxiliary logits are computed: `[rows, tokens, size]`.

        Returns:
            The logits of the answer, followed by the auxiliary logits in the last dimension.
        """
        if self.auxiliary is None:
            return logits
        return torch.cat([logits, in_fp32(self.auxiliary, states)], -1)


def network(encoder: Encoder, task: SpanTask) -> SpanNetwork:
    """Return the network for a task, with the layers of transformers' QuestionAnswering classes."""
    return SpanNetwork(encoder)


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return one loss per window in fp32: the mean cross-entropy of the first and the last token.

    `logits` are `[windows, tokens, 2]`. The classes are the tokens of the window, and `targets`
    `[windows, 2]` contains the positions of the first and the last token of the answer.
    """
    # Softmax over the tokens: cross_entropy expects the classes in the second dimension.
    rows = functional.cross_entropy(logits.float(), targets, reduction="none")  # (windows, 2)
    return rows.mean(-1)  # (windows,)


def soft_loss(logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Return the distillation loss of each window, given a teacher's logits.

    Student and teacher each have a probability distribution over the tokens of the window for the
    first token of the answer, and another for the last token. The loss is the mean of the two
    divergences between student and teacher. The logits are `[windows, tokens, 2]`, and the
    `targets` are not used.
    """
    return divergence(logits, teacher, temperature, dim=1).mean(-1)  # (windows, 2) -> (windows,)


def decode(
    logits: NDArray[np.float32],
    features: SpanFeatures,
    examples: Sequence[SpanExample],
    task: SpanTask,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
) -> tuple[SpanPrediction, ...]:
    """Return the best answer to each question over all of its windows, as text of the context.

    An answer has at most `max_answer_tokens` tokens and begins in the window where its first token
    has the most context. The score of an answer is the logit of its first token plus the logit of
    its last token, and the answer with the largest score is returned. All answers are compared.
    (BERT's run_squad.py compares only the 20 best first and last tokens, so its answers never have
    a higher score.) If the context is empty, the answer is empty too.

    Each window has a score of "no answer": the sum of the two logits of the token that stands for
    "no answer". The prediction contains the smallest of these scores over the windows, minus the
    score of the best answer.

    `logits` are `[tokens, 2]`, one row per token of the concatenated windows.
    """
    # Logits are (tokens, 2), with the rows concatenated as in token_ids.
    scores = logits.astype(np.float64)
    found = best_answers(scores[:, 0], lambda size: scores[size:, 1], features, max_answer_tokens)
    null = scores[features.starts[:-1] + features.nulls].sum(-1)  # (windows, 2) -> (windows,)
    return predictions(examples, features, found, features.least_of_windows(null) - found.scores)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Best answers of some examples, as scores and token positions.

    If an example has no possible answer, its score is 0, and its first and last token are a token
    outside of the context, so the text of the answer is empty.

    Attributes:
        scores: Score of each answer: `[examples]`.
        firsts: Index of each answer's first token in the concatenated tokens of all windows:
            `[examples]`.
        lasts: Index of each answer's last token, counted in the same way: `[examples]`.
    """

    scores: NDArray[np.float64]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]


def best_answers(
    firsts: NDArray[np.float64],
    last: Callable[[int], NDArray[np.float64]],
    features: SpanFeatures,
    most: int,
) -> Answers:
    """Return the answer with the highest score to each question; both its ends are in one window.

    The score of an answer is the score of its first token plus the score of its last token.

    Args:
        firsts: Score of each token as first token: `[tokens]`.
        last: Function of a distance in tokens. Element i of its result is the score of token i +
            distance as the last token of an answer that begins at token i: `[tokens - distance]`.
        features: Windows that the scores belong to.
        most: Maximum number of tokens of an answer.
    """
    scores, sizes = _best_spans(firsts, last, features, most)  # (tokens,) both
    tokens = features.starts[features.windows]  # (examples + 1,), first token of each example
    best = np.maximum.reduceat(scores, tokens[:-1])  # (examples,)
    # Find the first token of each example that has the example's best score. In an example without
    # a possible answer all scores are -inf, so this is the first token of its first window, which
    # is outside of the context and has no text.
    hits = np.flatnonzero(scores == np.repeat(best, np.diff(tokens)))
    found = hits[np.searchsorted(hits, tokens[:-1])]
    scores = np.where(np.isfinite(best), best, 0.0)
    return Answers(scores=scores, firsts=found, lasts=found + sizes[found])


def _best_spans(
    firsts: NDArray[np.float64],
    last: Callable[[int], NDArray[np.float64]],
    features: SpanFeatures,
    most: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return for every token the score of the best answer that begins there, and its size minus 1.

    The score is -inf if no answer can begin at the token.
    """
    firsts = np.where(features.is_answer & features.is_best, firsts, -np.inf)
    # Number of tokens from each token to the end of its window: an answer stays in one window.
    left = np.repeat(features.starts[1:], features.lengths) - np.arange(len(firsts))
    best, sizes = np.full(len(firsts), -np.inf), np.zeros(len(firsts), dtype=np.int64)
    # One vectorized pass per size: about 30 passes instead of a loop over all first tokens.
    for size in range(min(most, len(firsts))):
        end = len(firsts) - size
        fits = (left[:end] > size) & features.is_answer[size:]  # (tokens - size,)
        if features.pieces is not None:  # a fixed answer is never joined with other text
            fits &= features.pieces[:end] == features.pieces[size:]
        scores = np.where(fits, firsts[:end] + last(size), -np.inf)  # (tokens - size,)
        is_better = scores > best[:end]  # among equal scores the shortest answer wins
        best[:end][is_better] = scores[is_better]
        sizes[:end][is_better] = size
    return best, sizes


def predictions(
    examples: Sequence[SpanExample],
    features: SpanFeatures,
    found: Answers,
    margins: NDArray[np.float64],
) -> tuple[SpanPrediction, ...]:
    """Return the predictions for some examples, with the text of each answer.

    Args:
        examples: Examples that are predicted.
        features: Windows of the examples.
        found: Best answer of each example.
        margins: Score of "no answer" of each example: `[examples]`.
    """
    starts, ends = features.char_starts[found.firsts], features.char_ends[found.lasts]
    return tuple(
        SpanPrediction(id=e.id, text=e.context[start:end], no_answer_score=margin, start=start)
        for e, start, end, margin in zip(
            examples, starts.tolist(), ends.tolist(), margins.tolist(), strict=True
        )
    )


SPAN = Head(
    encode=encode,
    targets=targets,
    network=network,
    loss=loss,
    decode=decode,
    soft_loss=soft_loss,
)


def head(task: SpanTask, options: SpanOptions | None) -> Head:
    """Return the span head for a recipe's options; None stands for the default options.

    Its answers have at most `options.max_answer_tokens` tokens. The argument `task` is not used.
    """
    if options is None or options.max_answer_tokens == MAX_ANSWER_TOKENS:
        return SPAN
    return replace(SPAN, decode=partial(decode, max_answer_tokens=options.max_answer_tokens))
