"""Dropout, the sum with the residual and the layer norm behind a linear layer, as one kernel.

    norm(dropout(dense(states)) + residual)      BertSelfOutput, BertOutput, and those of its kin

torch asks for ten kernels of a bf16 step behind the product, and most of them read and write all
states; here they are three. They are written in Triton, which torch has on a GPU; its interpreter
runs them on a CPU. Before they are used, a trial compares them with the layers on the device.
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
from benchharness.tasks.errors import first_line

PROGRAMS = 256
"""Of a backward pass: each sums up the gradients of weights over its share of the tokens."""

SEEDS = "seeds"
"""A packing keeps under this name what the dropout of each layer starts from, (layers,)."""


@triton.jit
def _summed(product, residual, seeds, layer, rate, places, is_real, DROPS: tl.constexpr):
    """dropout(product) + residual of a token, and which of its values are kept."""
    values = tl.load(product + places, mask=is_real, other=0.0).to(tl.float32)
    is_kept = is_real
    if DROPS:
        # Philox by the place: the backward pass draws the same.
        is_kept = tl.rand(tl.load(seeds + layer), places) >= rate
        values = tl.where(is_kept, values / (1.0 - rate), 0.0)
    return values + tl.load(residual + places, mask=is_real, other=0.0).to(tl.float32), is_kept


@triton.jit(do_not_specialize=["layer"])
def forward(
    product, residual, weight, bias, seeds, states, in_bf16, means, scales,
    layer, rate, size, eps, DROPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A token: its states in fp32 and in bf16, and their mean and 1 / standard deviation before."""
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    is_real, places = columns < size, row * size + columns
    values, _ = _summed(product, residual, seeds, layer, rate, places, is_real, DROPS)
    mean = tl.sum(values) / size  # of zeros at columns that are not real
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
    """Every PROGRAMS-th token: its gradients, and the sums of those of norm and linear bias."""
    program, columns = tl.program_id(0), tl.arange(0, BLOCK)
    is_real = columns < size
    factors = tl.load(weight + columns, mask=is_real, other=0.0)
    # Sums over the tokens of this program.
    of_weight = tl.zeros((BLOCK,), tl.float32)
    of_bias = tl.zeros((BLOCK,), tl.float32)
    of_dense = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, rows, tl.num_programs(0)):
        places = row * size + columns
        values, is_kept = _summed(product, residual, seeds, layer, rate, places, is_real, DROPS)
        scale = tl.load(scales + row)
        normed = (values - tl.load(means + row)) * scale
        # The two gradients of one value, which torch would add up in a kernel of its own.
        given = tl.zeros((BLOCK,), tl.float32)
        if HAS_STATES:
            given += tl.load(of_states + places, mask=is_real, other=0.0)
        if HAS_BF16:
            given += tl.load(of_bf16 + places, mask=is_real, other=0.0).to(tl.float32)
        of_weight += given * normed
        of_bias += given
        # Through the norm, as torch's layer_norm_backward.
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
    """norm(dropout(product) + residual), (..., size), in fp32 and once more in bf16.

    `seeds` (layers,) is None where nothing is dropped. The linear layer's bias is in the product
    already: it is given to have its gradient.
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
        """The states, twice."""
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
        ctx.set_materialize_grads(False)  # one of the two may not be read by anybody
        return states, in_bf16

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Of the five tensors; the sums over tokens are in fp32, and the same each time."""
        saved = ctx.saved_tensors  # asked for once: layers that are computed again give it once
        product, residual, weight, seeds, means, _ = saved
        programs = min(PROGRAMS, len(means))
        made = torch.empty_like(product), torch.empty_like(residual)
        # Of norm's weight and bias and of the linear bias; added up below, in one order.
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
    """Asks for a kernel in so many programs, which writes to what is `made`."""
    function, programs = kernel
    block = triton.next_power_of_2(numbers[2])
    function[programs,](*given, *made, *numbers, **options, BLOCK=block)


def fuse_norms(encoder: Any) -> str:
    """Has the modules of a packed encoder computed so, or says why a trial shows that they cannot.

    Their linear layers are to be CastLinear (cuda.py). What they give has its copy in bf16 as the
    attribute `in_bf16`, for the linear layers that are given it.
    """
    found: list[Any] = [module for module in encoder.modules() if _has_layers(module)]
    if not found:
        return ""
    for module in {type(each): each for each in found}.values():
        if fault := _fault_of(module):
            return fault
    for layer, module in enumerate(found):
        module.forward = partial(_forward, module, module.forward, layer)
    # Behind the hook that sets the packing. Layers that are computed again find the same seeds.
    encoder.register_forward_pre_hook(partial(_draw, len(found)))
    return ""


def _has_layers(module: nn.Module) -> bool:
    children = dict(module.named_children())  # in any order
    kinds = [type(children.get(name)) for name in ("LayerNorm", "dropout")]
    are_all = len(children) == 3 and kinds == [nn.LayerNorm, nn.Dropout]
    return are_all and len(getattr(children.get("dense"), "casts", ())) == 2


def _draw(layers: int, encoder: nn.Module, _: Any) -> None:
    packing = PACKING.get()
    if packing is not None and encoder.training:
        # By torch's generator of that device, whose state is in snapshots.
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
    # Its bias has its gradient from the kernel, so here it is a number.
    product = functional.linear(getattr(states, "in_bf16", states), weight, bias.detach())
    weights = (norm.weight, norm.bias, dense.bias)
    found: Tensor
    found, in_bf16 = FusedNorm.apply(product, residual, *weights, seeds, layer, rate, norm.eps)
    found.in_bf16 = in_bf16  # type: ignore[attr-defined]
    return found


def _fault_of(module: Any) -> str:
    """Why a module does not give so what its own code does where none is dropped, and gradients."""
    own, rate, dense = module.forward, module.dropout.p, module.dense
    weights = {n: w.detach().clone().requires_grad_() for n, w in module.named_parameters()}
    device = dense.weight.device

    def outcome(forward: Any, is_bf16: bool) -> list[Tensor]:
        # Numbers that are not drawn: a job draws the same with a trial and without.
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
        # Written so that NaN is a fault.
        too_far = [each for each in apart if not each < 0.05]
        return f"numbers {too_far[0]:.2g} apart" if too_far else ""
    except Exception as error:  # noqa: BLE001  (no compiler, an old GPU, another Triton)
        return first_line(error)
    finally:
        PACKING.reset(before)
        module.forward, module.dropout.p = own, rate
