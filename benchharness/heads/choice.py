"""Choice head: selects one of any number of options, given a context and a question.

Each option is encoded as a row, [context] [question option]. The rows of an example are always in
the same batch, and one softmax over them gives the probabilities of the options.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from benchharness.encoder import Encoder
from benchharness.errors import DataError
from benchharness.heads import Head, Limits, divergence, with_language_model, with_losses
from benchharness.heads.classifiers import TextClassifier, attend_globally
from benchharness.heads.tokens import Frame, Ids, join, tokenize_ids
from benchharness.recipes.recipe import PairOptions
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction
from benchharness.tasks.task import ChoiceTask
from benchharness.training.batching import MICRO_BATCH_TOKENS, Features
from benchharness.training.compute import in_fp32

BLANKS = ("@placeholder", "_")
"""Placeholders in a question that are replaced with an option: "@placeholder" in ReCoRD, and "_" in
the cloze questions of RACE (as in fairseq's examples/roberta/preprocess_RACE.py)."""


def encode(examples: Sequence[ChoiceExample], tokenizer: Any, limits: Limits) -> Features:
    """Encode every option of every example as a row.

    A row that is too long loses the end of its context and, if that is not enough, the beginning of
    its question. The option is kept as long as possible, because only it distinguishes the rows of
    an example. Raises DataError for an example without options.
    """
    empty = next((example for example in examples if not example.options), None)
    if empty is not None:
        raise DataError(f"example {empty.id} has no options: expected at least one.")
    frame = Frame.of(tokenizer, texts=2)
    pairs = [(e.context, filled(e.question, option)) for e in examples for option in e.options]
    ids = tokenize_ids((text for pair in pairs for text in pair), tokenizer)
    room = limits.max_tokens - frame.size  # for the texts, without special tokens
    items = np.cumsum([0, *(len(example.options) for example in examples)])
    rows = [frame.row(*_cut(ids[a], ids[b], room)) for a, b in pairs]
    is_cut = np.array([len(ids[a]) + len(ids[b]) > room for a, b in pairs])  # (rows,)
    return Features(
        **join(rows, frame, limits.max_tokens),
        items=items,
        truncated=np.logical_or.reduceat(is_cut, items[:-1]),
    )


def filled(question: str, option: str) -> str:
    """Return a question with an option in its blank (see BLANKS).

    If the question has no blank, the option is appended.
    """
    # The order of BLANKS matters: a ReCoRD query with a placeholder may contain an underscore too.
    blank = next((blank for blank in BLANKS if blank in question), None)
    return question.replace(blank, option) if blank else f"{question} {option}".strip()


def _cut(context: Ids, tail: Ids, room: int) -> tuple[Ids, Ids]:
    tail = tail[max(0, len(tail) - room) :]  # cut at the front: the option is at the end
    return context[: room - len(tail)], tail


def targets(
    features: Features, examples: Sequence[ChoiceExample], task: ChoiceTask
) -> NDArray[np.int64]:
    """Return the index of every example's correct option.

    If several options are correct (ReCoRD), the first of them is the target. Raises DataError if
    the correct option of an example is not published, is missing, or is not one of its options.
    """
    return np.array([_gold(example, task) for example in examples], dtype=np.int64)


def _gold(example: ChoiceExample, task: ChoiceTask) -> int:
    where = f"{task.name} {example.id}"
    if example.gold is None:
        raise DataError(
            f"the right option of example {example.id} in {task.name} is not published, so this "
            "example cannot be used for training."
        )
    if not example.gold or not 0 <= example.gold[0] < len(example.options):
        raise DataError(
            f"{where} has {len(example.options)} options, but the indices of its right options are "
            f"{example.gold}: expected the index of at least one option."
        )
    return example.gold[0]


class ChoiceNetwork(nn.Module):
    """Encoder with the classifier of its family, which returns one logit per row.

    All options of an example (dozens in ReCoRD) have to be trained together. If they have more
    tokens than a micro-batch may have, their activations are not kept for the backward pass but
    recomputed in chunks with the same dropout. This bounds the memory without changing the
    gradients.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder.network
        self.classifier = TextClassifier.on(encoder, outputs=1, is_choice=True)
        self.reads_first_token = self.classifier.reads == "first"
        self.lm_weight = 0.0
        attend_globally(self.encoder, encoder.config, "choice")

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return logits `[rows]` for the encoder's inputs, `[rows, tokens]` each.

        In training with an `lm_weight`, return `[rows, 2]`: the logit and the weighted language
        modeling loss of each row.
        """
        rows, tokens = inputs["input_ids"].shape
        if not torch.is_grad_enabled() or rows * tokens <= MICRO_BATCH_TOKENS:
            return self._score(inputs)
        size = max(1, MICRO_BATCH_TOKENS // tokens)  # rows per part
        parts = [
            {name: values[start : start + size] for name, values in inputs.items()}
            for start in range(0, rows, size)
        ]
        # checkpoint restores the random state of each part, so both passes have the same dropout.
        return torch.cat([checkpoint(self._score, part, use_reentrant=False) for part in parts])

    def _score(self, inputs: dict[str, Tensor]) -> Tensor:
        # (rows, tokens, size) -> (rows, size) -> (rows, 1) -> (rows,)
        hidden = self.encoder(**inputs)[0]  # (rows, tokens, size)
        state = self.classifier.read(hidden, inputs["attention_mask"])  # (rows, size)
        logits = in_fp32(self.classifier.score, state)  # (rows, 1)
        return with_losses(self, logits, hidden, inputs).squeeze(-1)


def network(encoder: Encoder, task: ChoiceTask) -> ChoiceNetwork:
    """Return the network for a task, with the layers of transformers' MultipleChoice classes."""
    return ChoiceNetwork(encoder)


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy of each example over its options, in fp32: `[items]`.

    `logits` `[items, options]` is -inf for the missing options of an example that has fewer than
    others. `targets` `[items]` contains the index of each correct option.
    """
    # The -inf of a missing row has probability 0 and no gradient.
    return functional.cross_entropy(logits.float(), targets, reduction="none")  # (items,)


def soft_loss(logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Return the divergence of each example's option probabilities from the teacher's: `[items]`.

    The logits of student and teacher are `[items, options]`. The `targets` are not used.
    """
    return divergence(logits, teacher, temperature)


def decode(
    logits: NDArray[np.float32],
    features: Features,
    examples: Sequence[ChoiceExample],
    task: ChoiceTask,
) -> tuple[ChoicePrediction, ...]:
    """Return the most probable option of each example (the first one on ties).

    `logits` contains one logit per row, i.e. per option. The scores of a prediction are the
    probabilities of the example's options.
    """
    starts, sizes = features.item_starts[:-1], features.item_sizes  # (items,) both
    scores = logits.astype(np.float64)  # (rows,)
    # Softmax over each item's rows, after subtracting the largest so that exp does not overflow.
    weights = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
    shares = weights / np.repeat(np.add.reduceat(weights, starts), sizes)  # (rows,)
    return tuple(
        ChoicePrediction(id=example.id, option=int(part.argmax()), scores=tuple(part.tolist()))
        for example, part in zip(examples, np.split(shares, starts[1:]), strict=True)
    )


CHOICE = Head(
    encode=encode,
    targets=targets,
    network=network,
    loss=loss,
    decode=decode,
    soft_loss=soft_loss,
)


def head(task: ChoiceTask, options: PairOptions | None) -> Head:
    """Return the choice head, with a language modeling loss if `options.lm_weight` is not 0."""
    return CHOICE if options is None else with_language_model(CHOICE, options.lm_weight)
