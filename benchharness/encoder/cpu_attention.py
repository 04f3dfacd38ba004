"""Attention on CPUs over packed rows: a few sequences at a time, in the cache.

torch's own attention has no CPU kernel for training with dropout: it computes in fp32, keeps every
intermediate matrix and draws dropout slowly, two thirds of a step of a small encoder at 320 tokens.
transformers lets a model's attention be replaced by a registered function.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder.fast_dropout import FastDropout, RandomBits
from benchharness.encoder.layers import is_at_first_token
from benchharness.encoder.packing import PACKABLE, PACKING, Group, Packing, use_packing

__all__ = ["NAME", "HeadRows", "attend", "ordered", "predict_attend", "use_cpu_attention"]

# Where the states of packed rows stand while attention computes them, head by head.


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
        if heads not in packing.head_rows:
            packing.head_rows[heads] = cls._of(packing, heads)
        rows: HeadRows = packing.head_rows[heads]
        return rows

    @classmethod
    def _of(cls, packing: Packing, heads: int) -> "HeadRows":
        head = np.arange(heads)[:, None]
        orders, reals = [], []
        for group in packing.groups:
            rows = group.places.numpy()[:, None] * heads + head
            real = np.ones(1, bool) if group.is_real is None else group.is_real.numpy()[:, None]
            orders.append(rows.ravel())
            reals.append(np.broadcast_to(real, rows.shape).ravel())
        order, is_real = np.concatenate(orders), np.concatenate(reals)
        places = np.empty(packing.tokens * heads, np.int64)
        places[order[is_real]] = np.flatnonzero(is_real)
        return cls(
            order=torch.from_numpy(order),
            places=torch.from_numpy(places),
            padding=torch.from_numpy(np.flatnonzero(~is_real)),
            shapes=tuple((len(g.places) * heads, g.places.shape[1]) for g in packing.groups),
        )

    def gather(self, states: Tensor) -> Tensor:
        """Packed states (tokens, heads, size) in attention's order, (places, size)."""
        return states.reshape(-1, states.shape[-1]).index_select(0, self.order)

    def scatter(self, states: Tensor, heads: int) -> Tensor:
        """States in attention's order as packed ones; what stands at padding is left out."""
        return states.index_select(0, self.places).view(-1, heads, states.shape[-1])

    def split(self, states: Tensor) -> Iterator[Tensor]:
        """The groups' parts of states in attention's order, (sequences * heads, tokens, size)."""
        parts = torch.split(states, [rows * tokens for rows, tokens in self.shapes])
        return (part.view(*shape, -1) for part, shape in zip(parts, self.shapes, strict=True))


def ordered(states: Tensor, rows: HeadRows) -> Tensor:
    """`rows.gather` with gradients, of which those at padding must be zero."""
    found: Tensor = _Ordered.apply(states, rows)  # type: ignore[no-untyped-call]
    return found


class _Ordered(torch.autograd.Function):
    """The gradient of a selection in which each row comes once is another selection."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, rows: HeadRows) -> Tensor:
        ctx.rows, ctx.heads = rows, states.shape[1]
        return rows.gather(states)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.rows.scatter(gradient, ctx.heads), None


NAME = "benchharness_cpu"
"""What transformers calls this attention implementation."""

CHUNK_SCORES = 1 << 18
"""Attention scores that are computed at once: 0.5 MB in bf16, within a core's cache."""


def attend(  # noqa: PLR0913, PLR0917  (the names of the formula)
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packing: Packing,
    scale: float,
    rate: float,
    window: int | None = None,
) -> Tensor:
    """softmax(query key^T * scale) with dropout, times value, within each sequence of a packed row.

    All are (tokens, heads, size), and so is the result. `rate` is the dropout of the attention
    probabilities. With a `window` tokens see those that are fewer places away.
    """
    with torch.autocast("cpu", enabled=False):
        states = [tensor.contiguous() for tensor in (query, key, value)]
        attended: Tensor = _Attention.apply(*states, packing, scale, rate, window)  # type: ignore[no-untyped-call]
        return attended


class _Attention(torch.autograd.Function):
    """Keeps the probabilities for the backward pass, dropped ones with their sign turned round.

    So one matrix holds both: its absolute values are the probabilities, its positive part what the
    values were weighed with. With P the probabilities, D the kept ones / (1 - rate), O = D V and
    G = D * (dO V^T), the gradient of the scores is G - P * rowsum(G), as in FlashAttention
    (arXiv:2205.14135, appendix B.4), where that sum is written rowsum(dO * O).
    """

    @staticmethod
    def forward(  # noqa: PLR0913, PLR0917  (what apply is given)
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        packing: Packing,
        scale: float,
        rate: float,
        window: int | None,
    ) -> Tensor:
        heads, bits = query.shape[1], RandomBits()
        rows = HeadRows.of(packing, heads)
        states = [rows.gather(tensor) for tensor in (query * scale, key, value)]
        attended = torch.empty_like(states[0])
        kept_for_backward = []
        for group, q, k, v, output in _by_group(packing, rows, *states, attended):
            masks = _masks(group, heads, q.dtype, window)
            signed = q.new_empty(q.shape[0], q.shape[1], q.shape[1])
            for part in _parts(signed):
                scores = q[part] @ k[part].mT
                for mask in masks:
                    scores += mask[part if len(mask) > 1 else 0]
                torch.softmax(scores, -1, out=signed[part])
                _mark_dropped(signed[part], rate, bits)
                torch.matmul(signed[part].relu(), v[part], out=output[part])
            kept_for_backward.append(signed)
        ctx.save_for_backward(*states, *kept_for_backward)
        ctx.packing, ctx.heads, ctx.scale, ctx.rate = packing, heads, scale, rate
        return rows.scatter(attended, heads).mul_(1.0 / (1.0 - rate))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *kept = ctx.saved_tensors
        rows = HeadRows.of(ctx.packing, ctx.heads)
        gradient = rows.gather(gradient.to(query.dtype) * (1.0 / (1.0 - ctx.rate)))
        gradient.index_fill_(0, rows.padding, 0.0)
        gradients = [torch.empty_like(query) for _ in range(3)]
        groups = _by_group(ctx.packing, rows, query, key, value, gradient, *gradients)
        for signed, (_, q, k, v, g, to_q, to_k, to_v) in zip(kept, groups, strict=True):
            for part in _parts(signed):
                weights = signed[part].relu()
                torch.matmul(weights.mT, g[part], out=to_v[part])
                to_scores = weights.mul_(g[part] @ v[part].mT)
                total = to_scores.sum(-1, keepdim=True)
                to_scores.addcmul_(signed[part].abs(), total, value=-1.0)
                torch.matmul(to_scores, k[part], out=to_q[part])
                torch.matmul(to_scores.mT, q[part], out=to_k[part])
        to_query, to_key, to_value = (rows.scatter(states, ctx.heads) for states in gradients)
        return to_query.mul_(ctx.scale), to_key, to_value, *[None] * 4


def _by_group(packing: Packing, rows: HeadRows, *states: Tensor) -> Iterator[tuple[Any, ...]]:
    """Each group with its parts of states in attention's order."""
    return zip(packing.groups, *map(rows.split, states), strict=True)


def _masks(group: Group, heads: int, dtype: torch.dtype, window: int | None) -> list[Tensor]:
    """What is added to a group's scores (sequences * heads, tokens, tokens).

    Masks are spread over them; two in one place do not overflow.
    """
    masks = []
    if group.is_real is not None:
        masks.append(_hiding(~group.is_real, dtype).repeat_interleave(heads, dim=0)[:, None])
    is_far = _is_far(group, window)
    if is_far is not None:
        masks.append(_hiding(is_far, dtype)[None])
    return masks


def _hiding(is_hidden: Tensor, dtype: torch.dtype) -> Tensor:
    mask = torch.zeros(is_hidden.shape, dtype=dtype)
    return mask.masked_fill_(is_hidden, torch.finfo(dtype).min / 2)


def _is_far(group: Group, window: int | None) -> Tensor | None:
    """Which tokens (tokens, tokens) of a sequence do not see each other; None where all do."""
    tokens = group.places.shape[1]
    if window is None or tokens <= window:
        return None
    places = torch.arange(tokens)
    return (places[:, None] - places).abs() >= window


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
    whole = torch.int16 if probabilities.dtype == torch.bfloat16 else torch.int32
    signs = bits.draw(probabilities.shape, rate).to(whole).bitwise_and_(torch.iinfo(whole).min)
    probabilities.view(whole).bitwise_or_(signs)


def predict_attend(  # noqa: PLR0913, PLR0917  (the names of the formula)
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packing: Packing,
    scale: float,
    window: int | None = None,
) -> Tensor:
    """`attend` without dropout and gradients, by torch's own kernel for that."""
    heads = query.shape[1]
    rows = HeadRows.of(packing, heads)
    states = [rows.gather(tensor) for tensor in (query, key, value)]
    attended = []
    for group, *parts in _by_group(packing, rows, *states):
        q, k, v = (part.unflatten(0, (-1, heads)) for part in parts)
        is_seen = _is_seen(group, window)
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=is_seen, scale=scale)
        attended.append(found.reshape(-1, found.shape[-1]))
    return rows.scatter(torch.cat(attended), heads)


def _is_seen(group: Group, window: int | None) -> Tensor | None:
    """What a group's tokens see, to be spread over (sequences, heads, tokens, tokens)."""
    is_real = None if group.is_real is None else group.is_real[:, None, None]
    is_far = _is_far(group, window)
    if is_far is None:
        return is_real
    return ~is_far if is_real is None else is_real & ~is_far


def attend_first(  # noqa: PLR0913, PLR0917  (the names of the formula)
    query: Tensor, key: Tensor, value: Tensor, packing: Packing, scale: float, rate: float
) -> Tensor:
    """`attend` for the first tokens of sequences; zero for all others."""
    heads = query.shape[1]
    rows = HeadRows.of(packing, heads)
    dropout, attended, numbers = FastDropout(rate), [], []
    for group, k, v in _by_group(packing, rows, *(ordered(t, rows) for t in (key, value))):
        first = query.index_select(0, packing.firsts[group.rows]) * scale
        scores = first.flatten(0, 1)[:, None] @ k.mT
        shares = sum(_masks(group, heads, query.dtype, None), scores).softmax(-1)
        attended.append((dropout(shares) @ v).view(first.shape))
        numbers.append(group.rows)
    places = packing.firsts[torch.cat(numbers)]
    return torch.zeros_like(query).index_copy(0, places, torch.cat(attended))


def use_cpu_attention(network: Any) -> None:
    """Has an encoder of transformers compute packed rows on a CPU, where its family allows that."""
    from transformers import AttentionInterface, AttentionMaskInterface

    config = network.config
    if config.model_type not in PACKABLE or config._attn_implementation != "sdpa":
        return
    AttentionInterface.register(NAME, _forward)
    AttentionMaskInterface.register(NAME, _no_mask)
    network.set_attn_implementation(NAME)
    use_packing(network)


def _no_mask(*_args: Any, **_options: Any) -> None:
    """The packing says what attends to what."""


def _forward(  # noqa: PLR0913, PLR0917  (transformers' signature of an attention function)
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_options: Any,
) -> tuple[Tensor, None]:
    """Attention by transformers' signature.

    States are (1, heads, tokens, size), the result is (1, tokens, heads, size).
    """
    packing = PACKING.get()
    assert packing is not None
    scale = 1.0 / math.sqrt(query.shape[-1]) if scaling is None else scaling
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    if key.shape[1] < query.shape[1]:  # several heads of the queries share one of the keys
        shares = query.shape[1] // key.shape[1]
        key, value = (tensor.repeat_interleave(shares, dim=1) for tensor in (key, value))
    if is_at_first_token(module):
        with torch.autocast("cpu", enabled=False):
            return attend_first(query, key, value, packing, scale, dropout)[None], None
    if torch.is_grad_enabled():
        return attend(query, key, value, packing, scale, dropout, sliding_window)[None], None
    return predict_attend(query, key, value, packing, scale, sliding_window)[None], None
