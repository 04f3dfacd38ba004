"""The span head as ELECTRA's authors run it: an answer's end is read given its beginning.

google-research/electra, finetune/qa/qa_tasks.py and qa_metrics.py: the last token is predicted for
each of the `beam_size` most probable first ones, and a classifier of its own says whether the
context has no answer. Either can be had without the other.
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
"""The size of the layer between two states and their logit, as there for every size of encoder."""

NEVER = -1e9
"""The logit of what cannot be. It is finite: a prediction with other numbers is refused."""


def head(task: SpanTask, options: SpanOptions) -> Head:
    """The span head with a beam, or with a classifier of questions without an answer, or both."""
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
    """The windows of every example, with two marks: the context's tokens, and no answer's."""
    features = span.encode(examples, tokenizer, limits)
    inside = np.flatnonzero(features.is_answer)  # (places,), of all tokens
    rows, firsts, counts = np.unique(
        features.rows_at(inside), return_index=True, return_counts=True
    )
    marks = np.zeros((len(features), 2, 2), dtype=np.int64)  # an empty context's is empty
    starts = features.starts[rows]
    marks[rows, 0, 0] = inside[firsts] - starts
    marks[rows, 0, 1] = inside[firsts + counts - 1] + 1 - starts  # the one after its last
    marks[:, 1] = features.nulls[:, None] + [0, 1]  # the classification token alone
    return replace(features, marks=marks)


def targets(
    features: SpanFeatures, examples: Sequence[SpanExample], task: SpanTask
) -> NDArray[np.int64]:
    """First and last token of the answer in every window, and 1 for no answer, (windows, 3).

    A window without the answer of its question points at the classification token and says 0.
    """
    empty = np.array([not example.answers for example in examples])  # (examples,)
    windows = np.repeat(empty, np.diff(features.windows))  # (examples,) -> (windows,)
    return np.column_stack([span.targets(features, examples, task), windows])


class AnswerNetwork(SpanNetwork):
    """A SpanNetwork with what ELECTRA's code puts on it; in training it is given the targets."""

    reads_targets = True

    def __init__(self, encoder: Encoder, options: SpanOptions) -> None:
        super().__init__(encoder)
        self.beam_size, self.most = options.beam_size, options.max_answer_tokens
        size = encoder.config.hidden_size
        # Drawn in this order, and only where there are any: another one would be other weights.
        self.last = _Joined(size) if options.beam_size else None
        self.no_answer = _Joined(size) if options.answerable_weight > 0 else None

    def forward(self, **inputs: Tensor) -> Tensor:
        """Logits (rows, tokens, 2 + ends): of no answer, of a first token, and of last ones.

        The end is the token itself, given the targets' first token, or without a beam. Else, in
        prediction, there are `most` ends: that token and those behind it, where it is the first.
        """
        marks, targets = inputs.pop("marks"), inputs.pop("targets", None)
        states = self.classifier.read(self.encoder(**inputs)[0])  # (rows, tokens, size)
        logits = in_fp32(self.classifier.output, states)  # (rows, tokens, 2)
        places = torch.arange(logits.shape[1], device=logits.device)
        # (rows, marks, tokens) -> (rows, tokens): the context, and the classification token
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
            # By the expected state of the first token: (rows, 1, tokens) @ (rows, tokens, size)
            expected = firsts.softmax(-1).to(states.dtype)[:, None] @ states
            no_answer = self.no_answer(states[rows, null], expected[:, 0])
        first = torch.stack([no_answer[:, None].expand_as(firsts), firsts], -1)  # (rows, tokens, 2)
        return self.with_auxiliary(torch.cat([first, lasts], -1), states)

    def _ends(self, firsts: Tensor, states: Tensor, is_open: Tensor) -> Tensor:
        """Log probabilities (rows, tokens, most) of an answer's end, that many tokens further on.

        Only for the best first tokens, and of each only those of the best last ones.
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
    """States and others that broadcast with them, (..., size), side by side to logits (...)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        # One layer of both, in two parts: the second one's is the same for every first.
        self.one = nn.Linear(size, HIDDEN, bias=False)
        self.other = nn.Linear(size, HIDDEN)
        self.output = nn.Linear(HIDDEN, 1)
        with torch.no_grad():  # as tf.layers.dense starts
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
    """A head's functions that depend on its options."""

    options: SpanOptions

    def network(self, encoder: Encoder, task: SpanTask) -> AnswerNetwork:
        return AnswerNetwork(encoder, self.options)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """One loss per window in fp32: that of the span, and the classifier's times its weight."""
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
        """The same towards a teacher's logits."""
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
        """The best answer of every example's windows, read back from its context.

        The score of no answer is the smallest of the windows': the classifier's logit, or without
        one how likely the classification token is the first, less the best answer's score.
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
