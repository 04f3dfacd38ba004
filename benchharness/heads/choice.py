"""The choice head: a context, a question and any number of options to one option.

Each option is a row, [context] [question option], and the options of an example are an item: they
are shuffled, batched and scored together, with one softmax over them.
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
from benchharness.heads import Head, Limits, divergence, with_language_model, with_losses
from benchharness.heads.classifiers import TextClassifier, attend_globally
from benchharness.heads.tokens import Frame, Ids, join, tokenize_ids
from benchharness.recipes.recipe import PairOptions
from benchharness.tasks.errors import DataError
from benchharness.tasks.examples import ChoiceExample, ChoicePrediction
from benchharness.tasks.task import ChoiceTask
from benchharness.training.batching import MICRO_BATCH_TOKENS, Features
from benchharness.training.compute import in_fp32

BLANKS = ("@placeholder", "_")
"""What an option is put in place of: ReCoRD's queries and RACE's cloze questions have one, and
fairseq's examples/roberta/preprocess_RACE.py fills the latter."""


def encode(examples: Sequence[ChoiceExample], tokenizer: Any, limits: Limits) -> Features:
    """A row for every option of every example.

    A row that is too long loses the end of its context, and the beginning of its question where
    that is not enough: the options, in which the rows differ, are what stays.
    """
    empty = next((example for example in examples if not example.options), None)
    if empty is not None:
        raise DataError(f"{empty.id} has no options: there is nothing to choose from.")
    frame = Frame.of(tokenizer, texts=2)
    pairs = [(e.context, filled(e.question, option)) for e in examples for option in e.options]
    ids = tokenize_ids((text for pair in pairs for text in pair), tokenizer)
    room = limits.max_tokens - frame.size  # what special tokens leave
    items = np.cumsum([0, *(len(example.options) for example in examples)])
    rows = [frame.row(*_cut(ids[a], ids[b], room)) for a, b in pairs]
    is_cut = np.array([len(ids[a]) + len(ids[b]) > room for a, b in pairs])  # (rows,)
    return Features(
        **join(rows, frame, limits.max_tokens),
        items=items,
        truncated=np.logical_or.reduceat(is_cut, items[:-1]),
    )


def filled(question: str, option: str) -> str:
    """The question with the option in its blank, or before the option."""
    # In this order: a ReCoRD query with a placeholder may have an underscore elsewhere.
    blank = next((blank for blank in BLANKS if blank in question), None)
    return question.replace(blank, option) if blank else f"{question} {option}".strip()


def _cut(context: Ids, tail: Ids, room: int) -> tuple[Ids, Ids]:
    tail = tail[max(0, len(tail) - room) :]  # from the front: the option is at its end
    return context[: room - len(tail)], tail


def targets(
    features: Features, examples: Sequence[ChoiceExample], task: ChoiceTask
) -> NDArray[np.int64]:
    """The right option's index of every example; the first where several are right (ReCoRD)."""
    return np.array([_gold(example, task) for example in examples], dtype=np.int64)


def _gold(example: ChoiceExample, task: ChoiceTask) -> int:
    where = f"{task.name} {example.id}"
    if example.gold is None:
        raise DataError(f"{where} hides its right option: it cannot be trained on.")
    if not example.gold or not 0 <= example.gold[0] < len(example.options):
        raise DataError(
            f"{where} has {len(example.options)} options and {example.gold} as the right ones: "
            "expected the index of one of them."
        )
    return example.gold[0]


class ChoiceNetwork(nn.Module):
    """An encoder with its family's pooling and one logit for a row.

    The many options of one example (ReCoRD has dozens) have to be trained together. Where that is
    more than a micro-batch, their states are not kept for the backward pass but computed again,
    with the same dropout, a part at a time: the gradients are the same and the memory is bounded.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder.network
        self.classifier = TextClassifier.on(encoder, outputs=1, is_choice=True)
        self.reads_first_token = self.classifier.reads == "first"
        self.lm_weight = 0.0
        attend_globally(self.encoder, encoder.config, "choice")

    def forward(self, **inputs: Tensor) -> Tensor:
        """Logits (rows,) for inputs of (rows, tokens).

        In a training with a `lm_weight` they are (rows, 2), with the language model's losses.
        """
        rows, tokens = inputs["input_ids"].shape
        if not torch.is_grad_enabled() or rows * tokens <= MICRO_BATCH_TOKENS:
            return self._score(inputs)
        size = max(1, MICRO_BATCH_TOKENS // tokens)  # rows of a part
        parts = [
            {name: values[start : start + size] for name, values in inputs.items()}
            for start in range(0, rows, size)
        ]
        # checkpoint keeps the generator's state of each part: dropout is drawn alike both times.
        return torch.cat([checkpoint(self._score, part, use_reentrant=False) for part in parts])

    def _score(self, inputs: dict[str, Tensor]) -> Tensor:
        # (rows, tokens, size) -> (rows, size) -> (rows, 1) -> (rows,)
        hidden = self.encoder(**inputs)[0]  # (rows, tokens, size)
        state = self.classifier.read(hidden, inputs["attention_mask"])  # (rows, size)
        logits = in_fp32(self.classifier.score, state)  # (rows, 1)
        return with_losses(self, logits, hidden, inputs).squeeze(-1)


def network(encoder: Encoder, task: ChoiceTask) -> ChoiceNetwork:
    """The network of a task, shaped as transformers' MultipleChoice classes."""
    return ChoiceNetwork(encoder)


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy over each example's own options, in fp32; logits are (items, options)."""
    # A missing row's -inf has the probability 0 and no gradient.
    return functional.cross_entropy(logits.float(), targets, reduction="none")  # (items,)


def soft_loss(logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """One loss per item towards a teacher's logits of its options."""
    return divergence(logits, teacher, temperature)


def decode(
    logits: NDArray[np.float32],
    features: Features,
    examples: Sequence[ChoiceExample],
    task: ChoiceTask,
) -> tuple[ChoicePrediction, ...]:
    """The option with the highest probability among its example's, the first of several."""
    starts, sizes = features.item_starts[:-1], features.item_sizes  # (items,) both
    scores = logits.astype(np.float64)  # (rows,)
    # A softmax of each item's rows, less its largest score so that exp does not overflow.
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
    """The head, with the language model's loss."""
    return CHOICE if options is None else with_language_model(CHOICE, options.lm_weight)
