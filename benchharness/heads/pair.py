"""The pair head: one text or two to a class or a number."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder import Encoder
from benchharness.heads.head import Head, Limits
from benchharness.heads.marks import MarkPooling, encode_marked
from benchharness.heads.tokens import Frame, Ids, join, tokenize_ids
from benchharness.pooling import TextClassifier, attend_globally
from benchharness.training.batching import Features
from tasks.errors import DataError
from tasks.examples import PairExample, PairPrediction
from tasks.task import PairTask

__all__ = ["PAIR", "PairNetwork", "decode", "encode", "loss", "network", "targets"]


def encode(examples: Sequence[PairExample], tokenizer: Any, limits: Limits) -> Features:
    """The token ids of every example.

    Of two texts the longer one is cut first, as transformers' run_glue.py does; the tokenizer's own
    cut takes minutes where both are long. A tokenizer without a padding token pads with id 0:
    nothing attends to a masked place.
    """
    if examples[0].marks:
        return encode_marked(examples, tokenizer, limits)
    texts = [[e.text_a] if e.text_b is None else [e.text_a, e.text_b] for e in examples]
    frame = Frame.of(tokenizer, texts=len(texts[0]))
    ids = tokenize_ids((text for row in texts for text in row), tokenizer)
    room = limits.max_tokens - frame.size
    rows = [frame.row(*_cut([ids[text] for text in row], room)) for row in texts]
    return Features(
        **join(rows, frame),
        pad_id=tokenizer.pad_token_id or 0,
        max_tokens=limits.max_tokens,
    )


def _cut(texts: Sequence[Ids], room: int) -> list[Ids]:
    """The beginnings of the texts that fit, by the rule that tokenizers call "longest_first"."""
    if len(texts) == 1:
        return [texts[0][:room]]
    shorter, longer = sorted(map(len, texts))
    kept = min(shorter, max(room - longer, room // 2))
    sizes = [kept, room - kept] if len(texts[0]) <= len(texts[1]) else [room - kept, kept]
    return [text[:size] for text, size in zip(texts, sizes, strict=True)]


def targets(
    features: Features,  # noqa: ARG001  (as every head)
    examples: Sequence[PairExample],
    task: PairTask,
) -> NDArray[Any]:
    """Class numbers (int64) in the order of the task's labels, or numbers (float32)."""
    hidden = next((e for e in examples if e.label is None), None)
    if hidden is not None:
        raise DataError(f"{task.name} hides the label of {hidden.id}: it cannot be trained on.")
    if task.is_regression:
        return np.array([example.label for example in examples], dtype=np.float32)
    numbers = {label: number for number, label in enumerate(task.labels)}
    return np.array([numbers[str(example.label)] for example in examples], dtype=np.int64)


class PairNetwork(nn.Module):
    """An encoder with its family's pooling and classifier on top, and its marks beside that."""

    def __init__(self, encoder: Encoder, outputs: int, marks: int = 0) -> None:
        super().__init__()
        self.encoder = encoder.network
        size = encoder.config.hidden_size
        self.classifier = TextClassifier.on(encoder.network, encoder.config, outputs, marks * size)
        self.pooling = MarkPooling(size) if marks else None
        self.reads_first_token = self.classifier.reads == "first" and not marks
        attend_globally(self.encoder, encoder.config, "pair")

    def forward(self, **inputs: Tensor) -> Tensor:
        """Logits (rows, outputs) for inputs of (rows, tokens)."""
        marks = inputs.pop("marks", None)
        hidden, mask = self.encoder(**inputs)[0], inputs["attention_mask"]
        beside = None if self.pooling is None else self.pooling(hidden, marks)
        logits: Tensor = self.classifier(hidden, mask, beside)
        return logits


def network(encoder: Encoder, task: PairTask) -> PairNetwork:
    """The network of a task: an output per label, or one for a number."""
    outputs = 1 if task.is_regression else len(task.labels)
    return PairNetwork(encoder, outputs, marks=task.marks)


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """One loss per row in fp32: cross-entropy for class numbers, squared error for numbers."""
    if targets.is_floating_point():
        return functional.mse_loss(logits.float().squeeze(-1), targets, reduction="none")
    return functional.cross_entropy(logits.float(), targets, reduction="none")


def decode(
    logits: NDArray[np.float32],
    features: Features,  # noqa: ARG001  (as every head)
    examples: Sequence[PairExample],
    task: PairTask,
) -> tuple[PairPrediction, ...]:
    """The predicted label with the probability of each, or the predicted number."""
    if task.is_regression:
        return tuple(
            PairPrediction(id=example.id, label=float(row[0]))
            for example, row in zip(examples, logits, strict=True)
        )
    probabilities = torch.from_numpy(logits).double().softmax(-1).tolist()
    winners = logits.argmax(-1)
    return tuple(
        PairPrediction(id=example.id, label=task.labels[winner], scores=tuple(row))
        for example, winner, row in zip(examples, winners, probabilities, strict=True)
    )


PAIR = Head(encode=encode, targets=targets, network=network, loss=loss, decode=decode)
