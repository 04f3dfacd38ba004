"""Attention on CPUs over packed rows: a few sequences at a time, in the cache.

torch's own attention has no CPU kernel for training with dropout: it computes in fp32, keeps every
intermediate matrix and draws dropout slowly, two thirds of a step of a small encoder at 320 tokens.
transformers lets a model's attention be replaced by a registered function.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchharness.encoder.fast_dropout import FastDropout, draw_dropped
from benchharness.encoder.first_token import is_at_first_token
from benchharness.encoder.packing import PACKABLE, PACKING, Group, Packing, use_packing

__all__ = ["NAME", "attend", "predict_attend", "use_cpu_attention"]

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
    values were weighed with. With P the probabilities, D the kept ones / (1 - rate), O = D V, the
    gradient of the scores is D * (dO V^T) - P * rowsum(dO * O), as in FlashAttention
    (arXiv:2205.14135, appendix B.4).
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
        output = torch.empty_like(query)
        scaled = query * scale
        kept_for_backward = []
        for group in packing.groups:
            q, k, v = (_gather(tensor, group) for tensor in (scaled, key, value))
            mask, is_far = _mask(group, query), _is_far(group, window)
            attended = torch.empty_like(q)
            signed = q.new_empty(q.shape[0], q.shape[1], q.shape[1])
            for part in _parts(signed):
                scores = q[part] @ k[part].mT
                if mask is not None:
                    scores += mask[part]
                if is_far is not None:
                    scores.masked_fill_(is_far, torch.finfo(scores.dtype).min)
                signed[part] = _mark_dropped(scores.softmax(-1), rate)
                torch.matmul(signed[part].relu(), v[part], out=attended[part])
            _scatter(attended, group, output)
            kept_for_backward.append(signed)
        output *= 1.0 / (1.0 - rate)
        ctx.save_for_backward(query, key, value, output, *kept_for_backward)
        ctx.packing, ctx.scale, ctx.rate = packing, scale, rate
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, *kept = ctx.saved_tensors
        gradient = gradient.to(query.dtype)
        overlap = (gradient.float() * output).sum(-1, keepdim=True).to(query.dtype)
        gradient = gradient * (1.0 / (1.0 - ctx.rate))
        gradients = [torch.empty_like(query) for _ in range(3)]
        for group, signed in zip(ctx.packing.groups, kept, strict=True):
            q, k, v, g, o = (_gather(t, group) for t in (query, key, value, gradient, overlap))
            if group.is_real is not None:
                is_padding = ~group.is_real.repeat_interleave(query.shape[1], dim=0)[..., None]
                g.masked_fill_(is_padding, 0.0)
                o.masked_fill_(is_padding, 0.0)
            to_q, to_k, to_v = map(torch.empty_like, (q, k, v))
            for part in _parts(signed):
                weights = signed[part].relu()
                torch.matmul(weights.mT, g[part], out=to_v[part])
                to_scores = weights.mul_(g[part] @ v[part].mT)
                to_scores.addcmul_(signed[part].abs(), o[part], value=-1.0)
                torch.matmul(to_scores, k[part], out=to_q[part])
                torch.matmul(to_scores.mT, q[part], out=to_k[part])
            for states, total in zip((to_q, to_k, to_v), gradients, strict=True):
                _scatter(states, group, total)
        to_query, to_key, to_value = gradients
        return to_query.mul_(ctx.scale), to_key.mul_(ctx.scale), to_value, *[None] * 4


def _gather(states: Tensor, group: Group) -> Tensor:
    """A group's states (sequences * heads, tokens, size) of packed ones (tokens, heads, size)."""
    sequences, tokens = group.places.shape
    found = states.index_select(0, group.places.flatten())
    found = found.view(sequences, tokens, *states.shape[1:]).transpose(1, 2)
    return found.reshape(-1, tokens, states.shape[-1])


def _scatter(states: Tensor, group: Group, packed: Tensor) -> None:
    """Writes a group's states, as _gather has them, to their places in a packed row."""
    sequences, tokens = group.places.shape
    found = states.view(sequences, -1, tokens, states.shape[-1]).transpose(1, 2)
    real = found.flatten(0, 1) if group.is_real is None else found[group.is_real]
    packed.index_copy_(0, group.real_places, real)


def _mask(group: Group, states: Tensor) -> Tensor | None:
    """What is added to the scores of every head's sequences, (sequences * heads, 1, tokens)."""
    if group.is_real is None:
        return None
    mask = states.new_zeros(group.is_real.shape)
    mask.masked_fill_(~group.is_real, torch.finfo(states.dtype).min)
    return mask.repeat_interleave(states.shape[1], dim=0)[:, None]


def _is_far(group: Group, window: int | None) -> Tensor | None:
    """Which tokens (tokens, tokens) of a sequence do not see each other; None where all do."""
    tokens = group.places.shape[1]
    if window is None or tokens <= window:
        return None
    places = torch.arange(tokens, device=group.places.device)
    return (places[:, None] - places).abs() >= window


def _parts(scores: Tensor) -> Iterator[slice]:
    """The rows of scores (rows, tokens, tokens) in parts of about CHUNK_SCORES."""
    size = max(1, CHUNK_SCORES // scores[0].numel())
    return (slice(start, start + size) for start in range(0, len(scores), size))


def _mark_dropped(probabilities: Tensor, rate: float) -> Tensor:
    """The probabilities, negative (-0.0 for 0) where dropout takes them away."""
    if rate == 0.0:
        return probabilities
    bits = torch.int16 if probabilities.dtype == torch.bfloat16 else torch.int32
    dropped = draw_dropped(probabilities.shape, rate).to(bits)
    signs = dropped.bitwise_and_(torch.iinfo(bits).min)
    return probabilities.view(bits).bitwise_or_(signs).view(probabilities.dtype)


def predict_attend(  # noqa: PLR0913, PLR0917  (the names of the formula)
    query: Tensor,
    key: Tensor,
    value: Tensor,
    packing: Packing,
    scale: float,
    window: int | None = None,
) -> Tensor:
    """`attend` without dropout and gradients, by torch's own kernel for that."""
    output, heads = torch.empty_like(query), query.shape[1]
    for group in packing.groups:
        shape = (len(group.places), heads, *_gather(query[:, :1], group).shape[1:])
        q, k, v = (_gather(tensor, group).view(shape) for tensor in (query, key, value))
        mask = _is_seen(group, window)
        attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        _scatter(attended.flatten(0, 1), group, output)
    return output


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
    dropout, attended, rows = FastDropout(rate), [], []
    for group in packing.groups:
        first = query.index_select(0, packing.firsts[group.rows]) * scale
        k, v = (_gather(tensor, group) for tensor in (key, value))
        scores = first.flatten(0, 1)[:, None] @ k.mT
        mask = _mask(group, query)
        shares = (scores if mask is None else scores + mask).softmax(-1)
        attended.append((dropout(shares) @ v).view(first.shape))
        rows.append(group.rows)
    places = packing.firsts[torch.cat(rows)]
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
