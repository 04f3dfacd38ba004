"""The span head: a question on a context to a stretch of the context, or to nothing.

A context that is longer than the room is read in overlapping windows. Each window is a row and
trained on its own; a window without the answer is trained to point at the classification token.
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
from benchharness.heads import Head, Limits, best_windows, cut_windows, divergence
from benchharness.heads.classifiers import TokenClassifier, attend_globally
from benchharness.heads.tokens import Frame, Ids, Tokens, edges_of, join, spread, tokenize
from benchharness.recipes.recipe import MAX_ANSWER_TOKENS, SpanOptions
from benchharness.tasks.errors import DataError, ModelError
from benchharness.tasks.examples import SpanExample, SpanPrediction
from benchharness.tasks.task import SpanTask
from benchharness.training.batching import Features
from benchharness.training.compute import in_fp32


@dataclass(frozen=True, kw_only=True)
class SpanFeatures(Features):
    """Windows: those of example i are the rows windows[i] to windows[i + 1].

    `nulls` is where each row's classification token stands. Of every token, `char_starts` and
    `char_ends` are the characters of the context that it stands for, none where it is outside of
    the context or nothing but white space; `places` counts the context's tokens; `is_best` says
    that it has more context here than in its example's other windows.

    Where an example's context begins with answers of a word each, `pieces` says which of them a
    token is part of, from 1, 0 for all others; they are in every window. Where an example has
    `sentences`, they are the places in the row where each begins, -1 where it does not in this
    window: (windows, sentences).
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
        """Which tokens can be in an answer."""
        return self.char_ends > self.char_starts

    def touching(self, part: slice, start: int, end: int) -> NDArray[np.bool_]:
        """Which tokens of a part have one of the context's characters [start, end)."""
        starts, ends = self.char_starts[part], self.char_ends[part]
        found: NDArray[np.bool_] = self.is_answer[part] & (ends > start) & (starts < end)
        return found

    def rows_at(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The windows in which some tokens stand, which are counted through all windows."""
        return np.searchsorted(self.starts, tokens, side="right") - 1

    def least_of_windows(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The smallest of each example's windows (windows,), (examples,)."""
        least: NDArray[np.float64] = np.minimum.reduceat(scores, self.windows[:-1])
        return least


@dataclass(frozen=True, kw_only=True)
class _Window:
    """One row: its tokens, and from `first` on its part of the context; `places` counts it."""

    row: tuple[Ids, Ids]
    first: int
    places: Ids
    context: Tokens
    is_best: NDArray[np.bool_]


def encode(examples: Sequence[SpanExample], tokenizer: Any, limits: Limits) -> SpanFeatures:
    """The windows of every example, each with the question before its part of the context.

    Questions are cut to their limit, and to half of the room, as BERT cuts them: at the end.
    Raises ModelError for a tokenizer that does not know which characters its tokens stand for.
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
    # Counted from the row's start, or (XLNet) from its end.
    null = -1 if limits.is_causal else frame.null
    nulls = starts[:-1] + null if null >= 0 else starts[1:] + null  # (windows,)
    features = SpanFeatures(
        **columns,
        windows=np.cumsum([0, *map(len, per_example)]),
        nulls=nulls - starts[:-1],
        # Its context is in windows, which lose nothing.
        truncated=np.array([len(tokens[example.question]) > most for example in examples]),
    )
    if any(example.lead for example in examples):
        features = replace(features, pieces=_pieces(features, examples))
    if any(example.sentences for example in examples):
        features = replace(features, sentences=_sentences(features, examples))
    return features


def _most_of_question(frame: Frame, limits: Limits) -> int:
    """How many tokens of a question stand in each window."""
    room = limits.max_tokens - frame.size
    if room < 2:
        raise ModelError(
            f"{limits.max_tokens} tokens have no room for a question and a context besides "
            f"{frame.size} special ones: give a larger max_tokens."
        )
    return min(limits.max_question_tokens, room // 2)


def _windows(
    question: Ids, context: Tokens, lead: int, frame: Frame, limits: Limits
) -> Iterator[_Window]:
    room = limits.max_tokens - frame.size
    # The tokens of the answers that are in every window, before the part of the context.
    ahead = int(np.searchsorted(context.ends, lead, side="right")) if lead else 0
    left = room - len(question) - ahead
    if left < 1:
        raise ModelError(
            f"{limits.max_tokens} tokens have no room for a context besides the question and "
            f"{ahead} tokens of fixed answers: give a larger max_tokens."
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
    """What is known of every token: its characters, and whether this window is its best."""
    firsts = np.array([window.first for window in windows])  # (windows,)
    # Zero outside of contexts: char_starts and char_ends are equal there, which is no answer.
    return {
        "char_starts": spread([window.context.starts for window in windows], firsts, starts),
        "char_ends": spread([window.context.ends for window in windows], firsts, starts),
        "places": spread([window.places for window in windows], firsts, starts),
        "is_best": spread([window.is_best for window in windows], firsts, starts),
    }


def _pieces(features: SpanFeatures, examples: Sequence[SpanExample]) -> Ids:
    """Which of the words before its context each token is part of, (tokens,)."""
    pieces = np.zeros(len(features.token_ids), dtype=np.int32)
    for example, part in zip(examples, _parts(features), strict=True):
        # By character: "yes no " -> 1 1 1 2 2 2 3, of which those from the lead on are no answer's.
        words = [1 + example.context.count(" ", 0, place) for place in range(example.lead)]
        starts = features.char_starts[part]
        inside = features.is_answer[part] & (starts < example.lead)
        pieces[part][inside] = np.array([*words, 0], dtype=np.int32)[starts[inside]]
    return pieces


def _sentences(features: SpanFeatures, examples: Sequence[SpanExample]) -> NDArray[np.int64]:
    """Where each sentence of its example begins in each window, (windows, sentences)."""
    most = max(len(example.sentences) for example in examples)
    found = np.full((len(features), most), -1, dtype=np.int64)
    for number, example in enumerate(examples):
        for row in range(*features.windows[number : number + 2]):
            part = slice(*features.starts[row : row + 2])
            for place, (start, end) in enumerate(example.sentences):
                touching = np.flatnonzero(features.touching(part, start, end))
                # A window may begin within a sentence, which then began in the one before.
                if len(touching) and features.char_starts[part][touching[0]] <= start:
                    found[row, place] = touching[0]
    return found


def _parts(features: SpanFeatures) -> Iterator[slice]:
    """Where the tokens of each example's windows stand."""
    edges = features.starts[features.windows]  # (examples + 1,)
    return (slice(*pair) for pair in pairwise(edges.tolist()))


def targets(
    features: SpanFeatures, examples: Sequence[SpanExample], task: SpanTask
) -> NDArray[np.int64]:
    """The first and the last token of the answer in every window, (windows, 2).

    Both are the classification token's where the window does not hold the whole answer. Of several
    gold answers the first is learned.
    """
    rows = np.stack([features.nulls, features.nulls], axis=1)  # (windows, 2)
    for number, example in enumerate(examples):
        answer = _answer(example, task)  # its characters
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
    """Which of the windows hold something of what the answer rests on; all where none does."""
    kept = np.zeros(len(windows), dtype=np.bool_)  # (windows,)
    for place, row in enumerate(windows):
        part = slice(*features.starts[row : row + 2])
        kept[place] = any(features.touching(part, *each).any() for each in example.evidence)
    return kept if kept.any() else ~kept


def _answer(example: SpanExample, task: SpanTask) -> tuple[int, int] | None:
    """The characters of the answer to learn; None where the context holds no answer."""
    if example.answers is None:
        raise DataError(f"{task.name} hides the answer of {example.id}: it cannot be trained on.")
    if not example.answers:
        return None
    if example.span is not None:
        return example.span
    text, start = example.answers[0]  # the first is learned
    found = example.context[start : start + len(text)] if start >= 0 else ""
    if not text or found != text:
        raise DataError(
            f"{task.name} {example.id}: the answer {text!r} is said to begin at character {start} "
            f"of its context, where {found!r} stands."
        )
    return start, start + len(text)


def _find(
    features: SpanFeatures, example: int, start: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The windows that hold all tokens of these characters, and the first and last one in each."""
    rows = features.windows[example : example + 2]
    low, high = features.starts[rows]
    touching = low + np.flatnonzero(features.touching(slice(low, high), start, end))
    # By places in the context: the first window that touches the answer may have its end alone.
    places = features.places[touching]  # (tokens that touch it,)
    if not len(places):
        return touching, np.zeros((0, 2), dtype=np.int64)
    first, last = edges_of(features.char_starts[touching], features.char_ends[touching], start, end)
    firsts, lasts = touching[places == places[first]], touching[places == places[last]]
    # The windows that have both; a token stands in each window at most once.
    both, with_first, with_last = np.intersect1d(
        features.rows_at(firsts), features.rows_at(lasts), return_indices=True
    )
    tokens = np.stack([firsts[with_first], lasts[with_last]], axis=1)  # (windows that have both, 2)
    return both, tokens - features.starts[both, None]


class SpanNetwork(nn.Module):
    """An encoder and its family's layers from every token to its two logits: first, and last."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder.network
        self.classifier = TokenClassifier.for_spans(encoder.network, encoder.config)
        # What a task asks in addition to the answer: states (..., size) to logits (..., outputs).
        self.auxiliary: nn.Linear | None = None
        attend_globally(self.encoder, encoder.config, "span")

    def forward(self, **inputs: Tensor) -> Tensor:
        """Logits (rows, tokens, 2), -inf at padding, so that no answer can lie there."""
        states = self.classifier.read(self.encoder(**inputs)[0])  # (rows, tokens, size)
        logits = in_fp32(self.classifier.output, states)  # (rows, tokens, 2)
        logits = logits.masked_fill(inputs["attention_mask"][..., None] == 0, -torch.inf)
        return self.with_auxiliary(logits, states)

    def with_auxiliary(self, logits: Tensor, states: Tensor) -> Tensor:
        """The logits (rows, tokens, outputs), and after them those that are auxiliary."""
        if self.auxiliary is None:
            return logits
        return torch.cat([logits, in_fp32(self.auxiliary, states)], -1)


def network(encoder: Encoder, task: SpanTask) -> SpanNetwork:
    """The network of a task, shaped as transformers' QuestionAnswering classes."""
    return SpanNetwork(encoder)


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """One loss per window in fp32: the mean of the cross-entropies of first and last token."""
    # Over the tokens: cross_entropy takes the dimension after the rows for the classes.
    rows = functional.cross_entropy(logits.float(), targets, reduction="none")  # (windows, 2)
    return rows.mean(-1)  # (windows,)


def soft_loss(logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """One loss per window towards a teacher's logits: the mean of first and last token's."""
    return divergence(logits, teacher, temperature, dim=1).mean(-1)  # (windows, 2) -> (windows,)


def decode(
    logits: NDArray[np.float32],
    features: SpanFeatures,
    examples: Sequence[SpanExample],
    task: SpanTask,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
) -> tuple[SpanPrediction, ...]:
    """The best answer of every example's windows, read back from its context.

    An answer has at most `max_answer_tokens` and begins where its first token has its best context;
    it has the largest sum of two logits of all such. (run_squad.py looks only among the 20 best
    first and last tokens, which by the model's own scores is never better.) The score of no answer
    is the smallest of the windows' classification tokens; an empty context leaves no other.
    """
    # Logits are (tokens, 2), end to end as token_ids are.
    scores = logits.astype(np.float64)
    found = best_answers(scores[:, 0], lambda size: scores[size:, 1], features, max_answer_tokens)
    null = scores[features.starts[:-1] + features.nulls].sum(-1)  # (windows, 2) -> (windows,)
    return predictions(examples, features, found, features.least_of_windows(null) - found.scores)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Each example's best answer: its score, and its first and last token of all windows' tokens.

    An example without any has the score 0 and a first token that stands for no character.
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
    """The answers with the largest sum of two scores, of at most `most` tokens in one window.

    `firsts` (tokens,) are the scores of first tokens; `last(size)` (tokens - size,) those of the
    token that is `size` places behind each.
    """
    scores, sizes = _best_spans(firsts, last, features, most)  # (tokens,) both
    tokens = features.starts[features.windows]  # (examples + 1,), where each one's tokens begin
    best = np.maximum.reduceat(scores, tokens[:-1])  # (examples,)
    # The first token of each example that reaches its best: an example without an answer has -inf
    # everywhere, and its first token, outside of the context, has the empty text.
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
    """For every first token the score of its best answer, -inf for none, and its further tokens."""
    firsts = np.where(features.is_answer & features.is_best, firsts, -np.inf)
    # How many tokens of its own window each has from itself on: an answer stays in one window.
    left = np.repeat(features.starts[1:], features.lengths) - np.arange(len(firsts))
    best, sizes = np.full(len(firsts), -np.inf), np.zeros(len(firsts), dtype=np.int64)
    # One pass over all tokens for each size: 30 in place of a loop over every first token.
    for size in range(min(most, len(firsts))):
        end = len(firsts) - size
        fits = (left[:end] > size) & features.is_answer[size:]  # (tokens - size,)
        if features.pieces is not None:  # no answer is of two fixed ones, or of one and the text
            fits &= features.pieces[:end] == features.pieces[size:]
        scores = np.where(fits, firsts[:end] + last(size), -np.inf)  # (tokens - size,)
        is_better = scores > best[:end]  # of equal ones the shortest stays
        best[:end][is_better] = scores[is_better]
        sizes[:end][is_better] = size
    return best, sizes


def predictions(
    examples: Sequence[SpanExample],
    features: SpanFeatures,
    found: Answers,
    margins: NDArray[np.float64],
) -> tuple[SpanPrediction, ...]:
    """The answers' texts, with how much more the model believes in none."""
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
    """The head whose answers have at most `max_answer_tokens`."""
    if options is None or options.max_answer_tokens == MAX_ANSWER_TOKENS:
        return SPAN
    return replace(SPAN, decode=partial(decode, max_answer_tokens=options.max_answer_tokens))
