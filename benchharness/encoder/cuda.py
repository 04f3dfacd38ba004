"""Packed rows on a GPU: attention by the kernels that are told where sequences begin.

They are those that torch's attention over jagged tensors ends in (torch/nested/_internal/sdpa.py),
called with the same arguments: FlashAttention for bf16, the memory-efficient one for fp32, both
with dropout. A jagged tensor itself costs the host about a millisecond a layer
(docs/decisions/0017-kernels-for-packed-rows.md), which is many times what a layer computes.

What neither can do is computed by `scaled_dot_product_attention` on padded sequences with a mask:
windows in fp32, odd sizes of heads, older GPUs, and all of it on a CPU, where tests compare it.
"""

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from benchharness.encoder.packing import Attention, Packing

FLASH = (8, 0)
"""The compute capability from which on FlashAttention is there (Ampere), and bf16 in hardware."""


def attend(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """The formula for all tokens of a packed row."""
    packing = formula.packing
    if formula.window is not None and packing.width <= formula.window:
        formula = replace(formula, window=None)  # it hides nothing
    if not _has_kernel(query, formula.window):
        table = packing.table(query)  # (sequences, width, heads, size)
        seen = _attend_padded(table, key, value, formula)
        return seen.flatten(0, 1).index_select(0, packing.places)
    return _by_kernel(query, key, value, formula)


def attend_first(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """`attend` for the first tokens of sequences, without a window; zero for all others."""
    formula = replace(formula, window=None)
    starts = formula.packing.offsets[:-1]  # (sequences,), the tail's too
    first = query.index_select(0, starts)  # (sequences, heads, size)
    if _has_kernel(query, None):
        seen = _by_kernel(first, key, value, formula)
    else:
        seen = _attend_padded(first[:, None], key, value, formula)[:, 0]
    return seen.new_zeros(query.shape).index_copy(0, starts, seen)


def _has_kernel(query: Tensor, window: int | None) -> bool:
    """Whether a kernel takes such states (tokens, heads, size), and a window."""
    if not query.is_cuda:
        return False
    size = query.shape[-1]  # rows of it are read 16 bytes at a time
    if query.dtype == torch.float32:
        return size % 4 == 0 and window is None
    return size % 8 == 0 and size <= 256 and _capability(query.device) >= FLASH


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


def _by_kernel(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """Attention of all tokens, or of queries (sequences, heads, size) alone."""
    packing, rate, scale = formula.packing, formula.rate, formula.scale
    offsets = packing.once("offsets", packing.offsets.int)  # (sequences + 1,), as the kernels ask
    # No sequence is longer. The backward pass of fp32 refuses a bound beyond the row's own tokens,
    # as the width of a few short ones is, being rounded up.
    bound = min(packing.width, packing.tokens)
    of_queries, longest = offsets, bound
    if len(query) < len(key):
        count = packing.sequences + 1
        of_queries = packing.once("firsts", lambda: torch.arange(count, device=key.device).int())
        longest = 1
    lengths = (of_queries, offsets, longest, bound)
    if query.dtype == torch.float32:
        states = (s.contiguous()[None] for s in (query, key, value))  # (1, tokens, heads, size)
        needs_sums = torch.is_grad_enabled()  # of the scores' exponentials, for the backward pass
        found: Tensor = torch.ops.aten._efficient_attention_forward(
            *states, None, *lengths, rate, int(formula.is_causal), needs_sums, scale=scale
        )[0]
        return found.squeeze(0)
    # The farthest that is seen, to either side.
    reach = None if formula.window is None else formula.window - 1
    return torch.ops.aten._flash_attention_forward(  # type: ignore[no-any-return]
        query,
        key,
        value,
        *lengths,
        rate,
        formula.is_causal,
        False,
        scale=scale,
        window_size_left=reach,
        window_size_right=reach,
    )[0]


def _attend_padded(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """Attention of queries (sequences, some tokens, heads, size) to the whole of their sequence."""
    packing = formula.packing
    # (sequences, width, heads, size) -> (sequences, heads, width, size)
    key, value = (packing.table(states).transpose(1, 2) for states in (key, value))
    kind = ("seen", formula.window, formula.is_causal)
    is_seen = packing.once(kind, lambda: _is_seen(packing, formula))
    found = functional.scaled_dot_product_attention(
        query.transpose(1, 2),
        key,
        value,
        attn_mask=is_seen[:, :, : query.shape[1]],
        dropout_p=formula.rate,
        scale=formula.scale,
    )
    return found.transpose(1, 2)  # (sequences, heads, tokens, size) -> (.., tokens, heads, size)


def _is_seen(packing: Packing, formula: Attention) -> Tensor:
    """Which tokens see which, (sequences, 1, width, width)."""
    columns = torch.arange(packing.width, device=packing.offsets.device)
    is_real = columns < packing.offsets.diff()[:, None]  # (sequences, width)
    ahead = columns - columns[:, None]  # (width, width)
    is_near = ahead <= 0 if formula.is_causal else ahead.abs() < (formula.window or packing.width)
    # Padding sees itself: a token that sees nothing has NaN, also in others' gradients.
    return (is_real[:, None, None] & is_near) | (ahead == 0)
