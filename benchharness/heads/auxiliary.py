"""Auxiliary outputs of span tasks: classes of a question, and supporting sentences.

QuAC's dialog acts are predicted at the classification token, HotpotQA's supporting facts at the
first token of every sentence, by one linear layer on the states that the span head reads. Their
losses are added with weight 1, as in the baselines of both benchmarks (dialog_qa.py of
allenai/allennlp; main.py of hotpotqa/hotpot with --sp_lambda 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from benchharness.encoder import Encoder
from benchharness.heads import Head, binary_divergence, divergence
from benchharness.heads.classifiers import fresh_linear
from benchharness.heads.span import SpanFeatures, SpanNetwork
from benchharness.tasks.examples import SpanExample, SpanPrediction
from benchharness.tasks.task import SpanTask


def with_auxiliary(head: Head, task: SpanTask) -> Head:
    """Return a span head that also predicts the auxiliary outputs of the task.

    The auxiliary outputs are one class of each group in `task.classes` and, if `task.facts` is
    true, the sentences that support the answer.
    """
    asked = _Asked(head=head, task=task)
    return replace(
        head,
        targets=asked.targets,
        network=asked.network,
        loss=asked.loss,
        decode=asked.decode,
        soft_loss=asked.soft_loss,
    )


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """Functions of a span head with auxiliary outputs, wrapped around the plain head.

    `task.classes` has several groups of classes (QuAC: one group per dialog act), and one class of
    each group is predicted. The last axis of the logits has the logits of the plain head, then
    those of the classes of each group. If the task has supporting facts, a last logit decides
    whether a sentence supports the answer.
    """

    head: Head
    task: SpanTask

    @property
    def groups(self) -> tuple[tuple[int, int], ...]:
        """Range of each group's logits, counted from the first auxiliary logit."""
        return tuple(pairwise(accumulate(map(len, self.task.classes), initial=0)))

    @property
    def outputs(self) -> int:
        """Number of auxiliary logits."""
        return sum(map(len, self.task.classes)) + self.task.facts

    def network(self, encoder: Encoder, task: SpanTask) -> SpanNetwork:
        made: Any = self.head.network(encoder, task)
        size = made.classifier.output.in_features
        made.auxiliary = fresh_linear(size, self.outputs, encoder.config)
        return made  # type: ignore[no-any-return]

    def targets(
        self, features: SpanFeatures, examples: Sequence[SpanExample], task: SpanTask
    ) -> NDArray[np.int64]:
        """Return the targets of the answer and the auxiliary targets of each window, as columns.

        The auxiliary columns are, in this order: the position of the classification token; the
        index of the true class of each group; the position of the first token of each sentence, or
        -1 if the sentence does not begin in this window; and for each sentence 1 if it supports the
        answer, else 0.
        """
        count = np.diff(features.windows)  # (examples,)
        columns = [self.head.targets(features, examples, task), features.nulls]
        for group, names in enumerate(task.classes):
            classes = np.array([names.index(example.classes[group]) for example in examples])
            columns.append(np.repeat(classes, count))
        if task.facts:
            places = _places(features)  # (windows, sentences)
            facts = np.zeros((len(examples), places.shape[1]), dtype=np.int64)
            for number, example in enumerate(examples):
                here = [fact for fact in example.facts if fact < len(example.sentences)]
                facts[number, here] = 1
            columns += [places, np.repeat(facts, count, axis=0)]
        return np.column_stack(columns)  # (windows, columns)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per window in fp32.

        This is the sum of the answer's loss, the loss of each group of classes, and the mean loss
        of the sentences that begin in the window.
        """
        own, size = self._own_targets(targets.shape[1]), -self.outputs
        losses = self.head.loss(logits[..., :size], targets[:, :own])  # (windows,)
        groups, sentences, places = self._read(logits[..., size:].float(), targets[:, own:])
        for column, classes in enumerate(groups, start=own + 1):
            losses = losses + functional.cross_entropy(
                classes, targets[:, column], reduction="none"
            )
        if self.task.facts:
            # The columns of supporting facts follow the columns of positions.
            facts = targets[:, targets.shape[1] - places.shape[1] :].float()
            each = functional.binary_cross_entropy_with_logits(sentences, facts, reduction="none")
            losses = losses + _mean_of_places(each, places)
        return losses

    def soft_loss(
        self, logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float
    ) -> Tensor:
        """Return one distillation loss per window, for a teacher's logits, summed as in `loss`."""
        assert self.head.soft_loss is not None, "every span head has one"
        own, size = self._own_targets(targets.shape[1]), -self.outputs
        losses = self.head.soft_loss(
            logits[..., :size], teacher[..., :size], targets[:, :own], temperature
        )
        groups, sentences, places = self._read(logits[..., size:], targets[:, own:])
        theirs, known, _ = self._read(teacher[..., size:], targets[:, own:])
        for mine, other in zip(groups, theirs, strict=True):  # (windows, classes) both
            losses = losses + divergence(mine, other, temperature)
        if self.task.facts:
            each = binary_divergence(sentences, known, temperature)  # (windows, sentences)
            losses = losses + _mean_of_places(each, places)
        return losses

    def _read(self, logits: Tensor, targets: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        """Select from auxiliary logits `[windows, tokens, outputs]` those that have targets.

        Returns the class logits of each group `[windows, classes]`, the logits of the sentences,
        and the positions of the sentences, both `[windows, sentences]`.
        """
        rows = torch.arange(len(logits), device=logits.device)
        # The classes are predicted at the classification token. In the targets, one column per
        # group is followed by two columns per sentence: first all positions, then all labels.
        groups = [logits[rows, targets[:, 0], start:end] for start, end in self.groups]
        places = targets[:, 1 + len(groups) :].chunk(2, dim=1)[0]
        return groups, logits[..., -1].gather(1, places.clamp(min=0)), places

    def _own_targets(self, size: int) -> int:
        """Return the number of target columns of the answer: 2, or 3 with ELECTRA's head."""
        auxiliary = 1 + len(self.groups)
        if not self.task.facts:
            return size - auxiliary
        # A sentence has two columns. So if the answer and the sentences together have an odd number
        # of columns, the answer has three columns instead of two.
        return 2 + (size - auxiliary) % 2

    def decode(
        self,
        logits: NDArray[np.float32],
        features: SpanFeatures,
        examples: Sequence[SpanExample],
        task: SpanTask,
    ) -> tuple[SpanPrediction, ...]:
        """Predict the answers, the class of each group and the supporting sentences.

        The logits of a class are averaged over the windows. A sentence supports the answer if its
        largest logit over all windows is positive. If no sentence has a positive logit, the one
        with the largest logit is predicted.
        """
        own, auxiliary = logits[:, : -self.outputs], logits[:, -self.outputs :].astype(np.float64)
        answers = self.head.decode(np.ascontiguousarray(own), features, examples, task)
        at_nulls = auxiliary[features.starts[:-1] + features.nulls]  # (windows, outputs)
        counts = np.diff(features.windows)[:, None]
        means = np.add.reduceat(at_nulls, features.windows[:-1]) / counts  # (examples, outputs)
        classes = [
            tuple(
                names[int(row[start:end].argmax())]
                for names, (start, end) in zip(task.classes, self.groups, strict=True)
            )
            for row in means
        ]
        facts = (
            self._facts(auxiliary[:, -1], features, examples) if task.facts else [()] * len(means)
        )
        return tuple(
            replace(answer, classes=said, facts=found)
            for answer, said, found in zip(answers, classes, facts, strict=True)
        )

    def _facts(
        self, scores: NDArray[np.float64], features: SpanFeatures, examples: Sequence[SpanExample]
    ) -> list[tuple[int, ...]]:
        places = _places(features)  # (windows, sentences)
        at = scores[np.maximum(places, 0) + features.starts[:-1, None]]  # (windows, sentences)
        # (windows, sentences) -> (examples, sentences), -inf if a sentence begins in no window
        best = np.maximum.reduceat(np.where(places >= 0, at, -np.inf), features.windows[:-1])
        found = []
        for row, example in zip(best, examples, strict=True):
            known = row[: len(example.sentences)]  # other examples may have more sentences
            above = np.flatnonzero(known > 0)
            if not len(above) and len(known):
                above = known.argmax(keepdims=True)
            found.append(tuple(above.tolist()))
        return found


def _mean_of_places(losses: Tensor, places: Tensor) -> Tensor:
    """Return the mean loss `[windows]` over the sentences that begin in a window, or 0."""
    is_here = places >= 0  # (windows, sentences)
    return losses.where(is_here, 0.0).sum(1) / is_here.sum(1).clamp(min=1)


def _places(features: SpanFeatures) -> NDArray[np.int64]:
    """Return the positions where sentences begin: `[windows, sentences]`.

    The position is -1 for a sentence that begins in another window. If no example has sentences,
    the result has no columns.
    """
    if features.sentences is None:
        return np.full((len(features), 0), -1, dtype=np.int64)
    return features.sentences
