"""Attention within the cache and cheap dropout, for packed rows on a CPU.

torch's own attention has no CPU kernel for training with dropout: it computes in fp32, keeps every
intermediate matrix and draws dropout slowly. Such attention takes two thirds of a training step of
a small encoder at 320 tokens. This module takes a few sequences at a time out of a packed row (see
packing.py), so that their attention scores stay in a core's cache. Sequences are grouped by their
length, rounded up to a multiple of ROUNDING (4 in this example), so that there is little padding.

    group of width 4: rows 0, 2         group of width 8: row 1

    row 0  a b c .                      row 1  D E F G H . . .
    row 2  k l . .

Within a group, each head of a sequence is a separate matrix. Attention therefore needs its inputs
sorted by group, sequence, head and token. This order is called "attention's order" below (see
HeadRows). With two heads, it is "a b c ." of head 0, "a b c ." of head 1, then "k l . ." of head 0,
and so on.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder.packing import Attention, Packing

CHUNK_SCORES = 1 << 18
"""Approximate number of attention scores that are computed at once. They take 0.5 MB in bf16, which
fits into a core's cache."""


def use_fast_dropout(network: nn.Module) -> None:
    """Replace every nn.Dropout of a network with FastDropout, except those with the rate 1."""
    for module in network.modules():
        for name, child in module.named_children():
            # A rate of 1.0 is skipped, because FastDropout's scale would be a division by zero.
            if type(child) is nn.Dropout and child.p < 1.0:
                setattr(module, name, FastDropout(child.p))


# Dropout with the same probabilities as torch's, from cheaper random numbers.
#
# torch draws a double for every element, which takes a third of a training step of a small encoder.
# Here one draw of 64 bits serves four elements, and the rest is integer arithmetic on bits.

STEPS = 1 << 15
"""Dropout probabilities are rounded to multiples of 1 / STEPS: 0.1 becomes 3277 / 32768, which is
an error of 6e-6."""


class RandomBits:
    """Random number generator for one call of dropout or attention, three times as fast as torch's.

    It is numpy's fastest generator (SFC64). Its seed is drawn from torch's CPU generator, so the
    seed or a restored state of torch's generator determines these numbers too.
    """

    @cached_property
    def _generator(self) -> np.random.SFC64:
        return np.random.SFC64(int(torch.randint(2**63 - 1, ())))

    def draw(self, shape: torch.Size, rate: float) -> Tensor:
        """Draw an int16 tensor of a shape; each element is negative with probability `rate`.

        The probability is rounded to a multiple of 1 / STEPS.
        """
        count = math.prod(shape)
        words = self._generator.random_raw((count + 3) // 4)  # 64 bits for four elements
        numbers = torch.from_numpy(words.view(np.int16)[:count])
        # The threshold is subtracted from 15 random bits, 0 to STEPS - 1. This is done in place,
        # because no other call uses the memory.
        return numbers.bitwise_and_(STEPS - 1).sub_(round(rate * STEPS)).view(shape)


class FastDropout(nn.Module):
    """Replacement for nn.Dropout on a CPU, in fp32 and bf16, with an unbiased output.

    Kept values are multiplied by a scale: 1 / (1 - rate), rounded to the dtype of the states. The
    share of dropped values is adjusted to the rounded scale: in bf16 with a rate of 0.1, the scale
    is 1.109375, and 9.86 % of the values are dropped. (torch drops 10 % of them and uses the same
    scale, so bf16 states shrink by 0.16 % on average.)
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.p = rate  # the name that transformers' attention modules read

    def forward(self, states: Tensor) -> Tensor:
        """Apply dropout in training mode; in evaluation mode, return the states unchanged."""
        if not self.training or self.p == 0.0:
            return states
        scale = torch.tensor(1.0 / (1.0 - self.p), dtype=states.dtype)
        drawn = RandomBits().draw(states.shape, 1.0 - 1.0 / scale.item())
        # An arithmetic shift copies the sign to all 16 bits: -1 if dropped, else 0. The complement
        # of this number, with as many bits as a state, is a mask for the bits of the scale.
        kept = drawn.bitwise_right_shift_(15).bitwise_not_().to(_whole(states))
        return states * kept.bitwise_and_(scale.view(kept.dtype)).view(states.dtype)


def _whole(states: Tensor) -> torch.dtype:
    """Return the integer dtype that is as wide as the states' float dtype."""
    return torch.int16 if states.dtype == torch.bfloat16 else torch.int32


# Reordering a packed row for attention.

ROUNDING = 16
"""Multiple to which attention rounds lengths up, because matrix units are fastest at such sizes."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Sequences of similar length that attention on a CPU computes together.

    Attributes:
        rows: Indices of the sequences in the batch: `[sequences]`.
        width: Number of tokens to which each sequence is padded.
        is_real: Mask that is false at padding: `[sequences, width]`. It is None if the group has no
            padding, which saves a pass over all scores.
    """

    rows: Tensor
    width: int
    is_real: Tensor | None


@dataclass(frozen=True, kw_only=True)
class HeadRows:
    """Mapping between the order of a packed row and the order that attention needs.

    A packed row is sorted by sequence, token and head. "Attention's order" is sorted by group of
    sequences, sequence, head and token, and has padding after the last token of a sequence. An
    index in this order is called a position.

    Attributes:
        groups: Groups of sequences, in ascending order of their width.
        heads: Number of attention heads.
        places: Position in attention's order of each (token, head) of the packed row:
            `[tokens * heads]`.
        order: Inverse of `places`: for each position in attention's order, the index of its
            (token, head) in the packed row, or 0 for padding: `[positions]`.
    """

    groups: tuple[Group, ...]
    heads: int
    places: Tensor
    order: Tensor

    @classmethod
    def of(cls, packing: Packing, heads: int) -> "HeadRows":
        """Return the mapping for a packed row, given its packing and the number of attention heads.

        The mapping is cached in the packing, so that it is computed once for all layers.
        """
        return packing.once(("heads", heads), lambda: cls._of(packing.lengths, heads))

    @classmethod
    def _of(cls, lengths: NDArray[np.int64], heads: int) -> "HeadRows":
        widths = -(-lengths // ROUNDING) * ROUNDING  # (sequences,), rounded up
        groups, before, firsts = [], 0, np.empty_like(lengths)
        for width in np.unique(widths):
            rows = np.flatnonzero(widths == width)
            is_real = torch.from_numpy(np.arange(width) < lengths[rows, None])
            groups.append(
                Group(
                    rows=torch.from_numpy(rows),
                    width=int(width),
                    is_real=None if is_real.all() else is_real,
                )
            )
            # Indices of each sequence's first head.
            firsts[rows] = before + np.arange(len(rows)) * heads * width
            before += len(rows) * heads * int(width)
        # The indices of a token's heads differ by the width of its sequence: (tokens, heads).
        starts = firsts[:, None] + widths[:, None] * np.arange(heads)  # (sequences, heads)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = (np.repeat(starts, lengths, axis=0) + within[:, None]).ravel()
        order = np.zeros(before, np.int64)
        order[places] = np.arange(len(places))
        tensors = {"places": torch.from_numpy(places), "order": torch.from_numpy(order)}
        return cls(groups=tuple(groups), heads=heads, **tensors)

    def gather(self, states: Tensor) -> Tensor:
        """Reorder packed states `[tokens, heads, size]` to attention's order, `[positions, size]`.

        HeadRows defines this order. At padding, the result repeats the state of the packed row's
        first token and head, so attention has to mask the padding.
        """
        return states.reshape(-1, states.shape[-1]).index_select(0, self.order)

    def spread(self, states: Tensor) -> Tensor:
        """Reorder packed states as `gather` does, but with zeros at padding.

        The forward pass is slower than that of `gather`, but the backward pass is faster: it only
        selects rows, as `scatter` does.
        """
        rows = states.reshape(-1, states.shape[-1])  # (tokens * heads, size)
        return rows.new_zeros(len(self.order), rows.shape[1]).index_copy_(0, self.places, rows)

    def scatter(self, states: Tensor) -> Tensor:
        """Reorder states from attention's order (see the class) to the order of the packed row.

        The result is `[tokens, heads, size]`, without padding.
        """
        rows = states.index_select(0, self.places)  # (tokens * heads, size)
        return rows.view(-1, self.heads, states.shape[-1])  # (tokens, heads, size)

    def by_group(self, *states: Tensor) -> Iterator[tuple[Any, ...]]:
        """Split tensors that are in attention's order into the parts of each group.

        Args:
            *states: Tensors `[positions, size]`.

        Yields:
            For each group, a tuple of the group and, for each tensor, the part of this group:
            `[sequences * heads, width, size]`.
        """
        sizes = [len(group.rows) * self.heads * group.width for group in self.groups]
        parts = (torch.split(each, sizes) for each in states)
        for group, *own in zip(self.groups, *parts, strict=True):
            yield group, *(part.view(-1, group.width, part.shape[1]) for part in own)


# Attention for all tokens or for first tokens.


def attend(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """Compute attention for all tokens of a packed row.

    `query`, `key`, `value` and the result are `[tokens, heads, size]`. `formula` contains the other
    parameters of attention. Dropout is applied only if gradients are enabled.
    """
    if not torch.is_grad_enabled():
        return predict_attend(query, key, value, formula)
    # The states already have the right dtype; autocast would cast intermediate results.
    with torch.autocast("cpu", enabled=False):
        attended: Tensor = _Attention.apply(query, key, value, formula)  # type: ignore[no-untyped-call]
        return attended


class _Attention(torch.autograd.Function):
    """Attention with dropout, which keeps signed probabilities for its backward pass.

    The sign of a dropped probability is flipped, so that one matrix is enough: its absolute values
    are the probabilities P, and its positive part contains the kept ones. Let D be the kept
    probabilities divided by 1 - rate, O = D V and G = D * (dO V^T). Then the gradient of the scores
    is G - P * rowsum(G), as in FlashAttention (arXiv:2205.14135, appendix B.4), which writes that
    sum as rowsum(dO * O).
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
        rows, bits = HeadRows.of(formula.packing, query.shape[1]), RandomBits()
        states = [rows.gather(tensor) for tensor in (query * formula.scale, key, value)]
        attended = torch.empty_like(states[0])  # (positions, size)
        kept_for_backward = []
        # For each group, q, k, v and output are `[sequences * heads, tokens, size]`.
        for group, q, k, v, output in rows.by_group(*states, attended):
            masks = _masks(group, rows.heads, q.dtype, formula)
            signed = q.new_empty(q.shape[0], q.shape[1], q.shape[1])
            for part in _parts(signed):
                scores = q[part] @ k[part].mT  # (some sequences * heads, tokens, tokens)
                for mask in masks:
                    scores += mask[part if len(mask) > 1 else 0]
                torch.softmax(scores, -1, out=signed[part])
                _mark_dropped(signed[part], formula.rate, bits)
                # relu removes dropped probabilities; the scale of the kept ones is applied at the
                # end.
                torch.matmul(signed[part].relu(), v[part], out=output[part])
            kept_for_backward.append(signed)
        ctx.save_for_backward(*states, *kept_for_backward)
        ctx.formula, ctx.rows = formula, rows
        return rows.scatter(attended).mul_(1.0 / (1.0 - formula.rate))  # (positions, size)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *kept = ctx.saved_tensors
        rows, scale, rate = ctx.rows, ctx.formula.scale, ctx.formula.rate
        # The gradient gets the shape (positions, size).
        gradient = rows.spread(gradient.to(query.dtype) * (1.0 / (1.0 - rate)))
        gradients = [torch.empty_like(query) for _ in range(3)]  # for query, key and value
        groups = rows.by_group(query, key, value, gradient, *gradients)
        for signed, (_, q, k, v, g, to_q, to_k, to_v) in zip(kept, groups, strict=True):
            for part in _parts(signed):
                weights = signed[part].relu()  # (some sequences * heads, tokens, tokens)
                torch.matmul(weights.mT, g[part], out=to_v[part])
                to_scores = weights.mul_(g[part] @ v[part].mT)  # overwrites `weights`
                total = to_scores.sum(-1, keepdim=True)  # (some sequences * heads, tokens, 1)
                to_scores.addcmul_(signed[part].abs(), total, value=-1.0)
                torch.matmul(to_scores, k[part], out=to_q[part])
                torch.matmul(to_scores.mT, q[part], out=to_k[part])
        to_query, to_key, to_value = map(rows.scatter, gradients)
        return to_query.mul_(scale), to_key, to_value, None


def _masks(group: Group, heads: int, dtype: torch.dtype, formula: Attention) -> list[Tensor]:
    """Return the masks to be added to a group's scores `[sequences * heads, tokens, tokens]`.

    The masks are broadcast to the scores. Two masks that hide the same score do not overflow.
    """
    hidden, window = [], group.width if formula.window is None else formula.window
    if group.is_real is not None:
        # (sequences, tokens) -> (sequences * heads, 1, tokens)
        hidden.append(~group.is_real.repeat_interleave(heads, dim=0)[:, None])
    if formula.is_causal or group.width > window:
        ahead = torch.arange(group.width) - torch.arange(group.width)[:, None]  # (tokens, tokens)
        hidden.append((ahead > 0 if formula.is_causal else ahead.abs() >= window)[None])
    # With half of the lowest number, the sum of two masks is still finite. With -inf, the softmax
    # of a padding token that must not attend to any token would be NaN.
    low = torch.finfo(dtype).min / 2
    return [torch.zeros(each.shape, dtype=dtype).masked_fill_(each, low) for each in hidden]


def _parts(scores: Tensor) -> Iterator[slice | int]:
    """Return indices that split scores `[rows, tokens, tokens]` into parts of about CHUNK_SCORES.

    The index of a single row is an integer, which drops the first dimension, because torch would
    copy the transpose of a batch of size one.
    """
    size = CHUNK_SCORES // scores[0].numel()
    if size < 2:
        return iter(range(len(scores)))
    return (slice(start, start + size) for start in range(0, len(scores), size))


def _mark_dropped(probabilities: Tensor, rate: float, bits: RandomBits) -> None:
    """Flip the sign of the probabilities that dropout drops, in place (0 becomes -0.0)."""
    if rate == 0.0:
        return
    whole = _whole(probabilities)
    # A draw is negative if the probability is dropped, so only its sign bit is needed. In int32, to
    # which draws are widened for fp32, this is still the highest bit, the sign bit of a float.
    signs = bits.draw(probabilities.shape, rate).to(whole).bitwise_and_(torch.iinfo(whole).min)
    probabilities.view(whole).bitwise_or_(signs)


def predict_attend(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """Compute attention with torch's kernel, without dropout and gradients.

    The arguments and the result are the same as for `attend`.
    """
    rows = HeadRows.of(formula.packing, query.shape[1])
    attended = []
    for group, *parts in rows.by_group(*map(rows.gather, (query, key, value))):
        # (sequences * heads, tokens, size) -> (sequences, heads, tokens, size)
        q, k, v = (part.unflatten(0, (-1, rows.heads)) for part in parts)
        masks = _masks(group, 1, query.dtype, formula)  # broadcast to all heads
        mask = sum(masks[1:], masks[0])[:, None] if masks else None
        found = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, scale=formula.scale
        )
        attended.append(found.flatten(0, 2))  # (positions of the group, size)
    return rows.scatter(torch.cat(attended))  # (tokens, heads, size)


def attend_first(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """Compute attention for the first token of each sequence; the result is 0 at other tokens.

    The arguments and the shapes are the same as for `attend`, but a window is ignored: the first
    token attends to its whole sequence.
    """
    rows, formula = HeadRows.of(formula.packing, query.shape[1]), replace(formula, window=None)
    dropout, attended, firsts = FastDropout(formula.rate), [], []
    with torch.autocast("cpu", enabled=False):
        for group, k, v in rows.by_group(rows.spread(key), rows.spread(value)):
            firsts.append(formula.packing.firsts[group.rows])
            first = query.index_select(0, firsts[-1])  # (sequences, heads, size)
            scores = (first * formula.scale).flatten(0, 1)[:, None] @ k.mT  # (.., 1, tokens)
            shares = sum(_masks(group, rows.heads, query.dtype, formula), scores).softmax(-1)
            attended.append((dropout(shares) @ v).view(first.shape))  # (sequences, heads, size)
        return torch.zeros_like(query).index_copy(0, torch.cat(firsts), torch.cat(attended))
