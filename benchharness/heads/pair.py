"""Pair head: predicts a class, several classes or a number for one text or two texts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder import Encoder
from benchharness.encoder.packing import Packing
from benchharness.errors import DataError
from benchharness.heads import (
    Head,
    Limits,
    binary_divergence,
    divergence,
    with_language_model,
    with_losses,
)
from benchharness.heads.classifiers import TextClassifier, attend_globally
from benchharness.heads.tokens import Frame, Ids, Tokens, join, tokenize, tokenize_ids
from benchharness.recipes.recipe import ADDED_ORDERS, BOTH_ORDERS, PairOptions
from benchharness.tasks.examples import Mark, PairExample, PairPrediction
from benchharness.tasks.read import SplitRows, fingerprint
from benchharness.tasks.task import PairTask
from benchharness.training.batching import Features


def encode(examples: Sequence[PairExample], tokenizer: Any, limits: Limits) -> Features:
    """Encode every example as a row of token ids.

    If the two texts of an example do not fit into a row, the longer one is cut first, as in
    transformers' run_glue.py. benchharness cuts the texts itself, because the tokenizer's own
    truncation takes minutes if both texts are long. A text with marked words keeps the tokens
    around them. Raises DataError if the marked words have no token or do not fit.
    """
    if examples[0].marks:
        return _encode_marked(examples, tokenizer, limits)
    frame = Frame.of(tokenizer, texts=len(_texts(examples[0])))
    rows, truncated = _rows(examples, tokenizer, limits, frame)
    return Features(**join(rows, frame, limits.max_tokens), truncated=truncated)


def _rows(
    examples: Sequence[PairExample], tokenizer: Any, limits: Limits, frame: Frame
) -> tuple[list[tuple[Ids, Ids]], NDArray[np.bool_]]:
    """Return a row for every example, and a mask of the examples that were cut."""
    ids = tokenize_ids((text for example in examples for text in _texts(example)), tokenizer)
    room = limits.max_tokens - frame.size  # number of tokens that the texts may have
    texts = [[ids[text] for text in _texts(example)] for example in examples]
    truncated = np.array([sum(map(len, parts)) > room for parts in texts])
    return [frame.row(*_cut(parts, room)) for parts in texts], truncated


def _cut(texts: Sequence[Ids], room: int) -> list[Ids]:
    """Cut the texts to `room` tokens in total, like the tokenizers' strategy "longest_first"."""
    if len(texts) == 1:
        return [texts[0][:room]]
    shorter, longer = sorted(map(len, texts))
    # The shorter text is cut only if it has more than `room` / 2 tokens.
    kept = min(shorter, max(room - longer, room // 2))
    sizes = [kept, room - kept] if len(texts[0]) <= len(texts[1]) else [room - kept, kept]
    return [text[:size] for text, size in zip(texts, sizes, strict=True)]


def targets(features: Features, examples: Sequence[PairExample], task: PairTask) -> NDArray[Any]:
    """Return the training target of each example.

    The targets are indices of `task.labels`: `[rows]` (int64). If an example may have several
    labels, they are 1 for its labels and 0 for all others: `[rows, labels]` (float32). For
    regression, they are numbers that are rescaled by `task.scale`: `[rows]` (float32). Raises
    DataError if the label of an example is not published.
    """
    hidden = next((e for e in examples if e.label is None), None)
    if hidden is not None:
        raise DataError(
            f"the label of example {hidden.id} in {task.name} is not published, so this example "
            "cannot be used for training."
        )
    if task.is_regression:
        zero, one = task.scale
        wanted = [(_number(example) - zero) / one for example in examples]
        return np.array(wanted, dtype=np.float32)
    if task.multi_label:
        return np.array(
            [[label in _labels(example) for label in task.labels] for example in examples],
            dtype=np.float32,
        )
    numbers = {label: number for number, label in enumerate(task.labels)}
    return np.array([numbers[str(example.label)] for example in examples], dtype=np.int64)


def _number(example: PairExample) -> float:
    assert isinstance(example.label, float | int), "readers check that labels are numbers"
    return float(example.label)


def _labels(example: PairExample) -> tuple[str, ...]:
    assert isinstance(example.label, tuple), "readers check that there is a tuple of labels"
    return example.label


class PairNetwork(nn.Module):
    """Encoder with the text classifier of its family, and a pooling of marked spans.

    Args:
        encoder: Encoder with its config.
        outputs: Number of logits per row.
        marks: Number of marked spans per row. If it is not 0, the output layer classifies the
            concatenation of the text's state and the states of these spans.
    """

    def __init__(self, encoder: Encoder, outputs: int, marks: int = 0) -> None:
        super().__init__()
        self.encoder = encoder.network
        size = encoder.config.hidden_size
        self.classifier = TextClassifier.on(encoder, outputs, marks * size)
        self.pooling = MarkPooling(size) if marks else None
        self.reads_first_token = self.classifier.reads == "first" and not marks
        self.lm_weight = 0.0  # set by with_language_model
        attend_globally(self.encoder, encoder.config, "pair")

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return logits `[rows, outputs]` for the encoder's inputs, `[rows, tokens]` each.

        If there are marked spans, the further input `marks` `[rows, marks, 2]` contains their
        positions (see `MarkPooling.forward`). In training with an `lm_weight`, the logits are
        followed by a column with the weighted language modeling loss of each row.
        """
        marks = inputs.pop("marks", None)
        hidden, mask = self.encoder(**inputs)[0], inputs["attention_mask"]  # (rows, tokens, size)
        extra = None if self.pooling is None else self.pooling(hidden, marks)
        return with_losses(self, self.classifier(hidden, mask, extra), hidden, inputs)


def network(encoder: Encoder, task: PairTask, kind: type[PairNetwork] = PairNetwork) -> PairNetwork:
    """Return the network for a task, with one output per label, or one output for a number.

    `kind` is the class of the network.
    """
    outputs = 1 if task.is_regression else len(task.labels)
    return kind(encoder, outputs, marks=task.marks)


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return one loss per row in fp32: cross-entropy for classes, squared error for numbers.

    If an example may have several labels, the loss is the mean binary cross-entropy over all
    labels, as in transformers with `problem_type="multi_label_classification"`. The `logits` are
    `[rows, outputs]`, and the `targets` have the form that the function `targets` returns.
    """
    if targets.ndim == 2:  # (rows, labels)
        losses = functional.binary_cross_entropy_with_logits(
            logits.float(), targets, reduction="none"
        )
        return losses.mean(-1)
    if targets.is_floating_point():  # (rows, 1) -> (rows,), because (rows, 1) would be broadcast
        return functional.mse_loss(logits.float().squeeze(-1), targets, reduction="none")
    return functional.cross_entropy(logits.float(), targets, reduction="none")


def soft_loss(logits: Tensor, teacher: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Return one distillation loss per row, given a teacher's logits.

    The loss is the divergence between the class probabilities of student and teacher. If an example
    may have several labels, it is the mean divergence over all labels. For regression, it is the
    squared difference of the two numbers. Only the form of the `targets` is used, not their values.
    """
    if targets.ndim == 2:  # (rows, labels)
        return binary_divergence(logits, teacher, temperature).mean(-1)
    if targets.is_floating_point():
        return functional.mse_loss(logits.float(), teacher.float(), reduction="none").squeeze(-1)
    return divergence(logits, teacher, temperature)


def decode(
    logits: NDArray[np.float32], features: Features, examples: Sequence[PairExample], task: PairTask
) -> tuple[PairPrediction, ...]:
    """Return the prediction of each example: a label, several labels or a number.

    The most probable label is predicted. If an example may have several labels, every label with a
    probability above one half is predicted, which may be none. The scores of a prediction are the
    probabilities of all labels; a predicted number has no scores. The `logits` are
    `[rows, outputs]`.
    """
    if task.is_regression:
        zero, one = task.scale
        return tuple(
            PairPrediction(id=example.id, label=float(row[0]) * one + zero)
            for example, row in zip(examples, logits, strict=True)
        )
    if task.multi_label:
        chances = torch.from_numpy(logits).double().sigmoid().tolist()  # (rows, labels)
        return tuple(
            PairPrediction(
                id=example.id,
                label=tuple(n for n, logit in zip(task.labels, row, strict=True) if logit > 0),
                scores=tuple(scores),
            )
            for example, row, scores in zip(examples, logits, chances, strict=True)
        )
    # Choose by logit instead of probability, because several probabilities may be rounded to 1.
    probabilities = torch.from_numpy(logits).double().softmax(-1).tolist()  # (rows, labels)
    winners = logits.argmax(-1)  # (rows,)
    return tuple(
        PairPrediction(id=example.id, label=task.labels[winner], scores=tuple(row))
        for example, winner, row in zip(examples, winners, probabilities, strict=True)
    )


# Marked spans of the texts (WiC's words, WSC's phrases): their tokens and pooled states.
#
# SuperGLUE's baseline concatenates the representation of the marked word with that of [CLS] (WiC),
# and pools a phrase by self-attention (WSC): Wang et al., arXiv:1905.00537, section 5.1, and for
# the pooling Lee et al., arXiv:1707.07045, section 4. Here both tasks use both techniques.


def _encode_marked(examples: Sequence[PairExample], tokenizer: Any, limits: Limits) -> Features:
    """Encode every example as a row, with the positions of its marked tokens.

    If two texts do not fit, the longer one is cut first. A cut text keeps the tokens around its
    marks. Raises DataError for a mark that does not fit or that has no token.
    """
    texts = [text for example in examples for text in _texts(example)]
    tokens = tokenize(texts, tokenizer)
    frame = Frame.of(tokenizer, texts=len(_texts(examples[0])))
    rows, marks, room = [], [], limits.max_tokens - frame.size
    truncated = np.zeros(len(examples), dtype=np.bool_)
    for number, example in enumerate(examples):
        parts = [tokens[text] for text in _texts(example)]
        found = [_find(example, mark, parts) for mark in example.marks]
        windows = list(_windows(example, parts, found, room))
        truncated[number] = sum(map(len, parts)) > room
        kept = [part.ids[window] for part, window in zip(parts, windows, strict=True)]
        rows.append(frame.row(*kept))
        marks.append([_place(stretch, windows, kept, frame) for stretch in found])
    return Features(
        **join(rows, frame, limits.max_tokens),
        marks=np.array(marks, dtype=np.int64),  # (rows, marks, 2)
        truncated=truncated,
    )


def _texts(example: PairExample) -> list[str]:
    return [text for text in (example.text_a, example.text_b) if text is not None]


def _find(example: PairExample, mark: Mark, parts: Sequence[Tokens]) -> tuple[int, int, int]:
    """Return the index of a mark's text, the mark's first token, and its end (exclusive)."""
    number = "ab".index(mark.text)
    found = parts[number].covering(mark.start, mark.end)
    if found is None:
        raise DataError(
            f"example {example.id} marks characters {mark.start} to {mark.end} of "
            f"text_{mark.text} ({_texts(example)[number]!r}), but no token covers them."
        )
    return number, found[0], found[1] + 1


def _windows(
    example: PairExample,
    parts: Sequence[Tokens],
    found: Sequence[tuple[int, int, int]],
    room: int,
) -> Iterator[slice]:
    """Yield the token range of each text that is kept; a cut text has its marks in the middle."""
    for number, (part, share) in enumerate(zip(parts, _shares(parts, room), strict=True)):
        edges = [edge for text, *edges in found if text == number for edge in edges]
        first, last = (min(edges), max(edges)) if edges else (0, 0)
        if last - first > share:
            raise DataError(
                f"the marked words of example {example.id} span {last - first} tokens, but only "
                f"{share} tokens fit: set a larger max_tokens."
            )
        before = max(0, first - (share - (last - first)) // 2)  # same context on both sides
        start = min(before, len(part) - share)  # use the full share at the end of a text, too
        yield slice(start, start + share)


def _shares(parts: Sequence[Tokens], room: int) -> list[int]:
    """Return how many tokens of each text are kept; the longer text is cut first."""
    lengths = [len(part) for part in parts]
    if len(lengths) == 1:
        return [min(lengths[0], room)]
    first, second = lengths
    return [
        min(first, max(room - second, room - room // 2)),
        min(second, max(room - first, room // 2)),
    ]


def _place(
    stretch: tuple[int, int, int], windows: Sequence[slice], kept: Sequence[Ids], frame: Frame
) -> list[int]:
    """Return the first token of a mark and its end (exclusive), as positions in the row."""
    number, first, end = stretch
    shift = frame.first(*kept[:number]) - windows[number].start
    return [first + shift, end + shift]


class MarkPooling(nn.Module):
    """Layer that computes one state for each marked span of a row.

    The state of a span is the mean of its tokens' states, weighted by a learned attention that is
    uniform before training. `size` is the size of a token's state.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.attention = nn.Linear(size, 1, bias=False)
        nn.init.zeros_(self.attention.weight)  # at first, the state is the mean of the tokens

    def forward(self, hidden: Tensor, marks: Tensor) -> Tensor:
        """Return the concatenated states of the marked spans of each row: `[rows, marks * size]`.

        `hidden` is `[rows, tokens, size]`. `marks` `[rows, marks, 2]` contains the position of the
        first token of each span, and of the token after its last.
        """
        places = torch.arange(hidden.shape[1], device=hidden.device)  # (tokens,)
        is_marked = (places >= marks[..., :1]) & (places < marks[..., 1:])  # (rows, marks, tokens)
        # (rows, tokens, 1) -> (rows, 1, tokens) -> (rows, marks, tokens)
        scores = self.attention(hidden).transpose(1, 2).expand_as(is_marked)
        weights = scores.float().masked_fill(~is_marked, -torch.inf).softmax(-1)
        states: Tensor = weights.to(hidden.dtype) @ hidden  # (rows, marks, size)
        return states.flatten(1)  # (rows, marks * size)


PAIR = Head(
    encode=encode,
    targets=targets,
    network=network,
    loss=loss,
    decode=decode,
    soft_loss=soft_loss,
)


# Pairs whose order has no meaning: training on both orders, or encoding both in one row.


def in_orders(rows: SplitRows, orders: str) -> SplitRows:
    """Return the examples to train on; if `orders` is "both", append copies with swapped texts.

    `orders` is the hyperparameter of this name in the recipe; with its other values, the rows are
    returned unchanged. The code of ELECTRA does the same for MRPC and STS-B
    (finetune/classification/classification_tasks.py of google-research/electra). Raises DataError
    if `orders` is "both", but an example has only one text.
    """
    if orders != BOTH_ORDERS:
        return rows
    pairs = [example for example in rows.examples if isinstance(example, PairExample)]
    examples = (*pairs, *map(_exchanged, pairs))
    return replace(rows, examples=examples, fingerprint=fingerprint(examples))


def _exchanged(example: PairExample) -> PairExample:
    if example.text_b is None:
        raise DataError(
            f"example {example.id} has only one text, so no texts can be swapped: remove the "
            "setting orders."
        )
    marks = tuple(replace(mark, text="ab"["ba".index(mark.text)]) for mark in example.marks)
    return replace(example, text_a=example.text_b, text_b=example.text_a, marks=marks)


def encode_added(examples: Sequence[PairExample], tokenizer: Any, limits: Limits) -> Features:
    """Encode every example as a row with two halves: its texts in the given and in reverse order.

    Both halves have the same number of tokens, at most `limits.max_tokens`, so a row has up to
    twice as many. Raises DataError for examples with only one text or with marked words.
    """
    if examples[0].marks:
        raise DataError(
            f"example {examples[0].id} has marked words, so orders=added cannot be used: remove "
            "the setting orders."
        )
    orders = examples, [*map(_exchanged, examples)]
    frame = Frame.of(tokenizer, texts=2)
    (given, truncated), (exchanged, _) = (
        _rows(pairs, tokenizer, limits, frame) for pairs in orders
    )
    rows = [
        (np.concatenate([ids, other_ids]), np.concatenate([types, other_types]))
        for (ids, types), (other_ids, other_types) in zip(given, exchanged, strict=True)
    ]
    return Features(**join(rows, frame, 2 * limits.max_tokens), truncated=truncated)


class AddedNetwork(PairNetwork):
    """Network that reads a pair of texts in both orders and classifies the sum of the two states.

    See section 3.3 of Radford et al., Improving Language Understanding by Generative Pre-Training.
    """

    is_recordable = False
    """False: steps cannot be recorded as CUDA graphs, because the lengths of the two halves are
    known only in CPU memory."""

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return logits `[rows, outputs]` for inputs `[rows, tokens]` of `encode_added`.

        In training with an `lm_weight`, the logits are followed by a column with the weighted
        language modeling loss of each row.
        """
        halves = _halves(inputs)
        hidden = self.encoder(**halves)[0]  # (2 * rows, half of the tokens, size)
        one, other = self.classifier.read(hidden, halves["attention_mask"]).chunk(2)  # (rows, size)
        return with_losses(self, self.classifier.score(one + other), hidden, halves)


def _halves(inputs: dict[str, Any]) -> dict[str, Any]:
    """Split inputs of `[rows, tokens]` into all first halves, followed by all second halves."""
    mask, packing = inputs["attention_mask"], inputs.pop("packing", None)
    sizes = mask.sum(-1, keepdim=True) // 2  # (rows, 1)
    columns = torch.arange((mask.shape[1] + 1) // 2, device=mask.device)
    kept = columns < sizes  # (rows, half)
    last = mask.shape[1] - 1  # positions beyond it are masked
    places = torch.cat([columns.expand_as(kept), (sizes + columns).clamp(max=last)])
    found: dict[str, Any] = {
        name: torch.cat([values, values]).gather(1, places) for name, values in inputs.items()
    }
    found["attention_mask"] = torch.cat([kept, kept]).to(mask.dtype)
    if packing is not None:
        lengths = np.tile(packing.lengths // 2, 2)  # (2 * rows,)
        found["packing"] = Packing.of_lengths(lengths, len(columns), mask.device)
    return found


PAIR_ADDED = replace(PAIR, encode=encode_added, network=partial(network, kind=AddedNetwork))


def head(task: PairTask, options: PairOptions | None) -> Head:
    """Return the pair head for a recipe's `options`.

    If the option `orders` is "added", the network reads every pair of texts in both orders (see
    AddedNetwork). If `lm_weight` is not 0, the head also has a language modeling loss. With None,
    pairs are read only in their given order, and there is no such loss.
    """
    if options is None:
        return PAIR
    added = options.orders == ADDED_ORDERS
    return with_language_model(PAIR_ADDED if added else PAIR, options.lm_weight)
