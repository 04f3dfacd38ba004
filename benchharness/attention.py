"""Attention on CPUs while training with dropout: a few sequences at a time, in the cache.

torch's own attention has no kernel for this case: it computes in fp32, keeps every intermediate
matrix and draws dropout slowly, two thirds of a step of a small encoder at 320 tokens. transformers
lets a model's attention be replaced by a registered function; families that do not go through that
interface keep their own.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from benchharness.fast_dropout import draw_dropped

__all__ = ["NAME", "attend", "use_cpu_attention"]

NAME = "benchharness_cpu"
"""What transformers calls this attention implementation."""

CHUNK_SCORES = 1 << 18
"""Attention scores that are computed at once: 0.5 MB in bf16, within a core's cache."""


def attend(  # noqa: PLR0913, PLR0917  (the names of the formula)
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, rate: float
) -> Tensor:
    """softmax(query key^T * scale) with dropout, times value; all are (rows, heads, tokens, size).

    `mask` (rows or 1, 1, 1 or tokens, tokens) is True, or 0 where it is added, at what is attended
    to. `rate` is of the attention probabilities.
    """
    with torch.autocast("cpu", enabled=False):
        states = [tensor.contiguous() for tensor in (query, key, value)]
        added = None if mask is None else _added(mask, query)
        attended: Tensor = _Attention.apply(*states, added, scale, rate)  # type: ignore[no-untyped-call]
        return attended


def _added(mask: Tensor, query: Tensor) -> Tensor:
    """The mask as numbers to add to the scores, for every row."""
    if mask.dtype == torch.bool:
        lowest = torch.finfo(query.dtype).min
        mask = torch.zeros(mask.shape, dtype=query.dtype).masked_fill_(~mask, lowest)
    return mask.to(query.dtype).expand(query.shape[0], -1, -1, -1)


class _Attention(torch.autograd.Function):
    """Keeps the probabilities for the backward pass, dropped ones with their sign turned round.

    So one matrix holds both: its absolute values are the probabilities, its positive part what the
    values were weighed with. With P the probabilities, D the kept ones / (1 - rate), O = D V, the
    gradient of the scores is D * (dO V^T) - P * rowsum(dO * O), as in FlashAttention
    (arXiv:2205.14135, appendix B.4).
    """

    @staticmethod
    def forward(  # type: ignore[override]  # noqa: PLR0913, PLR0917  (what apply is given)
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        added: Tensor | None,
        scale: float,
        rate: float,
    ) -> Tensor:
        rows, heads, tokens, _ = query.shape
        scaled = query * scale
        signed = query.new_empty(rows, heads, tokens, tokens)
        output = torch.empty_like(query)
        for part in _parts(rows, heads * tokens * tokens):
            scores = scaled[part] @ key[part].mT
            if added is not None:
                scores += added[part]
            signed[part] = _mark_dropped(scores.softmax(-1), rate)
            torch.matmul(signed[part].relu(), value[part], out=output[part])
        output *= 1.0 / (1.0 - rate)
        ctx.save_for_backward(query, key, value, output, signed)
        ctx.scale, ctx.rate = scale, rate
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        query, key, value, output, signed = ctx.saved_tensors
        rows, heads, tokens, _ = query.shape
        overlap = (gradient.float() * output).sum(-1, keepdim=True).to(query.dtype)
        gradient = gradient.to(query.dtype).contiguous() * (1.0 / (1.0 - ctx.rate))
        to_query, to_key, to_value = map(torch.empty_like, (query, key, value))
        for part in _parts(rows, heads * tokens * tokens):
            kept = signed[part].relu()
            torch.matmul(kept.mT, gradient[part], out=to_value[part])
            to_scores = kept.mul_(gradient[part] @ value[part].mT)
            to_scores.addcmul_(signed[part].abs(), overlap[part], value=-1.0)
            torch.matmul(to_scores, key[part], out=to_query[part])
            torch.matmul(to_scores.mT, query[part], out=to_key[part])
        return to_query.mul_(ctx.scale), to_key.mul_(ctx.scale), to_value, None, None, None


def _parts(rows: int, scores: int) -> list[slice]:
    """The rows in parts of about CHUNK_SCORES, where each row has so many scores."""
    size = max(1, CHUNK_SCORES // scores)
    return [slice(start, start + size) for start in range(0, rows, size)]


def _mark_dropped(probabilities: Tensor, rate: float) -> Tensor:
    """The probabilities, negative (-0.0 for 0) where dropout takes them away."""
    bits = torch.int16 if probabilities.dtype == torch.bfloat16 else torch.int32
    dropped = draw_dropped(probabilities.shape, rate).to(bits)
    signs = dropped.bitwise_and_(torch.iinfo(bits).min)
    return probabilities.view(bits).bitwise_or_(signs).view(probabilities.dtype)


def use_cpu_attention(network: nn.Module) -> None:
    """Has an encoder of transformers train with `attend`, where its family's code allows that."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    if not network.is_backend_compatible() or network.config._attn_implementation != "sdpa":
        return
    AttentionInterface.register(NAME, _forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    network.set_attn_implementation(NAME)


def _forward(  # noqa: PLR0913, PLR0917  (transformers' signature of an attention function)
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """`attend` in transformers' signature; what it cannot do goes to torch's own attention."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    plain = query.shape == key.shape == value.shape and query.device.type == "cpu"
    biased = any(options.get(name) is not None for name in ("position_bias", "cache", "softcap"))
    causal = options.get("is_causal") or getattr(module, "is_causal", False)
    if dropout == 0.0 or not plain or biased or causal:
        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, dropout, scaling, **options
        )
    scale = 1.0 / math.sqrt(query.shape[-1]) if scaling is None else scaling
    attended = attend(query, key, value, attention_mask, scale, dropout)
    return attended.transpose(1, 2).contiguous(), None
