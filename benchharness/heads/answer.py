"""Span head as published with ELECTRA: the end of an answer is predicted given its beginning.

This follows finetune/qa/qa_tasks.py and qa_metrics.py of google-research/electra: the last token is
predicted for each of the `beam_size` most probable first tokens, and a separate classifier predicts
whether the context has no answer. Both parts can be switched on independently.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder import Encoder
from benchharness.heads import Head, Limits, binary_divergence, span
from benchharness.heads.span import SpanFeatures, SpanNetwork
from benchharness.recipes.recipe import SpanOptions
from benchharness.tasks.examples import SpanExample, SpanPrediction
from benchharness.tasks.task import SpanTask
from benchharness.training.compute import in_fp32

HIDDEN = 512
"""Size of the hidden layer that scores a pair of states. ELECTRA's code uses 512 for all model
sizes."""

NEVER = -1e9
"""Logit of an impossible position. It is finite because `predict` refuses infinite logits."""


def head(task: SpanTask, options: SpanOptions) -> Head:
    """Return the span head with a beam search, a classifier of unanswerable questions, or both.

    The head has a beam search if `options.beam_size` is greater than 0, and a classifier if
    `options.answerable_weight` is greater than 0. The argument `task` is not used.
    """
    values = _Values(options=options)
    return Head(
        encode=encode_answers,
        targets=targets,
        network=values.network,
        loss=values.loss,
        decode=values.decode,
        soft_loss=values.soft_loss,
    )


def encode_answers(examples: Sequence[SpanExample], tokenizer: Any, limits: Limits) -> SpanFeatures:
    """Encode examples as windows, and mark the tokens at which answers may begin and end.

    The field `marks` of the result is `[windows, 2, 2]`. It contains two token ranges (start and
    end, exclusive) per window: the context, and the single token that stands for "no answer" (see
    `SpanFeatures.nulls`). The first range is (0, 0) if the context is empty.
    """
    features = span.encode(examples, tokenizer, limits)
    inside = np.flatnonzero(features.is_answer)  # (tokens that can be answers,)
    rows, firsts, counts = np.unique(
        features.rows_at(inside), return_index=True, return_counts=True
    )
    marks = np.zeros((len(features), 2, 2), dtype=np.int64)  # stays (0, 0) for an empty context
    starts = features.starts[rows]
    marks[rows, 0, 0] = inside[firsts] - starts
    marks[rows, 0, 1] = inside[firsts + counts - 1] + 1 - starts  # end, exclusive
    marks[:, 1] = features.nulls[:, None] + [0, 1]  # only the token for "no answer"
    return replace(features, marks=marks)


def targets(
    features: SpanFeatures, examples: Sequence[SpanExample], task: SpanTask
) -> NDArray[np.int64]:
    """Return the targets of each window: `[windows, 3]`.

    The first two values are the positions of the first and the last token of the answer, as
    `targets` of heads/span.py returns them: both are the position of the token that stands for "no
    answer" if the window does not contain the whole answer. The third value is 1 if the question
    has no answer, else 0. It is 0 in all windows of a question that has an answer. Raises DataError
    if an answer is not published, or is not at the stated position in the context.
    """
    empty = np.array([not example.answers for example in examples])  # (examples,)
    windows = np.repeat(empty, np.diff(features.windows))  # (examples,) -> (windows,)
    return np.column_stack([span.targets(features, examples, task), windows])


class AnswerNetwork(SpanNetwork):
    """Span network that can predict answers as ELECTRA's published code does.

    If `beam_size` is set, the last token of an answer is predicted given its first token. If
    `answerable_weight` is set, a classifier predicts whether the question has no answer. In
    training, the network also gets the targets, because the last token is predicted given the true
    first token.

    Args:
        encoder: Encoder with its config.
        options: The recipe's options for span tasks.
    """

    reads_targets = True

    def __init__(self, encoder: Encoder, options: SpanOptions) -> None:
        super().__init__(encoder)
        self.beam_size, self.most = options.beam_size, options.max_answer_tokens
        size = encoder.config.hidden_size
        # Keep this order for reproducibility: each layer that is created draws random numbers.
        self.last = _Joined(size) if options.beam_size else None
        self.no_answer = _Joined(size) if options.answerable_weight > 0 else None

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return logits `[rows, tokens, 2 + ends]`.

        The arguments are the inputs of the encoder, the `marks` of `encode_answers` and, in
        training, the `targets`.

        The last axis contains: the row's logit of "no answer", repeated for every token; the logit
        of the token as first token of the answer; and `ends` values about the last token:

        * without a beam, one value: the logit of the token as last token;
        * with a beam in training, the same, computed given the true first token;
        * with a beam in prediction, `max_answer_tokens` values: the log-probability that an answer
          which begins at this token ends 0, 1, 2, ... tokens later, or NEVER outside of the beam.
          The logits of first tokens are log-probabilities too.

        If the task has auxiliary outputs (heads/auxiliary.py), their logits follow.
        """
        marks, targets = inputs.pop("marks"), inputs.pop("targets", None)
        states = self.classifier.read(self.encoder(**inputs)[0])  # (rows, tokens, size)
        logits = in_fp32(self.classifier.output, states)  # (rows, tokens, 2)
        places = torch.arange(logits.shape[1], device=logits.device)
        # True in the context and at the token for "no answer":
        # (rows, marks, tokens) -> (rows, tokens)
        is_open = ((places >= marks[..., :1]) & (places < marks[..., 1:])).any(1)
        firsts = logits[..., 0].masked_fill(~is_open, NEVER)  # (rows, tokens)
        rows, null = torch.arange(len(states), device=states.device), marks[:, 1, 0]
        if self.last is None:
            lasts = logits[..., 1:].masked_fill(~is_open[..., None], NEVER)  # (rows, tokens, 1)
        elif targets is not None:
            given = states[rows, targets[:, 0]][:, None]  # (rows, 1, size)
            lasts = self.last(given, states).masked_fill(~is_open, NEVER)[..., None]
        else:
            firsts = firsts.log_softmax(-1)  # (rows, tokens)
            lasts = self._ends(firsts, states, is_open)
        no_answer = firsts[rows, null]  # (rows,)
        if self.no_answer is not None:
            # The expected state of the first token: (rows, 1, tokens) @ (rows, tokens, size)
            expected = firsts.softmax(-1).to(states.dtype)[:, None] @ states
            no_answer = self.no_answer(states[rows, null], expected[:, 0])
        first = torch.stack([no_answer[:, None].expand_as(firsts), firsts], -1)  # (rows, tokens, 2)
        return self.with_auxiliary(torch.cat([first, lasts], -1), states)

    def _ends(self, firsts: Tensor, states: Tensor, is_open: Tensor) -> Tensor:
        """Return log-probabilities `[rows, tokens, most]` of ends that are 0, 1, ... tokens later.

        Only the `beam_size` best first tokens, each with its `beam_size` best last tokens, get a
        log-probability. All other values are NEVER.
        """
        assert self.last is not None
        beam = min(self.beam_size, firsts.shape[1])  # a short batch has fewer tokens
        best = firsts.topk(beam).indices[..., None]  # (rows, beam, 1)
        given = states.gather(1, best.expand(-1, -1, states.shape[-1]))  # (rows, beam, size)
        lasts = self.last(given[:, :, None], states[:, None])  # (rows, beam, tokens)
        lasts = lasts.masked_fill(~is_open[:, None], NEVER).log_softmax(-1)
        lasts = lasts.masked_fill(lasts < lasts.topk(beam).values[..., -1:], NEVER)
        further = torch.arange(self.most, device=best.device)  # (most,)
        beyond = functional.pad(lasts, (0, self.most), value=NEVER)  # (rows, beam, tokens + most)
        ends = beyond.gather(2, best + further)  # (rows, beam, most)
        table = ends.new_full((*firsts.shape, self.most), NEVER)  # (rows, tokens, most)
        return table.scatter(1, best.expand_as(ends), ends)


class _Joined(nn.Module):
    """Feed-forward network from two concatenated states `[..., size]` to a logit `[...]`.

    If the two tensors of states differ in shape, they are broadcast.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        # One linear layer on the concatenation, split in two: each half is computed once per state.
        self.one = nn.Linear(size, HIDDEN, bias=False)
        self.other = nn.Linear(size, HIDDEN)
        self.output = nn.Linear(HIDDEN, 1)
        with torch.no_grad():  # initialized as by tf.layers.dense
            whole = nn.init.xavier_uniform_(torch.empty(HIDDEN, 2 * size))
            self.one.weight.copy_(whole[:, :size])
            self.other.weight.copy_(whole[:, size:])
            nn.init.xavier_uniform_(self.output.weight)
            nn.init.zeros_(self.other.bias)
            nn.init.zeros_(self.output.bias)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        states = functional.gelu(self.one(one) + self.other(other))  # (..., 512)
        return in_fp32(self.output, states)[..., 0]


@dataclass(frozen=True, kw_only=True)
class _Values:
    """Functions of the head that depend on the recipe's options."""

    options: SpanOptions

    def network(self, encoder: Encoder, task: SpanTask) -> AnswerNetwork:
        return AnswerNetwork(encoder, self.options)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per window in fp32: span loss plus weighted classifier loss."""
        losses = span.loss(logits[..., 1:], targets[:, :2])  # (windows,)
        if not self.options.answerable_weight:
            return losses
        auxiliary = functional.binary_cross_entropy_with_logits(
            logits[:, 0, 0], targets[:, 2].float(), reduction="none"
        )
        return losses + self.options.answerable_weight * auxiliary

    def soft_loss(
        self, logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float
    ) -> Tensor:
        """Return the distillation loss of each window, given a teacher's logits.

        The losses of span and classifier are weighted as in `loss`.
        """
        losses = span.soft_loss(logits[..., 1:], teacher[..., 1:], targets, temperature)
        if not self.options.answerable_weight:
            return losses
        auxiliary = binary_divergence(logits[:, 0, 0], teacher[:, 0, 0], temperature)
        return losses + self.options.answerable_weight * auxiliary

    def decode(
        self,
        logits: NDArray[np.float32],
        features: SpanFeatures,
        examples: Sequence[SpanExample],
        task: SpanTask,
    ) -> tuple[SpanPrediction, ...]:
        """Return the best answer to each question over all of its windows, as text of the context.

        The score of "no answer" is the smallest logit of the classifier over the windows. Without a
        classifier, it is the smallest log-probability of the token that stands for "no answer" as
        first token, minus the score of the best answer.
        """
        nulls = features.least_of_windows(logits[features.starts[:-1], 0].astype(np.float64))
        firsts, lasts = logits[:, 1].astype(np.float64), logits[:, 2:]  # (tokens,), (tokens, ends)
        firsts[firsts <= NEVER / 2] = -np.inf

        def last(size: int) -> NDArray[np.float64]:
            scores = lasts[: len(lasts) - size, size] if self.options.beam_size else lasts[size:, 0]
            return np.where(scores > NEVER / 2, scores, -np.inf).astype(np.float64)

        found = span.best_answers(firsts, last, features, self.options.max_answer_tokens)
        margins = nulls if self.options.answerable_weight else nulls - found.scores
        return span.predictions(examples, features, found, margins)
