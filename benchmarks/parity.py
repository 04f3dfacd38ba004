"""A second implementation of fine-tuning, as in transformers' examples.

It shares no code with benchharness, and uses transformers' classes, tokenizers and schedule, and
torch's DataLoader and AdamW. certificate.py compares benchharness with it. Batches are padded. No
row is packed, no vocabulary is reduced, and no layer is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader
from transformers import get_linear_schedule_with_warmup
from transformers.trainer_pt_utils import get_parameter_names

__all__ = ["Loop", "collate", "decaying", "encode", "fine_tune", "predict"]

IGNORED, ONE = -100, torch.ones(1)  # label that transformers' losses ignore; labels of one row

GOALS = ("labels", "start_positions", "end_positions")

LONGEST_ANSWER = 30  # in tokens, as in run_qa.py (--max_answer_length)

NO_DECAY = (r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)")
"""Patterns of weights that the Trainer excludes from the decay (get_decay_parameter_names)."""

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Hyperparameters of a training, and flags for differences from transformers' examples.

    `turned` reverses the rows of each batch, and `longest_first` sorts them by length.
    `masks_padding` excludes padding from a span's softmax, and includes BigBird's question in it.
    `decays_by_shape` applies decay to all weights of two or more dimensions. `alone` computes each
    row separately, without padding.
    """

    kind: str
    learning_rate: float
    batch_size: int
    steps: int
    warmup_steps: int
    weight_decay: float
    epsilon: float
    max_grad_norm: float
    max_tokens: int
    seed: int
    bf16: bool = False
    turned: bool = False
    longest_first: bool = False
    masks_padding: bool = False
    decays_by_shape: bool = False
    alone: bool = False


# Rows: the texts of an example as inputs of transformers' networks, with the example's label.


def encode(examples: Sequence[Any], labels: Sequence[str], tokenizer: Any, loop: Loop) -> list[Row]:
    """Encode the rows of a split as in run_glue.py, run_swag.py, run_qa.py and run_ner.py."""
    make = {"pair": _pair, "choice": _choice, "span": _windows, "tag": _tags}[loop.kind]
    limit = {"truncation": True, "max_length": loop.max_tokens}
    return [row for example in examples for row in make(example, labels, tokenizer, limit)]


def _pair(example: Any, labels: Sequence[str], tokenizer: Any, limit: Any) -> Iterator[Row]:
    texts = [text for text in (example.text_a, example.text_b) if text is not None]
    yield {**tokenizer(*texts, **limit), "labels": labels.index(example.label)}


def _choice(example: Any, _: Any, tokenizer: Any, limit: Any) -> Iterator[Row]:
    endings = [f"{example.question} {option}" for option in example.options]
    rows = tokenizer([example.context] * len(endings), endings, **limit)
    yield {**rows, "labels": example.gold[0]}


def _windows(example: Any, _: Any, tokenizer: Any, limit: Any) -> Iterator[Row]:
    """Yield consecutive windows of the context; the target is [CLS] in windows without answer."""
    encoded = tokenizer(
        example.question,
        example.context,
        **{**limit, "truncation": "only_second"},
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    text, start = example.answers[0]
    for number, ids in enumerate(encoded["input_ids"]):
        known = [i for i in (tokenizer.cls_token_id, tokenizer.bos_token_id) if i in ids]
        null = ids.index(known[0]) if known else 0
        first, last = (
            encoded.char_to_token(number, place, 1) for place in (start, start + len(text) - 1)
        )
        found = first is not None and last is not None
        row = {name: encoded[name][number] for name in tokenizer.model_input_names}
        yield {
            **row,
            "start_positions": first if found else null,
            "end_positions": last if found else null,
            "of": (example, encoded["offset_mapping"][number], encoded.sequence_ids(number)),
        }


def _tags(example: Any, labels: Sequence[str], tokenizer: Any, limit: Any) -> Iterator[Row]:
    """Yield a sentence as one text, with the tag of each word at its first token."""
    row = tokenizer(" ".join(example.words), **limit)
    tags, place = [IGNORED] * len(row["input_ids"]), 0
    for word, tag in zip(example.words, example.tags, strict=True):
        token = row.char_to_token(place)
        if token is not None:  # some tokenizers have no token for some words
            tags[token] = labels.index(tag)
        place += len(word) + 1
    yield {**row, "labels": tags}


def collate(rows: Sequence[Row], tokenizer: Any, loop: Loop) -> dict[str, Tensor]:
    """Pad a batch to [rows, tokens], or for multiple choice to [rows, options, tokens]."""
    is_choice = loop.kind == "choice"
    ids = [part for row in rows for part in (row["input_ids"] if is_choice else [row["input_ids"]])]
    width = max(map(len, ids))
    at_left = tokenizer.padding_side == "left"

    def padded(values: Any, fill: int) -> Any:
        if values and isinstance(values[0], list):
            return [padded(each, fill) for each in values]
        rest = [fill] * (width - len(values))
        return [*rest, *values] if at_left else [*values, *rest]

    fills = {"input_ids": tokenizer.pad_token_id or 0, "labels": IGNORED}
    columns: dict[str, Any] = {}
    for name in rows[0].keys() - {"of"}:
        column = [row[name] for row in rows]
        if isinstance(column[0], list):
            column = [padded(values, fills.get(name, 0)) for values in column]
        elif name.endswith("_positions") and at_left:
            lengths = [len(row["input_ids"]) for row in rows]
            column = [place + width - n for place, n in zip(column, lengths, strict=True)]
        columns[name] = torch.tensor(column)
    return columns


# The training.


def fine_tune(
    network: Any, rows: Sequence[Row], tokenizer: Any, loop: Loop
) -> tuple[list[float], dict[str, Tensor]]:
    """Train a network of transformers.

    Returns the loss of every step and, keyed by the names of the weights, the largest gradient of
    each element as a share of the norm of all gradients.
    """
    loader: Any = DataLoader(
        rows,
        batch_sampler=list(_batches([len(row["input_ids"]) for row in rows], loop)),
        collate_fn=lambda batch: [
            collate(part, tokenizer, loop)
            for part in ([[row] for row in batch] if loop.alone else [batch])
        ],
    )
    optimizer = torch.optim.AdamW(
        _groups(network, loop), lr=loop.learning_rate, betas=(0.9, 0.999), eps=loop.epsilon
    )
    schedule = get_linear_schedule_with_warmup(optimizer, loop.warmup_steps, loop.steps)
    losses = []
    gradients = {name: torch.zeros_like(weight) for name, weight in network.named_parameters()}
    network.train()
    for parts in loader:
        total = 0.0
        # Number of items over which the loss is averaged: tagged words, or rows.
        counts = [int((part.get("labels", ONE) != IGNORED).sum()) for part in parts]
        for part, count in zip(parts, counts, strict=True):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=loop.bf16):
                loss = _loss(network, part, loop) * (count / sum(counts))
            loss.backward()
            total += loss.item()
        losses.append(total)
        norm = nn.utils.clip_grad_norm_(network.parameters(), loop.max_grad_norm)
        for name, weight in network.named_parameters():
            if weight.grad is not None:
                # The norm is at most max_grad_norm after clipping. A norm below 0.01 counts as
                # 0.01, because rounding errors of probabilities do not shrink with it.
                share = weight.grad.abs() / norm.clamp(0.01, loop.max_grad_norm)
                gradients[name] = gradients[name].maximum(share)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return losses, gradients


def _batches(lengths: Sequence[int], loop: Loop) -> Iterator[list[int]]:
    """Yield the rows of every step; the seed and the number of the epoch determine their order."""
    step, epoch, rows = 0, 0, len(lengths)
    while step < loop.steps:
        order = np.random.default_rng([loop.seed, epoch]).permutation(rows).tolist()
        for start in range(0, rows, loop.batch_size)[: loop.steps - step]:
            batch = order[start : start + loop.batch_size]
            batch.sort(key=lambda row: -lengths[row] if loop.longest_first else 0)
            yield batch[::-1] if loop.turned else batch
            step += 1
        epoch += 1


def _groups(network: nn.Module, loop: Loop) -> list[dict[str, Any]]:
    named = dict(network.named_parameters())
    decayed = decaying(network, by_shape=loop.decays_by_shape)
    return [
        {"params": [named[n] for n in named if n in decayed], "weight_decay": loop.weight_decay},
        {"params": [named[n] for n in named if n not in decayed], "weight_decay": 0.0},
    ]


def decaying(network: nn.Module, *, by_shape: bool) -> set[str]:
    """Return the names of the weights that decay, by the Trainer's rule or by their dimensions."""
    if by_shape:
        return {name for name, weight in network.named_parameters() if weight.ndim > 1}
    return {*get_parameter_names(network, [nn.LayerNorm], [*NO_DECAY])}


def _loss(network: Any, batch: dict[str, Tensor], loop: Loop) -> Tensor:
    """Return the loss of transformers' class, or a loss that differs from it as `loop` requires."""
    if loop.kind == "choice" and loop.alone:
        return functional.cross_entropy(_option_logits(network, batch), batch["labels"])
    if loop.kind != "span" or not loop.masks_padding:
        loss: Tensor = network(**batch).loss
        return loss
    goals = torch.stack([batch.pop(name) for name in GOALS[1:]], -1)  # [rows, 2]
    return functional.cross_entropy(_span_logits(network, batch).float(), goals)


def _option_logits(network: Any, batch: dict[str, Tensor]) -> Tensor:
    """Return the logits [1, options] of one row's options, each computed without padding."""
    lengths = batch["attention_mask"].sum(-1)[0].tolist()  # the mask is [1, options, tokens]
    rows = {name: values for name, values in batch.items() if values.ndim == 3}
    options = [
        network(**{name: values[:, [place], :length] for name, values in rows.items()}).logits
        for place, length in enumerate(lengths)
    ]
    return torch.cat(options, -1).float()


def _span_logits(network: Any, batch: dict[str, Tensor]) -> Tensor:
    """Return the logits of first and last tokens, [rows, tokens, 2], with -inf at padding."""
    if network.config.model_type == "big_bird":  # a question of length 0 is not masked
        ids = batch["input_ids"]
        empty = {"question_lengths": ids.new_zeros(len(ids), 1)}
        batch = {"token_type_ids": torch.zeros_like(ids), **batch, **empty}
    output = network(**batch)
    logits = torch.stack([output.start_logits, output.end_logits], -1)
    return logits.masked_fill(batch["attention_mask"][..., None] == 0, -torch.inf)


# Predictions.


def predict(network: Any, rows: Sequence[Row], tokenizer: Any, loop: Loop) -> list[Any]:
    """Return the predictions: probabilities of classes or options, tag numbers, or span texts."""
    network.eval()
    size, found = 1 if loop.alone else loop.batch_size, list[Any]()
    for start in range(0, len(rows), size):
        own = rows[start : start + size]
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=loop.bf16):
            found += _answers(network, own, tokenizer, loop)
    return _best(rows, found) if loop.kind == "span" else found


def _answers(network: Any, rows: Sequence[Row], tokenizer: Any, loop: Loop) -> list[Any]:
    batch = collate(rows, tokenizer, loop)
    goals = {name: batch.pop(name) for name in [*batch] if name in GOALS}
    masks = batch["attention_mask"].bool()
    if loop.kind == "span":
        logits = _span_logits(network, batch).double()
        each = zip(rows, logits, masks, strict=True)
        return [_answer(row, own[mask].tolist()) for row, own, mask in each]
    if loop.kind == "choice" and loop.alone:
        logits = _option_logits(network, batch)
    else:
        logits = network(**batch).logits.float()  # [rows, classes] or [rows, tokens, tags]
    if loop.kind == "tag":
        pairs = zip(logits.argmax(-1), goals["labels"], strict=True)
        return [tags[goal != IGNORED].tolist() for tags, goal in pairs]
    return logits.softmax(-1).tolist()


def _answer(row: Row, logits: list[list[float]]) -> tuple[float, str]:
    """Return the score (the sum of two logits) and text of the best span of a window's context."""
    example, offsets, kinds = row["of"]
    each = zip(offsets, kinds, strict=True)
    texts = [example.context[a:b].strip() if kind == 1 else "" for (a, b), kind in each]
    best = (-np.inf, "")
    for start, text in enumerate(texts):
        for end in range(start, min(start + LONGEST_ANSWER, len(texts))):
            score = logits[start][0] + logits[end][1]
            if text and texts[end] and score > best[0]:
                best = score, example.context[offsets[start][0] : offsets[end][1]].strip()
    return best


def _best(rows: Sequence[Row], found: Sequence[tuple[float, str]]) -> list[str]:
    """Return the best answer of each example over its windows."""
    best: dict[str, tuple[float, str]] = {}
    for row, answer in zip(rows, found, strict=True):
        name = row["of"][0].id
        best[name] = max(best.get(name, answer), answer, key=lambda each: each[0])
    return [text for _, text in best.values()]
