"""Ordinal head: one score per text, and a threshold between each two neighbouring levels.

This is the proportional odds model (McCullagh, Regression Models for Ordinal Data, 1980): the
probability that a text is above a level is the sigmoid of its score minus the level's threshold.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from bench_ordinal.hyperparameters import OrdinalOptions
from bench_ordinal.task import OrdinalPrediction
from benchharness.heads import Head
from benchharness.heads.classifiers import TextClassifier
from benchharness.heads.tokens import Frame, join, tokenize_ids
from benchharness.training.batching import Features


def encode(examples, tokenizer, limits):
    """Encode every text as a row of token ids, cut at its end."""
    frame = Frame.of(tokenizer, texts=1)
    ids = tokenize_ids((example.text for example in examples), tokenizer)
    room = limits.max_tokens - frame.size  # for the text, without special tokens
    rows = [frame.row(ids[example.text][:room]) for example in examples]
    truncated = np.array([len(ids[example.text]) > room for example in examples])
    return Features(**join(rows, frame, limits.max_tokens), truncated=truncated)


def targets(features, examples, task):
    """Return the index of each example's level."""
    return np.array([task.levels.index(example.level) for example in examples], dtype=np.int64)


class OrdinalNetwork(nn.Module):
    """Encoder, its classifier with one output, and ascending thresholds."""

    def __init__(self, encoder, levels, gap):
        super().__init__()
        self.encoder = encoder.network
        self.classifier = TextClassifier.on(encoder, 1)
        self.reads_first_token = self.classifier.reads == "first"
        self.first = nn.Parameter(torch.tensor(-gap * (levels - 2) / 2))
        self.gaps = nn.Parameter(torch.full((levels - 2,), gap).expm1().log())

    def forward(self, **inputs):
        """Return `[rows, levels - 1]`: the log odds that a row is above each level."""
        hidden = self.encoder(**inputs)[0]  # [rows, tokens, size]
        score = self.classifier(hidden, inputs["attention_mask"])  # [rows, 1]
        steps = functional.softplus(self.gaps).cumsum(0)
        return score - torch.cat([self.first[None], self.first + steps])


def loss(logits, targets):
    """Return the summed binary cross-entropy over the thresholds, `[rows]`."""
    above = targets[:, None] > torch.arange(logits.shape[1], device=logits.device)
    losses = functional.binary_cross_entropy_with_logits(
        logits.float(), above.float(), reduction="none"
    )
    return losses.sum(-1)


def decode(logits, features, examples, task):
    """Return the level that has as many thresholds below the score."""
    above = torch.from_numpy(logits).double().sigmoid()  # [rows, levels - 1]
    ends = torch.ones(len(above), 1, dtype=above.dtype)
    whole = torch.cat([ends, above, 0 * ends], dim=1)
    scores = (whole[:, :-1] - whole[:, 1:]).clamp(min=0.0).tolist()
    return tuple(
        OrdinalPrediction(id=example.id, level=task.levels[int((row > 0).sum())], scores=tuple(s))
        for example, row, s in zip(examples, logits, scores, strict=True)
    )


def head(task, options):
    """Return the head for a recipe's options."""
    chosen = options or OrdinalOptions()
    return Head(
        encode=encode,
        targets=targets,
        network=lambda encoder, task: OrdinalNetwork(
            encoder, len(task.levels), chosen.threshold_gap
        ),
        loss=loss,
        decode=decode,
    )
