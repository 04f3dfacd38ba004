"""Packed rows on a CPU: attention in the cache, cheap dropout.

torch's own attention has no CPU kernel for training with dropout: it computes in fp32, keeps every
intermediate matrix and draws dropout slowly, two thirds of a step of a small encoder at 320 tokens.
Ours takes sequences out of a packed row (packing.py draws it) a few at a time, so that their scores
stay in a core's cache. They are in groups of like length: widths are rounded up to multiples of
ROUNDING (here of 4), so that few places are padding.

    group of width 4: rows 0, 2         group of width 8: row 1

    places  0 1 2 0     is_real  1 1 1 0     places  3 4 5 6 7 0 0 0
            8 9 0 0              1 1 0 0     is_real 1 1 1 1 1 0 0 0

Within a group each head of a sequence is a matrix of its own, so the order of attention is group,
sequence, head, token (see HeadRows): with two heads, a b c . of head 0, a b c . of head 1, then
k l . . of head 0, and so on.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder.packing import Attention, Packing

CHUNK_SCORES = 1 << 18
"""Attention scores that are computed at once: 0.5 MB in bf16, within a core's cache."""


def use_fast_dropout(network: nn.Module) -> None:
    """Puts FastDropout in the place of every nn.Dropout of a network."""
    for module in network.modules():
        for name, child in module.named_children():
            # Not where it drops all: FastDropout's scale would be a division by zero.
            if type(child) is nn.Dropout and child.p < 1.0:
                setattr(module, name, FastDropout(child.p))


# Dropout: the same probabilities as torch's, from cheaper random numbers.
#
# torch draws a double for every element, which is a third of a training step of a small encoder.
# Here one draw of 64 bits serves four elements, and what is left is integer arithmetic on bits.

STEPS = 1 << 15
"""A probability is a whole number of these parts: 0.1 is 3277 / 32768, wrong by 6 in a million."""


class RandomBits:
    """Random bits for one call, from numpy's quickest generator: a third of what torch's take.

    It is seeded from torch's CPU generator, so a seed and a checkpoint of its state cover it.
    """

    def __init__(self) -> None:
        self._generator: np.random.SFC64 | None = None

    def draw(self, shape: torch.Size, rate: float) -> Tensor:
        """int16 of that shape, negative with the probability `rate`."""
        if self._generator is None:
            self._generator = np.random.SFC64(int(torch.randint(2**63 - 1, ())))
        count = math.prod(shape)
        words = self._generator.random_raw((count + 3) // 4)  # 64 bits for four elements
        numbers = torch.from_numpy(words.view(np.int16)[:count])
        # 15 random bits, 0 to STEPS - 1, less the threshold: in place, on memory that is ours.
        return numbers.bitwise_and_(STEPS - 1).sub_(round(rate * STEPS)).view(shape)


class FastDropout(nn.Module):
    """nn.Dropout on a CPU, for fp32 and bf16, in the mean exactly what goes in.

    The scale of what is kept is 1 / (1 - p) as the states' type has it, and as much is dropped as
    that scale makes up for: in bf16 it is 1.109375 for p = 0.1, and 9.86 % are dropped. torch drops
    10 % by the same scale, and so shrinks bf16 states by 0.16 %.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.p = rate  # where transformers' attention modules look for it

    def forward(self, states: Tensor) -> Tensor:
        """The states with some at 0 and the others multiplied by 1 / (1 - p), while training."""
        if not self.training or self.p == 0.0:
            return states
        scale = torch.tensor(1.0 / (1.0 - self.p), dtype=states.dtype)
        drawn = RandomBits().draw(states.shape, 1.0 - 1.0 / scale.item())
        # An arithmetic shift spreads the sign over all 16 bits: -1 where dropped, 0 elsewhere. Not
        # of it, as wide as a state, is a mask for the bits of the scale.
        kept = drawn.bitwise_right_shift_(15).bitwise_not_().to(_whole(states))
        return states * kept.bitwise_and_(scale.view(kept.dtype)).view(states.dtype)


def _whole(states: Tensor) -> torch.dtype:
    """The whole numbers that are as wide as the states' floats."""
    return torch.int16 if states.dtype == torch.bfloat16 else torch.int32


# The sequences of a packed row in attention's order.

ROUNDING = 8
"""Attention is computed at lengths that are multiples of it: matrix units like them."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Sequences that attention on a CPU computes together, each padded to `places.shape[1]` tokens.

    `rows` are their numbers in the batch. `places` (sequences, tokens) are where the tokens stand
    in the packed row, 0 at padding; `is_real` says which are no padding, None where all are.
    """

    rows: Tensor
    places: Tensor
    is_real: Tensor | None


def groups_of(packing: Packing) -> tuple[Group, ...]:
    """The sequences of a packing in groups of like length."""
    lengths = packing.lengths
    widths = -(-lengths // ROUNDING) * ROUNDING  # rounded up
    return packing.once(
        "groups",
        lambda: tuple(
            _group(np.flatnonzero(widths == width), lengths, width) for width in np.unique(widths)
        ),
    )


def _group(rows: NDArray[Any], lengths: NDArray[Any], width: int) -> Group:
    starts = np.cumsum(lengths) - lengths  # (rows,): each begins where all before it end
    columns = np.arange(width)
    is_real = columns < lengths[rows, None]  # (sequences, width)
    places = np.where(is_real, starts[rows, None] + columns, 0)  # (sequences, width)
    return Group(
        rows=torch.from_numpy(rows),
        places=torch.from_numpy(places),
        # Full groups need no mask, which is a pass over all scores: None tells attention so.
        is_real=None if is_real.all() else torch.from_numpy(is_real),
    )


@dataclass(frozen=True, kw_only=True)
class HeadRows:
    """The rows (token, head) of a packed row in attention's order: group, sequence, head, token.

    `order` says which row of the packed states (tokens * heads) stands at each place of that order,
    0 at padding; `places` says at which place each packed row stands, and `padding` where padding
    does. `shapes` are the groups' (sequences * heads, tokens).

    Both ways are one selection of rows for all groups: writing states to their places, group by
    group, takes torch several times as long.
    """

    order: Tensor
    places: Tensor
    padding: Tensor
    shapes: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, packing: Packing, heads: int) -> "HeadRows":
        """The order of a packing's groups; made once for all layers with so many heads."""
        return packing.once(("heads", heads), lambda: cls._of(packing, heads))

    @classmethod
    def _of(cls, packing: Packing, heads: int) -> "HeadRows":
        head = np.arange(heads)[:, None]  # (heads, 1)
        orders, reals = [], []
        for group in groups_of(packing):
            # Row token * heads + head of the packed states: (sequences, heads, tokens).
            rows = group.places.numpy()[:, None] * heads + head
            real = np.ones(1, bool) if group.is_real is None else group.is_real.numpy()[:, None]
            orders.append(rows.ravel())
            reals.append(np.broadcast_to(real, rows.shape).ravel())
        order, is_real = np.concatenate(orders), np.concatenate(reals)  # (places,)
        places = np.empty(packing.tokens * heads, np.int64)  # (tokens * heads,)
        places[order[is_real]] = np.flatnonzero(is_real)  # the inverse, where it is one
        return cls(
            order=torch.from_numpy(order),
            places=torch.from_numpy(places),
            padding=torch.from_numpy(np.flatnonzero(~is_real)),
            shapes=tuple((len(g.places) * heads, g.places.shape[1]) for g in groups_of(packing)),
        )

    def gather(self, states: Tensor) -> Tensor:
        """Packed states (tokens, heads, size) in attention's order, (places, size).

        At padding stand the states of row 0, which attention has to mask.
        """
        rows = states.reshape(-1, states.shape[-1])  # (tokens * heads, size)
        return rows.index_select(0, self.order)  # (places, size)

    def scatter(self, states: Tensor, heads: int) -> Tensor:
        """States in attention's order as packed ones; what stands at padding is left out."""
        rows = states.index_select(0, self.places)  # (tokens * heads, size)
        return rows.view(-1, heads, states.shape[-1])  # (tokens, heads, size)

    def split(self, states: Tensor) -> Iterator[Tensor]:
        """The groups' parts of states in attention's order, (sequences * heads, tokens, size)."""
        parts = torch.split(states, [rows * tokens for rows, tokens in self.shapes])
        return (part.view(*shape, -1) for part, shape in zip(parts, self.shapes, strict=True))


def ordered(states: Tensor, rows: HeadRows) -> Tensor:
    """`rows.gather` with gradients, of which those at padding must be zero."""
    found: Tensor = _Ordered.apply(states, rows)  # type: ignore[no-untyped-call]
    return found


class _Ordered(torch.autograd.Function):
    """The gradient of a selection in which each row comes once is another selection.

    torch does not know that each comes once, and adds up row by row.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, rows: HeadRows) -> Tensor:
        ctx.rows, ctx.heads = rows, states.shape[1]
        return rows.gather(states)  # (tokens, heads, size) -> (places, size)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.rows.scatter(gradient, ctx.heads), None  # (places, size) -> as states


# Attention, by the formula.


def attend(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """The formula for all tokens of a packed row."""
    if not torch.is_grad_enabled():
        return predict_attend(query, key, value, formula)
    # The states are in the precision of the layer that made them; autocast would cast in between.
    with torch.autocast("cpu", enabled=False):
        states = [tensor.contiguous() for tensor in (query, key, value)]
        attended: Tensor = _Attention.apply(*states, formula)  # type: ignore[no-untyped-call]
        return attended


class _Attention(torch.autograd.Function):
    """Keeps the probabilities for the backward pass, dropped ones with their sign turned round.

    So one matrix holds both: its absolute values are the probabilities, its positive part what the
    values were weighed with. With P the probabilities, D the kept ones / (1 - rate), O = D V and
    G = D * (dO V^T), the gradient of the scores is G - P * rowsum(G), as in FlashAttention
    (arXiv:2205.14135, appendix B.4), where that sum is written rowsum(dO * O).
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
        packing, heads, bits = formula.packing, query.shape[1], RandomBits()
        rows = HeadRows.of(packing, heads)
        states = [rows.gather(tensor) for tensor in (query * formula.scale, key, value)]
        attended = torch.empty_like(states[0])  # (places, size)
        kept_for_backward = []
        # Of each group: q, k, v and output (sequences * heads, tokens, size).
        for group, q, k, v, output in _by_group(packing, rows, *states, attended):
            masks = _masks(group, heads, q.dtype, formula)
            signed = q.new_empty(q.shape[0], q.shape[1], q.shape[1])
            for part in _parts(signed):
                scores = q[part] @ k[part].mT  # (some sequences * heads, tokens, tokens)
                for mask in masks:
                    scores += mask[part if len(mask) > 1 else 0]
                torch.softmax(scores, -1, out=signed[part])
                _mark_dropped(signed[part], formula.rate, bits)
                # relu takes away what is dropped; the scale of what is kept comes at the end.
                torch.matmul(signed[part].relu(), v[part], out=output[part])
            kept_for_backward.append(signed)
        ctx.save_for_backward(*states, *kept_for_backward)
        ctx.formula, ctx.heads = formula, heads
        return rows.scatter(attended, heads).mul_(1.0 / (1.0 - formula.rate))  # as query

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *kept = ctx.saved_tensors
        packing, scale, rate = ctx.formula.packing, ctx.formula.scale, ctx.formula.rate
        rows = HeadRows.of(packing, ctx.heads)
        gradient = rows.gather(gradient.to(query.dtype) * (1.0 / (1.0 - rate)))  # (places, size)
        # Padding has the gradient of the token at place 0, which is not to be counted again.
        gradient.index_fill_(0, rows.padding, 0.0)
        gradients = [torch.empty_like(query) for _ in range(3)]  # of query, key and value
        groups = _by_group(packing, rows, query, key, value, gradient, *gradients)
        for signed, (_, q, k, v, g, to_q, to_k, to_v) in zip(kept, groups, strict=True):
            for part in _parts(signed):
                weights = signed[part].relu()  # D, (some sequences * heads, tokens, tokens)
                torch.matmul(weights.mT, g[part], out=to_v[part])
                to_scores = weights.mul_(g[part] @ v[part].mT)  # G, in the memory of D
                total = to_scores.sum(-1, keepdim=True)  # (some sequences * heads, tokens, 1)
                to_scores.addcmul_(signed[part].abs(), total, value=-1.0)
                torch.matmul(to_scores, k[part], out=to_q[part])
                torch.matmul(to_scores.mT, q[part], out=to_k[part])
        to_query, to_key, to_value = (rows.scatter(states, ctx.heads) for states in gradients)
        return to_query.mul_(scale), to_key, to_value, None


def _by_group(packing: Packing, rows: HeadRows, *states: Tensor) -> Iterator[tuple[Any, ...]]:
    """Each group with its parts of states in attention's order."""
    return zip(groups_of(packing), *map(rows.split, states), strict=True)


def _masks(group: Group, heads: int, dtype: torch.dtype, formula: Attention) -> list[Tensor]:
    """What is added to a group's scores (sequences * heads, tokens, tokens).

    Masks are spread over them; two in one place do not overflow.
    """
    masks = []
    if group.is_real is not None:
        hiding = _hiding(~group.is_real, dtype)  # (sequences, tokens)
        masks.append(hiding.repeat_interleave(heads, dim=0)[:, None])  # (sequences * heads, 1, ..)
    is_far = _is_far(group, formula)
    if is_far is not None:
        masks.append(_hiding(is_far, dtype)[None])  # (1, tokens, tokens)
    return masks


def _hiding(is_hidden: Tensor, dtype: torch.dtype) -> Tensor:
    # Half of the lowest number: two of them added are still finite, and no row is all -inf, whose
    # softmax would be NaN (the rows of padding see nothing).
    mask = torch.zeros(is_hidden.shape, dtype=dtype)
    return mask.masked_fill_(is_hidden, torch.finfo(dtype).min / 2)


def _is_far(group: Group, formula: Attention) -> Tensor | None:
    """Which tokens (tokens, tokens) of a sequence do not see which; None where all see all."""
    tokens, window = group.places.shape[1], formula.window
    if not formula.is_causal and (window is None or tokens <= window):
        return None
    places = torch.arange(tokens)
    ahead = places - places[:, None]
    return ahead > 0 if formula.is_causal else ahead.abs() >= window  # type: ignore[operator]


def _parts(scores: Tensor) -> Iterator[slice | int]:
    """The rows of scores (rows, tokens, tokens) in parts of about CHUNK_SCORES.

    One alone loses its first dimension, because torch copies the transposed of a batch of one.
    """
    size = CHUNK_SCORES // scores[0].numel()
    if size < 2:
        return iter(range(len(scores)))
    return (slice(start, start + size) for start in range(0, len(scores), size))


def _mark_dropped(probabilities: Tensor, rate: float, bits: RandomBits) -> None:
    """Turns the sign of probabilities (-0.0 for 0) where dropout takes them away."""
    if rate == 0.0:
        return
    whole = _whole(probabilities)
    # The draws are negative where dropped; of their bits the sign alone is kept. Widened to int32
    # it stays the highest bit, which is a float's sign too.
    signs = bits.draw(probabilities.shape, rate).to(whole).bitwise_and_(torch.iinfo(whole).min)
    probabilities.view(whole).bitwise_or_(signs)


def predict_attend(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """`attend` without dropout and gradients, by torch's own kernel for that."""
    packing, heads = formula.packing, query.shape[1]
    rows = HeadRows.of(packing, heads)
    states = [rows.gather(tensor) for tensor in (query, key, value)]
    attended = []
    for group, *parts in _by_group(packing, rows, *states):
        # (sequences * heads, tokens, size) -> (sequences, heads, tokens, size)
        q, k, v = (part.unflatten(0, (-1, heads)) for part in parts)
        is_seen = _is_seen(group, formula)
        found = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=is_seen, scale=formula.scale
        )
        attended.append(found.reshape(-1, found.shape[-1]))  # (places of the group, size)
    return rows.scatter(torch.cat(attended), heads)  # (tokens, heads, size)


def _is_seen(group: Group, formula: Attention) -> Tensor | None:
    """What a group's tokens see, to be spread over (sequences, heads, tokens, tokens)."""
    # (sequences, tokens) -> (sequences, 1, 1, tokens)
    is_real = None if group.is_real is None else group.is_real[:, None, None]
    is_far = _is_far(group, formula)
    if is_far is None:
        return is_real
    return ~is_far if is_real is None else is_real & ~is_far


def attend_first(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """`attend` for the first tokens of sequences, without a window; zero for all others."""
    with torch.autocast("cpu", enabled=False):
        return _attend_first(query, key, value, replace(formula, window=None))


def _attend_first(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    packing, heads = formula.packing, query.shape[1]
    rows = HeadRows.of(packing, heads)
    dropout, attended, numbers = FastDropout(formula.rate), [], []
    for group, k, v in _by_group(packing, rows, *(ordered(t, rows) for t in (key, value))):
        first = query.index_select(0, packing.firsts[group.rows])  # (sequences, heads, size)
        scores = (first * formula.scale).flatten(0, 1)[:, None] @ k.mT  # (.. * heads, 1, tokens)
        shares = sum(_masks(group, heads, query.dtype, formula), scores).softmax(-1)
        attended.append((dropout(shares) @ v).view(first.shape))  # (sequences, heads, size)
        numbers.append(group.rows)
    places = packing.firsts[torch.cat(numbers)]  # (rows,), in the order of the groups
    return torch.zeros_like(query).index_copy(0, places, torch.cat(attended))
