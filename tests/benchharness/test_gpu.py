"""Tests that need a GPU: its kernels, no synchronization, and CUDA graphs of steps."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from benchharness.encoder import cuda
from benchharness.encoder.packing import Attention, Packing, prepare_for
from benchharness.recipes.recipe import ADAFACTOR, Recipe
from benchharness.training import cuda as training_cuda
from benchharness.training.compute import Compute
from benchharness.training.loop import Training
from benchharness.training.predict import predict
from tests.helpers.training import RECIPE, having, make_data, make_network, weights_of
from tests.helpers.training import begin as begin_anywhere

pytestmark = pytest.mark.gpu

GPU = torch.device("cuda", 0)
LENGTHS = [150, 3, 1, 64, 65, 128, 17, 200]
SHORT = having(RECIPE, batch_size=8, epochs=3)
WITHIN = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def make_states(dtype: torch.dtype, lengths: list[int]) -> tuple[Packing, list[Tensor]]:
    """Return packed states; the last batch of an epoch may be one short row."""
    width = -(-max(lengths) // 8) * 8
    packing = Packing.of_lengths(np.array(lengths), width, GPU, tail=7 if width > 8 else 0)
    torch.manual_seed(1)
    states = [torch.randn(packing.tokens, 4, 32, device=GPU, dtype=dtype) for _ in range(3)]
    return packing, [each.requires_grad_() for each in states]


@pytest.mark.parametrize(
    ("dtype", "seen"),
    [
        *((torch.float32, {}), (torch.bfloat16, {}), (torch.bfloat16, {"window": 65})),
        *((torch.float32, {"is_causal": True}), (torch.bfloat16, {"is_causal": True})),
    ],
)
@pytest.mark.parametrize("lengths", [LENGTHS, [3], [1, 1]])
@pytest.mark.parametrize("are_firsts", [False, True])
def test_attention_kernels_on_packed_rows_match_attention_on_padded_rows(
    dtype: torch.dtype,
    seen: dict[str, Any],
    lengths: list[int],
    are_firsts: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The padded computation is compared with transformers in tests on a CPU."""
    found = []
    for has_kernel in (True, False):
        packing, states = make_states(dtype, lengths)
        if has_kernel:
            assert cuda._has_kernel(states[0], seen.get("window"))
        else:
            monkeypatch.setattr(cuda, "_has_kernel", lambda query, window: False)
        if are_firsts:
            output = cuda.attend_first(*states, Attention(packing=packing, scale=0.2))
        else:
            output = cuda.attend(*states, Attention(packing=packing, scale=0.2, **seen))
        output[: sum(lengths)].float().square().sum().backward()
        found.append([output, *(each.grad for each in states)])
    for ours, expected in zip(*found, strict=True):
        size = float(expected.abs().max())
        torch.testing.assert_close(ours / size, expected / size, rtol=0, atol=WITHIN[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_kernels_drop_the_requested_share_of_probabilities(dtype: torch.dtype) -> None:
    """With equal scores and values of one, the output is the scaled share of kept probabilities."""
    packing, (query, _, value) = make_states(dtype, LENGTHS)
    zeros, ones = torch.zeros_like(query), torch.ones_like(value)
    formula = Attention(packing=packing, scale=1.0, rate=0.1)
    kept, again = (cuda.attend(zeros, zeros, ones, formula)[:, :, 0].float() for _ in range(2))
    long = kept[:150]  # each value is a mean over 150 probabilities
    assert abs(float(long.mean()) - 1.0) < 0.02
    assert abs(float(long.std()) - (0.1 / 0.9 / 150) ** 0.5) < 0.01
    assert not torch.equal(kept, again)


def begin(
    precision: str, *, graphs: bool = False, dropout: float = 0.0, recipe: Recipe = SHORT
) -> Training:
    network = make_network(dropout=dropout)
    prepare_for(GPU, network)
    compute = Compute(device=GPU, precision=precision, graphs=graphs)
    return begin_anywhere(network, recipe, compute=compute)


@pytest.mark.parametrize(
    ("precision", "recipe"),
    [
        *(("fp32", SHORT), ("bf16", SHORT)),
        ("fp32", having(SHORT, optimizer=ADAFACTOR, weight_decay=0.0)),
    ],
)
def test_training_step_does_not_synchronize_the_gpu(precision: str, recipe: Recipe) -> None:
    training = begin(precision, dropout=0.1, recipe=recipe)
    training.step()  # libraries initialize themselves in the first step
    with warnings.catch_warnings():  # torch warns that it does not detect every synchronization
        warnings.filterwarnings("ignore", "Synchronization debug mode")
        torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(8):
            training.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert training.meter.step == 9


def steps_of(training: Training) -> Tensor:
    for _ in range(12):
        training.step()
    torch.cuda.synchronize()
    return weights_of(training.network).cpu()


def test_gpu_training_steps_match_those_of_a_cpu() -> None:
    expected, training = begin_anywhere(make_network(dropout=0.0), SHORT), begin("fp32")
    torch.testing.assert_close(steps_of(training), steps_of(expected), rtol=0, atol=1e-4)
    logits = (
        predict(each.network, make_data()[0], each.compute, lambda _: None)
        for each in (training, expected)
    )
    np.testing.assert_allclose(*logits, atol=1e-3)


@pytest.mark.parametrize("unrecorded", [0, 1])
@pytest.mark.parametrize(("precision", "within"), [("fp32", 1e-5), ("bf16", 2e-3)])
def test_steps_of_a_cuda_graph_match_steps_without_a_graph(
    precision: str, within: float, unrecorded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optionally begin with a step outside of the graph, on another stream."""
    recorded, plain = (begin(precision, graphs=graphs) for graphs in (True, False))
    with monkeypatch.context() as patch:
        patch.setattr(training_cuda, "MOST", 0)
        for _ in range(unrecorded):
            recorded.step()
            plain.step()
    found = [steps_of(each) for each in (recorded, plain)]
    torch.testing.assert_close(*found, rtol=0, atol=within)


def test_steps_of_a_cuda_graph_draw_new_dropout() -> None:
    training = begin("fp32", graphs=True, dropout=0.5)
    (task,) = training.tasks
    (part,) = training.parts_of(task, np.arange(8))
    losses = [float(training._gradients(task, [part])) for _ in range(4)]
    assert len(set(losses)) == 4
    torch.manual_seed(1)
    once = float(training._gradients(task, [part]))
    torch.manual_seed(1)
    assert float(training._gradients(task, [part])) == once


@pytest.mark.parametrize("layer", [nn.Conv1d(512, 512, 3), nn.Linear(64, 512)])
def test_tf32_is_used_on_a_gpu_only_if_requested(layer: nn.Module) -> None:
    """By default, cuDNN's convolutions use tf32."""
    states = torch.randn(4, 512, 64, device=GPU)
    apart = []
    with torch.no_grad():
        expected = layer.to(GPU).double()(states.double()).float()
        layer.float()
        for precision in ("fp32", "tf32"):
            with Compute(device=GPU, precision=precision).autocast():
                apart.append(float((layer(states) - expected).abs().max()))
    assert apart[0] < 5e-5 < apart[1] < 0.2


def test_joint_cast_of_all_weights_equals_autocast_on_a_gpu_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training_cuda, "JOINED", ())
    together = begin("bf16")
    plain = begin("bf16")
    for module in plain.network.modules():
        if isinstance(module, nn.Linear):
            monkeypatch.setattr(module, "__class__", nn.Linear)
    assert torch.equal(steps_of(together), steps_of(plain))
