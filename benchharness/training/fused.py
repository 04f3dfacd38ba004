"""Fused kernels for dropout, the sum with the residual, and the layer norm after a linear layer.

    norm(dropout(dense(states)) + residual)      BertSelfOutput, BertOutput, and similar modules

In a bf16 step, torch launches ten kernels after the product of `dense`, and most of them read and
write all states; the fused version launches three. The kernels are written in Triton, which comes
with torch on a GPU. On a CPU, Triton's interpreter can run them. Before the kernels are used, a
trial compares their results with those of the original layers on the same device.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from benchharness.encoder.packing import PACKING, Packing
from benchharness.errors import first_line

PROGRAMS = 256
"""Maximum number of kernel programs in a backward pass. Each program sums the gradients of the
weights over its share of the tokens."""

SEEDS = "seeds"
"""Key in `Packing.kept` of the seeds of all layers' dropout, `[layers]`."""


@triton.jit
def _summed(product, residual, seeds, layer, rate, places, is_real, DROPS: tl.constexpr):
    """Return dropout(product) + residual for one token, and a mask of the values that are kept."""
    values = tl.load(product + places, mask=is_real, other=0.0).to(tl.float32)
    is_kept = is_real
    if DROPS:
        # These random numbers depend only on the seed and the position (Philox), so the backward
        # pass draws the same ones.
        is_kept = tl.rand(tl.load(seeds + layer), places) >= rate
        values = tl.where(is_kept, values / (1.0 - rate), 0.0)
    return values + tl.load(residual + places, mask=is_real, other=0.0).to(tl.float32), is_kept


@triton.jit(do_not_specialize=["layer"])
def forward(
    product, residual, weight, bias, seeds, states, in_bf16, means, scales,
    layer, rate, size, eps, DROPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the normalized states of one token in fp32 and bf16 (Triton kernel).

    The inputs `product` to `seeds` and the numbers `layer`, `rate` and `eps` are the same as in
    FusedNorm. `size` is the size of a token's state. The results are written to `states` (fp32)
    and `in_bf16`. The mean and the inverse standard deviation of the states before the norm are
    written to `means` and `scales`, for the backward pass. DROPS is true if dropout is applied, and
    BLOCK is `size`, rounded up to a power of two.
    """
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    is_real, places = columns < size, row * size + columns
    values, _ = _summed(product, residual, seeds, layer, rate, places, is_real, DROPS)
    mean = tl.sum(values) / size  # columns beyond the size contain zeros
    centred = tl.where(is_real, values - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred) / size + eps)
    found = centred * scale * tl.load(weight + columns, mask=is_real, other=0.0)
    found += tl.load(bias + columns, mask=is_real, other=0.0)
    tl.store(states + places, found, mask=is_real)
    tl.store(in_bf16 + places, found.to(tl.bfloat16), mask=is_real)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)


@triton.jit(do_not_specialize=["layer", "rows"])
def backward(
    product, residual, weight, seeds, means, scales, of_states, of_bf16,
    of_product, of_residual, sums, layer, rate, size, rows,
    HAS_STATES: tl.constexpr, HAS_BF16: tl.constexpr, DROPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of this program's share of the tokens (Triton kernel).

    `of_states` and `of_bf16` are the gradients of the two results of `forward`; HAS_STATES and
    HAS_BF16 are false for a result without a gradient. The gradients of `product` and `residual`
    are written per token, to `of_product` and `of_residual`. The gradients of the norm's weight and
    bias and of the linear layer's bias are sums over the program's tokens, written to `sums`
    `[programs, 3, size]`. `rows` is the number of tokens; the other inputs are as in `forward`.
    """
    program, columns = tl.program_id(0), tl.arange(0, BLOCK)
    is_real = columns < size
    factors = tl.load(weight + columns, mask=is_real, other=0.0)
    # Sums of gradients over the tokens of this program.
    of_weight = tl.zeros((BLOCK,), tl.float32)
    of_bias = tl.zeros((BLOCK,), tl.float32)
    of_dense = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, rows, tl.num_programs(0)):
        places = row * size + columns
        values, is_kept = _summed(product, residual, seeds, layer, rate, places, is_real, DROPS)
        scale = tl.load(scales + row)
        normed = (values - tl.load(means + row)) * scale
        # Add the gradients of the fp32 and the bf16 output; torch would do this in another kernel.
        given = tl.zeros((BLOCK,), tl.float32)
        if HAS_STATES:
            given += tl.load(of_states + places, mask=is_real, other=0.0)
        if HAS_BF16:
            given += tl.load(of_bf16 + places, mask=is_real, other=0.0).to(tl.float32)
        of_weight += given * normed
        of_bias += given
        # Backward through the norm, as in torch's layer_norm_backward.
        given *= factors
        given = (given - tl.sum(given) / size - normed * (tl.sum(given * normed) / size)) * scale
        tl.store(of_residual + places, given.to(of_residual.dtype.element_ty), mask=is_real)
        if DROPS:
            given = tl.where(is_kept, given / (1.0 - rate), 0.0)
        tl.store(of_product + places, given.to(of_product.dtype.element_ty), mask=is_real)
        of_dense += tl.where(is_real, given, 0.0)
    sums += program * 3 * size + columns
    tl.store(sums, of_weight, mask=is_real)
    tl.store(sums + size, of_bias, mask=is_real)
    tl.store(sums + 2 * size, of_dense, mask=is_real)


class FusedNorm(torch.autograd.Function):
    """Autograd function norm(dropout(product) + residual) with fused kernels.

    `product` `[..., size]` is the output of the linear layer, including its bias. This bias is also
    an argument (`_dense_bias`), so that autograd gets its gradient, but its value is not used.
    `residual` has the shape of `product`. `weight`, `bias` and `eps` belong to the norm. `seeds`
    contains the seed of each layer's dropout, `[layers]`, or is None without dropout. `layer` is
    the index of this layer's seed, and `rate` is the dropout rate.
    """

    @staticmethod
    def forward(
        ctx: Any,
        product: Tensor,
        residual: Tensor,
        weight: Tensor,
        bias: Tensor,
        _dense_bias: Tensor,
        seeds: Tensor | None,
        layer: int,
        rate: float,
        eps: float,
    ) -> tuple[Tensor, Tensor]:
        """Return the states `[..., size]` twice, in fp32 and in bf16."""
        product, residual = product.contiguous(), residual.contiguous()
        size = product.shape[-1]
        states = torch.empty_like(product, dtype=torch.float32)
        in_bf16 = torch.empty_like(product, dtype=torch.bfloat16)
        means, scales = states.new_empty(2, product.numel() // size)  # (tokens,) each
        given = (product, residual, weight, bias, seeds)
        ctx.numbers = (layer, rate, size)
        launch(
            (forward, len(means)),
            given,
            (states, in_bf16, means, scales),
            (*ctx.numbers, eps),
            DROPS=seeds is not None,
        )
        ctx.save_for_backward(product, residual, weight, seeds, means, scales)
        ctx.set_materialize_grads(False)  # one of the two outputs may be unused
        return states, in_bf16

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the gradients of product, residual, norm weight, norm bias and linear bias.

        The gradients of the last three are sums over all tokens, which are computed in fp32 and in
        a fixed order. The other arguments of `forward` have no gradients (None).
        """
        saved = ctx.saved_tensors  # read only once, as activation checkpointing requires
        product, residual, weight, seeds, means, _ = saved
        programs = min(PROGRAMS, len(means))
        made = torch.empty_like(product), torch.empty_like(residual)
        # Each program sums up its gradients of the norm's weight, the norm's bias and the linear
        # layer's bias. These sums are added up below, in a fixed order.
        sums = weight.new_empty(programs, 3, len(weight))
        launch(
            (backward, programs),
            (*saved, *(g if g is None else g.contiguous() for g in gradients)),
            (*made, sums),
            (*ctx.numbers, len(means)),
            HAS_STATES=gradients[0] is not None,
            HAS_BF16=gradients[1] is not None,
            DROPS=seeds is not None,
        )
        return *made, *sums.sum(0), None, None, None, None


def launch(
    kernel: tuple[Any, int],
    given: Sequence[Tensor | None],
    made: Sequence[Tensor],
    numbers: Sequence[float],
    **options: bool,
) -> None:
    """Launch a Triton kernel.

    Args:
        kernel: The kernel function, and the number of programs to launch.
        given: Tensors that the kernel reads, in the order of its arguments; None for a tensor that
            it does not need.
        made: Tensors that the kernel writes, in the order of its arguments.
        numbers: Numbers that are passed to the kernel; the third is the size of a state.
        **options: Options for which a separate kernel is compiled, such as DROPS.
    """
    function, programs = kernel
    block = triton.next_power_of_2(numbers[2])
    function[programs,](*given, *made, *numbers, **options, BLOCK=block)


def fuse_norms(encoder: Any) -> str:
    """Use the fused kernels in an encoder that computes packed rows, if a trial succeeds.

    The linear layers must have been converted to CastLinear (cuda.py) before. The output of a fused
    module has its bf16 copy as an attribute `in_bf16`, which the next linear layers use.

    Returns:
        The reason why the trial failed; empty if it succeeded, or if the encoder has no module for
        which there is a fused kernel.
    """
    found: list[Any] = [module for module in encoder.modules() if _has_layers(module)]
    if not found:
        return ""
    for module in {type(each): each for each in found}.values():
        if fault := _fault_of(module):
            return fault
    for layer, module in enumerate(found):
        module.forward = partial(_forward, module, module.forward, layer)
    # This hook runs after the one that sets the packing. Recomputed layers find the same seeds.
    encoder.register_forward_pre_hook(partial(_draw, len(found)))
    return ""


def _has_layers(module: nn.Module) -> bool:
    children = dict(module.named_children())  # keyed by name, because their order may differ
    kinds = [type(children.get(name)) for name in ("LayerNorm", "dropout")]
    are_all = len(children) == 3 and kinds == [nn.LayerNorm, nn.Dropout]
    return are_all and len(getattr(children.get("dense"), "casts", ())) == 2


def _draw(layers: int, encoder: nn.Module, _: Any) -> None:
    packing = PACKING.get()
    if packing is not None and encoder.training:
        # Draw the seeds from torch's generator for the device: snapshots contain its state.
        seeds = torch.randint(2**31 - 1, (layers,), device=packing.places.device)
        PACKING.set(replace(packing, kept={**packing.kept, SEEDS: seeds}))


def _forward(
    module: Any, own: Callable[..., Tensor], layer: int, states: Tensor, residual: Tensor
) -> Tensor:
    packing, rate = PACKING.get(), module.dropout.p if module.training else 0.0
    seeds = packing.kept.get(SEEDS) if packing and module.training else None
    if (rate and seeds is None) or not torch.is_autocast_enabled(states.device.type):
        return own(states, residual)
    dense, norm = module.dense, module.LayerNorm
    weight, bias = dense.casts
    # The fused kernel computes the gradient of the bias, so it is detached here.
    product = functional.linear(getattr(states, "in_bf16", states), weight, bias.detach())
    weights = (norm.weight, norm.bias, dense.bias)
    found: Tensor
    found, in_bf16 = FusedNorm.apply(product, residual, *weights, seeds, layer, rate, norm.eps)
    found.in_bf16 = in_bf16  # type: ignore[attr-defined]
    return found


def _fault_of(module: Any) -> str:
    """Return why the fused results or gradients of a module are wrong, or "" if they are right.

    The fused results are compared with those of the module's own forward method, without dropout.
    """
    own, rate, dense = module.forward, module.dropout.p, module.dense
    weights = {n: w.detach().clone().requires_grad_() for n, w in module.named_parameters()}
    device = dense.weight.device

    def outcome(forward: Any, is_bf16: bool) -> list[Tensor]:
        # Use no random numbers, so that a job draws the same ones with and without a trial.
        states, residual, factors = (
            torch.arange(7.0 * size, device=device).mul(step).sin().view(1, 7, size)
            for step, size in enumerate((dense.in_features, *[dense.out_features] * 2), start=1)
        )
        module.forward = forward
        with torch.autocast(device.type, torch.bfloat16, enabled=is_bf16):
            found = functional_call(module, weights, (states, residual.requires_grad_()))
        total = (found * factors).sum() + getattr(found, "in_bf16", found).float().square().sum()
        asked = ("LayerNorm.weight", "LayerNorm.bias", "dense.bias")
        grads = torch.autograd.grad(total, [residual, *(weights[name] for name in asked)])
        return [found.detach(), *grads]

    packing = Packing.of_lengths(np.array([7]), 7, device)
    packing.kept[SEEDS] = torch.zeros(1, dtype=torch.int64, device=device)
    before = PACKING.set(packing)
    try:
        module.dropout.p = 0.0
        found = outcome(partial(_forward, module, own, 0), is_bf16=True)
        pairs = zip(found, outcome(own, is_bf16=False), strict=True)
        apart = [float((one - other).norm() / other.norm()) for one, other in pairs]
        # "not <" instead of ">=", so that NaN counts as too far.
        too_far = [each for each in apart if not each < 0.05]
        return f"their relative error was {too_far[0]:.2g}" if too_far else ""
    except Exception as error:  # noqa: BLE001  (no compiler, an old GPU, another Triton)
        return first_line(error)
    finally:
        PACKING.reset(before)
        module.forward, module.dropout.p = own, rate
