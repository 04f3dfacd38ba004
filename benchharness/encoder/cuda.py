"""Attention for packed rows on a GPU, with kernels that take the offsets of sequences.

torch's attention over jagged tensors (torch/nested/_internal/sdpa.py) calls the same kernels with
the same arguments: FlashAttention for bf16 and the memory-efficient kernel for fp32, both with
dropout. A jagged tensor itself would cost the host about a millisecond per layer
(docs/decisions/0017-kernels-for-packed-rows.md), many times the computing time of the layer.

Cases that neither kernel supports are computed by `scaled_dot_product_attention` on padded
sequences with a mask: windows in fp32, head sizes that the kernels refuse (see `_has_kernel`), bf16
on GPUs older than Ampere, and everything on a CPU, where tests check this fallback.
"""

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from benchharness.encoder.packing import Attention, Packing

FLASH = (8, 0)
"""Lowest compute capability (Ampere) of GPUs with FlashAttention and bf16 in hardware."""


def attend(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """Compute attention for all tokens of a packed row.

    `query`, `key`, `value` and the result are `[tokens, heads, size]`. `formula` contains the other
    parameters of attention.
    """
    packing = formula.packing
    if formula.window is not None and packing.width <= formula.window:
        formula = replace(formula, window=None)  # a window as wide as the sequences hides no token
    if not _has_kernel(query, formula.window):
        table = packing.table(query)  # (sequences, width, heads, size)
        seen = _attend_padded(table, key, value, formula)
        return seen.flatten(0, 1).index_select(0, packing.places)
    return _by_kernel(query, key, value, formula)


def attend_first(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """Compute attention for the first token of each sequence; the result is 0 at other tokens.

    The arguments and the shapes are the same as for `attend`, but a window is ignored: the first
    token attends to its whole sequence.
    """
    formula = replace(formula, window=None)
    # Index of the first token of each sequence, (sequences,). Padding at the end of the packed row
    # counts as a sequence.
    starts = formula.packing.offsets[:-1]
    first = query.index_select(0, starts)  # (sequences, heads, size)
    if _has_kernel(query, None):
        seen = _by_kernel(first, key, value, formula)
    else:
        seen = _attend_padded(first[:, None], key, value, formula)[:, 0]
    return seen.new_zeros(query.shape).index_copy(0, starts, seen)


def _has_kernel(query: Tensor, window: int | None) -> bool:
    """Return whether a kernel supports this `query` `[tokens, heads, size]` with this window."""
    if not query.is_cuda:
        return False
    size = query.shape[-1]  # kernels read 16 bytes at a time
    if query.dtype == torch.float32:
        return size % 4 == 0 and window is None
    return size % 8 == 0 and size <= 256 and _capability(query.device) >= FLASH


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


def _by_kernel(query: Tensor, key: Tensor, value: Tensor, formula: Attention) -> Tensor:
    """Compute attention with a kernel, for all tokens or for one query per sequence.

    `key` and `value` are `[tokens, heads, size]`. `query` is the same, or `[sequences, heads,
    size]`; it is then shorter than `key`.
    """
    packing, rate, scale = formula.packing, formula.rate, formula.scale
    offsets = packing.once("offsets", packing.offsets.int)  # (sequences + 1,), kernels take int32
    # Upper bound of the sequences' lengths. The fp32 backward pass refuses a bound above the number
    # of tokens in the row; the width of a few short sequences exceeds that number, because widths
    # are rounded up.
    bound = min(packing.width, packing.tokens)
    of_queries, longest = offsets, bound
    if len(query) < len(key):
        count = packing.sequences + 1
        of_queries = packing.once("firsts", lambda: torch.arange(count, device=key.device).int())
        longest = 1
    lengths = (of_queries, offsets, longest, bound)
    if query.dtype == torch.float32:
        states = (s.contiguous()[None] for s in (query, key, value))  # (1, tokens, heads, size)
        needs_sums = torch.is_grad_enabled()  # sums of exponentials, for the backward pass
        found: Tensor = torch.ops.aten._efficient_attention_forward(
            *states, None, *lengths, rate, int(formula.is_causal), needs_sums, scale=scale
        )[0]
        return found.squeeze(0)
    # The farthest distance that a token attends to, on either side.
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
    """Compute attention of queries `[sequences, tokens, heads, size]` over their whole sequence."""
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
    """Return a mask `[sequences, 1, width, width]`, true where a query attends to a key."""
    columns = torch.arange(packing.width, device=packing.offsets.device)
    is_real = columns < packing.offsets.diff()[:, None]  # (sequences, width)
    ahead = columns - columns[:, None]  # (width, width)
    is_near = ahead <= 0 if formula.is_causal else ahead.abs() < (formula.window or packing.width)
    # Padding attends to itself: a token that attends to nothing would get NaN, and so would the
    # gradients of other tokens.
    return (is_real[:, None, None] & is_near) | (ahead == 0)
