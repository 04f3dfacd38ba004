"""Tests of fused norm kernels, with Triton's interpreter on a CPU, or on a GPU if there is one."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from benchharness.encoder.packing import checkpoint_activations
from benchharness.training import cuda
from benchharness.training.cuda import Casts
from tests.helpers.training import CPU, gradients_of
from tests.helpers.training import begin_packed as begin

pytest.importorskip("triton", reason="Triton is not installed")
fused: Any = pytest.importorskip("benchharness.training.fused")

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
pytestmark = [pytest.mark.gpu] if HAS_GPU else []

TOKENS, SIZE, EPS = 13, 48, 1e-5

COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from benchharness.training import fused

FP32, BF16 = "*fp32", "*bf16"
NUMBERS = {"layer": "i32", "rate": "fp32", "size": "i32"}
NORM = dict(product=BF16, residual=FP32, weight=FP32, seeds="*i64", means=FP32, scales=FP32)
FORWARD = NORM | NUMBERS | dict(bias=FP32, states=FP32, in_bf16=BF16, eps="fp32")
BACKWARD = NORM | NUMBERS | dict(
    of_states=FP32, of_bf16=BF16, of_product=BF16, of_residual=FP32, sums=FP32, rows="i32"
)
SEEN, DROPPED = {"HAS_STATES": True, "BLOCK": 1024}, {"DROPS": True, "HAS_BF16": True}
STILL = {"DROPS": False, "HAS_BF16": False, "seeds": None, "of_bf16": None}
for kernel, types in ((fused.forward, FORWARD), (fused.backward, BACKWARD)):
    for flags in (SEEN | DROPPED, SEEN | STILL):
        constants = {name: value for name, value in flags.items() if name in kernel.arg_names}
        given = {n: "constexpr" if n in constants else types[n] for n in kernel.arg_names}
        source = ASTSource(fn=kernel, signature=given, constexprs=constants)
        for capability in (80, 90):
            assert triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["cubin"]
"""


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape).to(DEVICE).requires_grad_()


def inputs() -> tuple[Tensor, ...]:
    """Return product, residual, weight and bias of the norm, and the bias of the linear layer."""
    torch.manual_seed(0)
    return drawn(1, TOKENS, SIZE), drawn(1, TOKENS, SIZE), drawn(SIZE), drawn(SIZE), drawn(SIZE)


def shortest(task: Any) -> Any:
    """Return the two shortest items: the interpreter needs a millisecond per token and kernel."""
    return np.argsort(task.features.lengths)[:2]


def close(found: Tensor, expected: Tensor, within: float) -> bool:
    return bool((found.double() - expected).norm() < within * expected.norm())


@pytest.mark.parametrize("given", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_norm_states_and_gradients_equal_those_of_torch(
    dtype: torch.dtype, given: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use the output in fp32, in bf16 or in both, with several tokens per program."""
    monkeypatch.setattr(fused, "PROGRAMS", 4)
    product, *others = inputs()
    product = product.detach().to(dtype).requires_grad_()
    found = fused.FusedNorm.apply(product, *others, None, 0, 0.0, EPS)
    factors = [torch.randn(1, TOKENS, SIZE).to(DEVICE, one.dtype) for one in found]
    read = [(s, f) for s, f, is_read in zip(found, factors, given, strict=True) if is_read]
    leaves = (product, *others)
    gradients = torch.autograd.grad([s for s, _ in read], leaves, [f for _, f in read])

    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    # `exact[0]` already includes the linear layer's bias, so the bias is added with the value 0.
    rest = exact[4] - exact[4].detach()
    expected = functional.layer_norm(exact[0] + rest + exact[1], (SIZE,), *exact[2:4], EPS)
    total = torch.stack([f.double() for _, f in read]).sum(0)
    wanted = torch.autograd.grad(expected, exact, total)
    assert close(found[0], expected, 1e-6)
    assert close(found[1], expected, 5e-3)
    for one, other in zip(gradients, wanted, strict=True):
        assert close(one, other, 5e-3 if one.dtype == torch.bfloat16 else 1e-6)


def test_values_dropped_by_fused_norms_have_no_gradient() -> None:
    product, residual, *weights = inputs()
    seeds = torch.tensor([5, 6], device=DEVICE)

    def outcome(layer: int) -> list[Tensor]:
        states, _ = fused.FusedNorm.apply(product, residual, *weights, seeds, layer, 0.3, EPS)
        leaves = [product, residual, weights[2]]
        return [states, *torch.autograd.grad(states.square().sum(), leaves)]

    states, of_product, of_residual, of_dense = outcome(1)
    is_kept = of_product != 0
    assert 0.64 < is_kept.double().mean() < 0.76
    assert torch.allclose(of_product, of_residual * is_kept / 0.7)
    assert torch.allclose(of_dense, of_product.sum((0, 1)), atol=1e-5)
    dropped = product * is_kept / 0.7 + residual
    assert torch.allclose(
        states, functional.layer_norm(dropped, (SIZE,), *weights[:2], EPS), atol=1e-5
    )
    assert torch.equal(outcome(1)[0], states)
    assert not torch.equal(outcome(0)[0], states)


def test_fused_norm_kernels_pass_their_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "fuse_norms", fused.fuse_norms)
    network = begin("bert", "pair").network.to(DEVICE)
    state = torch.get_rng_state()
    assert Casts([network]).notes == []
    assert torch.equal(torch.get_rng_state(), state)
    assert network.training


@pytest.mark.skipif(HAS_GPU, reason="kernels are not interpreted here")
@pytest.mark.parametrize("family", ["bert", "deberta-v2"])
def test_fused_norm_training_gradients_are_as_close_to_fp32_as_those_of_torch(family: str) -> None:
    """The reference is a bf16 training without the kernels."""
    gradients = []
    for precision, fuse in (("fp32", None), ("bf16", lambda _: ""), ("bf16", fused.fuse_norms)):
        training = begin(family, "pair", replace(CPU, precision=precision))
        if fuse is not None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(cuda, "fuse_norms", fuse)
                assert Casts([training.network]).notes == []
        (task,) = training.tasks
        training._gradients(task, training.parts_of(task, shortest(task)))
        gradients.append(gradients_of(training.network))
    exact, by_torch, by_kernel = gradients
    assert not torch.equal(by_torch, by_kernel)
    assert (by_kernel - exact).norm() < 2 * (by_torch - exact).norm() < 0.1 * exact.norm()


@pytest.mark.skipif(HAS_GPU, reason="kernels are not interpreted here")
def test_fused_norms_draw_equal_dropout_in_recomputed_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda, "fuse_norms", fused.fuse_norms)
    gradients = []
    for again in (False, True):
        training = begin("bert", "pair", replace(CPU, precision="bf16"), dropout=0.3)
        Casts([training.network])
        if again:
            checkpoint_activations(training.network)
        (task,) = training.tasks
        for _ in range(2):  # each backward pass draws new dropout masks
            torch.manual_seed(len(gradients) % 2)
            training._gradients(task, training.parts_of(task, shortest(task)))
            gradients.append(gradients_of(training.network))
            training.network.zero_grad()
    assert torch.equal(gradients[0], gradients[2])
    assert torch.equal(gradients[1], gradients[3])
    assert not torch.equal(gradients[0], gradients[1])


@pytest.mark.skipif(HAS_GPU, reason="kernels are not interpreted here")
def test_fused_norms_draw_new_dropout_in_each_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "fuse_norms", fused.fuse_norms)
    training = begin("bert", "pair")
    Casts([training.network])
    for module in filter(fused._has_layers, training.network.modules()):
        module.dropout.p = 0.3
    (task,) = training.tasks
    (part,) = training.parts_of(task, shortest(task))
    inputs = part.inputs
    with replace(CPU, precision="bf16").autocast():
        first, second = (training.network.encoder(**inputs)[0] for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.skipif(HAS_GPU, reason="kernels are not interpreted here")
def test_torch_norms_are_used_if_the_self_test_of_the_kernels_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: Any, **_options: Any) -> None:
        raise RuntimeError("no C compiler\nlong story")

    def wrong(
        launch: Any, kernel: Any, given: Any, made: Any, numbers: Any, **options: Any
    ) -> None:
        launch(kernel, given, made, numbers, **options)
        made[0].mul_(1.1)

    def broken(_kernel: Any, _given: Any, made: Any, *_: Any, **_options: Any) -> None:
        for each in made:
            each.fill_(torch.nan)

    monkeypatch.setattr(cuda, "fuse_norms", fused.fuse_norms)
    for launch, words in (
        (refused, "no C compiler"),
        (partial(wrong, fused.launch), "their relative error was 0.1"),
        (broken, "their relative error was nan"),
    ):
        monkeypatch.setattr(fused, "launch", launch)
        training = begin("bert", "pair", replace(CPU, precision="bf16"))
        (note,) = Casts([training.network]).notes
        assert note.endswith(f"instead of fused kernels: {words}")
        training.step()


@pytest.mark.soak
def test_fused_norm_kernels_compile_for_ampere_and_hopper(tmp_path: Any) -> None:
    """Compile the kernels to machine code, which needs no GPU."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    file = tmp_path / "compile.py"
    file.write_text(COMPILE)
    subprocess.run((sys.executable, file), env=environment, check=True)
